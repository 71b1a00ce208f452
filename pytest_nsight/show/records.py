"""A picture as plain records, for JSON, CSV and DataFrames."""

from __future__ import annotations

import csv
import dataclasses
import enum
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from pytest_nsight.analysis.memory_use import MemoryUse, RangeMemory
from pytest_nsight.analysis.picture import Picture
from pytest_nsight.show.table_columns import COLUMNS

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Value = str | int | float | bool | None
Record = dict[str, Value]

FORMAT = 1
"""Version of the JSON: names may be added within a version, never changed."""


def list_tables(picture: Picture) -> dict[str, list[Record]]:
    """Every table of a picture, by name; durations in ns, shares as ratios.

    Args:
        picture: of a trace or some of its ranges.
    """
    return {name: _list_records(picture, name) for name in COLUMNS}


def write_json(picture: Picture) -> str:
    """All tables as one JSON object, no newline at its end."""
    found: dict[str, object] = {"format": FORMAT, **list_tables(picture)}
    return json.dumps(found, indent=1)


def write_csv(picture: Picture, table: str) -> str:
    """One table as CSV with a header, no newline at its end.

    Args:
        picture: of a trace or some of its ranges.
        table: its name, a key of COLUMNS.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS[table], lineterminator="\n")
    writer.writeheader()
    writer.writerows(_list_records(picture, table))
    return text.getvalue().rstrip("\n")


def _list_records(picture: Picture, table: str) -> list[Record]:
    """The rows of a table, each with all of its columns, in their order."""
    return [{column: record[column] for column in COLUMNS[table]} for record in _TABLES[table](picture)]


def _flatten(row: DataclassInstance) -> Record:
    """The plain fields of a dataclass; an enum as its value, names in a path joined by "/"."""
    record: Record = {}
    for field in dataclasses.fields(row):
        value = getattr(row, field.name)
        if isinstance(value, enum.Enum):
            record[field.name] = str(value.value)
        elif isinstance(value, tuple) and all(isinstance(part, str) for part in value):
            record[field.name] = "/".join(value)
        elif isinstance(value, str | int | float | bool) or value is None:
            record[field.name] = value
    return record


def _devices(picture: Picture) -> list[Record]:
    return [
        {
            "device": one.device.ordinal, "process": _take_only(one.processes), "name": one.device.name,
            "uuid": one.device.uuid, **_flatten(one), "busy_ns": one.busy_ns, "utilisation": one.utilisation,
            "processes": "/".join(map(str, one.processes)),
        }
        for one in picture.devices
    ]  # fmt: skip


def _bottlenecks(picture: Picture) -> list[Record]:
    whole = [("", picture.bottleneck)] if picture.bottleneck else []
    found = [*whole, *((one.label, one.bottleneck) for one in picture.limits)]
    return [{"range": label, **_flatten(bottleneck)} for label, bottleneck in found]


def _shapes(picture: Picture) -> list[Record]:
    return [
        {
            "kernel": kernel.name, **_flatten(one),
            "grid": "x".join(map(str, one.shape.grid)), "block": "x".join(map(str, one.shape.block)),
            "occupancy": _take_only(found.ratio for found in one.occupancies),
            "occupancy_limited_by": _take_only(found.limited_by for found in one.occupancies),
        }
        for kernel in picture.kernels
        for one in kernel.shapes
    ]  # fmt: skip


def _take_only(values: Iterable[Value]) -> Value:
    """The value that all share; None where boards differ, or nothing is known."""
    different = set(values)
    return different.pop() if len(different) == 1 else None


def _ranges(picture: Picture) -> list[Record]:
    return [{**_flatten(one), "depth": len(one.path), "device_ns": one.device_ns} for one in picture.ranges]


def _path(picture: Picture) -> list[Record]:
    path = picture.path
    return [{"step": path.name, "step_ns": path.wall_ns, **_flatten(one)} for one in path.parts] if path else []


def _mixes(picture: Picture) -> list[Record]:
    """One row for each range label and category."""
    return [
        {"range": one.label, "count": one.count, "category": name, "total_ns": total_ns, "share": one.share(name)}
        for one in picture.mixes
        for name, total_ns in one.categories.items()
    ]


def _metrics(picture: Picture) -> list[Record]:
    return [{**_flatten(one), **_flatten(one.means)} for one in picture.metrics]


def _memory(rows: Sequence[MemoryUse] | Sequence[RangeMemory]) -> list[Record]:
    return [
        {
            "device": one.device.ordinal, "process": one.device.process, "name": one.device.name,
            "uuid": one.device.uuid, "memory_bytes": one.device.memory_bytes or None, **_flatten(one),
        }
        for one in rows
    ]  # fmt: skip


def _plain(rows: Sequence[DataclassInstance]) -> list[Record]:
    return [_flatten(one) for one in rows]


_TABLES: Mapping[str, Callable[[Picture], list[Record]]] = {
    "devices": _devices,
    "states": lambda picture: _plain(picture.states),
    "idle": lambda picture: [{"range": one.label, **_flatten(one)} for one in picture.idle],
    "os_calls": lambda picture: _plain(picture.os_calls),
    "idle_lines": lambda picture: _plain(picture.idle_lines),
    "bottlenecks": _bottlenecks,
    "ranges": _ranges,
    "range_categories": _mixes,
    "work": lambda picture: [{**_flatten(one), "kernel_per_s": one.kernel_per_s} for one in picture.works],
    "kernels": lambda picture: _plain(picture.kernels),
    "shapes": _shapes,
    "categories": lambda picture: _plain(picture.categories),
    "codes": lambda picture: _plain(picture.codes),
    "lines": lambda picture: [{"line": one.code, **_flatten(one)} for one in picture.lines],
    "copies": lambda picture: _plain(picture.copies),
    "memory": lambda picture: _memory(picture.memory.uses),
    "range_memory": lambda picture: [{"range": one["label"], **one} for one in _memory(picture.memory.ranges)],
    "calls": lambda picture: _plain(picture.calls),
    "sequences": lambda picture: _plain(picture.sequences),
    "steps": lambda picture: [{"label": picture.steps.label, **_flatten(one)} for one in picture.steps.steps],
    "critical_path": _path,
    "metrics": _metrics,
    "unattributed": lambda picture: _plain(picture.unattributed),
}
