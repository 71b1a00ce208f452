"""The share of additional work that a case gets: NSIGHT_INJECT.

NSIGHT_INJECT=rotate              each case at another level in each run, all levels alike often
NSIGHT_INJECT="copy-65MB=+1%"     the cases with this in their name; several with commas between them
"""

from __future__ import annotations

import os
import re

VARIABLE = "NSIGHT_INJECT"
LEVELS = (0, 5, 10, 20, 30, 50)
"""Additional work in per mille; the sizes of all cases make each an exact number of blocks or iterations."""


def rotate(position: int, run_number: int) -> int:
    """The level of a case in a run, in per mille.

    In any 6 successive runs each case has each level once, and in each run the cases have all levels, so that
    nothing that changes from run to run looks like an effect of the level.
    """
    return LEVELS[(position + run_number) % len(LEVELS)]


def number_of(run: str) -> int:
    """The number of a run in its session: 7 of "20260101-120000-ab12/007"."""
    return int(run.rpartition("/")[2])


def share_of(name: str, position: int, run: str) -> int:
    """The additional work that a case is to do in this run, in per mille.

    Args:
        name: of the case.
        position: of the case among those that can be given more work.
        run: id of the run; "" outside of one.

    Raises:
        ValueError: NSIGHT_INJECT makes no sense.
    """
    wanted = os.environ.get(VARIABLE, "")
    if wanted == "rotate":
        return rotate(position, number_of(run)) if run else 0
    for item in filter(None, wanted.split(",")):
        match = re.fullmatch(r"\s*(\S+)=\+?([\d.]+)\s*%\s*", item)
        share = round(10 * float(match[2])) if match else 0
        if match is None or share not in LEVELS:
            levels = ", ".join(f"{level / 10:g}%" for level in LEVELS)
            raise ValueError(f'{VARIABLE} is {wanted!r}; give "rotate", or NAME=LEVEL with one of {levels}')
        if match[1] in name:
            return share
    return 0
