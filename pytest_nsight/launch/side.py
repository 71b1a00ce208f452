"""One tree as workers measure it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pytest_nsight.against.mirror import Mirror
from pytest_nsight.launch.turn import THIS_TREE


@dataclass(frozen=True, slots=True)
class Side:
    """How a worker is started for one tree.

    Attributes:
        where: folder to start it in.
        arguments: what its pytest is called with.
        path: its sys.path.
        environ: environment variables that it gets beside those of this process.
        name: THIS_TREE or OTHER_TREE.
        commit: of the tree, "" for that of the session.
        mirror: what leads its imports to the tree, None where they go there by themselves.
    """

    where: Path
    arguments: tuple[str, ...]
    path: tuple[str, ...]
    environ: Mapping[str, str] = field(default_factory=dict)
    name: str = THIS_TREE
    commit: str = ""
    mirror: Mirror | None = None
