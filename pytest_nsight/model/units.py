"""How numbers are written for people: durations, changes, p-values, counts.

Everything here is ASCII, has no width of its own and rounds for reading only: never parse it back.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns"))

_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))

_COMMIT_DIGITS = 7
_LONGEST_CASE = 120
"""Most characters of a case's name in a sentence: a parameter's id may have thousands."""


def duration(ns: float) -> str:
    """Three significant digits in the unit that fits: "850 ns", "24.4 us", "1.40 ms".

    Args:
        ns: duration in nanoseconds; may be negative or not finite.
    """
    if not math.isfinite(ns):
        return f"{ns} ns"
    scale, unit = _unit_of(ns)
    return f"{_significant(ns / scale)} {unit}"


def durations(*each_ns: float, joined_by: str = " -> ") -> str:
    """Durations in one unit, "24.4 -> 26.1 us", with more digits where three would not distinguish them.

    Durations that differ more than a thousandfold keep a unit each.

    Args:
        each_ns: durations in nanoseconds, one or more.
        joined_by: what stands between two of them.
    """
    sizes = [abs(ns) for ns in each_ns]
    if not math.isfinite(max(sizes)) or max(sizes) > 1000 * min(sizes):
        return joined_by.join(duration(ns) for ns in each_ns)
    scale, unit = _unit_of(max(sizes))
    by_digits = [[_significant(ns / scale, digits) for ns in each_ns] for digits in (3, 4, 5)]
    texts = next((texts for texts in by_digits if len(set(texts)) == len(set(each_ns))), by_digits[0])
    return f"{joined_by.join(texts)} {unit}"


def percent(change: float, *, signed: bool = True, error: float | None = None) -> str:
    """A relative change in percent: "+7.0 %", "+0.07 %", "-130 %"; unsigned drops a trailing ".0": "2 %".

    With an error it ends at the decimal place of the error's second digit, or at 0.01 %: "+1194 %" where the error
    is 20 %, "-0.7 %" where it is 1.9 %. So value, error and the ends of an interval have the same decimal places.

    Args:
        change: the change as a ratio, 0.07 for 7 %.
        signed: whether a plus is written; False for bands and detectable changes, which have no direction.
        error: half the width of its interval as a ratio, None where none is known.
    """
    value = 100 * change
    if not math.isfinite(value):
        return f"{value:+} %" if signed else f"{value} %"
    size = abs(value)
    if size >= 1e6:
        return f"{value:+.3g} %" if signed else f"{value:.3g} %"
    if error is not None and math.isfinite(100 * error):
        return _to_place_of(value, 100 * error, signed=signed)
    decimals = 0 if round(size, 1) >= 100 else 1 if round(size, 2) >= 1 else 2
    text = f"{value:+.{decimals}f}" if signed else f"{value:.{decimals}f}"
    if float(text) == 0:
        return "0 %"
    if not signed and decimals:
        text = text.rstrip("0").rstrip(".")
    return f"{text} %"


def interval(low: float, high: float) -> str:
    """An interval of relative changes, both ends to one decimal place: "-0.20 to +0.40 %".

    Args:
        low: lower end as a ratio, -0.002 for -0.2 %.
        high: upper end, likewise.
    """
    half = (high - low) / 2
    return f"{percent(low, error=half).removesuffix(' %')} to {percent(high, error=half)}"


def percent_of_log(difference: float) -> str:
    """A difference of log times as a signed percentage: "+7.0 %"."""
    return percent(_change_of(difference))


def interval_of_logs(low: float, high: float) -> str:
    """An interval of differences of log times: "-0.20 to +0.40 %"."""
    return interval(_change_of(low), _change_of(high))


def p_value(probability: float | None) -> str:
    """A p-value with one or two digits: "p 2e-6", "p 0.03"; "not tested" where there is none."""
    if probability is None:
        return "not tested"
    if probability >= 0.001:
        return f"p {probability:.2g}"
    if probability < 1e-99:
        return "p <1e-99"
    digits, exponent = f"{probability:.0e}".split("e")
    return f"p {digits}e{int(exponent)}"


def number(value: float) -> str:
    """Three significant digits, or all before the point: "4132", "81.2", "0.00412", "<0.001".

    Args:
        value: at least 0.
    """
    if value and value < 1e-3:
        return "<0.001"
    return f"{value:.0f}" if value >= 99.95 or not value else f"{value:#.3g}"


def amount(how_much: float, unit: str) -> str:
    """Three significant digits with a decimal prefix: "4.19 TB/s", "790 TFLOP/s", "12 B".

    Args:
        how_much: in `unit`; may be negative or not finite.
        unit: without prefix, "B/s" or "FLOP/s".
    """
    if not math.isfinite(how_much):
        return f"{how_much} {unit}"
    # 999.6 kB is "1.00 MB": the prefix is that of the rounded number.
    scale, prefix = next((step for step in _PREFIXES if abs(how_much) >= 0.9995 * step[0]), _PREFIXES[-1])
    text = f"{how_much:.0f}" if scale == 1 and how_much == round(how_much) else _significant(how_much / scale)
    return f"{text} {prefix}{unit}"


def count(how_many: int, one: str, many: str = "") -> str:
    """A number with its noun: "1 launch", "4 launches", "12,000 rounds".

    Args:
        how_many: of them.
        one: the noun for one.
        many: the noun for any other number; by the rules of English unless given.
    """
    return f"{how_many:,} {one if how_many == 1 else many or _plural(one)}"


def name_some(texts: Iterable[str], most: int = 10, separator: str = ", ") -> str:
    """The first texts in a sentence, and how many more there are: "a, b and 3 more".

    Args:
        texts: what is listed, the most important first.
        most: how many of them to show.
        separator: between them; one with a semicolon stands before "and", too.
    """
    known = tuple(texts)
    shown = separator.join(known[:most])
    if len(known) <= most:
        return shown
    return f"{shown}{'; ' if ';' in separator else ' '}and {len(known) - most} more"


def name_cases(cases: Iterable[str], most: int = 3) -> str:
    """The first cases in a sentence, each name with its middle left out where it is long, and how many more.

    Args:
        cases: their names or node ids, the most important first.
        most: how many of them to show.
    """
    return name_some((shorten(case, _LONGEST_CASE, "...") for case in cases), most)


def short_commit(commit: str) -> str:
    """The commit as people read it; the "+" of a tree with uncommitted changes stays."""
    return commit.removesuffix("+")[:_COMMIT_DIGITS] + ("+" if commit.endswith("+") else "")


def shorten(text: str, width: int, ellipsis: str) -> str:
    """The text with its middle left out, so that it has `width` characters at most.

    The end keeps more than the beginning: that is where the parameters of a test stand.
    """
    if len(text) <= width:
        return text
    room = max(width - len(ellipsis), 2)
    head = room * 2 // 5
    return text[:head] + ellipsis + text[len(text) - (room - head) :]


def _plural(noun: str) -> str:
    if noun.endswith(("ch", "s", "x")):
        return f"{noun}es"
    return f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2:-1] not in "aeiou" else f"{noun}s"


def _to_place_of(value: float, error: float, *, signed: bool) -> str:
    # Of 9.96 the second digit is the point's left neighbour: it is rounded to 10.
    size = float(f"{abs(error):.1e}")
    decimals = 2 if not size else min(2, max(0, 1 - math.floor(math.log10(size))))
    text = f"{value:+.{decimals}f}" if signed else f"{value:.{decimals}f}"
    return f"{text if float(text) else f'{0:.{decimals}f}'} %"


def _change_of(difference: float) -> float:
    # Beyond that, exp has no finite result.
    return math.expm1(min(difference, 700.0))


def _unit_of(ns: float) -> tuple[float, str]:
    # 999.6 ns is "1.00 us": the unit is that of the rounded number.
    return next((unit for unit in _UNITS if abs(ns) >= 0.9995 * unit[0]), _UNITS[-1])


def _significant(value: float, digits: int = 3) -> str:
    if value == 0:
        return "0"
    magnitude = math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}"))))
    return f"{value:.{max(0, digits - 1 - magnitude)}f}"
