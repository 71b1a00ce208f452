"""torch.profiler's events (Chrome trace format, as exported by Kineto) become a Trace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from pytest_nsight.collectors.torch.event_checks import Event
from pytest_nsight.collectors.torch.launch_processes import assign_processes
from pytest_nsight.model.kernel_names import normalise
from pytest_nsight.model.shapes import Shape
from pytest_nsight.model.trace import OWN_DOMAIN, Calls, Launches, Ranges, Table, Trace
from pytest_nsight.model.trace_devices import TraceDevice
from pytest_nsight.recorders.torch.written_json import PREFIX

_Value = TypeVar("_Value")
_Table = TypeVar("_Table", bound=Table)

_LAUNCH_KINDS = {"kernel": "kernel", "gpu_memcpy": "memcpy", "gpu_memset": "memset"}
_CALL_CATEGORIES = ("cuda_runtime", "cuda_driver")
_HOST_CATEGORIES = ("cpu_op", "user_annotation", *_CALL_CATEGORIES)

# Operators that only look at memory differently, or get some: they do no work of their own.
_VIEWS = {
    "alias", "as_strided", "chunk", "detach", "detach_", "empty", "empty_like", "empty_strided", "expand",
    "narrow", "permute", "select", "slice", "split", "squeeze", "t", "transpose", "unbind", "unsqueeze", "view",
}  # fmt: skip
# Operators that copy only if they have to.
_SOMETIMES_COPIES = {"contiguous", "reshape", "to", "type_as"}
_COPIES = {"aten::copy_", "aten::clone", "aten::_to_copy"}
_COMPILED_REGION = "Torch-Compiled Region"


class _Index(dict[_Value, int]):
    """Gives each distinct value the next number."""

    def __missing__(self, value: _Value) -> int:
        self[value] = number = len(self)
        return number


def build_trace(records: Iterable[Sequence[Event]], owners: Mapping[int, int] | None = None) -> Trace:
    """Translates profiler events.

    Args:
        records: checked events of each profiled stretch; all on one clock.
        owners: process id that events of a device have -> process that launched them, where the file says it.

    Returns:
        A trace whose launches are the device's, or, where there are none, the outermost operators that the
        CPU ran.
    """
    strings: _Index[str] = _Index()
    shapes: _Index[Shape] = _Index()
    domain = strings[OWN_DOMAIN]
    kept = list(records)
    events = [event for record in kept for event in record]
    if any(event["cat"] in _LAUNCH_KINDS for event in events):
        parts = [_read_record(record, strings, shapes, owners or {}) for record in kept]
    else:
        operators = [_operator(event, shapes) for event in _outermost(events)]
        parts = [(_read_calls(events, strings), _read_launches(operators))]
    ranges = [
        _range(event, strings, domain)
        for event in events
        if event["cat"] == "user_annotation" and event["name"].startswith(PREFIX)
    ]
    return Trace(
        ranges=Ranges(*_columns(ranges, (0, 0, 1, 1, 0, 0, 0, 2))),
        calls=_join(Calls, [calls for calls, _ in parts]),
        launches=_join(Launches, [launches for _, launches in parts]),
        shapes=tuple(shapes),
        shared_unknown=frozenset(
            shapes[_device_shape(event)]
            for event in events
            if event["cat"] == "kernel" and "shared memory" not in event.get("args", {})
        ),
        strings=tuple(strings),
        devices=(TraceDevice(None, 0, "", ""),),
        tool="torch.profiler",
    )


def _read_record(
    events: Sequence[Event], strings: _Index[str], shapes: _Index[Shape], owners: Mapping[int, int]
) -> tuple[Calls, Launches]:
    """The calls of one stretch and what they launched; correlation ids begin anew in each."""
    hosts = dict.fromkeys(event.get("pid", 0) for event in events if event["cat"] in _HOST_CATEGORIES)
    on_device = [event for event in events if event["cat"] in _LAUNCH_KINDS]
    first = int(next(iter(hosts), 0))
    calls = _read_calls(events, strings)
    launches = _read_launches([_device_launch(event, shapes, first) for event in on_device])
    if len(hosts) > 1 or owners:
        track = np.array([event.get("pid", 0) for event in on_device], np.int64)
        launches = assign_processes(launches, calls, tuple(strings), track, owners)
    return calls, launches


def _read_calls(events: Sequence[Event], strings: _Index[str]) -> Calls:
    rows = [_call(event, strings) for event in events if event["cat"] in _CALL_CATEGORIES]
    return Calls(*_columns(rows, (0, 0, 1, 0, 0, 0)))


def _read_launches(rows: Sequence[Sequence[int]]) -> Launches:
    return Launches(*_columns(rows, (0, 0, 1, 1, 0, 0, 0, 0, 0)))


def _join(kind: type[_Table], tables: Sequence[_Table]) -> _Table:
    if len(tables) == 1:
        return tables[0]
    columns = {name: [getattr(table, name) for table in tables] for name in kind.column_names()}
    return kind(**{name: np.concatenate(parts) for name, parts in columns.items()})


def _columns(rows: Sequence[Sequence[int]], types: Sequence[int]) -> Iterator[Any]:
    """Rows as columns; types: 0 int64, 1 int32, 2 bool."""
    dtypes = (np.int64, np.int32, np.bool_)
    for position, kind in enumerate(types):
        yield np.fromiter((row[position] for row in rows), dtypes[kind], len(rows))


def _start_ns(event: Event) -> int:
    return round(float(event["ts"]) * 1000)


def _end_ns(event: Event) -> int:
    return round((float(event["ts"]) + float(event.get("dur", 0))) * 1000)


def _range(event: Event, strings: _Index[str], domain: int) -> tuple[int, ...]:
    payload, _, name = event["name"][len(PREFIX) :].partition(":")
    times = (_start_ns(event), _end_ns(event))
    return (*times, strings[name], domain, int(payload), int(event.get("pid", 0)), int(event.get("tid", 0)), 0)


def _call(event: Event, strings: _Index[str]) -> tuple[int, ...]:
    correlation = int(event.get("args", {}).get("correlation", 0))
    times = (_start_ns(event), _end_ns(event))
    return (*times, strings[event["name"]], int(event.get("pid", 0)), int(event.get("tid", 0)), correlation)


def _device_shape(event: Event) -> Shape:
    arguments = event.get("args", {})
    return Shape(
        kind=_LAUNCH_KINDS[event["cat"]],
        name=normalise(event["name"]),
        full_name=event["name"],
        grid=_triple(arguments.get("grid")),
        block=_triple(arguments.get("block")),
        registers=int(arguments.get("registers per thread", 0)),
        shared_bytes=int(arguments.get("shared memory", 0)),
    )


def _device_launch(event: Event, shapes: _Index[Shape], process: int) -> tuple[int, ...]:
    arguments = event.get("args", {})
    return (
        _start_ns(event),
        _end_ns(event),
        shapes[_device_shape(event)],
        int(arguments.get("device", 0)),
        int(arguments.get("stream", 0)),
        process,
        int(arguments.get("correlation", 0)),
        int(arguments.get("bytes", 0)),
        0,
    )


def _operator(event: Event, shapes: _Index[Shape]) -> tuple[int, ...]:
    name = event["name"]
    short = "compiled_region" if name.startswith(_COMPILED_REGION) else name.rpartition("::")[2]
    shape = Shape(kind="operator", name=short, full_name=name)
    place = (int(event.get("tid", 0)), int(event.get("pid", 0)))
    return (_start_ns(event), _end_ns(event), shapes[shape], 0, *place, 0, 0, 0)


def _triple(value: Sequence[int] | None) -> tuple[int, int, int]:
    return (value[0], value[1], value[2]) if value is not None else (0, 0, 0)


def _is_operator(event: Event) -> bool:
    """Autograd's nodes and its engine wrap operators; only operators have a library's namespace."""
    name = event["name"]
    if event["cat"] == "cpu_op" and "::" in name:
        return not name.startswith(("autograd::", "torch::"))
    return bool(name.startswith(_COMPILED_REGION))


def _outermost(events: Sequence[Event]) -> Iterator[Event]:
    """Operators that no other operator called, without those that move no data."""
    by_thread: dict[tuple[int, int], list[Event]] = {}
    for event in events:
        if _is_operator(event):
            thread = (int(event.get("pid", 0)), int(event.get("tid", 0)))
            by_thread.setdefault(thread, []).append(event)
    for operators in by_thread.values():
        operators.sort(key=lambda event: (_start_ns(event), -_end_ns(event)))
        outer: Event | None = None
        has_copied = False
        for event in operators:
            if outer is not None and _start_ns(event) < _end_ns(outer):
                has_copied = has_copied or event["name"] in _COPIES
                continue
            if outer is not None and _does_work(outer, has_copied=has_copied):
                yield outer
            outer, has_copied = event, False
        if outer is not None and _does_work(outer, has_copied=has_copied):
            yield outer


def _does_work(operator: Event, *, has_copied: bool) -> bool:
    short = operator["name"].removeprefix("aten::")
    if short in _VIEWS:
        return False
    return has_copied or short not in _SOMETIMES_COPIES
