"""What one process has to measure."""

from __future__ import annotations

from dataclasses import dataclass

THIS_TREE = ""
OTHER_TREE = "against"
"""Name of the side that --nsight-against measures beside the user's tree."""


@dataclass(frozen=True, slots=True)
class Turn:
    """The task of one fresh process.

    Attributes:
        cases: node ids, in the order to measure them.
        seed: of that order, None where it is the user's.
        side: which tree is measured, THIS_TREE or OTHER_TREE.
    """

    cases: tuple[str, ...]
    seed: int | None = None
    side: str = THIS_TREE
