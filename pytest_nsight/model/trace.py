"""What a collector recorded, as columns: the one form in which every later stage gets a trace.

A collector builds it from the output of its tool. Each table is a frozen dataclass of numpy arrays of equal length,
in any order. Times are ns on one clock, and may be negative; ``Trace.epoch_ns`` ties it to the calendar.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from pytest_nsight.model.call_stacks import CallStacks
from pytest_nsight.model.gpu_samples import GpuSamples
from pytest_nsight.model.memory_events import RecordedMemory
from pytest_nsight.model.python_stacks import PythonStacks
from pytest_nsight.model.shapes import Shape
from pytest_nsight.model.trace_devices import TraceDevice

Ints = npt.NDArray[np.int64]
SmallInts = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]

OWN_DOMAIN = "pytest_nsight"
"""NVTX domain of the ranges that this project emits around its rounds."""

ANY_THREAD = -1
"""Thread of a range that is bound to no thread (NVTX start/end ranges)."""

UNKNOWN_PROCESS = 0
"""Process of what the tool recorded without one; no program has this id."""

SHARED_CORRELATION = -(2**40)
"""Correlation of a launch whose own id calls of several processes have, so that its call is unknown."""

_Table = TypeVar("_Table", bound="Table")


@dataclass(frozen=True, slots=True)
class Table:
    """Columns of equal length.

    Attributes:
        SMALL: columns of int32.
        FLAGS: columns of bool. All other columns are int64.

    Raises:
        ValueError: if the columns differ in length.
    """

    SMALL: ClassVar[frozenset[str]] = frozenset()
    FLAGS: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        lengths = {column.name: len(getattr(self, column.name)) for column in dataclasses.fields(self)}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"columns of {type(self).__name__} differ in length: {lengths}")

    def __len__(self) -> int:
        return len(getattr(self, dataclasses.fields(self)[0].name))

    @classmethod
    def empty(cls: type[_Table]) -> _Table:  # noqa: PYI019 - typing.Self needs Python 3.11
        """The table without rows."""
        return cls(**{name: np.empty(0, cls.dtype_of(name)) for name in cls.column_names()})

    @classmethod
    def column_names(cls) -> tuple[str, ...]:
        """The columns, in order."""
        return tuple(column.name for column in dataclasses.fields(cls))

    @classmethod
    def dtype_of(cls, column: str) -> np.dtype[Any]:
        """The declared type of a column's elements: int64 unless ``SMALL`` or ``FLAGS`` lists the column."""
        small: npt.DTypeLike = np.bool_ if column in cls.FLAGS else np.int32
        return np.dtype(small if column in cls.FLAGS | cls.SMALL else np.int64)

    def take(self: _Table, rows: Ints | Flags) -> _Table:  # noqa: PYI019 - typing.Self needs Python 3.11
        """The table with these rows only, in their order."""
        return type(self)(**{name: getattr(self, name)[rows] for name in self.column_names()})


@dataclass(frozen=True, slots=True)
class Ranges(Table):
    """Named spans of host time, shape (ranges,) each.

    Attributes:
        start_ns: int64.
        end_ns: int64; where the range never ended, the last instant of the trace.
        name: int32, index into ``Trace.strings``.
        domain: int32, index into ``Trace.strings``; the default domain is "".
        payload: int64, -1 where there is none.
        process: int64, process id.
        thread: int64, id of the thread that opened it, ANY_THREAD where it is bound to none.
        is_open: bool, whether its end is missing.
    """

    SMALL: ClassVar[frozenset[str]] = frozenset({"name", "domain"})
    FLAGS: ClassVar[frozenset[str]] = frozenset({"is_open"})

    start_ns: Ints
    end_ns: Ints
    name: SmallInts
    domain: SmallInts
    payload: Ints
    process: Ints
    thread: Ints
    is_open: Flags


@dataclass(frozen=True, slots=True)
class Calls(Table):
    """Calls of the CUDA API on the host, shape (calls,) each: launches, copies, synchronisation, all others.

    Attributes:
        start_ns: int64.
        end_ns: int64.
        name: int32, index into ``Trace.strings``, as the tool spells it.
        process: int64.
        thread: int64.
        correlation: int64, the id that it shares with its launches within its process; 0 where it has none, as a
            call that failed.
    """

    SMALL: ClassVar[frozenset[str]] = frozenset({"name"})

    start_ns: Ints
    end_ns: Ints
    name: SmallInts
    process: Ints
    thread: Ints
    correlation: Ints


