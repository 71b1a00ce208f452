"""The improvement table as text, Markdown, JSON or CSV."""

from __future__ import annotations

import csv
import dataclasses
import enum
import io
import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence

from pytest_nsight.compare.changes import Change, Changes, Group, Quantity
from pytest_nsight.model.units import amount, duration, percent
from pytest_nsight.model.verdicts import VerdictKind
from pytest_nsight.report.escapes import markdown_code, markdown_text, visible
from pytest_nsight.report.table import Column, align

_TITLES: Mapping[Group, str] = {
    Group.WHOLE: "Whole recording",
    Group.CASE: "Cases",
    Group.STATE: "Share of the wall time",
    Group.RANGE: "Device time of a range",
    Group.CATEGORY: "Kernel time by category",
    Group.KERNEL: "Kernels",
}
_OPERATOR_TITLES: Mapping[Group, str] = {
    **_TITLES,
    Group.RANGE: "Operator time of a range",
    Group.CATEGORY: "Operator time by category",
    Group.KERNEL: "Operators",
}
_HEADERS = ("metric", "baseline", "optimized", "change", "interval", "verdict")
_NAMED = (Group.CASE, Group.RANGE, Group.KERNEL)
"""What programs and tests have named: Markdown shows such names as code, whatever they hold."""
_NARROWEST = 80
FORMAT = 1


def render_text(changes: Changes, width: int, top: int) -> str:
    """The table for a terminal, one part for each group.

    Args:
        changes: the comparison.
        width: the most characters that a line may have; below 80 it counts as 80.
        top: how many rows each group has.
    """
    width = max(width, _NARROWEST)
    texts = [f"baseline:  {visible(changes.before)}\noptimized: {visible(changes.after)}"]
    for group, rows in _by_group(changes):
        cells = [_cells(row) for row in rows[:top]]
        columns = [
            Column(header, [row[number] for row in cells], is_number=0 < number < len(_HEADERS) - 1)
            for number, header in enumerate(_HEADERS)
        ]
        used = [column for column in columns if any(column.cells)]
        left_out = [f"{len(rows) - top} more rows, which a larger --top shows"] if len(rows) > top else []
        texts.append("\n".join([_titles(changes)[group], *align(used, width, ".."), *left_out]))
    sentences = [*changes.notes, *(f"{kind.value} {text}" for kind, text in _failing(changes))]
    texts += ["\n".join(line for text in sentences for line in textwrap.wrap(visible(text), width))]
    return "\n\n".join(filter(None, texts))


def render_markdown(changes: Changes, top: int) -> str:
    """The table as GitHub shows it, one part for each group."""
    lines = [f"Baseline {markdown_code(changes.before)}, optimized {markdown_code(changes.after)}"]
    for group, rows in _by_group(changes):
        lines += [
            "",
            f"### {_titles(changes)[group]}",
            "",
            "| Metric | Baseline | Optimized | Change | Interval | Verdict |",
        ]
        lines.append("|---|---:|---:|---:|---:|---|")
        lines += [f"| {' | '.join(_markdown_cells(row))} |" for row in rows[:top]]
    lines += ["", *(f"- {markdown_text(text)}" for text in changes.notes)] if changes.notes else []
    failing = [f"- **{kind.value}** {markdown_text(text)}" for kind, text in _failing(changes)]
    lines += ["", *failing] if failing else []
    return "\n".join(lines)


def render_json(changes: Changes) -> str:
    """Everything, as one JSON object; times in ns, ratios as ratios."""
    return json.dumps({"format": FORMAT, **dataclasses.asdict(changes)}, indent=1, default=_plain)


def render_csv(changes: Changes) -> str:
    """One line for each row, with a header; times in ns, ratios as ratios."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in dataclasses.fields(Change)], lineterminator="\n")
    writer.writeheader()
    for row in changes.rows:
        writer.writerow({name: _plain(value) for name, value in dataclasses.asdict(row).items()})
    return text.getvalue().rstrip("\n")


def _failing(changes: Changes) -> Iterator[tuple[VerdictKind, str]]:
    return zip(changes.failing, changes.regressions, strict=True)


def _titles(changes: Changes) -> Mapping[Group, str]:
    return _OPERATOR_TITLES if changes.of_operators else _TITLES


def _by_group(changes: Changes) -> list[tuple[Group, Sequence[Change]]]:
    grouped = [(group, [row for row in changes.rows if row.group is group]) for group in Group]
    return [(group, rows) for group, rows in grouped if rows]


def _cells(row: Change) -> tuple[str, ...]:
    change = percent(row.ratio - 1) if row.ratio is not None else _describe_missing(row)
    interval = f"{percent(row.low - 1)} to {percent(row.high - 1)}" if row.low and row.high else ""
    numbers = (_number(row.before, row.quantity), _number(row.after, row.quantity))
    return (visible(row.name), *numbers, change, interval, row.verdict)


def _markdown_cells(row: Change) -> tuple[str, ...]:
    name, *rest = _cells(row)
    return (markdown_code(name, is_in_table=True) if row.group in _NAMED else markdown_text(name), *rest)


def _describe_missing(row: Change) -> str:
    if row.before is None:
        return "new" if row.after is not None else ""
    return "gone" if row.after is None else ""


def _number(value: float | None, quantity: Quantity) -> str:
    if value is None:
        return "-"
    if quantity is Quantity.TIME:
        return duration(value)
    if quantity is Quantity.SHARE:
        return f"{100 * value:.1f} %"
    return amount(value, "B/s") if quantity is Quantity.RATE else f"{value:,.0f}"


def _plain(value: object) -> object:
    return value.value if isinstance(value, enum.Enum) else value
