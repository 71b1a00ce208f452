"""Text in columns: aligned, and narrow enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_GAP = "  "


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    Attributes:
        header: its title.
        cells: its text, one a row.
        is_number: whether it is aligned to the right.
    """

    header: str
    cells: Sequence[str]
    is_number: bool = True

    @property
    def width(self) -> int:
        """The width of its widest text."""
        return max(map(len, (self.header, *self.cells)))


def align(columns: Sequence[Column], width: int, ellipsis: str) -> list[str]:
    """The lines of a table, header first; no line has blanks at its end.

    Args:
        columns: the first one gives way, its texts shortened in the middle, until the lines fit.
        width: the most characters a line may have.
        ellipsis: what stands for text left out.
    """
    first, *others = columns
    room = min(first.width, max(_narrowest(first), width - taken(others)))
    shortened = [shorten(cell, room, ellipsis) for cell in first.cells]
    fitted = [Column(first.header, shortened, first.is_number), *others]
    widths = [room, *(column.width for column in others)]
    rows = zip(*((column.header, *column.cells) for column in fitted), strict=True)
    return [_line(row, fitted, widths) for row in rows]


def taken(columns: Sequence[Column]) -> int:
    """What columns after the first take of a line's width, gaps included."""
    return sum(column.width + len(_GAP) for column in columns)


def shorten(text: str, width: int, ellipsis: str) -> str:
    """The text with its middle left out, so that it has `width` characters at most.

    The end keeps more than the beginning: that is where the parameters of a test stand.
    """
    if len(text) <= width:
        return text
    room = max(width - len(ellipsis), 2)
    head = room * 2 // 5
    return text[:head] + ellipsis + text[len(text) - (room - head) :]


def _narrowest(column: Column) -> int:
    return max(len(column.header), 12)


def _line(row: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    texts = (
        text.rjust(width) if column.is_number else text.ljust(width)
        for text, column, width in zip(row, columns, widths, strict=True)
    )
    return _GAP.join(texts).rstrip()