@dataclass(frozen=True, slots=True)
class Launches(Table):
    """What ran on the device (or, for operators, on the CPU), shape (launches,) each.

    Attributes:
        start_ns: int64.
        end_ns: int64.
        shape: int32, index into ``Trace.shapes``, which holds kind, names, grid, block, registers.
        device: int32, ordinal within its process.
        stream: int64.
        process: int64.
        correlation: int64, that of the call that launched it; the nodes of a CUDA graph share one; 0 where
            unknown, SHARED_CORRELATION where calls of several processes may have made it. An
            operator without a call is taken as launched where it starts, another launch where its round does.
        bytes_moved: int64, by copies and sets; 0 for others.
        graph_node: int64, id of the CUDA graph's node; 0 where it was launched on its own.
    """

    SMALL: ClassVar[frozenset[str]] = frozenset({"shape", "device"})

    start_ns: Ints
    end_ns: Ints
    shape: SmallInts
    device: SmallInts
    stream: Ints
    process: Ints
    correlation: Ints
    bytes_moved: Ints
    graph_node: Ints


@dataclass(frozen=True, slots=True)
class Nodes(Table):
    """Where nodes of CUDA graphs were made, shape (nodes,) each.

    Attributes:
        node: int64, id as in ``Launches.graph_node``.
        process: int64.
        thread: int64, on which it was captured or added.
        made_ns: int64, when it was; of a copy, such as an instantiated graph's, when its first original was.
    """

    node: Ints
    process: Ints
    thread: Ints
    made_ns: Ints


@dataclass(frozen=True, slots=True)
class Trace:
    """One recording of one or several processes.

    Attributes:
        ranges: NVTX ranges, of all domains.
        calls: calls of the CUDA API.
        os_calls: calls of the operating system's libraries, such as poll; where the tool traced them.
        stacks: of those calls that launched something, where the tool recorded backtraces.
        python: stacks of Python, at calls of CUDA and at regular times, where the tool recorded them.
        launches: kernels, copies, sets, graphs, operators.
        nodes: where the nodes of CUDA graphs were made, as far as the tool records them.
        shapes: the distinct ways of launching that ``launches.shape`` points into.
        shared_unknown: numbers of those shapes whose shared memory the tool did not record; 0 stands for it.
        strings: names that ``ranges`` and ``calls`` point into.
        devices: boards, as far as the tool records them.
        samples: counters of boards, where the tool sampled them.
        memory: what CUDA handed out and took back, where the tool recorded that.
        programs: names of the recorded processes and of their threads, as far as the tool records them.
        diagnostics: warnings and errors of the tool itself.
        notes: sentences on what was odd, and how the reader treated it.
        damage: what the tool reports as missing and why, a sentence without its full stop; "" for nothing.
        tool: name and version of the tool.
        epoch_ns: wall-clock time of time zero, ns since 1970 UTC; None if unknown.
    """

    ranges: Ranges = field(default_factory=Ranges.empty)
    calls: Calls = field(default_factory=Calls.empty)
    os_calls: Calls = field(default_factory=Calls.empty)
    stacks: CallStacks = field(default_factory=CallStacks)
    python: PythonStacks = field(default_factory=PythonStacks)
    launches: Launches = field(default_factory=Launches.empty)
    nodes: Nodes = field(default_factory=Nodes.empty)
    shapes: tuple[Shape, ...] = ()
    shared_unknown: frozenset[int] = frozenset()
    strings: tuple[str, ...] = ()
    devices: tuple[TraceDevice, ...] = ()
    samples: tuple[GpuSamples, ...] = ()
    memory: RecordedMemory = field(default_factory=RecordedMemory)
    programs: tuple[str, ...] = ()
    diagnostics: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    damage: str = ""
    tool: str = ""
    epoch_ns: int | None = None

    @property
    def is_of_cpu(self) -> bool:
        """Whether operators of a CPU were recorded, and nothing on a device."""
        return bool(self.shapes) and all(shape.kind == "operator" for shape in self.shapes)

    def find_device(self, process: int, ordinal: int) -> TraceDevice | None:
        """The board that a process calls by an ordinal, None if the recording does not identify it.

        Args:
            process: process id.
            ordinal: CUDA's number of the device in that process.
        """
        fitting = [d for d in self.devices if d.ordinal == ordinal and d.process in (process, None)]
        return min(fitting, key=lambda d: d.process is None, default=None)
