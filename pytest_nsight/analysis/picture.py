"""Everything that can be said of a trace, or of some of its ranges, in one frozen value. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pytest_nsight.analysis.bottleneck import Bottleneck, classify
from pytest_nsight.analysis.categories import CategoryRule
from pytest_nsight.analysis.chosen_work import ChosenWork
from pytest_nsight.analysis.clock_notes import note_clocks
from pytest_nsight.analysis.critical_path import StepPath, find_step_path
from pytest_nsight.analysis.device_use import DeviceUse, measure_devices
from pytest_nsight.analysis.host_calls import CallTime, tabulate_calls
from pytest_nsight.analysis.host_waits import share_of_waits
from pytest_nsight.analysis.idle_lines import IdleLine, find_idle_lines, name_line
from pytest_nsight.analysis.idle_places import IdlePlace, find_idle_places, locate
from pytest_nsight.analysis.kernel_use import (
    CategoryTime,
    CopyTime,
    KernelTime,
    sum_categories,
    tabulate_copies,
    tabulate_kernels,
)
from pytest_nsight.analysis.late_devices import note_late_devices
from pytest_nsight.analysis.launching_code import CodeTime, note_stacks, tabulate_code
from pytest_nsight.analysis.launching_lines import note_lines, tabulate_lines
from pytest_nsight.analysis.limit_classes import RecordedProgram
from pytest_nsight.analysis.memory_use import MemoryPicture, measure_memory
from pytest_nsight.analysis.metric_use import MetricUse, measure_metrics, note_unplaced
from pytest_nsight.analysis.os_calls import OsCallTime, find_os_calls
from pytest_nsight.analysis.range_limits import RangeLimit, find_limits
from pytest_nsight.analysis.range_mix import RangeMix, divide_ranges
from pytest_nsight.analysis.range_notes import note_helpers, note_overlaps, note_strays
from pytest_nsight.analysis.range_tree import RangeNode, build_tree
from pytest_nsight.analysis.range_work import DeclaredRangeWork, RangeWork, measure_work
from pytest_nsight.analysis.small_kernels import KernelSequence, find_sequences
from pytest_nsight.analysis.step_times import StepTimes, measure_steps
from pytest_nsight.analysis.timeline import DeviceWork, TimeState
from pytest_nsight.model.trace import Ints, Trace
from pytest_nsight.model.units import count
from pytest_nsight.trace.lost_kernels import note_lost_kernels
from pytest_nsight.trace.nesting import NO_PARENT
from pytest_nsight.trace.unattributed import UnattributedLaunches, note_lost_calls

_PLURAL = {"operator": "operators", "launch": "launches"}


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
        idle_lines: in which line of Python it was then; empty where Python was not sampled.
        limits: the bottleneck of the ranges with the most device time.
        ranges: the tree in preorder.
        mixes: kernel time by category of the ranges with the most of it.
        works: latency and rates of the ranges whose work is declared.
        kernels: by name, the longest in total first.
        categories: kernel time by category.
        codes: kernel time by the code that launched it; empty where no launch has a backtrace.
        lines: kernel time by the line of Python that launched it; empty where no launch has such a line.
        copies: memory copies and sets.
        calls: CUDA API.
        sequences: small kernels that follow one another.
        steps: how long the first, the median and the slowest steps take, where a range repeats.
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
    idle_lines: tuple[IdleLine, ...]
    limits: tuple[RangeLimit, ...]
    ranges: tuple[RangeNode, ...]
    mixes: tuple[RangeMix, ...]
    works: tuple[RangeWork, ...]
    kernels: tuple[KernelTime, ...]
    categories: tuple[CategoryTime, ...]
    codes: tuple[CodeTime, ...]
    lines: tuple[CodeTime, ...]
    copies: tuple[CopyTime, ...]
    calls: tuple[CallTime, ...]
    sequences: tuple[KernelSequence, ...]
    steps: StepTimes
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
    chosen = ChosenWork.of(trace, name, domain, rules)
    details, timeline, table = chosen.details, chosen.timeline, chosen.table
    launches, window = chosen.selection.launches, chosen.selection.window
    kernels = tabulate_kernels(trace, launches, chosen.categories)
    states = chosen.measure_states(window, launches)
    idle = find_idle_places(trace, timeline, table, window)
    idle_lines = find_idle_lines(trace, details, timeline, window)
    ranges = build_tree(trace, details, table)
    memory = measure_memory(trace, table, is_chosen=chosen.is_part)
    picture = Picture(
        devices=measure_devices(trace, chosen.waits, timeline, window),
        states=_list_states(states, window.total_ns, chosen.program),
        bottleneck=name_line(_find_bottleneck(chosen, states, idle, ranges), idle_lines),
        idle=idle,
        os_calls=find_os_calls(trace, details, timeline, window),
        idle_lines=idle_lines,
        limits=find_limits(chosen),
        ranges=ranges,
        mixes=divide_ranges(trace, details, table, chosen.categories),
        works=measure_work(trace, table, works),
        kernels=kernels,
        categories=sum_categories(kernels),
        codes=tabulate_code(trace, details, launches, kernels),
        lines=tabulate_lines(trace, details, launches, kernels),
        copies=tabulate_copies(trace, launches, timeline),
        calls=tabulate_calls(trace, chosen.selection.calls, chosen.waits),
        sequences=find_sequences(trace, launches, timeline, chosen.categories),
        steps=measure_steps(chosen),
        path=find_step_path(chosen),
        unattributed=() if chosen.is_part else chosen.unattributed,
        metrics=measure_metrics(trace, details, timeline, table, window, launches),
        memory=memory,
        is_part=chosen.is_part,
        notes=_list_notes(chosen, states, memory),
    )
    return _without_devices(picture) if trace.is_of_cpu else picture


def _list_states(states: Mapping[TimeState, int], wall_ns: int, program: RecordedProgram) -> tuple[StateTime, ...]:
    return tuple(
        StateTime(state, time_ns, time_ns / wall_ns if wall_ns else 0.0, program)
        for state, time_ns in states.items()
    )


def _find_bottleneck(
    chosen: ChosenWork, states: Mapping[TimeState, int], idle: Sequence[IdlePlace], ranges: Sequence[RangeNode]
) -> Bottleneck | None:
    """The bottleneck of the chosen ranges, or of the whole trace, which may be idle outside of every range."""
    mix = chosen.times.mix(chosen.selection.launches)
    if not chosen.is_part:
        return locate(classify(states, mix, chosen.program), idle, ranges, chosen.timeline)
    outermost = np.flatnonzero(chosen.table.parent == NO_PARENT)
    return classify(states, mix, chosen.program, share_of_waits(chosen.trace, chosen.table, outermost))


def _without_devices(picture: Picture) -> Picture:
    """The picture of a trace of a CPU: nothing is said of devices."""
    return replace(
        picture,
        devices=(),
        states=(),
        bottleneck=None,
        idle=(),
        os_calls=(),
        idle_lines=(),
        limits=(),
        sequences=(),
        path=None,
    )


def _list_notes(chosen: ChosenWork, states: Mapping[TimeState, int], memory: MemoryPicture) -> tuple[str, ...]:
    trace, details, table, launches = chosen.trace, chosen.details, chosen.table, chosen.selection.launches
    return (
        *note_lost_calls(trace, chosen.unattributed, details.is_placed),
        *note_lost_kernels(trace, details),
        *note_clocks(trace, details),
        *note_late_devices(trace, details, chosen.timeline),
        *note_overlaps(trace, table),
        *note_helpers(trace, table),
        *note_strays(trace, details, table),
        *_note_left_out(trace, launches),
        *_note_foreign(states),
        *note_unplaced(trace, chosen.timeline),
        *memory.notes,
        *note_stacks(trace, details, launches),
        *note_lines(trace),
    )


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
