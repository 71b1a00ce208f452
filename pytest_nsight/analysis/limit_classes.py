"""The classes of what limits a program, and what to try first against each, in words that fit the program. Pure."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pytest_nsight.model.api_calls import flag_calls
from pytest_nsight.model.trace import OWN_DOMAIN, Trace
from pytest_nsight.trace.attribution import NO_CALL
from pytest_nsight.trace.launch_table import LaunchDetails


class BottleneckClass(enum.Enum):
    """What limits the speed."""

    COMPUTE = "compute"
    MEMORY = "memory"
    KERNELS = "kernels"
    LATENCY = "latency"
    DEPENDENCY = "dependency"
    IMBALANCE = "imbalance"
    SYNCHRONISATION = "synchronisation"
    TRANSFER = "transfer"
    COMMUNICATION = "communication"
    ALLOCATION = "allocation"
    LOADING = "loading"
    HOST = "host"
    UNKNOWN = "unknown"


class KernelLimit(enum.Enum):
    """What limits the time in which kernels run, or memory is set."""

    ARITHMETIC = "arithmetic"
    BANDWIDTH = "bandwidth"
    VECTORS = "vectors"
    """The bandwidth, in products of matrices with vectors."""
    MIGRATION = "migration"
    """Pages of managed memory move meanwhile."""
    COPIES = "copies"
    """Copies run meanwhile, and longer."""
    COMMUNICATION = "communication"
    """Kernels that communicate run meanwhile, and longer."""
    CLEARING = "clearing"
    """Memory is set, and no kernel runs."""
    INSIDE = "inside"
    """Most copies are from a device to itself."""
    BLOCKING = "blocking"
    """The host waits for copies longer than they run."""
    LENGTH = "length"
    """Most of the kernels are short."""
    BLOCKS = "blocks"
    """The launches have blocks for less than half of the device."""
    UNNAMED = "unnamed"
    """The names of the kernels do not say."""
    GRAPHS = "graphs"
    """CUDA graphs are recorded whole, so that their kernels have no names."""
    UNRECORDED = "unrecorded"
    """Kernels were launched that are not in the recording."""


CLASS_OF: Mapping[KernelLimit, BottleneckClass] = {
    KernelLimit.ARITHMETIC: BottleneckClass.COMPUTE,
    KernelLimit.BANDWIDTH: BottleneckClass.MEMORY,
    KernelLimit.VECTORS: BottleneckClass.MEMORY,
    KernelLimit.CLEARING: BottleneckClass.MEMORY,
    KernelLimit.INSIDE: BottleneckClass.TRANSFER,
    KernelLimit.BLOCKING: BottleneckClass.TRANSFER,
    KernelLimit.MIGRATION: BottleneckClass.TRANSFER,
    KernelLimit.COPIES: BottleneckClass.TRANSFER,
    KernelLimit.COMMUNICATION: BottleneckClass.COMMUNICATION,
    KernelLimit.LENGTH: BottleneckClass.LATENCY,
    KernelLimit.BLOCKS: BottleneckClass.LATENCY,
    KernelLimit.UNNAMED: BottleneckClass.KERNELS,
    KernelLimit.GRAPHS: BottleneckClass.KERNELS,
    KernelLimit.UNRECORDED: BottleneckClass.UNKNOWN,
}

_REMEDIES: Mapping[BottleneckClass | KernelLimit, str] = {
    KernelLimit.MIGRATION: "prefetch managed memory (cudaMemPrefetchAsync) or use device memory",
    KernelLimit.COPIES: "copy less or keep the data on the device: kernels run meanwhile already, and end earlier",
    KernelLimit.COMMUNICATION: "communicate less often or in a lower precision: kernels run meanwhile already, and "
    "end earlier",
    KernelLimit.VECTORS: "increase the batch size so that each load of a weight serves more, or quantise weights",
    KernelLimit.CLEARING: "set less memory, or set it in the kernel that writes there",
    KernelLimit.BLOCKS: "launch more blocks: split the work over the whole device",
    KernelLimit.GRAPHS: "record with --cuda-graph-trace=node, which gives the kernels of CUDA graphs",
    KernelLimit.UNRECORDED: "record with --cuda-graph-trace=node, and let the program wait for the device before "
    "it ends",
    BottleneckClass.COMPUTE: "use tensor cores and a lower precision, or an algorithm with less arithmetic",
    BottleneckClass.TRANSFER: "overlap copies with kernels, prefetch, pin memory, or keep the data on the device",
    BottleneckClass.COMMUNICATION: "overlap communication with kernels, use larger buckets, communicate less often",
    BottleneckClass.DEPENDENCY: "find what the launches wait for (an event of another stream or device, another "
    "process) and give the device other work meanwhile, such as more and smaller micro-batches",
    BottleneckClass.IMBALANCE: "give all devices as much work, or hide those that have none (CUDA_VISIBLE_DEVICES)",
    BottleneckClass.LOADING: "launch each kernel once before what you measure, and cache what is compiled",
    BottleneckClass.UNKNOWN: "record with --trace=cuda,nvtx from before the first launch",
}
_OR_NAME = "or Nsight Compute, or name the kernels' category with --category"
_IN_PYTHON: Mapping[BottleneckClass | KernelLimit, str] = {
    BottleneckClass.KERNELS: f"read counters with --nsight-gpu-metrics {_OR_NAME}",
    BottleneckClass.MEMORY: "fuse operations so that data is loaded once, keep tensors contiguous, use tiles",
    BottleneckClass.LATENCY: "use CUDA graphs or torch.compile, fuse small kernels, increase the batch size",
    BottleneckClass.SYNCHRONISATION: "remove .item(), print(tensor) and other waits for the device from the loop",
    KernelLimit.INSIDE: "copy less from the device to itself, as .clone() and .contiguous() do: write results "
    "where they are needed",
    KernelLimit.BLOCKING: "remove .item(), .cpu() and other waits for copies from the loop, copy from and to "
    "pinned memory with non_blocking=True",
    BottleneckClass.ALLOCATION: "allocate before the loop and reuse it, as PyTorch does without empty_cache()",
    BottleneckClass.HOST: "run less Python between launches, load data with more workers and pin_memory=True",
}
_ELSEWHERE: Mapping[BottleneckClass | KernelLimit, str] = {
    BottleneckClass.KERNELS: f"read counters with nsys profile --gpu-metrics-device=all {_OR_NAME}",
    BottleneckClass.MEMORY: "fuse kernels so that data is loaded once, read contiguous memory, use tiles",
    BottleneckClass.LATENCY: "use CUDA graphs, fuse small kernels, launch fewer and larger kernels",
    BottleneckClass.SYNCHRONISATION: "remove cudaDeviceSynchronize and other waits for the device from the loop",
    KernelLimit.INSIDE: "copy less from the device to itself: write results where they are needed",
    KernelLimit.BLOCKING: "copy with cudaMemcpyAsync from and to pinned memory, and wait where the data are needed",
    BottleneckClass.ALLOCATION: "allocate before the loop and reuse it, or allocate with cudaMallocAsync",
    BottleneckClass.HOST: "run less host code between launches, prepare the next data while the device works",
}
_IN_GRAPHS = "fuse small kernels, launch fewer and larger ones; CUDA graphs launch most of them already"
_OF_PROFILER = "record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA] from before the first launch"
_OF_LOST_RECORDS = "let the program wait for the device, as by torch.cuda.synchronize(), before the profiler stops"

_PROFILERS = ("PyTorch profiler", "torch.profiler")
_PROGRAM = re.compile(r"python|\bpt_main_thread\b|^ray::|ipykernel|jupyter", re.IGNORECASE)
_RANGE = re.compile(r"\baten::|\bautograd::|\btorch\.|Torch-Compiled|\.py\b")
_MOST_NAMES = 10_000
"""A program may name a million ranges, each in its own way; the first of them show what it is."""
_KERNEL = re.compile(r"\bat::native::|^triton_")


@dataclass(frozen=True, slots=True)
class RecordedProgram:
    """What a recording shows of the program that was recorded, as far as messages need it.

    Attributes:
        is_python: whether anything shows that it runs Python.
        has_profiler: whether the PyTorch profiler recorded it, and not Nsight Systems.
        uses_graphs: whether CUDA graphs launched most of what ran.
    """

    is_python: bool = True
    has_profiler: bool = False
    uses_graphs: bool = False

    @classmethod
    def of(cls, trace: Trace, details: LaunchDetails) -> RecordedProgram:
        """The program of a trace: Python shows in names of processes, threads, ranges and kernels.

        Args:
            trace: the trace.
            details: of its launches.
        """
        has_profiler = trace.tool in _PROFILERS
        is_python = (
            has_profiler
            or OWN_DOMAIN in trace.strings
            or any(map(_PROGRAM.search, trace.programs))
            or any(_KERNEL.search(shape.full_name) for shape in trace.shapes)
            or any(map(_RANGE.search, trace.strings[:_MOST_NAMES]))
        )
        return cls(is_python, has_profiler, _is_mostly_of_graphs(trace, details))

    @property
    def host_words(self) -> str:
        """What the host does where it is not in CUDA."""
        return "Python or data loading" if self.is_python else "host code"

    def remedy(self, limit: BottleneckClass | KernelLimit) -> str:
        """What to try first.

        Args:
            limit: a class, or what limits kernels.
        """
        if limit is BottleneckClass.UNKNOWN and self.has_profiler:
            return _OF_PROFILER
        if limit is KernelLimit.UNRECORDED and self.has_profiler:
            return _OF_LOST_RECORDS
        if self.uses_graphs and limit in (BottleneckClass.LATENCY, KernelLimit.LENGTH):
            return _IN_GRAPHS
        table = {**_REMEDIES, **(_IN_PYTHON if self.is_python else _ELSEWHERE)}
        if limit not in table and isinstance(limit, KernelLimit):
            return table[CLASS_OF[limit]]
        return table[limit]


def _is_mostly_of_graphs(trace: Trace, details: LaunchDetails) -> bool:
    """Whether CUDA graphs launched most launches; some recordings show it only in the name of the call."""
    of_graphs = trace.launches.graph_node != 0
    is_graph_call = flag_calls(trace, lambda name: "GraphLaunch" in name)
    if is_graph_call.any():
        known = np.flatnonzero(details.call != NO_CALL)
        of_graphs[known] |= is_graph_call[details.call[known]]
    return bool(2 * np.count_nonzero(of_graphs) > len(of_graphs))
