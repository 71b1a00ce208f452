"""How numbers are written for people: durations, changes, p-values, counts. Values keep their units in names.

Everything here is ASCII, has no width of its own and rounds for reading only: never parse it back.
"""

from __future__ import annotations

import math

_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns"))

_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))


def duration(ns: float) -> str:
    """Three significant digits in the unit that fits: "850 ns", "24.4 us", "1.40 ms".

    Args:
        ns: duration in nanoseconds; may be negative or not finite.
    """
    if not math.isfinite(ns):
        return f"{ns} ns"
    scale, unit = _unit_of(ns)
    return f"{_significant(ns / scale)} {unit}"


def duration_pair(a_ns: float, b_ns: float) -> str:
    """Two durations in one unit, "24.4 -> 26.1 us", with more digits where three would not tell them apart.

    Durations that differ more than a thousandfold keep a unit each.

    Args:
        a_ns: the earlier duration in nanoseconds.
        b_ns: the later duration in nanoseconds.
    """
    larger, smaller = max(abs(a_ns), abs(b_ns)), min(abs(a_ns), abs(b_ns))
    if not math.isfinite(larger) or larger > 1000 * smaller:
        return f"{duration(a_ns)} -> {duration(b_ns)}"
    scale, unit = _unit_of(larger)
    for digits in (3, 4, 5):
        a, b = _significant(a_ns / scale, digits), _significant(b_ns / scale, digits)
        if a != b:
            break
    else:
        a, b = _significant(a_ns / scale), _significant(b_ns / scale)
    return f"{a} -> {b} {unit}"


def percent(ratio_minus_one: float, signed: bool = True) -> str:  # noqa: FBT001, FBT002 - reads well at the call
    """A relative change in percent: "+7.0 %", "+0.07 %", "-130 %"; unsigned drops a trailing ".0": "2 %".

    Args:
        ratio_minus_one: the change as a ratio, 0.07 for 7 %.
        signed: whether a plus is written; False for bands and detectable changes, which have no direction.
    """
    value = 100 * ratio_minus_one
    if not math.isfinite(value):
        return f"{value:+} %" if signed else f"{value} %"
    size = abs(value)
    decimals = 0 if round(size, 1) >= 100 else 1 if round(size, 2) >= 1 else 2
    text = f"{value:+.{decimals}f}" if signed else f"{value:.{decimals}f}"
    if float(text) == 0:
        return "0 %"
    if not signed and decimals:
        text = text.rstrip("0").rstrip(".")
    return f"{text} %"


def amount(number: float, unit: str) -> str:
    """Three significant digits with a decimal prefix: "4.19 TB/s", "790 TFLOP/s", "12 B".

    Args:
        number: how much, in `unit`; may be negative or not finite.
        unit: without prefix, "B/s" or "FLOP/s".
    """
    if not math.isfinite(number):
        return f"{number} {unit}"
    # 999.6 kB is "1.00 MB": the prefix is that of the rounded number.
    scale, prefix = next((step for step in _PREFIXES if abs(number) >= 0.9995 * step[0]), _PREFIXES[-1])
    text = f"{number:.0f}" if scale == 1 and number == round(number) else _significant(number / scale)
    return f"{text} {prefix}{unit}"


def count(number: int, one: str, many: str = "") -> str:
    """A number with its noun: "1 launch", "4 launches", "12,000 rounds".

    Args:
        number: how many.
        one: the noun for one.
        many: the noun for any other number; `one` with an "s" unless given.
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _unit_of(ns: float) -> tuple[float, str]:
    # 999.6 ns is "1.00 us": the unit is that of the rounded number.
    return next((unit for unit in _UNITS if abs(ns) >= 0.9995 * unit[0]), _UNITS[-1])


def _significant(value: float, digits: int = 3) -> str:
    if value == 0:
        return "0"
    magnitude = math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}"))))
    return f"{value:.{max(0, digits - 1 - magnitude)}f}"
