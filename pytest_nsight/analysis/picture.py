"""Everything that can be said of a trace, or of some of its ranges, in one frozen value. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pytest_nsight.analysis.bottleneck import Bottleneck, classify
from pytest_nsight.analysis.categories import COMMUNICATION, CategoryRule, categorise
from pytest_nsight.analysis.critical_path import PathTime, find_critical_path
from pytest_nsight.analysis.device_use import DeviceUse, measure_devices
from pytest_nsight.analysis.host_calls import CallTime, tabulate_calls
from pytest_nsight.analysis.host_waits import flag_waits, share_of_waits
from pytest_nsight.analysis.idle_places import IdlePlace, find_idle_places, locate
from pytest_nsight.analysis.kernel_mix import KernelTimes
from pytest_nsight.analysis.kernel_use import (
    CategoryTime,
    CopyTime,
    KernelTime,
    sum_categories,
    tabulate_copies,
    tabulate_kernels,
)
from pytest_nsight.analysis.launching_code import CodeTime, note_stacks, tabulate_code
from pytest_nsight.analysis.limit_classes import RecordedProgram
from pytest_nsight.analysis.memory_use import MemoryPicture, measure_memory
from pytest_nsight.analysis.metric_use import MetricUse, measure_metrics, note_unplaced
from pytest_nsight.analysis.os_calls import OsCallTime, find_os_calls
from pytest_nsight.analysis.range_mix import RangeMix, divide_ranges, find_leading_labels, find_outermost
from pytest_nsight.analysis.range_notes import note_helpers, note_overlaps
from pytest_nsight.analysis.range_tree import RangeNode, RangeTable, build_tree
from pytest_nsight.analysis.range_work import DeclaredRangeWork, RangeWork, measure_work
from pytest_nsight.analysis.selection import choose_ranges, find_step, find_window, flag_own_calls, select
from pytest_nsight.analysis.small_kernels import KernelSequence, find_sequences
from pytest_nsight.analysis.timeline import DeviceWork, Timeline, TimeState, build_timeline
from pytest_nsight.model.trace import Flags, Ints, Trace
from pytest_nsight.model.units import count
from pytest_nsight.trace.launch_table import LaunchDetails
from pytest_nsight.trace.lost_kernels import note_lost_kernels
from pytest_nsight.trace.nesting import NO_PARENT
from pytest_nsight.trace.unattributed import UnattributedLaunches, find_unattributed, note_lost_calls

_PLURAL = {"operator": "operators", "launch": "launches"}
_MOST_LIMITED = 8
"""Labels whose bottleneck is determined."""


@dataclass(frozen=True, slots=True)
class StateTime:
    """How long the devices were in one state.

    Attributes:
        state: what they did.
        total_ns: over all devices.
        share: of the wall time of all devices: what removing it would save at most.
        program: that was recorded.
    """

    state: TimeState
    total_ns: int
    share: float
    program: RecordedProgram


@dataclass(frozen=True, slots=True)
class StepPath:
    """The critical path of one step.

    Attributes:
        name: of the range that is the step.
        wall_ns: length of the step.
        parts: by kind, the longest first; they add up to the length.
    """

    name: str
    wall_ns: int
    parts: tuple[PathTime, ...]


@dataclass(frozen=True, slots=True)
class RangeLimit:
    """What limits the ranges with one label.

    Attributes:
        label: what the ranges are called.
        bottleneck: what limits them.
    """

    label: str
    bottleneck: Bottleneck


@dataclass(frozen=True, slots=True)
class Picture:
    """What a trace spends its time on.

    Of a trace of a CPU, all that is said of devices is empty, and its operators stand for kernels.

    Attributes:
        devices: one headline for each device.
        states: the wall time of all devices by state; the totals add up to it. Where ranges are chosen, the work of
            all other launches is a state of its own.
        bottleneck: of the whole, None where nothing ran on a device.
        idle: where the host was during the idle time of the devices; empty without ranges.
        os_calls: what it did outside of CUDA then; empty where calls of the operating system were not recorded.
        limits: the bottleneck of the ranges with the most device time.
        ranges: the tree in preorder.
        mixes: kernel time by category of the ranges with the most of it.
        works: latency and rates of the ranges whose work is declared.
        kernels: by name, the longest in total first.
        categories: kernel time by category.
        codes: kernel time by the code that launched it; empty where no launch has a backtrace.
        copies: memory copies and sets.
        calls: CUDA API.
        sequences: small kernels that follow one another.
        path: critical path of the median step; None without ranges.
        unattributed: launches that belong to no range; none where the user chose ranges.
        metrics: sampled counters of the boards; empty where the recording has none.
        memory: what was held on devices and in ranges, where the recording has allocations.
        is_part: whether it is about chosen ranges only.
        notes: sentences for the reader.
    """

    devices: tuple[DeviceUse, ...]
    states: tuple[StateTime, ...]
    bottleneck: Bottleneck | None
    idle: tuple[IdlePlace, ...]
    os_calls: tuple[OsCallTime, ...]
    limits: tuple[RangeLimit, ...]
    ranges: tuple[RangeNode, ...]
    mixes: tuple[RangeMix, ...]
    works: tuple[RangeWork, ...]
    kernels: tuple[KernelTime, ...]
    categories: tuple[CategoryTime, ...]
    codes: tuple[CodeTime, ...]
    copies: tuple[CopyTime, ...]
    calls: tuple[CallTime, ...]
    sequences: tuple[KernelSequence, ...]
    path: StepPath | None
    unattributed: tuple[UnattributedLaunches, ...]
    metrics: tuple[MetricUse, ...]
    memory: MemoryPicture
    is_part: bool
    notes: tuple[str, ...]


def analyse(
    trace: Trace,
    *,
    name: str = "",
    domain: str | None = None,
    rules: Sequence[CategoryRule] = (),
    works: Sequence[DeclaredRangeWork] = (),
) -> Picture:
    """The picture of a trace, or of some of its ranges.

    Args:
        trace: any trace.
        name: limits everything to ranges with this in their name; "" for all.
        domain: limits everything to ranges of this NVTX domain, "" for the default one; None for all.
        rules: the user's category rules.
        works: what each range of a name does.

    Raises:
        UsageError: no range has this name and domain, or a name of ``works``.
        TraceError: the recording's times are too far apart to be added up.
    """
    details = LaunchDetails.of(trace)
    categories = categorise(trace.shapes, rules)
    waits = flag_waits(trace, details)
    timeline = build_timeline(trace, details, waits, _flag_communication(trace, details, categories))
    program = RecordedProgram.of(trace, details)
    times = KernelTimes.of(trace, details, timeline, categories)
    table = RangeTable.of(trace, details, waits, choose_ranges(trace, name, domain))
    is_chosen = bool(name) or domain is not None
    selection = select(trace, timeline, table, is_chosen=is_chosen)
    kernels = tabulate_kernels(trace, selection.launches, categories)
    unattributed = find_unattributed(trace, ~table.costs.is_inside, details.is_placed, details.duration_ns)
    states = timeline.measure(selection.window, timeline.find_own(trace, details, selection.launches))
    wall_ns = selection.window.total_ns
    waiting = share_of_waits(trace, table, np.flatnonzero(table.parent == NO_PARENT)) if is_chosen else 0.0
    idle = find_idle_places(trace, timeline, table, selection.window)
    bottleneck = classify(states, times.mix(selection.launches), program, waiting)
    ranges = build_tree(trace, details, table)
    memory = measure_memory(trace, table, is_chosen=is_chosen)
    picture = Picture(
        devices=measure_devices(trace, waits, timeline, selection.window),
        states=tuple(
            StateTime(state, time_ns, time_ns / wall_ns if wall_ns else 0.0, program)
            for state, time_ns in states.items()
        ),
        bottleneck=bottleneck if is_chosen else locate(bottleneck, idle, ranges),
        idle=idle,
        os_calls=find_os_calls(trace, details, timeline, selection.window),
        limits=_find_limits(trace, details, timeline, table, times, program),
        ranges=ranges,
        mixes=divide_ranges(trace, details, table, categories),
        works=measure_work(trace, table, works),
        kernels=kernels,
        categories=sum_categories(kernels),
        codes=tabulate_code(trace, details, selection.launches, kernels),
        copies=tabulate_copies(trace, selection.launches, timeline),
        calls=tabulate_calls(trace, selection.calls, waits),
        sequences=find_sequences(trace, selection.launches, timeline, categories),
        path=_find_path(trace, details, table, waits, is_chosen=is_chosen),
        unattributed=() if is_chosen else unattributed,
        metrics=measure_metrics(trace, details, timeline, table, selection.window, selection.launches),
        memory=memory,
        is_part=is_chosen,
        notes=(
            *note_lost_calls(trace, unattributed, details.is_placed),
            *note_lost_kernels(trace, details),
            *note_overlaps(trace, table),
            *note_helpers(trace, table),
            *_note_left_out(trace, selection.launches),
            *_note_foreign(states),
            *note_unplaced(trace, timeline),
            *memory.notes,
            *note_stacks(trace, details, selection.launches),
        ),
    )
    if trace.is_of_cpu:
        return replace(
            picture,
            devices=(),
            states=(),
            bottleneck=None,
            idle=(),
            os_calls=(),
            limits=(),
            sequences=(),
            path=None,
        )
    return picture


def _flag_communication(trace: Trace, details: LaunchDetails, categories: Sequence[str]) -> Flags:
    """Which launches are kernels that communicate, shape (launches,)."""
    of_shape = np.array([category == COMMUNICATION for category in categories] or [False], np.bool_)
    flags: Flags = details.is_compute & of_shape[trace.launches.shape]
    return flags


def _note_left_out(trace: Trace, rows: Ints) -> tuple[str, ...]:
    left_out = len(trace.launches) - len(rows)
    noun = "operator" if trace.is_of_cpu else "launch"
    left = count(
        left_out, f"{noun} outside the chosen ranges was", f"{_PLURAL[noun]} outside the chosen ranges were"
    )
    return (f"{left} left out",) if left_out else ()


def _note_foreign(states: Mapping[TimeState, int]) -> tuple[str, ...]:
    """A sentence where work launched elsewhere fills the window; copies of the chosen ranges may be behind it."""
    other_ns = states.get(DeviceWork.OTHER, 0)
    if not other_ns or other_ns < sum(states.values()):
        return ()
    return ("the devices did work launched elsewhere while the chosen ranges ran: choose ranges that launch more",)


def _find_limits(
    trace: Trace,
    details: LaunchDetails,
    timeline: Timeline,
    table: RangeTable,
    times: KernelTimes,
    program: RecordedProgram,
) -> tuple[RangeLimit, ...]:
    """The bottlenecks of the leading labels with the most device time."""
    leads = find_leading_labels(table, np.bincount(table.label, minlength=len(table.labels)))
    is_chosen = find_outermost(table) & leads[table.label]
    device_ns = np.where(is_chosen, table.costs.kernel_ns + table.costs.copy_ns, 0)
    totals = np.bincount(table.label, device_ns, len(table.labels)) if len(table.rows) else np.empty(0)
    limits = []
    for label in np.argsort(-totals, kind="stable")[:_MOST_LIMITED].tolist():
        if not totals[label]:
            break
        positions = np.flatnonzero(is_chosen & (table.label == label))
        window = find_window(trace, timeline, table, positions)
        rows = table.costs.placed[table.costs.members.among(positions)]
        states = timeline.measure(window, timeline.find_own(trace, details, rows))
        found = classify(states, times.mix(rows), program, share_of_waits(trace, table, positions))
        if found is not None:
            limits.append(RangeLimit(table.labels[label], found))
    return tuple(limits)


def _find_path(
    trace: Trace, details: LaunchDetails, table: RangeTable, waits: Flags, *, is_chosen: bool
) -> StepPath | None:
    """The critical path of the median range of the label that looks like a step."""
    step = find_step(trace, table, is_chosen=is_chosen)
    if step is None:
        return None
    # What another process or an unconcerned thread waits for holds up nothing of the step.
    own = waits & flag_own_calls(trace, details, step)
    parts = find_critical_path(trace, details, own, step.launches, (step.start_ns, step.end_ns))
    return StepPath(step.label, step.end_ns - step.start_ns, parts)
