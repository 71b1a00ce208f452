"""Two traces side by side: where the time went before and after, and which kernels came and went."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from pytest_nsight.analysis.display_names import distinguish
from pytest_nsight.analysis.idle_causes import IdleCause
from pytest_nsight.analysis.limit_classes import RecordedProgram
from pytest_nsight.analysis.picture import Picture, analyse
from pytest_nsight.analysis.timeline import TimeState
from pytest_nsight.compare.change_limits import find_tick
from pytest_nsight.compare.changed_work import note_changed_work
from pytest_nsight.compare.changes import Change, Changes, Group, Quantity
from pytest_nsight.compare.comparable_traces import describe_boards, quote_notes, refuse_unlike
from pytest_nsight.compare.judged_changes import judge_changes
from pytest_nsight.compare.judged_sums import TOTALS
from pytest_nsight.compare.labelled_ranges import label_ranges
from pytest_nsight.compare.range_changes import compare_labelled
from pytest_nsight.compare.sources import TraceSource
from pytest_nsight.model.trace import Trace
from pytest_nsight.model.units import percent
from pytest_nsight.model.verdicts import VerdictKind
from pytest_nsight.trace.launch_table import LaunchDetails
from pytest_nsight.trace.lost_kernels import flag_without_kernel

BAND = 0.05
"""Traces of unchanged code differ by several percent, as clocks and caches differ between processes."""
_UNITS = {
    "launches": Quantity.COUNT, "calls of operators": Quantity.COUNT, "GPU utilisation": Quantity.SHARE,
    "copy bandwidth": Quantity.RATE,
}  # fmt: skip
"""Of the sums that are no times."""


def compare_traces(before: TraceSource, after: TraceSource, band: float | None) -> Changes:
    """What changed from one trace to another.

    Args:
        before: the baseline.
        after: the optimized trace.
        band: change that counts, as a ratio; None for the default.

    Returns:
        The changes. `judge_changes` says which of them are regressions.

    Raises:
        UsageError: one holds operators of a CPU and the other work of a GPU, or one lacks its kernels.
        TraceError: the times of a trace are too far apart to be added up.
    """
    refuse_unlike(before, after)
    band = BAND if band is None else band
    old, new = analyse(before.trace), analyse(after.trace)
    whole = _compare_whole(_sum_up(before.trace, old), _sum_up(after.trace, new))
    labelled = label_ranges(before.trace, after.trace)
    ranges = compare_labelled(*labelled)
    kernels = _compare_kernels(old, new)
    of_operators = before.trace.is_of_cpu and after.trace.is_of_cpu
    lacks_kernels = _lacks_kernels(before.trace), _lacks_kernels(after.trace)
    judgement = judge_changes(
        [row for row in whole if row.name in TOTALS],
        ranges,
        launches=(_count_launches(before.trace, old), _count_launches(after.trace, new)),
        lacks_kernels=lacks_kernels,
        tick_ns=find_tick(before.trace, after.trace),
        band=band,
    )
    rows = (
        *whole,
        *_compare_states(old, new),
        *(change.row for change in ranges),
        *_compare_categories(old, new),
        *kernels,
    )
    return Changes(
        before=before.title,
        after=after.title,
        rows=tuple(_with_verdict(row, judgement.verdicts.get((row.group, row.name))) for row in rows),
        regressions=judgement.regressions,
        failing=(VerdictKind.REGRESSION,) * len(judgement.regressions),
        notes=(
            *describe_boards(before, after),
            *quote_notes(before, (*before.trace.notes, *old.notes), after, (*after.trace.notes, *new.notes)),
            *judgement.notes,
            *_note_wall(whole, band),
            *_note_kernels(kernels, "operators" if of_operators else "kernels", lacks_kernels),
            *(() if any(lacks_kernels) else note_changed_work(*labelled)),
        ),
        of_operators=of_operators,
    )


def _lacks_kernels(trace: Trace) -> bool:
    return bool(flag_without_kernel(trace, LaunchDetails.of(trace)).any())


def _with_verdict(row: Change, verdict: VerdictKind | None) -> Change:
    return row if verdict is None else replace(row, verdict=verdict.value)


def _compare_whole(old: Mapping[str, float | None], new: Mapping[str, float | None]) -> list[Change]:
    """Sums over the whole trace, before and after."""
    return [
        Change.of(Group.WHOLE, name, _UNITS.get(name, Quantity.TIME), old.get(name), new.get(name))
        for name in dict.fromkeys((*old, *new))
        if old.get(name) is not None or new.get(name) is not None
    ]


def _sum_up(trace: Trace, picture: Picture) -> dict[str, float | None]:
    if trace.is_of_cpu:
        return {
            "wall time": int(trace.launches.end_ns.max()) - int(trace.launches.start_ns.min()),
            "operator time": sum(one.total_ns for one in picture.kernels),
            "calls of operators": sum(one.calls for one in picture.kernels),
        }
    wall_ns = sum(one.wall_ns for one in picture.devices)
    copies = [one for one in picture.copies if not one.is_set]
    copied_ns = sum(one.total_ns for one in copies)
    moved = sum(one.bytes_moved for one in copies)
    return {
        "wall time": max((one.wall_ns for one in picture.devices), default=0),
        "kernel time": sum(one.total_ns for one in picture.kernels),
        "copy time": sum(one.total_ns for one in picture.copies),
        "idle time": sum(one.idle_ns for one in picture.devices),
        "synchronisation": sum(one.waiting_ns for one in picture.calls),
        "launches": sum(one.calls for one in picture.kernels),
        "GPU utilisation": sum(one.busy_ns for one in picture.devices) / wall_ns if wall_ns else None,
        "copy bandwidth": 1e9 * moved / copied_ns if copied_ns else None,
    }


def _count_launches(trace: Trace, picture: Picture) -> dict[str, int]:
    """How many launches make up each of the totals."""
    kernels = sum(one.calls for one in picture.kernels)
    if trace.is_of_cpu:
        return {"operator time": kernels}
    return {"kernel time": kernels, "copy time": sum(one.count for one in picture.copies)}


def _compare_states(old: Picture, new: Picture) -> list[Change]:
    # A state has one row, also where only one of the two programs shows Python: both run host code.
    is_python = all(one.program.is_python for one in (*old.states, *new.states))
    program = RecordedProgram(is_python=is_python)
    before, after = (
        {_name_state(one.state, program): one.share for one in picture.states} for picture in (old, new)
    )
    return [
        Change.of(Group.STATE, name, Quantity.SHARE, before.get(name), after.get(name))
        for name in dict.fromkeys((*before, *after))
        if before.get(name) or after.get(name)
    ]


def _name_state(state: TimeState, program: RecordedProgram) -> str:
    return program.host_words if state is IdleCause.HOST else state.value


def _compare_categories(old: Picture, new: Picture) -> list[Change]:
    return _compare_times(
        Group.CATEGORY,
        {one.category: one.total_ns for one in old.categories},
        {one.category: one.total_ns for one in new.categories},
    )


def _compare_kernels(old: Picture, new: Picture) -> list[Change]:
    """Kernels are the same if their full names are; a short name depends on the others in its trace."""
    by_full_name = {one.full_name: one.name for one in (*new.kernels, *old.kernels)}
    texts = distinguish([(full_name, name.partition(" [")[0]) for full_name, name in by_full_name.items()])
    names = dict(zip(by_full_name, texts, strict=True))
    return _compare_times(
        Group.KERNEL,
        {names[one.full_name]: one.total_ns for one in old.kernels},
        {names[one.full_name]: one.total_ns for one in new.kernels},
    )


def _compare_times(group: Group, before: Mapping[str, int], after: Mapping[str, int]) -> list[Change]:
    """One row for each name, those with the largest difference first."""
    rows = [
        Change.of(group, name, Quantity.TIME, before.get(name), after.get(name))
        for name in dict.fromkeys((*before, *after))
    ]
    return sorted(rows, key=lambda row: (-abs((row.after or 0) - (row.before or 0)), row.name))


def _note_wall(whole: Iterable[Change], band: float) -> tuple[str, ...]:
    """Says that the wall time is not judged, where it changed by more than the band."""
    rows = {row.name: row for row in whole}
    ratio = rows["wall time"].ratio
    if ratio is None or 1 - band <= ratio <= 1 + band:
        return ()
    text = (
        f"wall time: {percent(ratio - 1)}, band {percent(band, signed=False)}; not judged, as it depends on the "
        "host and on the number of steps"
    )
    idle = rows["idle time"].ratio if "idle time" in rows else None
    return (
        f"{text}; idle time: {percent(idle - 1)}, whose causes are among the shares of the wall time"
        if idle
        else text,
    )


def _note_kernels(kernels: Iterable[Change], what: str, lacks_kernels: tuple[bool, bool]) -> tuple[str, ...]:
    gained = [row.name for row in kernels if row.before is None]
    lost = [row.name for row in kernels if row.after is None]
    found = (("gained", gained, "the baseline"), ("lost", lost, "the optimized trace"))
    return tuple(
        f"{what} {change}: {', '.join(names)}{f', unless {title} lacks their records' if lacks else ''}"
        for (change, names, title), lacks in zip(found, lacks_kernels, strict=True)
        if names
    )
