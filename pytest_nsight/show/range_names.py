"""Ranges whose names only count up, such as step#0 to step#99, are one kind of range."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

FEWEST = 3
_NUMBER = re.compile(r"(?s)(.*?)(\d{1,18})(\D*)")


def fold_counters(names: Iterable[str]) -> dict[str, str]:
    """A common name, with * for the number, for names of which the last number counts up without a hole.

    Sizes and widths, as in matmul_1024 and matmul_4096 or fp16 and fp32, do not count up and stay apart.

    Args:
        names: any names; repetitions do not matter.

    Returns:
        Each name's common name, or itself.
    """
    families: defaultdict[str, dict[int, str]] = defaultdict(dict)
    folded = {name: name for name in names}
    for name in folded:
        if match := _NUMBER.fullmatch(name):
            before, number, after = match.groups()
            families[f"{before}*{after}"][int(number)] = name
    for family, members in families.items():
        if len(members) >= FEWEST and max(members) - min(members) == len(members) - 1:
            folded.update(dict.fromkeys(members.values(), family))
    return folded
