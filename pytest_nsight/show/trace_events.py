"""A trace as trace-event JSON, which Perfetto (https://ui.perfetto.dev) and chrome://tracing open.

The events have the names and arguments that the PyTorch profiler gives its own, so that what reads its traces reads
these.
Streamed to the file: a million launches never stand in memory as text.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TextIO

from pytest_nsight.model.errors import UsageError
from pytest_nsight.model.shapes import Shape
from pytest_nsight.model.trace import ANY_THREAD, Trace
from pytest_nsight.model.trace_devices import TraceDevice
from pytest_nsight.trace.descendants import describe_board

_CATEGORIES = {
    "kernel": "kernel", "graph": "kernel", "operator": "cpu_op", "memcpy": "gpu_memcpy", "memset": "gpu_memset",
}  # fmt: skip
_COPY = re.compile(r"memcpy (\w+) \((\w+) to (\w+)\)")
_FIRST_DEVICE = 1 << 30
"""Process ids of devices begin here: the format knows threads of processes only, and no program has such an id."""


def write_trace_events(trace: Trace, path: Path) -> int:
    """Writes the whole timeline of a trace: ranges, CUDA calls, kernels, copies, and arrows from calls to launches.

    Args:
        trace: any trace.
        path: the file to write, whole or not at all; compressed if its name ends in .gz.

    Returns:
        The number of events.

    Raises:
        UsageError: the file cannot be written.
    """
    is_packed = path.suffix == ".gz"
    try:
        # A link stays one, and so does a device or a pipe: neither can be replaced by a file.
        place = Path(os.path.realpath(path))
        if place.exists() and not place.is_file():
            with _open(place, is_packed=is_packed) as file:
                return _write(trace, file)
        return _write_whole(trace, place, is_packed=is_packed)
    except OSError as error:
        raise UsageError(f"{path} cannot be written ({error.strerror}); choose another place") from None


def _write_whole(trace: Trace, path: Path, *, is_packed: bool) -> int:
    partial = path.with_name(f".{path.name}.part{os.getpid()}")
    try:
        with _open(partial, is_packed=is_packed) as file:
            events = _write(trace, file)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return events


def _open(path: Path, *, is_packed: bool) -> TextIO:
    if is_packed:
        return io.TextIOWrapper(gzip.GzipFile(path, "wb", 6), "utf-8")
    return path.open("w", encoding="utf-8")


def _write(trace: Trace, file: TextIO) -> int:
    tables = [table for table in (trace.ranges, trace.calls, trace.launches) if len(table)]
    zero_ns = min((int(table.start_ns.min()) for table in tables), default=0)
    head: dict[str, object] = {
        "schemaVersion": 1,
        "displayTimeUnit": "ns",
        "tool": trace.tool,
        "deviceProperties": _list_devices(trace),
    }
    if trace.epoch_ns is not None:
        head["baseTimeNanoseconds"] = trace.epoch_ns + zero_ns
    file.write(json.dumps(head)[:-1] + ', "traceEvents": [\n')
    number = 0
    for number, event in enumerate(_list_events(trace, zero_ns), 1):
        file.write(event if number == 1 else f",\n{event}")
    file.write("\n]}\n")
    return number


def _list_devices(trace: Trace) -> list[dict[str, object]]:
    """The boards that were used, or, where nothing ran, that were there, as the profiler lists them."""
    listed: list[dict[str, object]] = []
    numbers = {(one.process, one.ordinal): number for number, one in enumerate(trace.devices)}
    tracks = sorted(_number_tracks(trace).items(), key=lambda item: numbers.get(item[0], len(numbers)))
    for (process, ordinal), track in tracks:
        board = describe_board(trace, process, ordinal)
        # A process may call a board by another number than the one by which the recording knows it.
        owner = {"id": ordinal, "process": process, "track": track}
        listed.append(_describe_device(board) | owner | ({"uuid": board.uuid} if board.uuid else {}))
    for device in map(_describe_device, () if listed else trace.devices):
        if device not in listed:
            listed.append(device)
    return listed


def _number_tracks(trace: Trace) -> dict[tuple[int, int], int]:
    """Process and ordinal of each device that something ran on, in order -> process id of its events."""
    launches = trace.launches
    places = sorted(set(zip(launches.process.tolist(), launches.device.tolist(), strict=True)))
    return {place: track for track, place in enumerate(places, _FIRST_DEVICE)}


def _describe_device(device: TraceDevice) -> dict[str, object]:
    """One entry of the profiler's list of devices; what is not known is left out."""
    known: dict[str, object] = {"id": device.ordinal, "name": device.name}
    if device.limits is not None:
        limits = device.limits
        known |= {
            "computeMajor": limits.capability[0], "computeMinor": limits.capability[1],
            "maxThreadsPerMultiprocessor": 32 * limits.warps, "regsPerMultiprocessor": limits.registers,
            "sharedMemPerMultiprocessor": limits.shared_bytes,
        }  # fmt: skip
    if device.multiprocessors:
        known["numSms"] = device.multiprocessors
    return known


def _list_events(trace: Trace, zero_ns: int) -> Iterator[str]:
    tracks = _number_tracks(trace)
    yield from _name_tracks(trace, tracks)
    yield from _list_ranges(trace, zero_ns)
    called, events = _list_calls(trace, zero_ns)
    yield from events
    yield from _list_launches(trace, zero_ns, tracks, called)


