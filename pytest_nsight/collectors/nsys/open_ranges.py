"""Ranges whose end is not in the recording: the program was killed inside them, or never pops what it pushes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pytest_nsight.model.sorted_keys import rank_groups
from pytest_nsight.model.trace import ANY_THREAD, Calls, Flags, Ints, Launches, Ranges
from pytest_nsight.model.units import count, name_some

_MOST_NAMES = 3
_FEWEST = 3


def close_ranges(
    ranges: Ranges, calls: Calls, launches: Launches, texts: Sequence[str]
) -> tuple[Ranges, list[str]]:
    """The ranges with an end each, and notes on those that had none.

    A program whose loop pushes ranges and never pops them leaves some open in each iteration. Ranges of one name
    are taken for that if their thread has at least three of them and none has an end. Each ends where the next one
    begins, and with it what the loop has pushed in between. All other ranges without an end last until the end of
    the trace.

    Args:
        ranges: as read.
        calls: of the API.
        launches: of the devices.
        texts: number of a name -> the name.
    """
    if not ranges.is_open.any():
        return ranges, []
    last_ns = max(int(t.end_ns.max()) for t in (ranges, calls, launches) if len(t))
    end_ns = np.where(ranges.is_open, last_ns, ranges.end_ns)
    never_popped = _find_never_popped(ranges)
    ended = _end_with_next(ranges, np.flatnonzero(never_popped))
    end_ns[list(ended)] = list(ended.values())
    is_open = ranges.is_open.copy()
    is_open[list(ended)] = False
    notes = []
    if ended:
        names = name_some(dict.fromkeys(texts[name] for name in ranges.name[never_popped].tolist()), _MOST_NAMES)
        many = count(int(never_popped.sum()), "range")
        notes.append(
            f"{many} never ended, nor did any other of the same name ({names}): the program pushes or starts them "
            "without a pop or an end; each is taken to end where the next one begins"
        )
    if number := int((is_open & ~never_popped).sum()):
        where = "it" if number == 1 else "them"
        never = " or never ends them, as without nvtxRangePop" if number >= _FEWEST else ""
        why = f"the program was killed, or crashed, inside {where}{never}"
        notes.append(f"{count(number, 'range')} never ended: {why}")
    return replace(ranges, end_ns=end_ns, is_open=is_open), notes


def _find_never_popped(ranges: Ranges) -> Flags:
    """Which ranges have a name that their thread has at least three times, always without an end."""
    place, _ = rank_groups(ranges.process, ranges.thread)
    name, _ = rank_groups(ranges.domain.astype(np.int64), ranges.name.astype(np.int64))
    group, groups = rank_groups(place, name)
    number = np.bincount(group, minlength=groups)
    is_never_popped = (np.bincount(group, ranges.is_open, groups) == number) & (number >= _FEWEST)
    found: Flags = is_never_popped[group]
    return found


def _end_with_next(ranges: Ranges, rows: Ints) -> dict[int, int]:
    """Row -> the end of each of these ranges that another one of its name follows."""
    ends: dict[int, int] = {}
    opened: dict[tuple[int, int], list[tuple[tuple[int, int], int]]] = {}
    order = rows[np.argsort(ranges.start_ns[rows], kind="stable")].tolist()
    for row in order:
        place = int(ranges.process[row]), int(ranges.thread[row])
        name = int(ranges.domain[row]), int(ranges.name[row])
        stack = opened.setdefault(place, [])
        known = [one for one, _ in stack]
        if name in known:
            at = known.index(name)
            # Started ranges do not nest: only the one of this name ends.
            last = at + 1 if ranges.thread[row] == ANY_THREAD else len(stack)
            ends.update((inner, int(ranges.start_ns[row])) for _, inner in stack[at:last])
            del stack[at:last]
        stack.append((name, row))
    return ends
