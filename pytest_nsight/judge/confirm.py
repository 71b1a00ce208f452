"""The looks: who is still suspicious gets more fresh runs, until none is left or the last look is reached."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection

from pytest_nsight.judge.evidence import LOOKS
from pytest_nsight.model import Subject


def confirm(
    find: Callable[[], Collection[Subject]], extend: Callable[[set[str], int], bool], *, first: int = LOOKS[0]
) -> None:
    """Give suspicious cases more runs, look by look.

    The live gate and every replay of it go through here, so that what is validated is what runs.

    Args:
        find: returns the subjects that are suspicious now.
        extend: measures these cases in this many more fresh processes; False when no more are to be had.
        first: how many runs every case has by now; looks up to there are past.
    """
    for before, after in itertools.pairwise((first, *(look for look in LOOKS if look > first))):
        doubtful = {subject.case for subject in find()}
        if not doubtful or not extend(doubtful, after - before):
            break
