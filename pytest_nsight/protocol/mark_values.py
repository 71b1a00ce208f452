"""Readers of the values that mark arguments and settings take: text and numbers become typed values, or an error.

Each takes the name of the argument, which the error begins with, and the value; it raises UsageError.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from pytest_nsight.model.errors import UsageError
from pytest_nsight.model.json_text import shown
from pytest_nsight.model.roofline import read_amount
from pytest_nsight.model.values import METRICS

_DURATION = r"\s*(\d{1,15}(?:\.\d{1,15})?)\s*(ns|us|ms|s)\s*"
_LONGEST_REST_NS = 60_000_000_000
_WEEK_S = 604_800.0
_MOST = 1_000_000
"""Rounds, launches or ranks: a round takes a millisecond with its pause, and a session is no hour long."""


def parse_band(where: str, value: object) -> float:
    """Reads a band: "2%", "0.5 %" or a ratio such as 0.02.

    Raises:
        UsageError: not a percentage, or not between 0 and 100 %.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*(%?)\s*", str(value))
    ratio = float(match[1]) / (100 if match[2] else 1) if match else 1.0
    if not 0 < ratio < 1:
        raise UsageError(f"{where} is {value!r}; give a percentage such as 2%, or a ratio such as 0.02")
    return ratio


def parse_duration(where: str, value: object) -> int:
    """Reads a duration with a unit, such as "20ms" or "35.5 us", as ns.

    Raises:
        UsageError: no number with a unit of ns, us, ms or s.
    """
    units = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
    match = re.fullmatch(_DURATION, value) if isinstance(value, str) else None
    if not match:
        raise UsageError(f'{where} is {value!r}; give a duration with its unit, such as "20ms" or "35us"')
    return round(float(match[1]) * units[match[2]])


def parse_timeout(where: str, value: object) -> float:
    """Reads a time limit such as "90s", "10min" or "2h", as seconds.

    Raises:
        UsageError: no number with a unit of s, min or h, or not between a second and a week.
    """
    units = {"s": 1, "min": 60, "h": 3600}
    match = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*(s|min|h)\s*", value) if isinstance(value, str) else None
    seconds = float(match[1]) * units[match[2]] if match else 0.0
    if not 1 <= seconds <= _WEEK_S:
        raise UsageError(f'{where} is {value!r}; give a time such as "90s", "10min" or "2h", at least 1s')
    return seconds


def parse_rest(where: str, value: object) -> int:
    """A pause in ns, of at most a minute."""
    rest_ns = parse_duration(where, value)
    if rest_ns > _LONGEST_REST_NS:
        raise UsageError(f'{where} is {value!r}; give a pause of at most a minute, such as "20ms"')
    return rest_ns


def parse_time(where: str, value: object) -> int:
    """A time in ns that a kernel can keep, above 0."""
    time_ns = parse_duration(where, value)
    if not time_ns:
        raise UsageError(f"{where} is {value!r}, and no kernel is that fast; give a longer time")
    return time_ns


def parse_count(least: int) -> Callable[[str, Any], int]:
    """The reader of a whole number of at least `least`."""

    def parse(where: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _MOST:
            # repr() refuses numbers of thousands of digits.
            given = shown(value) if type(value) is int else repr(value)
            raise UsageError(f"{where} is {given}; give a whole number of at least {least}, at most {_MOST}")
        return value

    return parse


def parse_factor(where: str, value: Any) -> float:
    """A factor above 0, such as 1.2."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= _MOST:
        given = shown(value) if type(value) is int else repr(value)
        raise UsageError(f"{where} is {given}; give a factor such as 1.2, at most {_MOST}")
    return float(value)


def parse_text(where: str, value: Any) -> str:
    """A text that is not empty."""
    if not isinstance(value, str) or not value:
        raise UsageError(f"{where} is {value!r}; give the id of a parameter as a string")
    return value


def parse_switch(where: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        raise UsageError(f"{where} is {value!r}; give True or False")
    return value


def parse_metric(where: str, value: Any) -> str:
    """One of METRICS."""
    if value not in METRICS:
        raise UsageError(f"{where} is {value!r}; choose one of {', '.join(METRICS)}")
    return str(value)


def parse_amount(where: str, value: Any) -> int:
    """A number of bytes or operations."""
    try:
        return read_amount(where, value)
    except ValueError as error:
        raise UsageError(str(error)) from None


def parse_share(where: str, value: Any) -> float:
    """A share above 0 and up to 1, from a ratio or a percentage."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*(%?)\s*", "" if isinstance(value, bool) else str(value))
    ratio = float(match[1]) / (100 if match[2] else 1) if match else 0.0
    if not 0 < ratio <= 1:
        raise UsageError(f'{where} is {value!r}; give a share of the limit such as 0.9 or "90%", at most 1')
    return ratio


def parse_names(where: str, value: Any) -> tuple[str, ...]:
    """Kernel names, at least one: an empty list would claim nothing."""
    if not isinstance(value, (list, tuple)) or not value or not all(isinstance(name, str) for name in value):
        raise UsageError(f"{where} is {value!r}; give a list of kernel names")
    return tuple(value)
