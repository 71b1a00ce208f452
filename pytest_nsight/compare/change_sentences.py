"""Sentences on the changes between two traces: what fails, and what has no interval or is not judged. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_nsight.analysis.range_mix import FEWEST_REPETITIONS
from pytest_nsight.compare.changes import Change
from pytest_nsight.compare.range_changes import RangeChange
from pytest_nsight.model.units import count, durations, name_some, percent

_TITLES = ("the baseline", "the optimized trace")


def describe(row: Change, band: float) -> str:
    """What a regression begins with: the growth, its interval if there is one, and the band."""
    interval = f" ({percent((row.low or 1) - 1)} to {percent((row.high or 1) - 1)})" if row.low is not None else ""
    return f"{row.name}: {_describe_growth(row)}{interval}, band {percent(band, signed=False)}"


def _describe_growth(row: Change) -> str:
    # A time that was 0 has grown by no number of percent.
    return durations(row.before or 0, row.after or 0) if row.ratio is None else percent(row.ratio - 1)


def describe_sum(row: Change, launches: tuple[int, int], noun: str, band: float) -> str:
    """A regression that is judged by a sum.

    Args:
        row: the sum.
        launches: how many it adds up, before and after.
        noun: what these are.
        band: change that counts, as a ratio.
    """
    before, after = launches
    if before != after:
        what = f"the sums of {before:,} and {count(after, noun)}"
    else:
        what = f"the sum of {count(before, noun)}" if before != 1 else f"one {noun}"
    return f"{describe(row, band)}; judged by {what}, without an interval"


def describe_means(row: Change, counts: tuple[int, int], band: float) -> str:
    """A regression that is judged by the means of ranges; `counts` are their numbers, before and after."""
    before, after = counts
    what = f"{before:,} and {after:,} ranges" if before != after else f"{before:,} ranges each"
    return f"{describe(row, band)}; judged by the means of {what}, without an interval"


def explain_no_interval(ranges: Sequence[RangeChange], steps: RangeChange | None) -> str:
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


def explain_missing(names: Sequence[str], lacks_kernels: tuple[bool, bool]) -> str:
    """Why what holds launches without a kernel is INCONCLUSIVE, and what to do.

    Args:
        names: of the sum and of the ranges.
        lacks_kernels: whether the baseline, and the optimized trace, lacks kernels.
    """
    titles = [title for title, lacks in zip(_TITLES, lacks_kernels, strict=True) if lacks]
    again = "both" if len(titles) > 1 else titles[0]
    return (
        f"INCONCLUSIVE, as launches of {' and '.join(titles)} left no kernel and times are too small: "
        f"{name_some(names)}; record {again} again, as the notes above say"
    )


def explain_unjudged_sum(name: str, launches: tuple[int, int], noun: str, steps: RangeChange) -> str:
    """Why a sum over other numbers of launches is not judged.

    Args:
        name: of the sum.
        launches: how many it adds up, before and after.
        noun: what these are.
        steps: the repeated range with the most device time.
    """
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


def explain_uncertain_sum(row: Change, steps: RangeChange) -> str:
    """Why a sum is left to the interval of the range in which it changed."""
    interval = f"{percent((steps.row.low or 1) - 1)} to {percent((steps.row.high or 1) - 1)}"
    return (
        f"{row.name} ({_describe_growth(row)}) is not judged by its sum: it changed within {steps.row.name}, whose "
        f"interval ({interval}) reaches into the band"
    )


def _count_ranges(change: RangeChange) -> str:
    before, after = change.count
    return f"{change.row.name} occurs {before:,} and {after:,} times"
