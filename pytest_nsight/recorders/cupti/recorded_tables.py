"""CUPTI's records of one case as the tables of a trace, filled piece by piece. Runs in the worker."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_nsight.model.kernel_names import normalise
from pytest_nsight.model.shapes import SET_SHAPE, Shape, copy_shape
from pytest_nsight.model.trace import Calls, Flags, Launches
from pytest_nsight.recorders.cupti.library import DRIVER_DOMAIN, RUNTIME_DOMAIN, Cupti, CuptiError
from pytest_nsight.recorders.cupti.record_layouts import (
    CONCURRENT_KERNEL,
    COPY,
    DRIVER,
    PEER_COPY,
    RUNTIME,
    SET,
    Rows,
    read_texts,
)

_DOMAINS = {DRIVER: DRIVER_DOMAIN, RUNTIME: RUNTIME_DOMAIN}
_KERNEL_SHAPE = ("name", "grid", "block", "registers", "static_shared", "dynamic_shared")
_COPY_SHAPE = ("direction", "source", "target")
_LAUNCH_COLUMNS = {
    "start_ns": "start", "end_ns": "end", "device": "device", "stream": "stream", "correlation": "correlation",
    "graph_node": "graph_node",
}  # fmt: skip

_Columns = dict[str, npt.NDArray[Any]]


class RecordedTables:
    """Takes records as they are collected, and gives tables; of a record it keeps what a trace holds."""

    def __init__(self, cupti: Cupti) -> None:
        self._cupti = cupti
        self._strings: dict[str, int] = {}
        self._shapes: dict[Shape, int] = {}
        self._launches: list[_Columns] = []
        self._calls: list[_Columns] = []

    @property
    def strings(self) -> tuple[str, ...]:
        """All names, by their numbers."""
        return tuple(self._strings)

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """All shapes, by their numbers."""
        return tuple(self._shapes)

    def number_of(self, name: str) -> int:
        """The number of a name."""
        return self._strings.setdefault(name, len(self._strings))

    def add(self, records: Mapping[int, Rows]) -> None:
        """Takes records; the modules of their kernels are still loaded.

        Args:
            records: of `ActivityRecorder.collect`.

        Raises:
            CuptiError: names of kernels cannot be demangled here.
        """
        for kind, rows in records.items():
            if kind in _DOMAINS:
                self._calls.append(self._to_calls(kind, rows))
            else:
                self._launches.append(self._to_launches(kind, rows))

    def launches(self, process: int) -> Launches:
        """Everything that ran on the device.

        Args:
            process: id of this process.
        """
        columns = _join(self._launches, Launches.column_names())
        size = len(columns["start_ns"])
        columns["process"] = np.full(size, process)
        return Launches(**{name: columns[name].astype(Launches.dtype_of(name)) for name in Launches.column_names()})

    def calls(self, process: int) -> tuple[Calls, Flags, Flags]:
        """All calls, the driver's within the runtime's among them.

        Args:
            process: id of this process.

        Returns:
            The calls; whether each returned an error; whether each is one of the driver's.
        """
        columns = _join(self._calls, (*Calls.column_names(), "failed", "is_driver"))
        columns["process"] = np.full(len(columns["start_ns"]), process)
        calls = Calls(**{name: columns[name].astype(Calls.dtype_of(name)) for name in Calls.column_names()})
        return calls, columns["failed"] != 0, columns["is_driver"] != 0

    def _to_calls(self, kind: int, rows: Rows) -> _Columns:
        numbers, place = np.unique(rows["number"], return_inverse=True)
        names = [self.number_of(self._cupti.call_name(_DOMAINS[kind], number)) for number in numbers.tolist()]
        return {
            "start_ns": rows["start"].astype(np.int64),
            "end_ns": rows["end"].astype(np.int64),
            "name": np.array(names, np.int32)[place],
            "thread": rows["thread"].astype(np.int64),
            "correlation": rows["correlation"].astype(np.int64),
            "failed": rows["result"] != 0,
            "is_driver": np.full(len(rows), kind == DRIVER),
        }

    def _to_launches(self, kind: int, rows: Rows) -> _Columns:
        columns = {name: rows[field].astype(np.int64) for name, field in _LAUNCH_COLUMNS.items()}
        columns["bytes_moved"] = np.zeros(len(rows), np.int64)
        if kind != CONCURRENT_KERNEL:
            columns["bytes_moved"] = rows["bytes"].astype(np.int64)
        columns["shape"] = self._number_shapes(kind, rows)
        return columns

    def _number_shapes(self, kind: int, rows: Rows) -> npt.NDArray[np.int64]:
        if kind == SET:
            return np.full(len(rows), self._shapes.setdefault(SET_SHAPE, len(self._shapes)))
        fields = _KERNEL_SHAPE if kind == CONCURRENT_KERNEL else _COPY_SHAPE
        keys = np.column_stack([rows[field].astype(np.int64).reshape(len(rows), -1) for field in fields])
        distinct, place = np.unique(keys, axis=0, return_inverse=True)
        if kind in (COPY, PEER_COPY):
            shapes = [copy_shape(*row) for row in distinct.tolist()]
        else:
            names = read_texts(distinct[:, 0])
            shapes = [_kernel_shape(names[row[0]], row[1:]) for row in distinct.tolist()]
        numbers = np.array([self._shapes.setdefault(shape, len(self._shapes)) for shape in shapes], np.int64)
        return numbers[place.reshape(-1)]


def _join(parts: list[_Columns], names: tuple[str, ...]) -> _Columns:
    """One array for each column; all are empty where there is no part."""
    present = set(names) - {"process"}
    return {
        name: np.concatenate([part[name] for part in parts]) if parts else np.empty(0, np.int64) for name in present
    }


def _kernel_shape(mangled: str, values: list[int]) -> Shape:
    full_name = demangle(mangled) or "unnamed kernel"
    return Shape(
        kind="kernel",
        name=normalise(full_name),
        full_name=full_name,
        grid=(values[0], values[1], values[2]),
        block=(values[3], values[4], values[5]),
        registers=values[6],
        shared_bytes=values[7] + values[8],
    )


def demangle(name: str) -> str:
    """The name of a C++ function as its source has it; a name of another language is as it was.

    Args:
        name: as the compiler has it.

    Raises:
        CuptiError: there is no C++ library, which knows how.
    """
    if not name.startswith("_Z"):
        return name
    status = ctypes.c_int(0)
    found = _load_demangler()(name.encode(), None, None, ctypes.byref(status))
    if not found:
        return name
    text = ctypes.string_at(found).decode("utf-8", errors="replace")
    ctypes.CDLL(None).free(ctypes.c_void_p(found))
    return text


@cache
def _load_demangler() -> Any:
    try:
        library = ctypes.CDLL("libstdc++.so.6")
    except OSError as error:
        raise CuptiError(
            f"the names of kernels cannot be demangled without the C++ library ({error}); install libstdc++6"
        ) from None
    demangler = library["__cxa_demangle"]
    demangler.restype = ctypes.c_void_p
    return demangler
