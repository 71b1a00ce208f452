"""Which changes between two traces are regressions, the verdicts, and what was not judged and why. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_nsight.analysis.range_mix import FEWEST_REPETITIONS
from pytest_nsight.compare.change_limits import Floors, is_above, settle
from pytest_nsight.compare.change_sentences import (
    describe,
    describe_means,
    describe_sum,
    explain_missing,
    explain_no_interval,
)
from pytest_nsight.compare.changes import Change, Group
from pytest_nsight.compare.judged_sums import KERNELS, OPERATORS, Sums
from pytest_nsight.compare.range_changes import RangeChange
from pytest_nsight.model.units import name_some
from pytest_nsight.model.verdicts import VerdictKind

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
        verdicts: group and name of each row that was judged -> its verdict.
    """

    regressions: tuple[str, ...]
    notes: tuple[str, ...]
    verdicts: Mapping[tuple[Group, str], VerdictKind]


def judge_changes(
    totals: Sequence[Change],
    ranges: Sequence[RangeChange],
    launches: tuple[Mapping[str, int], Mapping[str, int]],
    lacks_kernels: tuple[bool, bool],
    tick_ns: int,
    band: float,
) -> JudgedChanges:
    """Which of the changes are regressions, and the verdict on each row that is judged.

    A range with an interval is one if the whole interval lies above the band, and the range adds at least half the
    band to the device time of the whole. A range that adds less is one if it launches kernels and the whole
    interval lies above five bands: the time of a copy depends on the host, too. A total is one if its sum lies
    above the band; a range without an interval is judged by its mean, see `_is_slower_once`.

    A sum that changed for the most part inside the repeated range with the most device time is left to that one's
    interval, if this settles nothing: one slow launch among many steps says nothing of the next recording.

    A sum over other numbers of launches may come from other numbers of steps, or from a lost fusion. It is judged
    only where no range has an interval, and the repeated range with the most device time, which is the step if
    there is one, occurs equally often in both traces or has less than half of that time. The sum of the copies is
    judged only where no range has an interval.

    An IMPROVEMENT is what would be a regression if the traces were exchanged. See `settle` for the rest.

    Args:
        totals: those of TOTALS that the traces have.
        ranges: the ranges of both traces.
        launches: of each total, before and after.
        lacks_kernels: whether launches left no kernel in each trace; what they belong to is INCONCLUSIVE.
        tick_ns: see `find_tick`; a smaller change of each launch is no change.
        band: change that counts, as a ratio.
    """
    whole_ns, whole_after_ns = _sum_up(totals, lacks_kernels)
    limits = Floors(band, tick_ns, (_PART * band * whole_ns, _PART * band * whole_after_ns))
    verdicts = {_key(change.row): verdict for change in ranges if (verdict := _judge_range(change, limits))}
    steps = next((change for change in ranges if min(change.count) > 0 and max(change.count) > 1), None)
    sums = Sums(
        launches=launches,
        noun="operator" if any(row.name == OPERATORS for row in totals) else "launch",
        lacks_kernels=lacks_kernels,
        steps=steps,
        steps_verdict=verdicts.get(_key(steps.row)) if steps is not None else None,
        has_like_steps=steps is None or _has_like_steps(steps, whole_ns),
        is_repeated=any(_is_repeated(change) for change in ranges),
        limits=limits,
    )
    judged = [(row, *sums.judge(row)) for row in totals]
    verdicts |= {_key(row): verdict for row, verdict, _ in judged if verdict is not None}
    single, unjudged = _describe_single(ranges, verdicts, limits, sums.noun)
    regressions = (
        *(describe(change.row, band) for change in ranges if _is_regression_of_many(change, verdicts)),
        *(
            describe_sum(row, sums.count(row), sums.noun, band)
            for row, verdict, _ in judged
            if verdict is VerdictKind.REGRESSION
        ),
        *single,
    )
    notes = (
        *_explain_ranges(ranges, sums),
        *(note for _, _, note in judged if note),
        *_explain_unjudged(unjudged),
    )
    return JudgedChanges(regressions, notes, verdicts)


def _has_like_steps(steps: RangeChange, whole_ns: float) -> bool:
    """Whether both traces hold these ranges equally often, or they have less than half of the device time."""
    return steps.count[0] == steps.count[1] or 2 * (steps.row.before or 0) * steps.count[0] <= whole_ns


def _lacks_kernels(change: RangeChange) -> bool:
    return min(change.count) > 0 and any(change.lacks_kernels)


