"""The tables of what ran on the device: kernels, copies, sets, and CUDA graphs traced whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_nsight.collectors.nsys.columns import Arrays, ExportColumn, process_ids
from pytest_nsight.collectors.nsys.packed_columns import group_rows
from pytest_nsight.model.kernel_names import normalise
from pytest_nsight.model.shapes import SET_SHAPE, Shape, copy_shape
from pytest_nsight.model.trace import Launches

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
MEMCPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSET = "CUPTI_ACTIVITY_KIND_MEMSET"
GRAPH = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"

UNKNOWN = -1

PLACE = (
    ExportColumn("start"),
    ExportColumn("end"),
    ExportColumn("correlationId", 0),
    ExportColumn("globalPid", 0),
    ExportColumn("deviceId"),
    ExportColumn("streamId"),
)
LAUNCH_CONFIGURATION = (
    ExportColumn("demangledName"),
    ExportColumn("gridX"),
    ExportColumn("gridY"),
    ExportColumn("gridZ"),
    ExportColumn("blockX"),
    ExportColumn("blockY"),
    ExportColumn("blockZ"),
    ExportColumn("registersPerThread", 0),
    ExportColumn("staticSharedMemory", UNKNOWN),
    ExportColumn("dynamicSharedMemory", UNKNOWN),
)
SHARED = ("staticSharedMemory", "dynamicSharedMemory")
COPY = (
    ExportColumn("bytes"),
    ExportColumn("copyKind"),
    ExportColumn("srcKind", 255),
    ExportColumn("dstKind", 255),
)
NODE = ExportColumn("graphNodeId", 0)
COLUMNS: Mapping[str, Sequence[ExportColumn]] = {
    KERNEL: (*PLACE, *LAUNCH_CONFIGURATION, NODE),
    MEMCPY: (*PLACE, *COPY, NODE),
    MEMSET: (*PLACE, ExportColumn("bytes"), NODE),
    GRAPH: PLACE,
}


def build_launches(
    tables: dict[str, Arrays], strings: Mapping[int, str]
) -> tuple[Launches, tuple[Shape, ...], frozenset[int]]:
    """Everything that ran on the device, the distinct shapes of it, and those of unknown shared memory.

    Args:
        tables: table -> columns, as read; the tables of launches are removed, so that they are not in memory twice.
        strings: id -> text.
    """
    known: dict[Shape, int] = {}
    lacking: set[int] = set()
    parts = []
    for table, shape_of in (
        (KERNEL, _kernel_shape),
        (MEMCPY, _memcpy_shape),
        (MEMSET, _memset_shape),
        (GRAPH, _graph_shape),
    ):
        columns = tables.pop(table)
        shape_columns = [column.name for column in COLUMNS[table] if column in (*LAUNCH_CONFIGURATION, *COPY[1:])]
        codes, examples = group_rows([columns[name] for name in shape_columns], len(columns["start"]))
        numbers = []
        for row in examples:
            values = {name: int(columns[name][row]) for name in shape_columns}
            numbers.append(known.setdefault(shape_of(values, strings), len(known)))
            if _lacks_shared(values):
                lacking.add(numbers[-1])
        parts.append(_to_launches(columns, np.asarray(numbers, np.int32)[codes]))
        del columns, codes
    # Popping frees each column of a table as soon as it is part of the whole.
    joined = {name: np.concatenate([part.pop(name) for part in parts]) for name in Launches.__slots__}
    return Launches(**joined), tuple(known), frozenset(lacking)


def _to_launches(columns: Arrays, shape: npt.NDArray[np.int32]) -> dict[str, npt.NDArray[Any]]:
    """The columns of Launches, as they are in Launches."""
    nothing = np.zeros(len(shape), np.int64)
    return {
        "start_ns": columns["start"].astype(np.int64, copy=False),
        "end_ns": columns["end"].astype(np.int64, copy=False),
        "shape": shape,
        "device": columns["deviceId"].astype(np.int32, copy=False),
        "stream": columns["streamId"].astype(np.int64, copy=False),
        "process": process_ids(columns["globalPid"]),
        "correlation": columns["correlationId"].astype(np.int64, copy=False),
        "bytes_moved": columns.get("bytes", nothing).astype(np.int64, copy=False),
        "graph_node": columns.get("graphNodeId", nothing).astype(np.int64, copy=False),
    }


def _kernel_shape(values: Mapping[str, int], strings: Mapping[int, str]) -> Shape:
    full_name = strings[values["demangledName"]] or "unnamed kernel"
    return Shape(
        kind="kernel",
        name=normalise(full_name),
        full_name=full_name,
        grid=(values["gridX"], values["gridY"], values["gridZ"]),
        block=(values["blockX"], values["blockY"], values["blockZ"]),
        registers=values["registersPerThread"],
        shared_bytes=0 if _lacks_shared(values) else sum(values[name] for name in SHARED),
    )


def _lacks_shared(values: Mapping[str, int]) -> bool:
    return any(values.get(name) == UNKNOWN for name in SHARED)


def _memcpy_shape(values: Mapping[str, int], strings: Mapping[int, str]) -> Shape:  # noqa: ARG001 - one signature
    # Nsight Systems counts the kinds of memory from 0, CUPTI from 1; neither uses the number of unknown memory.
    return copy_shape(values["copyKind"], values["srcKind"] + 1, values["dstKind"] + 1)


def _memset_shape(values: Mapping[str, int], strings: Mapping[int, str]) -> Shape:  # noqa: ARG001 - one signature
    return SET_SHAPE


def _graph_shape(values: Mapping[str, int], strings: Mapping[int, str]) -> Shape:  # noqa: ARG001 - one signature
    # nsys numbers graphs in order of creation over the whole process: no identity across runs.
    return Shape(kind="graph", name="CUDA graph", full_name="CUDA graph")
