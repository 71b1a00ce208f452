"""Which changes between two traces are regressions, and what was not judged and why. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pytest_nsight.compare.changes import Change
from pytest_nsight.compare.range_changes import FEWEST_REPETITIONS, RangeChange
from pytest_nsight.model.trace import Trace
from pytest_nsight.model.units import count, durations, name_some, percent

TOTALS = ("kernel time", "copy time", "operator time")
_COPIES, _OPERATORS = TOTALS[1:]
_MICROSECOND_NS = 1000
_PART = 0.5
"""Of the band, which a range has to add to the whole."""
_CLEAR = 5
"""Bands by which a small part of the trace has to slow: an interval does not know how processes differ. In eight
recordings of unchanged code on one H200, the kernel of a softmax took 270 to 324 us (20 %), a product of matrices
differed by 10 %, and neither changed the whole by more than 2 %."""


@dataclass(frozen=True, slots=True)
class JudgedChanges:
    """What fails, and what the reader should know of it.

    Attributes:
        regressions: one sentence for each.
        notes: sentences on what has no interval, or is not judged.
    """

    regressions: tuple[str, ...]
    notes: tuple[str, ...]


def judge_changes(
    totals: Sequence[Change],
    ranges: Sequence[RangeChange],
    launches: tuple[Mapping[str, int], Mapping[str, int]],
    tick_ns: int,
    band: float,
) -> JudgedChanges:
    """Which of the changes are regressions.

    A range with an interval is one if the whole interval lies above the band, and the range adds at least half the
    band to the device time of the whole. A range that adds less is one if it launches kernels and the whole
    interval lies above five bands: the time of a copy depends on the host, too. A total is one if its sum lies
    above the band; a range without an interval is judged by its mean, see `_judge_single`.

    A sum is not judged where it grew inside the repeated range with the most device time, and that one's interval
    does not lie above the band: one slow launch among many steps says nothing of the next recording.

    A sum over other numbers of launches may come from other numbers of steps, or from a lost fusion. It is judged
    only where no range has an interval, and the repeated range with the most device time, which is the step if
    there is one, occurs equally often in both traces or has less than half of that time. The sum of the copies is
    judged only where no range has an interval.

    Args:
        totals: those of TOTALS that the traces have.
        ranges: the ranges of both traces.
        launches: of each total, before and after.
        tick_ns: see `find_tick`; a smaller change of each launch is no change.
        band: change that counts, as a ratio.
    """
    repeated = [change for change in ranges if change.row.low is not None]
    whole_ns = sum(row.before or 0 for row in totals)
    whole_growth_ns = sum(row.after or 0 for row in totals) - whole_ns
    part_ns = _PART * band * whole_ns
    slower = [_describe(change.row, band) for change in repeated if _is_slower(change, part_ns, tick_ns, band)]
    noun = "operator" if any(row.name == _OPERATORS for row in totals) else "launch"
    steps = next((change for change in ranges if min(change.count) > 0 and max(change.count) > 1), None)
    steps_ns = (steps.row.before or 0) * steps.count[0] if steps is not None else 0
    is_other_count = steps is not None and steps.count[0] != steps.count[1] and 2 * steps_ns > whole_ns
    grown_inside_ns = ((steps.row.after or 0) * steps.count[1] - steps_ns) if steps is not None else 0
    is_uncertain = steps is not None and steps.row.low is not None and not _is_slower(steps, part_ns, tick_ns, band)
    notes = [] if repeated else [_explain_no_interval(ranges, steps)]
    for row in totals:
        old, new = (counts.get(row.name, 0) for counts in launches)
        if repeated and row.name == _COPIES:
            continue
        if old != new and steps is not None and (repeated or is_other_count):
            notes.append(_explain_unjudged_sum(row.name, (old, new), noun, steps))
        elif not _is_above(row, band, tick_ns * old):
            continue
        elif steps is not None and is_uncertain and whole_growth_ns - grown_inside_ns <= band * whole_ns:
            notes.append(_explain_uncertain_sum(row, steps))
        else:
            slower.append(_describe_sum(row, (old, new), noun, band))
    single, unjudged = _judge_single(ranges, part_ns, tick_ns, noun, band)
    if unjudged:
        notes.append(
            "ranges that are slower but not judged, as they have no interval and the traces differ in the number "
            f"of their launches: {name_some(unjudged)}; record each at least {FEWEST_REPETITIONS} times in both"
        )
    return JudgedChanges((*slower, *single), tuple(notes))


def _is_slower(change: RangeChange, part_ns: float, tick_ns: int, band: float) -> bool:
    """Whether a range with an interval is slower, and no small part of the trace or very much so."""
    times, floor_ns = change.count[0], tick_ns * change.launches[0]
    if _is_above(change.row, band, max(floor_ns, part_ns) / times):
        return True
    return change.has_kernels and _is_above(change.row, _CLEAR * band, floor_ns / times)


def _judge_single(
    ranges: Sequence[RangeChange], part_ns: float, tick_ns: int, noun: str, band: float
) -> tuple[list[str], list[str]]:
    """The regressions among the ranges without an interval, and the labels of slower ones that are not judged.

    A range is judged if its mean adds at least half the band to the whole. If it occurs in another number, or
    launches other numbers of kernels, each one has to be slower by more than the band, see `RangeChange.least`. One
    that occurs once in a trace may hold another number of steps, so each has to launch as many kernels there.
    """
    slower, unjudged = [], []
    for change in ranges:
        row, (old, new), launches = change.row, change.count, change.launches
        if row.low is not None or row.before is None or row.after is None:
            continue
        if not _is_above(row, band, max(tick_ns * launches[0], part_ns) / old):
            continue
        is_like = launches[0] * new == launches[1] * old
        if old == new and is_like:
            slower.append(_describe_sum(row, launches, noun, band))
        elif (is_like or min(old, new) > 1) and (change.least or 0) > 1 + band:
            slower.append(_describe_means(row, change.count, band))
        else:
            unjudged.append(row.name)
    return slower, unjudged


def find_tick(*traces: Trace) -> int:
    """The unit of the times in ns: 1000 where all launches take whole microseconds, as of older Kineto; else 0.

    A kernel of 4.98 us becomes one of 5.02 us, and its rounded times differ by 25 % in every launch.
    """
    whole = all(
        bool(np.all((one.launches.end_ns - one.launches.start_ns) % _MICROSECOND_NS == 0)) for one in traces
    )
    return _MICROSECOND_NS if whole else 0


def _is_above(row: Change, band: float, floor_ns: float) -> bool:
    """Whether a time grew by more than the band and the floor; from 0, by more than the floor."""
    if row.before is None or row.after is None or row.after - row.before <= floor_ns:
        return False
    lowest = row.low if row.low is not None else row.ratio
    return lowest is None or lowest > 1 + band


def _describe(row: Change, band: float) -> str:
    interval = f" ({percent((row.low or 1) - 1)} to {percent((row.high or 1) - 1)})" if row.low is not None else ""
    return f"{row.name}: {_describe_growth(row)}{interval}, band {percent(band, signed=False)}"


def _describe_growth(row: Change) -> str:
    # A time that was 0 has grown by no number of percent.
    return durations(row.before or 0, row.after or 0) if row.ratio is None else percent(row.ratio - 1)


def _describe_sum(row: Change, launches: tuple[int, int], noun: str, band: float) -> str:
    before, after = launches
    if before != after:
        what = f"the sums of {before:,} and {count(after, noun)}"
    else:
        what = f"the sum of {count(before, noun)}" if before != 1 else f"one {noun}"
    return f"{_describe(row, band)}; judged by {what}, without an interval"


def _describe_means(row: Change, counts: tuple[int, int], band: float) -> str:
    before, after = counts
    what = f"{before:,} and {after:,} ranges" if before != after else f"{before:,} ranges each"
    return f"{_describe(row, band)}; judged by the means of {what}, without an interval"


def _explain_no_interval(ranges: Sequence[RangeChange], steps: RangeChange | None) -> str:
    """Why none of the ranges has an interval.

    Args:
        ranges: the ranges of both traces.
        steps: the repeated range with the most device time, None where none is repeated.
    """
    if any(min(change.count) >= FEWEST_REPETITIONS for change in ranges):
        return "no change has an interval, as a few of the repetitions of each range hold nearly all of its time"
    found = f": {_count_ranges(steps)}" if steps else ""
    return (
        f"no change has an interval, as no range occurs at least {FEWEST_REPETITIONS} times in both traces{found}"
    )


def _explain_unjudged_sum(name: str, launches: tuple[int, int], noun: str, steps: RangeChange) -> str:
    text = (
        f"{name} is not judged: it is the sum of {count(launches[0], noun)} in the baseline and of {launches[1]:,} "
        "in the optimized trace"
    )
    before, after = steps.count
    if before == after:
        return (
            f"{text}; the ranges are judged instead, as both traces hold {steps.row.name} {before:,} times, and "
            "work in no range is not judged"
        )
    return f"{text}, which hold other numbers of ranges: {_count_ranges(steps)}; record the same number in both"


def _explain_uncertain_sum(row: Change, steps: RangeChange) -> str:
    interval = f"{percent((steps.row.low or 1) - 1)} to {percent((steps.row.high or 1) - 1)}"
    return (
        f"{row.name} ({_describe_growth(row)}) is not judged by its sum: it grew within {steps.row.name}, whose "
        f"interval ({interval}) is not above the band"
    )


def _count_ranges(change: RangeChange) -> str:
    before, after = change.count
    return f"{change.row.name} occurs {before:,} and {after:,} times"