def _is_repeated(change: RangeChange) -> bool:
    """Whether the ranges have an interval, or would have one if no kernels of theirs were missing."""
    has_many = min(change.count) >= FEWEST_REPETITIONS
    return change.row.low is not None or (has_many and _lacks_kernels(change))


def _is_regression_of_many(change: RangeChange, verdicts: Mapping[tuple[Group, str], VerdictKind]) -> bool:
    return change.row.low is not None and verdicts[_key(change.row)] is VerdictKind.REGRESSION


def _explain_ranges(ranges: Sequence[RangeChange], sums: Sums) -> Iterator[str]:
    """Why no range has an interval, and which ones lack kernels."""
    if not sums.is_repeated:
        yield explain_no_interval(ranges, sums.steps)
    if any(sums.lacks_kernels):
        incomplete = [change.row.name for change in ranges if _lacks_kernels(change)]
        yield explain_missing([KERNELS, *incomplete], sums.lacks_kernels)


def _explain_unjudged(names: Sequence[str]) -> Iterator[str]:
    if names:
        yield (
            "ranges that are slower but not judged, as they have no interval and the traces differ in the number "
            f"of their launches: {name_some(names)}; record each at least {FEWEST_REPETITIONS} times in both"
        )


def _sum_up(totals: Sequence[Change], lacks_kernels: tuple[bool, bool]) -> tuple[float, float]:
    """The device time of the whole in each trace; the larger one for both where kernels are missing.

    Without its lost kernels a trace is too short, and too little would add half the band to it.
    """
    before, after = sum(row.before or 0 for row in totals), sum(row.after or 0 for row in totals)
    return (max(before, after),) * 2 if any(lacks_kernels) else (before, after)


def _key(row: Change) -> tuple[Group, str]:
    return row.group, row.name


def _judge_range(change: RangeChange, limits: Floors) -> VerdictKind | None:
    """The verdict on the ranges with one label; None where a trace lacks them, or they cannot be judged."""
    row = change.row
    if row.before is None or row.after is None:
        return None
    if any(change.lacks_kernels):
        return VerdictKind.INCONCLUSIVE
    is_slower = _is_slower if row.low is not None else _is_slower_once
    if is_slower(change, limits):
        return VerdictKind.REGRESSION
    if is_slower(change.exchanged(), limits.exchanged()):
        return VerdictKind.IMPROVEMENT
    if row.low is None and not change.is_alike:
        return None
    return settle(row, limits.band, limits.tick_ns * max(change.launches) / min(change.count))


def _is_slower(change: RangeChange, limits: Floors) -> bool:
    """Whether a range with an interval is slower, and no small part of the trace or very much so."""
    times, floor_ns = change.count[0], limits.tick_ns * change.launches[0]
    if is_above(change.row, limits.band, max(floor_ns, limits.part_ns[0]) / times):
        return True
    return change.has_kernels and is_above(change.row, _CLEAR * limits.band, floor_ns / times)


def _is_slower_once(change: RangeChange, limits: Floors) -> bool:
    """Whether a range without an interval is slower: its mean adds at least half the band to the whole.

    If it occurs in another number, or launches other numbers of kernels, each one has to be slower by more than the
    band, see `RangeChange.least`. One that occurs once in a trace may hold another number of steps, so each has to
    launch as many kernels there.
    """
    if not _adds_to_whole(change, limits):
        return False
    if change.is_alike:
        return True
    is_comparable = change.has_like_launches or min(change.count) > 1
    return is_comparable and change.least is not None and change.least[0] > 1 + limits.band


def _adds_to_whole(change: RangeChange, limits: Floors) -> bool:
    floor_ns = max(limits.tick_ns * change.launches[0], limits.part_ns[0])
    return is_above(change.row, limits.band, floor_ns / change.count[0])


def _describe_single(
    ranges: Sequence[RangeChange], verdicts: Mapping[tuple[Group, str], VerdictKind], limits: Floors, noun: str
) -> tuple[list[str], list[str]]:
    """The regressions among the ranges without an interval, and the names of slower ones that are not judged."""
    slower, unjudged = [], []
    for change in ranges:
        row = change.row
        if row.low is not None or row.before is None or row.after is None or any(change.lacks_kernels):
            continue
        if not _adds_to_whole(change, limits):
            continue
        if verdicts.get(_key(row)) is not VerdictKind.REGRESSION:
            unjudged.append(row.name)
        elif change.is_alike:
            slower.append(describe_sum(row, change.launches, noun, limits.band))
        else:
            slower.append(describe_means(row, change.count, limits.band))
    return slower, unjudged
