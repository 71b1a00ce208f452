"""What limits a trace or a range, with the evidence and the remedy. Pure.

The class is the largest part of the wall time: kernels, exposed communication, exposed copies, or one of the causes
of idle time. Kernels are divided further by what their categories usually need: arithmetic, or memory bandwidth.
Work that was launched elsewhere limits the ranges that it belongs to, and is left out.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from pytest_nsight.analysis.categories import COMMUNICATION, COMPUTE_BOUND
from pytest_nsight.analysis.idle_causes import IdleCause
from pytest_nsight.analysis.timeline import DeviceWork, TimeState

TINY_NS = 5_000
"""A kernel shorter than this is mostly start and end."""
_MOSTLY = 0.5


class BottleneckClass(enum.Enum):
    """What limits the speed."""

    COMPUTE = "compute"
    MEMORY = "memory"
    LATENCY = "latency"
    SYNCHRONISATION = "synchronisation"
    TRANSFER = "transfer"
    COMMUNICATION = "communication"
    ALLOCATION = "allocation"
    LOADING = "loading"
    HOST = "host"
    UNKNOWN = "unknown"


REMEDIES: Mapping[BottleneckClass, str] = {
    BottleneckClass.COMPUTE: "use tensor cores and a lower precision, or an algorithm with less arithmetic",
    BottleneckClass.MEMORY: "fuse operations so that data is loaded once, keep tensors contiguous, use tiles",
    BottleneckClass.LATENCY: "use CUDA graphs or torch.compile, fuse small kernels, increase the batch size",
    BottleneckClass.SYNCHRONISATION: "remove .item(), print(tensor) and other waits for the device from the loop",
    BottleneckClass.TRANSFER: "overlap copies with kernels, prefetch, pin memory, or keep the data on the device",
    BottleneckClass.COMMUNICATION: "overlap communication with kernels, use larger buckets, communicate less often",
    BottleneckClass.ALLOCATION: "allocate before the loop and reuse it, as PyTorch does without empty_cache()",
    BottleneckClass.LOADING: "launch each kernel once before what you measure, and cache what is compiled",
    BottleneckClass.HOST: "run less Python between launches, load data with more workers and pin_memory=True",
    BottleneckClass.UNKNOWN: "record with --trace=cuda,nvtx from before the first launch",
}

_BY_STATE: Mapping[TimeState, BottleneckClass] = {
    DeviceWork.COMMUNICATION: BottleneckClass.COMMUNICATION,
    DeviceWork.COPY: BottleneckClass.TRANSFER,
    IdleCause.LAUNCH: BottleneckClass.LATENCY,
    IdleCause.QUEUED: BottleneckClass.LATENCY,
    IdleCause.SYNCHRONISATION: BottleneckClass.SYNCHRONISATION,
    IdleCause.BLOCKING_COPY: BottleneckClass.TRANSFER,
    IdleCause.ALLOCATION: BottleneckClass.ALLOCATION,
    IdleCause.LOADING: BottleneckClass.LOADING,
    IdleCause.HOST: BottleneckClass.HOST,
    IdleCause.MIGRATION: BottleneckClass.TRANSFER,
    IdleCause.UNKNOWN: BottleneckClass.UNKNOWN,
}


@dataclass(frozen=True, slots=True)
class KernelMix:
    """How the kernel time divides.

    Attributes:
        total_ns: all kernel time.
        tiny_ns: time in kernels shorter than TINY_NS.
        by_category: category -> time.
    """

    total_ns: int
    tiny_ns: int
    by_category: Mapping[str, int]

    def share(self, part_ns: int) -> float:
        """A part of the kernel time as a ratio."""
        return part_ns / self.total_ns if self.total_ns else 0.0


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


def classify(states: Mapping[TimeState, int], mix: KernelMix) -> Bottleneck | None:
    """The bottleneck of a window; None for an empty one.

    Args:
        states: how long the devices are in each state.
        mix: of the kernels in the window.
    """
    other_ns = states.get(DeviceWork.OTHER, 0)
    states = {state: time_ns for state, time_ns in states.items() if state is not DeviceWork.OTHER}
    wall_ns = sum(states.values())
    if not wall_ns:
        return None
    weight: dict[BottleneckClass, int] = {}
    for state, time_ns in states.items():
        limit = _BY_STATE[state] if state in _BY_STATE else _classify_kernels(mix)
        weight[limit] = weight.get(limit, 0) + time_ns
    limit = max(weight, key=lambda one: weight[one])
    share = weight[limit] / wall_ns
    evidence = _explain(limit, share, states, wall_ns, mix, is_part=bool(other_ns))
    if other_ns:
        evidence += (
            f"; work launched elsewhere, {100 * other_ns / (wall_ns + other_ns):.1f} % of the window, is left out"
        )
    return Bottleneck(limit, share, evidence, REMEDIES[limit])


def _classify_kernels(mix: KernelMix) -> BottleneckClass:
    """The class with the most kernel time; latency where most of it is in tiny kernels."""
    if mix.share(mix.tiny_ns) > _MOSTLY:
        return BottleneckClass.LATENCY
    weights = {BottleneckClass.COMPUTE: 0, BottleneckClass.MEMORY: 0}
    for category, time_ns in mix.by_category.items():
        # What it takes when nothing else runs is a state of its own.
        if category != COMMUNICATION:
            is_arithmetic = category in COMPUTE_BOUND
            weights[BottleneckClass.COMPUTE if is_arithmetic else BottleneckClass.MEMORY] += time_ns
    return max(weights, key=lambda one: weights[one])


def _explain(
    limit: BottleneckClass,
    share: float,
    states: Mapping[TimeState, int],
    wall_ns: int,
    mix: KernelMix,
    *,
    is_part: bool,
) -> str:
    states_of = [
        state for state in states if _BY_STATE.get(state, _classify_kernels(mix)) is limit and states[state]
    ]
    largest = sorted(states_of, key=lambda state: -states[state])
    parts = ", ".join(f"{_describe(state)} {100 * states[state] / wall_ns:.1f} %" for state in largest)
    text = f"{100 * share:.1f} % of {'its own' if is_part else 'the wall'} time: {parts}"
    if DeviceWork.KERNEL in largest:
        categories = sorted(mix.by_category.items(), key=lambda item: -item[1])[:3]
        kinds = ", ".join(f"{category} {100 * mix.share(time_ns):.0f} %" for category, time_ns in categories)
        tiny = f"{100 * mix.share(mix.tiny_ns):.0f} % in kernels under {TINY_NS / 1000:.0f} us"
        text += f" (kernel time: {kinds}; {tiny})"
    return text


def _describe(state: TimeState) -> str:
    names = {
        DeviceWork.KERNEL: "kernels run",
        DeviceWork.COMMUNICATION: "only communication runs",
        DeviceWork.COPY: "only copies run",
    }
    return names[state] if isinstance(state, DeviceWork) else f"idle, {state.value}"
