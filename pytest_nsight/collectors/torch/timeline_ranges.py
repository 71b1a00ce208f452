"""What `show --perfetto` adds to the ranges of a trace: NVTX domains, and ranges that no thread owns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pytest_nsight.collectors.torch.event_checks import Event, is_time
from pytest_nsight.model.trace import ANY_THREAD

_CATEGORY = "user_annotation"
_DOMAIN = "NVTX domain"
"""No argument of a Python function has a blank in its name, and the profiler lists those of annotations."""


def read_domain(event: Event) -> str:
    """The NVTX domain of a range, "" for the default one and where the file says none.

    Args:
        event: as decoded from JSON, unchecked.
    """
    arguments = event.get("args")
    domain = arguments.get(_DOMAIN) if event.get("cat") == _CATEGORY and isinstance(arguments, Mapping) else None
    return domain if isinstance(domain, str) else ""


def join_halves(listed: Iterable[object]) -> list[Event]:
    """The ranges of no thread: each is an event where it begins and another one where it ends.

    Args:
        listed: all events, as decoded from JSON, unchecked.

    Returns:
        An event with a length for each of them. The length is None where the end is missing or has no time.
    """
    begun: list[dict[str, Any]] = []
    ends: dict[str, object] = {}
    for event in listed:
        if not isinstance(event, dict) or event.get("ph") not in ("b", "e") or event.get("cat") != _CATEGORY:
            continue
        if event["ph"] == "e":
            ends[_identify(event)] = event.get("ts")
        elif isinstance(event.get("args"), Mapping) and _DOMAIN in event["args"]:
            begun.append(event)
    return [
        {**event, "ph": "X", "tid": ANY_THREAD, "dur": _subtract(ends.get(_identify(event)), event.get("ts"))}
        for event in begun
    ]


def _identify(event: Event) -> str:
    # Of any type in a damaged file.
    return f"{event.get('pid')!r} {event.get('id')!r}"


def _subtract(end: object, start: object) -> float | None:
    """A length in us, rounded to the nanoseconds that the file resolves."""
    return round(end - start, 3) if is_time(end) and is_time(start) else None
