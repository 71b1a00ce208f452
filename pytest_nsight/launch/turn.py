"""What one process has to measure, as a file in its run's folder: its starter may not know it when it starts it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

THIS_TREE = ""
OTHER_TREE = "against"
"""Name of the side that --nsight-against measures beside the user's tree."""

_FILE = "turn.json"


@dataclass(frozen=True, slots=True)
class Turn:
    """The task of one fresh process.

    Attributes:
        cases: node ids, in the order to measure them; none where nobody knows them yet.
        seed: of that order, None where it is the user's. Where two trees are compared, the later pairs leave out
            what only one tree has.
        side: which tree is measured, THIS_TREE or OTHER_TREE.
    """

    cases: tuple[str, ...]
    seed: int | None = None
    side: str = THIS_TREE

    def write(self, folder: Path) -> None:
        """Writes the turn where the worker looks for it."""
        (folder / _FILE).write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> Turn:
        """Reads the turn of a run's folder."""
        values = json.loads((folder / _FILE).read_text(encoding="utf-8"))
        return cls(tuple(values["cases"]), values["seed"], values["side"])
