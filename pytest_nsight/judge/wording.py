"""How numbers and names are written in sentences."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from pytest_nsight.model.values import Shape, ShapeSpread
from pytest_nsight.model.verdicts import ShapeChange

_UNITS = (("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9))
_MOST_NAMES = 8


def write_durations(*durations_ns: float, joined_by: str = " -> ") -> str:
    """Return durations in one common unit, three digits: "24.4 -> 26.1 us"."""
    smallest = min(durations_ns)
    unit, factor = next(((u, f) for u, f in reversed(_UNITS) if smallest >= f), _UNITS[0])
    return joined_by.join(_write_digits(duration / factor) for duration in durations_ns) + f" {unit}"


def _write_digits(value: float) -> str:
    if not value > 0 or not math.isfinite(value):
        return f"{value:g}"
    return f"{value:.{min(2, max(0, 2 - math.floor(math.log10(value))))}f}"


def write_change(difference: float) -> str:
    """Return a difference of log times as a signed percentage: "+7.0 %"."""
    return _write_signed_percent(math.expm1(min(difference, 700.0)))


def write_interval(low: float, high: float) -> str:
    """Return an interval of differences of log times: "90 % CI -0.2 to +0.4 %"."""
    return f"90 % CI {write_change(low).removesuffix(' %')} to {write_change(high)}"


def _write_signed_percent(ratio: float) -> str:
    percent = 100 * ratio
    if abs(percent) < 0.05:
        percent = 0.0
    if abs(percent) < 1000:
        return f"{percent:+.1f} %"
    return f"{float(f'{percent:.3g}'):+.0f} %" if percent < 1e6 else f"{percent:+.3g} %"


def write_percent(ratio: float) -> str:
    """Return a ratio as a percentage of at most three digits: "2 %", "2.5 %"."""
    return f"{100 * ratio:.3g} %"


def write_p(p_value: float) -> str:
    """Return a p-value with one or two digits: "p 2e-6", "p 0.03"."""
    if p_value >= 0.001:
        return f"p {p_value:.2g}"
    if p_value < 1e-99:
        return "p <1e-99"
    digits, exponent = f"{p_value:.0e}".split("e")
    return f"p {digits}e{int(exponent)}"


def write_count(count: int, noun: str) -> str:
    """Return a count with its noun: "1 launch", "6 launches"."""
    plural = f"{noun}es" if noun.endswith("ch") else f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count} {noun if count == 1 else plural}"


def write_names(names: Iterable[str]) -> str:
    """Return names in order, repeats as "mul (x2)", at most 8 of them."""
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    told = [name if count == 1 else f"{name} (x{count})" for name, count in counts.items()]
    more = len(told) - _MOST_NAMES
    return ", ".join(told[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def write_diff(changes: Sequence[ShapeChange]) -> str:
    """Return both sides of a structure difference: "- 1 launch: rms_norm   + 1 copy: memcpy DtoH"."""
    sides = []
    for sign, direction in (("-", 1), ("+", -1)):
        names: dict[str, list[str]] = {}
        for change in changes:
            count = max(0, direction * (change.before - change.now))
            if count:
                names.setdefault(_noun(change.shape), []).extend([change.shape.name] * count)
        sides += [f"{sign} {write_count(len(told), noun)}: {write_names(told)}" for noun, told in names.items()]
    return "   ".join(sides)


def _noun(shape: Shape) -> str:
    return {"memcpy": "copy", "memset": "memory set"}.get(shape.kind, "launch")


def write_spreads(spreads: Sequence[ShapeSpread]) -> str:
    """Return what is not launched equally often everywhere: "add 1 to 2, mm in 2 launch shapes"."""
    by_name: dict[str, list[ShapeSpread]] = {}
    for spread in spreads:
        by_name.setdefault(spread.shape.name, []).append(spread)
    return write_names(
        f"{name} {own[0].least} to {own[0].most}" if len(own) == 1 else f"{name} in {len(own)} launch shapes"
        for name, own in by_name.items()
    )


def write_shapes(changes: Sequence[ShapeChange]) -> str:
    """Return both sides of a difference in launch shapes alone: "mm grid 8x1x1 block 64x1x1 -> ..."."""
    before = [_write_shape(change.shape) for change in changes if change.before > change.now]
    now = [_write_shape(change.shape) for change in changes if change.now > change.before]
    return f"{write_names(before)} -> {write_names(now)}"


def _write_shape(shape: Shape) -> str:
    grid, block = ("x".join(map(str, size)) for size in (shape.grid, shape.block))
    return f"{shape.name} grid {grid} block {block}"
