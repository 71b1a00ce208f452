"""Traces that users export from the PyTorch profiler: Chrome trace JSON, also compressed with gzip.

``torch.profiler.profile(...).export_chrome_trace("trace.json.gz")`` writes such a file. Operators and annotations
become ranges, so the trace has the same tables as an export of Nsight Systems.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from pytest_nsight.collectors.torch.event_checks import (
    AGAIN,
    Event,
    check_events,
    mend_events,
    number_places,
)
from pytest_nsight.collectors.torch.events import build_trace
from pytest_nsight.collectors.torch.listed_boards import read_boards, read_owners
from pytest_nsight.collectors.torch.timeline_ranges import join_halves, read_domain
from pytest_nsight.model.api_calls import launches_kernel
from pytest_nsight.model.errors import TraceError
from pytest_nsight.model.shapes import Shape
from pytest_nsight.model.sorted_keys import distinct
from pytest_nsight.model.trace import Ranges, Trace
from pytest_nsight.model.units import count
from pytest_nsight.processes.regular_files import read_bounded
from pytest_nsight.recorders.torch.written_json import PREFIX, parse_written

_MOST_BYTES = 4 * 1024**3

_CATEGORIES = {
    "Operator": "cpu_op", "Runtime": "cuda_runtime", "Kernel": "kernel", "Memcpy": "gpu_memcpy",
    "Memset": "gpu_memset",
}  # fmt: skip
"""What Kineto called the categories in its first versions."""
_RANGES = ("user_annotation", "cpu_op")
_ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
_CALLS = re.compile(r"\w+_(runtime|driver)")
"""Each vendor's calls have a category of their own: cuda_runtime, xpu_runtime, mtia_runtime."""
_KEPT = frozenset({*_RANGES, *_ON_DEVICE, "cuda_runtime", "cuda_driver"})
_NUMBERS = ("ts", "dur", "pid", "tid")
_ARGUMENTS = (
    "device", "stream", "correlation", "grid", "block", "registers per thread", "shared memory", "bytes",
)  # fmt: skip
_EARLIEST_US = 10**15
"""In 2001: a trace that counts from 1970 is later, one that counts from the start of the machine is not."""
_INTEL_CALL = re.compile(r"(ur|ze|pi)[A-Z]")
"""Calls of oneAPI's Unified Runtime, of Level Zero, and of the plugin interface before it."""
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]{1,16}")
_WHOLE = re.compile(r"-?[0-9]{1,18}")
_FRACTION = re.compile(r"-?[0-9]{1,18}\.[0-9]{1,18}")
_COPY = re.compile(r"Memcpy (\w+) \((\w+) -> (\w+)\)")
_WRITTEN = {"schemaVersion", "deviceProperties", "computeProperties", "baseTimeNanoseconds"}
"""Of these keys a trace of the PyTorch profiler has one at least."""
_OTHER = "give a file that `profiler.export_chrome_trace(path)` of torch.profiler wrote"
_NUMBER = "write numbers or texts there in the script that merges or changes traces"


def read_chrome_trace(path: Path) -> Trace:
    """The trace in a file that the PyTorch profiler wrote.

    Args:
        path: a .json or .json.gz file.

    Raises:
        TraceError: the file is cut off, is no trace, or holds something else than it should.
    """
    document = _decode(path)
    listed = document.get("traceEvents") if isinstance(document, dict) else document
    if not isinstance(listed, list):
        raise TraceError(f"{path} is no trace of the PyTorch profiler: {_explain_other(document)}; {_OTHER}")
    listed = [*listed, *join_halves(listed)]
    events, notes = mend_events([_keep(event) for event in listed if _is_kept(event)])
    try:
        events, programs = number_places(events)
    except ValueError as error:
        raise TraceError(f"{path} cannot be read: {error}; {_NUMBER}") from None
    try:
        check_events(events)
    except ValueError as error:
        raise TraceError(f"{path} cannot be read: {error}; {AGAIN}") from None
    if not events:
        raise TraceError(_explain_none(path, document))
    # Older profilers count from 1970: in nanoseconds a double would be 256 ns coarse.
    first_us = math.floor(min(event["ts"] for event in events))
    events = [{**event, "ts": event["ts"] - first_us} for event in events]
    trace = _add_ranges(build_trace([events], read_owners(document)), events)
    return dataclasses.replace(
        trace,
        shapes=tuple(map(_name_copy, trace.shapes)),
        devices=read_boards(document, trace),
        programs=programs,
        notes=(*notes, *_note_missing_kernels(trace), *_note_intel(trace)),
        tool="PyTorch profiler",
        epoch_ns=_read_epoch(document, first_us),
    )


def _explain_other(document: object) -> str:
    """What JSON without events is instead."""
    keys = set(document) if isinstance(document, dict) else set()
    if {"schema", "nodes"} <= keys:
        return "it is an execution trace of PyTorch, which holds operators and no times"
    if "rocprofiler-sdk-tool" in keys:
        return "rocprofiler-sdk wrote it"
    return "it holds no list of traceEvents"


def _explain_none(path: Path, document: object) -> str:
    """Why no event of a list is of use."""
    none = "an operator, a kernel or a call of a device's runtime"
    if isinstance(document, dict) and not _WRITTEN.isdisjoint(document):
        return f"{path} holds no event of {none}; record with `activities=[ProfilerActivity.CPU, ...]`"
    return f"{path} is no trace of the PyTorch profiler: nothing that it lists is {none}; {_OTHER}"


