"""What limits a trace or a range, with the evidence and the remedy. Pure.

The class is the largest part of the wall time: kernels, exposed communication, exposed copies or sets of
memory, or one of the causes of idle time. Kernels are divided further: they may wait for pages of managed
memory, run while copies or communication take longer, be short, or leave most of the device without a block;
else it is what their categories usually need, arithmetic or memory bandwidth, and where most have no category,
nothing is asserted. Work that was launched elsewhere limits the ranges that it belongs to, and is left out; a
range that mostly waits for it synchronises.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_nsight.analysis.categories import COMMUNICATION, COMPUTE_BOUND, MEMORY_BOUND, VECTORS
from pytest_nsight.analysis.idle_causes import IdleCause
from pytest_nsight.analysis.kernel_mix import TINY_NS, KernelMix
from pytest_nsight.analysis.limit_classes import CLASS_OF, BottleneckClass, KernelLimit, RecordedProgram
from pytest_nsight.analysis.timeline import DeviceWork, TimeState

_MOSTLY = 0.5
_LONGER = 0.1
"""Of the kernels' time, by which copies or communication beside them have to take longer to be the limit."""

_BY_STATE: Mapping[TimeState, BottleneckClass] = {
    DeviceWork.COMMUNICATION: BottleneckClass.COMMUNICATION,
    DeviceWork.COPY: BottleneckClass.TRANSFER,
    DeviceWork.SET: BottleneckClass.MEMORY,
    IdleCause.LAUNCH: BottleneckClass.LATENCY,
    IdleCause.QUEUED: BottleneckClass.LATENCY,
    IdleCause.DEPENDENCY: BottleneckClass.DEPENDENCY,
    IdleCause.SYNCHRONISATION: BottleneckClass.SYNCHRONISATION,
    IdleCause.BLOCKING_COPY: BottleneckClass.TRANSFER,
    IdleCause.ALLOCATION: BottleneckClass.ALLOCATION,
    IdleCause.LOADING: BottleneckClass.LOADING,
    IdleCause.HOST: BottleneckClass.HOST,
    IdleCause.MIGRATION: BottleneckClass.TRANSFER,
    IdleCause.FINISHED: BottleneckClass.IMBALANCE,
    IdleCause.UNRECORDED: BottleneckClass.UNKNOWN,
    IdleCause.UNKNOWN: BottleneckClass.UNKNOWN,
}


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """What limits a trace or a range.

    Attributes:
        limit: the class.
        share: of the wall time that is in this class, without the time of work that was launched elsewhere.
        evidence: one sentence.
        remedy: what to try first.
    """

    limit: BottleneckClass
    share: float
    evidence: str
    remedy: str


def classify(
    states: Mapping[TimeState, int], mix: KernelMix, program: RecordedProgram | None = None, waiting: float = 0.0
) -> Bottleneck | None:
    """The bottleneck of a window; None for an empty one, and for one that holds only work launched elsewhere.

    A window whose ranges mostly wait for such work has one.

    Args:
        states: how long the devices are in each state.
        mix: of the kernels in the window.
        program: that was recorded; one in Python where None.
        waiting: share of the time of the window's ranges during which their host waits.
    """
    program = program or RecordedProgram()
    other_ns = states.get(DeviceWork.OTHER, 0)
    states = {state: time_ns for state, time_ns in states.items() if state is not DeviceWork.OTHER}
    wall_ns = sum(states.values())
    # All of the window may be work that was launched elsewhere, and all that the ranges do a wait for it.
    if other_ns > wall_ns and waiting > _MOSTLY:
        evidence = f"{100 * waiting:.1f} % of its time: the host waits for work that was launched elsewhere"
        limit = BottleneckClass.SYNCHRONISATION
        return Bottleneck(limit, waiting, evidence, program.remedy(limit))
    if not wall_ns:
        return None
    of_kernels = judge_kernels(mix, states)
    limit, parts = _find_largest(states, CLASS_OF[of_kernels])
    share = sum(parts.values()) / wall_ns
    named = ", ".join(
        f"{_describe(state, program)} {100 * time_ns / wall_ns:.1f} %" for state, time_ns in parts.items()
    )
    evidence = f"{100 * share:.1f} % of {'its own' if other_ns else 'the wall'} time: {named}"
    if DeviceWork.KERNEL in parts:
        evidence += f" ({_describe_kernels(mix, of_kernels)})"
    if other_ns:
        evidence += (
            f"; work launched elsewhere, {100 * other_ns / (wall_ns + other_ns):.1f} % of the window, is left out"
        )
    # The remedy is that of the largest part.
    particular: Mapping[TimeState, BottleneckClass | KernelLimit] = {
        DeviceWork.KERNEL: of_kernels,
        DeviceWork.COPY: KernelLimit.INSIDE if 2 * mix.copied_inside_ns > mix.copied_ns else limit,
        DeviceWork.SET: KernelLimit.CLEARING,
        IdleCause.BLOCKING_COPY: KernelLimit.BLOCKING,
        IdleCause.MIGRATION: KernelLimit.MIGRATION,
        IdleCause.UNRECORDED: KernelLimit.UNRECORDED,
    }
    return Bottleneck(limit, share, evidence, program.remedy(particular.get(next(iter(parts)), limit)))