def _name_tracks(trace: Trace, tracks: Mapping[tuple[int, int], int]) -> Iterator[str]:
    """Names of processes and devices; devices stand first."""
    hosts = sorted({*trace.ranges.process.tolist(), *trace.calls.process.tolist()})
    named = {pid: f"process {pid}" for pid in hosts}
    for (process, ordinal), track in tracks.items():
        board = describe_board(trace, process, ordinal)
        owner = f" (process {process})" if len({one for one, _ in tracks}) > 1 else ""
        named[track] = f"device {ordinal} {board.name}".strip() + owner
    for pid, name in named.items():
        yield json.dumps({"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}})
        rank = 0 if pid >= _FIRST_DEVICE else 1
        yield json.dumps({"ph": "M", "name": "process_sort_index", "pid": pid, "args": {"sort_index": rank}})


def _list_ranges(trace: Trace, zero_ns: int) -> Iterator[str]:
    """Ranges of threads as slices; those of no thread may overlap freely, so they are asynchronous."""
    ranges, names = trace.ranges, _quote(trace.strings)
    columns = (ranges.start_ns, ranges.end_ns, ranges.name, ranges.domain, ranges.process, ranges.thread)
    for number, (start, end, name, domain, process, thread) in enumerate(_rows(columns)):
        place = (
            f'"cat":"user_annotation","name":{names[name]},"pid":{process},"args":{{"NVTX domain":{names[domain]}}}'
        )
        if thread == ANY_THREAD:
            for phase, time_ns in (("b", start), ("e", max(start, end))):
                yield f'{{"ph":"{phase}","id":{number},"ts":{_us(time_ns - zero_ns)},"tid":0,{place}}}'
            continue
        yield f'{{"ph":"X",{_span(start, end, zero_ns)},"tid":{thread},{place}}}'


def _list_calls(trace: Trace, zero_ns: int) -> tuple[dict[tuple[int, int], tuple[int, int]], Iterable[str]]:
    """(process, correlation) -> thread and start of each call; and the events of all calls."""
    calls, names = trace.calls, _quote(trace.strings)
    columns = (calls.start_ns, calls.end_ns, calls.name, calls.process, calls.thread, calls.correlation)
    called = {
        (process, correlation): (thread, start)
        for start, _, _, process, thread, correlation in _rows(columns)
        if correlation
    }

    def write() -> Iterator[str]:
        for start, end, name, process, thread, correlation in _rows(columns):
            place = f'"cat":"cuda_runtime","name":{names[name]},"pid":{process},"tid":{thread}'
            yield f'{{"ph":"X",{_span(start, end, zero_ns)},{place},"args":{{"correlation":{correlation}}}}}'

    return called, write()


def _list_launches(
    trace: Trace,
    zero_ns: int,
    tracks: Mapping[tuple[int, int], int],
    called: Mapping[tuple[int, int], tuple[int, int]],
) -> Iterator[str]:
    """Kernels, copies and sets on their streams, each with an arrow from its call where that is known."""
    launches, shapes = trace.launches, trace.shapes
    kinds = [_CATEGORIES[shape.kind] for shape in shapes]
    names = _quote([_name(shape) for shape in shapes])
    unknown = trace.shared_unknown
    arguments = [_configure(shape, has_shared=number not in unknown) for number, shape in enumerate(shapes)]
    columns = (
        launches.start_ns, launches.end_ns, launches.shape, launches.device, launches.stream, launches.process,
        launches.correlation, launches.bytes_moved,
    )  # fmt: skip
    for number, row in enumerate(_rows(columns), 1):
        start, end, shape, device, stream, process, correlation, size = row
        pid = tracks[process, device]
        more = f"{arguments[shape]}" + (f'"bytes":{size},' if size else "")
        place = f'"cat":"{kinds[shape]}","name":{names[shape]},"pid":{pid},"tid":{stream}'
        known = f'"device":{device},"stream":{stream},"correlation":{correlation}'
        yield f'{{"ph":"X",{_span(start, end, zero_ns)},{place},"args":{{{more}{known}}}}}'
        origin = called.get((process, correlation))
        if origin is not None:
            thread, called_ns = origin
            flow = f'"cat":"ac2g","name":"ac2g","id":{number}'
            yield f'{{"ph":"s",{flow},"pid":{process},"tid":{thread},"ts":{_us(called_ns - zero_ns)}}}'
            yield f'{{"ph":"f","bp":"e",{flow},"pid":{pid},"tid":{stream},"ts":{_us(start - zero_ns)}}}'


def _configure(shape: Shape, *, has_shared: bool) -> str:
    """The launch configuration of a kernel as arguments, each with a comma; what is not known is left out."""
    if shape.kind != "kernel":
        return ""
    registers = f'"registers per thread":{shape.registers},' if shape.registers else ""
    shared = f'"shared memory":{shape.shared_bytes},' if has_shared else ""
    return f'"grid":{list(shape.grid)},"block":{list(shape.block)},{registers}{shared}'


def _name(shape: Shape) -> str:
    """The launch as the profiler calls it: tools know copies and sets by these names."""
    if shape.kind == "memset":
        return "Memset (Device)"
    match = _COPY.fullmatch(shape.full_name)
    if match is None:
        return shape.full_name or shape.name
    direction, source, target = match.groups()
    return f"Memcpy {direction} ({source.capitalize()} -> {target.capitalize()})"


def _rows(columns: Sequence[object]) -> Iterator[tuple[int, ...]]:
    return zip(*(column.tolist() for column in columns), strict=True)  # type: ignore[attr-defined]


def _quote(texts: Sequence[str]) -> list[str]:
    return [json.dumps(text) for text in texts]


def _span(start_ns: int, end_ns: int, zero_ns: int) -> str:
    return f'"ts":{_us(start_ns - zero_ns)},"dur":{_us(max(end_ns - start_ns, 0))}'


def _us(ns: int) -> str:
    """Microseconds with three decimals, exact."""
    return f"{ns // 1000}.{ns % 1000:03}"
