"""Reads the file of a trace that the recorder in the worker wrote (`recorders/cupti/packed_trace_writer.py`).

It may come from elsewhere, so everything in it is checked.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from json import loads
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_nsight.collectors.kept_files import MOST_BYTES, read_case
from pytest_nsight.model.errors import TraceError
from pytest_nsight.model.shapes import Shape
from pytest_nsight.model.trace import Calls, Launches, Ranges, Trace
from pytest_nsight.model.trace_devices import MultiprocessorLimits, TraceDevice
from pytest_nsight.recorders.cupti.packed_trace_writer import FORMAT, TABLES, stored_type

_LATEST_NS = 2**62
_MOST_MOVED = 2**48
_LARGEST = 2**31
_LONGEST_NAME = 2**16
_KINDS = ("kernel", "memcpy", "memset")


class _PackedTraceError(ValueError):
    """What is wrong with a file, as part of a sentence."""


def read_trace(path: Path) -> Trace:
    """Reads what `write_trace` wrote.

    Raises:
        TraceError: it is no regular file, is cut short, or holds something else than it should.
    """
    line, _, rest = read_case(path).partition(b"\n")
    try:
        header = loads(line)
        if not isinstance(header, dict) or header.get("format") != FORMAT:
            found = header.get("format") if isinstance(header, dict) else None
            raise _PackedTraceError(f"its format is {str(found)[:60]!r}, not {FORMAT}")
        return _build(header, rest)
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        reason = str(error) if isinstance(error, _PackedTraceError) else type(error).__name__
        raise TraceError(f"{path} is no record of CUPTI ({reason}); record the session again") from None


def _build(header: Mapping[str, Any], data: bytes) -> Trace:
    tables = _read_tables(header.get("rows"), data)
    strings = tuple(_text(text, "strings") for text in _list(header, "strings"))
    shapes = tuple(map(_read_shape, _list(header, "shapes")))
    ranges, calls, launches = tables["ranges"], tables["calls"], tables["launches"]
    for values, size, what in (
        (ranges["name"], len(strings), "the name of a range"),
        (ranges["domain"], len(strings), "the domain of a range"),
        (calls["name"], len(strings), "the name of a call"),
        (launches["shape"], len(shapes), "the shape of a launch"),
        (launches["device"], _LARGEST, "the device of a launch"),
        (launches["bytes_moved"], _MOST_MOVED, "the bytes of a copy"),
    ):
        _check(values, 0, size, what)
    for name, columns in tables.items():
        for column in ("start_ns", "end_ns"):
            _check(columns[column], -_LATEST_NS, _LATEST_NS, f"a time in {name}")
        columns["end_ns"] = np.maximum(columns["start_ns"], columns["end_ns"])
    epoch_ns = header.get("epoch_ns")
    return Trace(
        ranges=Ranges(**ranges),
        calls=Calls(**calls),
        launches=Launches(**launches),
        shapes=shapes,
        strings=strings,
        devices=tuple(map(_read_device, _list(header, "devices"))),
        damage=_line(header.get("damage"), "damage"),
        tool=_line(header.get("tool"), "tool"),
        epoch_ns=None if epoch_ns is None else _integer(epoch_ns, "epoch_ns", -_LATEST_NS, _LATEST_NS),
    )


def _read_tables(rows: object, data: bytes) -> dict[str, dict[str, npt.NDArray[Any]]]:
    if not isinstance(rows, dict):
        raise _PackedTraceError("it does not say how many rows its tables have")
    sizes = {name: _integer(rows.get(name), f"the number of {name}", 0, MOST_BYTES) for name in TABLES}
    needed = sum(
        sizes[name] * table.dtype_of(column).itemsize
        for name, table in TABLES.items()
        for column in table.column_names()
    )
    if needed != len(data):
        raise _PackedTraceError(f"its tables take {needed} bytes, and it has {len(data)}")
    found: dict[str, dict[str, npt.NDArray[Any]]] = {}
    at = 0
    for name, table in TABLES.items():
        found[name] = {}
        for column in table.column_names():
            dtype = stored_type(table, column)
            values = np.frombuffer(data, np.uint8 if column in table.FLAGS else dtype, sizes[name], at)
            found[name][column] = values.astype(table.dtype_of(column))
            at += sizes[name] * dtype.itemsize
    return found


def _check(values: npt.NDArray[Any], low: int, high: int, what: str) -> None:
    wrong = values[(values < low) | (values >= high)]
    if len(wrong):
        raise _PackedTraceError(f"{what} is {int(wrong[0])}")


def _list(header: Mapping[str, Any], name: str) -> list[Any]:
    found = header.get(name)
    if not isinstance(found, list):
        raise _PackedTraceError(f"{name} is no list")
    return found


def _text(value: object, what: str) -> str:
    if not isinstance(value, str) or len(value) > _LONGEST_NAME:
        raise _PackedTraceError(f"{what} holds no name, or one that is too long")
    # A name may hold half of a surrogate pair, which no table of pandas takes.
    return value.encode(errors="backslashreplace").decode()


def _line(value: object, what: str) -> str:
    """A text for a message: what cannot be printed would do something to the terminal."""
    text = _text(value, what)
    if not text.isprintable():
        raise _PackedTraceError(f"{what} has characters that cannot be printed")
    return text


def _integer(value: object, what: str, low: int, high: int) -> int:
    # Not isinstance: booleans are integers to Python.
    if type(value) is not int or not low <= value < high:
        raise _PackedTraceError(f"{what} is {str(value)[:60]!r}")
    return value


def _triple(value: object, what: str) -> tuple[int, int, int]:
    if not isinstance(value, list) or len(value) != 3:
        raise _PackedTraceError(f"{what} has no three numbers")
    x, y, z = (_integer(number, what, 0, _LARGEST) for number in value)
    return (x, y, z)


def _read_shape(fields: object) -> Shape:
    if not isinstance(fields, list) or len(fields) != len(dataclasses.fields(Shape)):
        raise _PackedTraceError("a shape has other fields")
    kind, name, full_name, grid, block, registers, shared_bytes = fields
    if kind not in _KINDS:
        raise _PackedTraceError(f"the kind of a shape is {str(kind)[:60]!r}")
    return Shape(
        kind=kind,
        name=_text(name, "a shape"),
        full_name=_text(full_name, "a shape"),
        grid=_triple(grid, "a grid"),
        block=_triple(block, "a block"),
        registers=_integer(registers, "the registers of a shape", 0, _LARGEST),
        shared_bytes=_integer(shared_bytes, "the shared memory of a shape", 0, 2 * _LARGEST),
    )


def _read_device(fields: object) -> TraceDevice:
    if not isinstance(fields, dict):
        raise _PackedTraceError("a device is no object")
    bandwidth, limits = fields.get("bytes_per_s"), fields.get("limits")
    if bandwidth is not None and not (type(bandwidth) in (int, float) and 0 < bandwidth < 1e18):
        raise _PackedTraceError(f"the bandwidth of a device is {str(bandwidth)[:60]!r}")
    return TraceDevice(
        process=_integer(fields.get("process"), "the process of a device", 0, _LATEST_NS),
        ordinal=_integer(fields.get("ordinal"), "the number of a device", 0, _LARGEST),
        uuid=_line(fields.get("uuid"), "a device"),
        name=_line(fields.get("name"), "a device"),
        bytes_per_s=None if bandwidth is None else float(bandwidth),
        limits=None if limits is None else _read_limits(limits),
        multiprocessors=_integer(fields.get("multiprocessors", 0), "multiprocessors of a device", 0, _LARGEST),
    )


def _read_limits(fields: object) -> MultiprocessorLimits:
    if not isinstance(fields, dict) or not isinstance(fields.get("capability"), list):
        raise _PackedTraceError("the limits of a device are no object")
    warps, blocks, registers = (
        _integer(fields.get(name), f"{name} of a device", 1, _LARGEST) for name in ("warps", "blocks", "registers")
    )
    shared_bytes = _integer(fields.get("shared_bytes"), "shared memory of a device", 0, _LARGEST)
    major, minor = _triple([*fields["capability"], 0], "the capability of a device")[:2]
    return MultiprocessorLimits(warps, blocks, registers, shared_bytes, (major, minor))