def _find_largest(
    states: Mapping[TimeState, int], of_kernels: BottleneckClass
) -> tuple[BottleneckClass, Mapping[TimeState, int]]:
    """The class with the most time, and the states in it that took some, the longest first.

    Args:
        states: how long the devices are in each state, not zero in all.
        of_kernels: the class of the time in which kernels run.
    """
    parts: dict[BottleneckClass, dict[TimeState, int]] = {}
    for state, time_ns in states.items():
        parts.setdefault(_BY_STATE.get(state, of_kernels), {})[state] = time_ns
    limit = max(parts, key=lambda one: sum(parts[one].values()))
    longest_first = sorted(parts[limit].items(), key=lambda item: -item[1])
    return limit, {state: time_ns for state, time_ns in longest_first if time_ns}


def judge_kernels(mix: KernelMix, states: Mapping[TimeState, int]) -> KernelLimit:
    """What limits kernels: what is true of most of their time, else what their categories usually need.

    Args:
        mix: how their time divides.
        states: how long the devices are in each state.
    """
    if mix.share(mix.migrating_ns) > _MOSTLY:
        return KernelLimit.MIGRATION
    for limit, state, beside_ns in (
        (KernelLimit.COMMUNICATION, DeviceWork.COMMUNICATION, mix.communicating_ns),
        (KernelLimit.COPIES, DeviceWork.COPY, mix.copying_ns),
    ):
        # Faster kernels would save no more than the time in which they run alone.
        share, kernel_ns = mix.share_of_computing(beside_ns), states.get(DeviceWork.KERNEL, 0)
        if share > _MOSTLY and states.get(state, 0) > (1 - share + _LONGER) * kernel_ns:
            return limit
    if mix.share(mix.tiny_ns) > _MOSTLY:
        return KernelLimit.LENGTH
    if mix.share(mix.unfilled_ns) > _MOSTLY:
        return KernelLimit.BLOCKS
    return _judge_categories(mix)


def _judge_categories(mix: KernelMix) -> KernelLimit:
    """What the categories of kernels usually need."""
    weights = {KernelLimit.ARITHMETIC: 0, KernelLimit.BANDWIDTH: 0, KernelLimit.UNNAMED: 0}
    for category, time_ns in mix.by_category.items():
        # What communication takes when nothing else runs is a state of its own.
        if category in COMPUTE_BOUND:
            weights[KernelLimit.ARITHMETIC] += time_ns
        elif category in MEMORY_BOUND:
            weights[KernelLimit.BANDWIDTH] += time_ns
        elif category != COMMUNICATION:
            weights[KernelLimit.UNNAMED] += time_ns
    limit = max(weights, key=lambda one: weights[one])
    if limit is KernelLimit.UNNAMED and 2 * mix.graph_ns > weights[limit]:
        return KernelLimit.GRAPHS
    is_of_vectors = mix.by_category.get(VECTORS, 0) > _MOSTLY * weights[KernelLimit.BANDWIDTH]
    return KernelLimit.VECTORS if limit is KernelLimit.BANDWIDTH and is_of_vectors else limit


def _describe_kernels(mix: KernelMix, limit: KernelLimit) -> str:
    """The evidence for what limits kernels."""
    categories = sorted(mix.by_category.items(), key=lambda item: -item[1])[:3]
    parts = [", ".join(f"{category} {100 * mix.share(time_ns):.0f} %" for category, time_ns in categories)]
    if limit is KernelLimit.MIGRATION:
        parts.append(f"{100 * mix.share(mix.migrating_ns):.0f} % while pages of managed memory move")
    elif limit in (KernelLimit.COPIES, KernelLimit.COMMUNICATION):
        is_copy = limit is KernelLimit.COPIES
        share = mix.share_of_computing(mix.copying_ns if is_copy else mix.communicating_ns)
        what = "copies, which take longer" if is_copy else "communication, which takes longer"
        parts.append(f"{100 * share:.0f} % of what computes runs beside {what}")
    elif limit is KernelLimit.BLOCKS:
        parts.append(
            f"{100 * mix.share(mix.unfilled_ns):.0f} % in launches with blocks for less than half of the "
            "device's multiprocessors"
        )
    else:
        parts.append(f"{100 * mix.share(mix.tiny_ns):.0f} % in kernels under {TINY_NS / 1000:.0f} us")
    if limit is KernelLimit.UNNAMED:
        parts.append("which limit they have is not known from their names")
    if limit is KernelLimit.GRAPHS:
        share = 100 * mix.share(mix.graph_ns)
        parts.append(f"{share:.0f} % in CUDA graphs that are recorded without their kernels")
    return f"kernel time: {'; '.join(parts)}"


def _describe(state: TimeState, program: RecordedProgram) -> str:
    names: Mapping[TimeState, str] = {
        DeviceWork.KERNEL: "kernels run",
        DeviceWork.COMMUNICATION: "only communication runs",
        DeviceWork.COPY: "only copies run",
        DeviceWork.SET: "memory is set and nothing else runs",
        IdleCause.HOST: f"idle, {program.host_words}",
        IdleCause.UNRECORDED: "idle, or kernels run that were not recorded",
    }
    return names.get(state, f"idle, {state.value}")
