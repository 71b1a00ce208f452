"""Events of torch.profiler, checked before any is used: they may come from elsewhere."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeGuard

from pytest_nsight.model.units import count
from pytest_nsight.recorders.torch.written_json import PREFIX

AGAIN = "export it again with `profiler.export_chrome_trace(path)`"

Event = Mapping[str, Any]
"""One event of a Chrome trace, as JSON is decoded."""

_LATEST_US = 2.0**52
"""142 years; later microseconds could not be counted in nanoseconds of 64 bits."""

_ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
_LARGEST = 2**62
_LARGEST_SMALL = 2**31
_PLACES = ("pid", "tid")
_MOST_SHOWN = 60
_MOST_DIGITS = 18
"""Every number of so many digits fits in 64 bits."""


def mend_events(events: Sequence[Event]) -> tuple[list[Event], list[str]]:
    """The events that can be used, and notes on those that Kineto wrote wrongly.

    A length below zero and one that is missing count as none. What ran on a device at time 0 for no time has lost
    its times.

    Args:
        events: decoded JSON, unchecked but for their categories.
    """
    kept = [event for event in events if not _is_timeless(event)]
    notes = []
    if lost := len(events) - len(kept):
        what = count(lost, "kernel, copy or set has", "kernels, copies or sets have")
        notes.append(
            f"{what} the time 0 and no length, a known fault of the profiler (pytorch/kineto#109); left out"
        )
    is_negative = [is_time(event.get("dur")) and event["dur"] < 0 for event in kept]
    if wrong := sum(is_negative):
        what = count(wrong, "event ends before it starts; its", "events end before they start; their")
        notes.append(f"{what} length counts as 0")
        kept = [{**event, "dur": 0} if bad else event for event, bad in zip(kept, is_negative, strict=True)]
    lacking = [event for event in kept if "dur" not in event]
    if lacking:
        what = count(len(lacking), "event has no length (dur), the", "events have no length (dur), such as the")
        # What ran on a device says more than the operator that launched it.
        one = max(lacking, key=lambda event: event["cat"] in _ON_DEVICE)
        named = f"{what} {one['cat']} {str(one.get('name', ''))[:_MOST_SHOWN]}"
        notes.append(f"{named}; it counts as 0, and times are too small; {AGAIN}")
        kept = [{"dur": 0, **event} for event in kept]
    return kept, notes


def number_places(events: list[Event]) -> tuple[list[Event], tuple[str, ...]]:
    """The events with numbers for processes and threads that have names, as merged ranks do, and the names.

    Args:
        events: decoded JSON, unchecked but for their categories.

    Returns:
        The events, and the names of processes in order of their numbers, which no other process or thread has.

    Raises:
        ValueError: a process or a thread is neither a number nor a text; it says which event, and which value.
    """
    kinds = {type(event[field]) for field in _PLACES for event in events if field in event}
    if kinds <= {int}:
        return events, ()
    if wrong := kinds - {int, str}:
        where = (
            (number, field, event[field])
            for number, event in enumerate(events)
            for field in _PLACES
            if field in event
        )
        number, field, value = next(found for found in where if type(found[2]) in wrong)
        raise ValueError(
            f"in event {number}, {field} is {str(value)[:_MOST_SHOWN]!r}, neither a whole number nor a text"
        )
    used = {event[field] for field in _PLACES for event in events if field in event}
    free = (number for number in itertools.count(1) if number not in used)
    numbers: dict[str, dict[str, int]] = {field: {} for field in _PLACES}
    named: list[Event] = []
    for event in events:
        given = {field: event[field] for field in _PLACES if isinstance(event.get(field), str)}
        for field, name in given.items():
            if name not in numbers[field]:
                numbers[field][name] = next(free)
        named.append({**event, **{field: numbers[field][name] for field, name in given.items()}})
    return named, tuple(numbers["pid"])


def _is_timeless(event: Event) -> bool:
    # Not "==" alone: False is 0, and what is no number is reported later.
    return event["cat"] in _ON_DEVICE and _is_zero(event.get("ts")) and _is_zero(event.get("dur", 0))


def _is_zero(value: object) -> bool:
    return type(value) in (int, float) and value == 0


def check_events(events: object) -> None:
    """Makes sure that decoded JSON is what `events.build_trace` takes.

    Args:
        events: decoded JSON.

    Raises:
        ValueError: it is not; the text says which event, and which value.
    """
    if not isinstance(events, list):
        raise ValueError(f"it holds a {type(events).__name__}, not a list of events")  # noqa: TRY004 - a bad file
    for number, event in enumerate(events):
        if not isinstance(event, dict):
            raise ValueError(f"event {number} is a {type(event).__name__}, not an object")  # noqa: TRY004
        wrong = _find_wrong(event)
        if wrong is not None:
            raise ValueError(f"in event {number}, {wrong[0]} is {str(wrong[1])[:_MOST_SHOWN]!r}")


def _find_wrong(event: Event) -> tuple[str, object] | None:
    """A field that cannot be used, and its value; None if all can."""
    for name, is_right in _NEEDED.items():
        if not is_right(event.get(name)):
            return name, event.get(name)
    if event["cat"] in _ON_DEVICE and "dur" not in event:
        return "dur", None
    for name, is_right in _OPTIONAL.items():
        if name in event and not is_right(event[name]):
            return name, event[name]
    arguments = event.get("args", {})
    for name, is_right in _ARGUMENTS.items():
        if name in arguments and not is_right(arguments[name]):
            return name, arguments[name]
    return None if _has_payload(event) else ("name", event["name"])


def _has_payload(event: Event) -> bool:
    """Whether a range of ours has a number that identifies it; true of all other events."""
    if event["cat"] != "user_annotation" or not event["name"].startswith(PREFIX):
        return True
    payload = event["name"][len(PREFIX) :].partition(":")[0]
    return payload.isascii() and payload.isdigit() and len(payload) <= _MOST_DIGITS


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def is_time(value: object) -> TypeGuard[float]:
    """Whether a value is a time in us, or a length, that can be counted in nanoseconds."""
    # Not isinstance: booleans are integers to Python. No comparison holds for what is not a number.
    return type(value) in (int, float) and abs(value) < _LATEST_US  # type: ignore[arg-type]


def _is_duration(value: object) -> bool:
    return is_time(value) and value >= 0


def _is_integer(value: object) -> bool:
    return type(value) is int and abs(value) < _LARGEST


def _is_small(value: object) -> bool:
    return type(value) is int and abs(value) < _LARGEST_SMALL


def _is_count(value: object) -> bool:
    return _is_integer(value) and value >= 0  # type: ignore[operator]


def _is_triple(value: object) -> bool:
    return isinstance(value, list) and len(value) == 3 and all(map(_is_count, value))


_Check = Callable[[object], bool]

_NEEDED: Mapping[str, _Check] = {"cat": _is_text, "name": _is_text, "ts": is_time}
_OPTIONAL: Mapping[str, _Check] = {
    "dur": _is_duration,
    "pid": _is_integer,
    "tid": _is_integer,
    "args": lambda value: isinstance(value, dict),
}
_ARGUMENTS: Mapping[str, _Check] = {
    "device": _is_small,
    "stream": _is_integer,
    "correlation": _is_integer,
    "bytes": _is_count,
    "registers per thread": _is_count,
    "shared memory": _is_count,
    "grid": _is_triple,
    "block": _is_triple,
}