def _decode(path: Path) -> object:
    data = read_bounded(path, _MOST_BYTES, follows_links=True)
    try:
        return parse_written(data.decode("utf-8-sig", errors="replace"))
    except (ValueError, RecursionError, MemoryError) as error:
        raise TraceError(f"{path} cannot be read ({error}); {AGAIN}") from None


def _is_kept(event: object) -> bool:
    """Whether an event has a length and a category of interest."""
    if not isinstance(event, dict) or event.get("ph", "X") != "X":
        return False
    category = event.get("cat")
    return isinstance(category, str) and _name_category(category) in _KEPT


@functools.cache
def _name_category(category: str) -> str:
    """The present category of an event, CUDA's for the calls of every vendor."""
    call = _CALLS.fullmatch(category)
    return f"cuda_{call[1]}" if call else _CATEGORIES.get(category, category)


def _keep(event: Event) -> Event:
    """The fields of an event that matter, with its present category."""
    category = _name_category(event["cat"])
    kept = {name: _read_number(event[name]) for name in _NUMBERS if name in event}
    if "name" in event:
        kept["name"] = event["name"]
    # What ran on a device has no thread: there the first versions wrote "stream 7".
    if category in _ON_DEVICE:
        kept.pop("tid", None)
    arguments = event.get("args", {})
    # Operators list the arguments of the program, under any name; only calls and device work have ours.
    if isinstance(arguments, Mapping) and category not in _RANGES:
        kept["args"] = {name: _read_number(arguments[name]) for name in _ARGUMENTS if name in arguments}
    if domain := read_domain(event):
        kept["domain"] = domain
    return {**kept, "cat": category}


def _read_number(value: object) -> object:
    """What should be a number; ROCm writes sizes as text, and handles in hexadecimal."""
    if isinstance(value, list):
        return [_read_number(one) for one in value]
    if not isinstance(value, str):
        return value
    if _WHOLE.fullmatch(value):
        return int(value)
    if _HEXADECIMAL.fullmatch(value):
        # A handle may fill 64 bits; it only has to differ from others.
        return int(value, 16) % 2**62
    return float(value) if _FRACTION.fullmatch(value) else value


def _add_ranges(trace: Trace, events: Sequence[Event]) -> Trace:
    """The trace with a range for each operator and annotation, beside those of measured rounds."""
    chosen = [event for event in events if event["cat"] in _RANGES and not event["name"].startswith(PREFIX)]
    numbers = {text: number for number, text in enumerate(trace.strings)}
    domains = [numbers.setdefault(event.get("domain", ""), len(numbers)) for event in chosen]
    names = [numbers.setdefault(event["name"], len(numbers)) for event in chosen]
    start_ns = np.array([round(float(event["ts"]) * 1000) for event in chosen], np.int64)
    length_ns = np.array([round(float(event.get("dur", 0)) * 1000) for event in chosen], np.int64)
    added = {
        "start_ns": start_ns,
        "end_ns": start_ns + length_ns,
        "name": np.array(names, np.int32),
        "domain": np.array(domains, np.int32),
        "payload": np.full(len(chosen), -1, np.int64),
        "process": np.array([event.get("pid", 0) for event in chosen], np.int64),
        "thread": np.array([event.get("tid", 0) for event in chosen], np.int64),
        "is_open": np.zeros(len(chosen), np.bool_),
    }
    columns = {name: np.concatenate([getattr(trace.ranges, name), values]) for name, values in added.items()}
    return dataclasses.replace(trace, ranges=Ranges(**columns), strings=tuple(numbers))


def _note_missing_kernels(trace: Trace) -> list[str]:
    """A note where kernels were launched and none was recorded."""
    if any(shape.kind in ("kernel", "graph") for shape in trace.shapes):
        return []
    launching = [launches_kernel(text) for text in trace.strings]
    launched = sum(launching[number] for number in trace.calls.name.tolist())
    if not launched:
        return []
    reason = f"the trace holds {count(launched, 'launch', 'launches')} and no kernel: the profiler recorded none"
    activities = "`activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]`"
    return [f"{reason}; record with {activities}, and without another profiler (nsys, ncu, proton) in the program"]


def _note_intel(trace: Trace) -> list[str]:
    """A note where an Intel GPU was used."""
    calls = (trace.strings[number] for number in distinct(trace.calls.name).tolist())
    found = next(filter(_INTEL_CALL.match, calls), None)
    if found is None:
        return []
    reason = f"the trace is of an Intel GPU (it calls {found}), which pytest-nsight does not support"
    unknown = "calls that wait for it, such as urQueueFinish, are not recognised, and idle time has wrong causes"
    return [f"{reason}: {unknown}; use the times of kernels and copies only"]


def _name_copy(shape: Shape) -> Shape:
    """The shape with the name that copies and sets have in every trace."""
    if shape.kind == "memset":
        return dataclasses.replace(shape, name="memset", full_name="memset")
    match = _COPY.match(shape.full_name)
    if shape.kind != "memcpy" or not match:
        return shape
    direction, source, target = match.groups()
    name = f"memcpy {direction}"
    return dataclasses.replace(shape, name=name, full_name=f"{name} ({source.lower()} to {target.lower()})")


def _read_epoch(document: object, first_us: int) -> int | None:
    """When the trace's time zero was, ns since 1970; None where the trace counts from an unknown moment."""
    base = document.get("baseTimeNanoseconds") if isinstance(document, dict) else None
    if isinstance(base, int) and base > 0:
        return base + 1000 * first_us
    return 1000 * first_us if first_us > _EARLIEST_US else None
