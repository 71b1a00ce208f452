"""Ranges whose end is not in the recording: the program was killed inside them, or never pops what it pushes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pytest_nsight.model.sorted_keys import rank_groups
from pytest_nsight.model.trace import Calls, Flags, Ints, Launches, Ranges
from pytest_nsight.model.units import count, name_some

_MOST_NAMES = 3


def close_ranges(
    ranges: Ranges, calls: Calls, launches: Launches, texts: Sequence[str]
) -> tuple[Ranges, list[str]]:
    """The ranges with an end each, and notes on those that had none.

    A program whose loop pushes a range and never pops it leaves one open in each iteration. Such a range ends where
    the next one of its name and thread begins that has no end either. The last of them and any other range without
    an end last until the end of the trace.

    Args:
        ranges: as read.
        calls: of the API.
        launches: of the devices.
        texts: number of a name -> the name.
    """
    if not ranges.is_open.any():
        return ranges, []
    last_ns = max(int(t.end_ns.max()) for t in (ranges, calls, launches) if len(t))
    rows, following = _find_repeated(ranges)
    end_ns = np.where(ranges.is_open, last_ns, ranges.end_ns)
    end_ns[rows] = ranges.start_ns[following]
    is_open = ranges.is_open.copy()
    is_open[rows] = False
    notes = []
    repeated: Flags = np.zeros(len(ranges), np.bool_)
    repeated[rows] = repeated[following] = True
    if len(rows):
        names = name_some(dict.fromkeys(texts[name] for name in ranges.name[rows].tolist()), _MOST_NAMES)
        many = count(int(repeated.sum()), "range")
        notes.append(
            f"{many} never ended, though others of the same name followed ({names}): the program pushes or starts "
            "them without a pop or an end; each is taken to end where the next one begins"
        )
    if number := int((is_open & ~repeated).sum()):
        where = "it" if number == 1 else "them"
        notes.append(f"{count(number, 'range')} never ended: the program was killed, or crashed, inside {where}")
    return replace(ranges, end_ns=end_ns, is_open=is_open), notes


def _find_repeated(ranges: Ranges) -> tuple[Ints, Ints]:
    """The open ranges that another open one of their thread, domain and name follows; and the one that does."""
    rows = np.flatnonzero(ranges.is_open)
    place, _ = rank_groups(ranges.process[rows], ranges.thread[rows])
    name, _ = rank_groups(ranges.domain[rows].astype(np.int64), ranges.name[rows].astype(np.int64))
    order = np.lexsort((ranges.start_ns[rows], name, place))
    is_followed = (np.diff(place[order]) == 0) & (np.diff(name[order]) == 0)
    return rows[order[:-1][is_followed]], rows[order[1:][is_followed]]
