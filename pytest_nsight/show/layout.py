"""Tables that fit a width, and how names, sizes and rates are written in them."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from pytest_nsight.model.units import count, duration, number
from pytest_nsight.report.table import Column, align, taken

NARROWEST, WIDEST = 40, 160
ELLIPSIS = ".."
_NAME_WIDTH = 24

_OPERATOR_WORDS = (
    ("Kernel", "Operator"),
    ("kernel", "operator"),
    ("kernels", "operators"),
    ("Launches", "Operators"),
    ("launch", "call"),
    ("launches", "calls"),
)

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Section:
    """A table under a title.

    Attributes:
        title: one sentence.
        names: the first column.
        groups: the other columns in groups. Where not all fit beside the names, each group makes a table, with the
            same names.
        footnote: a sentence below the table, "" for none.
        keeps_names: whether a name that is too long for its column has a line of its own above its row, of any
            length, in place of being shortened.
    """

    title: str
    names: Column
    groups: Sequence[Sequence[Column]]
    footnote: str = ""
    keeps_names: bool = False

    def of_operators(self) -> Section:
        """The section in the words for operators of a CPU; names and numbers stay."""
        return Section(
            _speak_of_operators(self.title),
            _rename(self.names),
            [[_rename(column) for column in group] for group in self.groups],
            _speak_of_operators(self.footnote),
            self.keeps_names,
        )

    def render(self, width: int) -> str:
        """The section as text, no newline at its end.

        Args:
            width: the most characters that a line may have.
        """
        whole = [column for group in self.groups for column in group]
        fits = min(self.names.width, _NAME_WIDTH) + taken(whole) <= width
        groups = [whole] if fits else [group for group in self.groups if group]
        tables = [self._draw(group, width) for group in groups]
        lines = [
            *wrap(printable(self.title), width),
            *"\n\n".join(tables).splitlines(),
            *wrap(self.footnote, width),
        ]
        return "\n".join(lines)

    def _draw(self, group: Sequence[Column], width: int) -> str:
        """The names and a group of columns."""
        if not self.keeps_names:
            return _rule_off(align([self.names, *group], width, ELLIPSIS))
        names = self.names.cells
        is_long = [len(name) > max(width - taken(group), len(self.names.header)) for name in names]
        short = ["" if long else name for name, long in zip(names, is_long, strict=True)]
        header, rule, *rows = _rule_off(align([replace(self.names, cells=short), *group], width, ELLIPSIS)).split(
            "\n"
        )
        lines = [f"{name}\n{row}" if long else row for name, row, long in zip(names, rows, is_long, strict=True)]
        return "\n".join([header, rule, *lines])


def _rename(column: Column) -> Column:
    return replace(column, header=_speak_of_operators(column.header))


def _speak_of_operators(text: str) -> str:
    for word, other in _OPERATOR_WORDS:
        text = re.sub(rf"\b{word}\b", other, text)
    return text


def limit(rows: Sequence[Row], top: int, join: Callable[[Sequence[Row], str], Row]) -> list[Row]:
    """The first rows, and one row that sums up all others.

    Args:
        rows: in order.
        top: how many rows stay.
        join: makes one row of several and their name, "7 others".
    """
    left_out = rows[top:]
    return [*rows[:top], *([join(left_out, count(len(left_out), "other"))] if left_out else ())]


def wrap(text: str, width: int) -> list[str]:
    """The lines of a sentence, none for an empty one."""
    return textwrap.wrap(text, width, break_on_hyphens=False)


def printable(text: str) -> str:
    """A name of the traced program without what would move the cursor or colour the terminal."""
    return "".join(sign if sign.isprintable() else "?" for sign in text)


def column(header: str, cells: Sequence[str], *, is_number: bool = True) -> Column:
    """One column, without control characters."""
    return Column(header, [printable(cell) for cell in cells], is_number)


def time(ns: float | None) -> str:
    """A duration; "-" for none."""
    return duration(ns) if ns else "-"


def share(ratio: float) -> str:
    """A ratio in percent with one decimal."""
    return f"{100 * ratio:.1f} %"


def bandwidth(size: float, duration_ns: float) -> str:
    """Bytes over time in GB/s; "-" where there is no time."""
    return number(size / duration_ns) if duration_ns else "-"


def _rule_off(lines: Sequence[str]) -> str:
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])
