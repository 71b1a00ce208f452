"""Text in columns and in lines: aligned, and narrow enough."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_nsight.model.units import shorten

NO_BREAK = "\N{NO-BREAK SPACE}"

_GAP = "  "
_LEAST_OF_A_NAME = 6


_NO_TERMINAL = (120, 24)
"""Columns and lines where the output is no terminal and COLUMNS is not set."""


def terminal_width() -> int:
    """Columns of the terminal."""
    return shutil.get_terminal_size(_NO_TERMINAL).columns


def speaks_unicode(encoding: str | None) -> bool:
    """Whether a stream of this encoding takes arrows, lines and "±"."""
    return (encoding or "").lower().replace("-", "") == "utf8"


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
        columns: the texts of the first one are shortened until the lines fit; different ones stay different.
        width: the most characters a line may have.
        ellipsis: what stands for text left out.
    """
    first, *others = columns
    room = min(first.width, max(_narrowest(first), width - taken(others)))
    short = shorten_all(first.cells, room, ellipsis)
    shortened = [short[cell] for cell in first.cells]
    fitted = [Column(first.header, shortened, first.is_number), *others]
    widths = [room, *(column.width for column in others)]
    rows = zip(*((column.header, *column.cells) for column in fitted), strict=True)
    return [_line(row, fitted, widths) for row in rows]


def taken(columns: Sequence[Column]) -> int:
    """What columns after the first take of a line's width, gaps included."""
    return sum(column.width + len(_GAP) for column in columns)


def shorten_name(text: str, width: int, ellipsis: str) -> str:
    """A test's name in `width` characters at most, its parameters whole where there is room for them."""
    head = width - len(ellipsis) - len(text) + text.find("[")
    if len(text) <= width or "[" not in text or head < _LEAST_OF_A_NAME:
        return shorten(text, width, ellipsis)
    return text[:head] + ellipsis + text[text.find("[") :]


def shorten_all(texts: Iterable[str], width: int, ellipsis: str) -> dict[str, str]:
    """Each test's name, shortened so that no two of them look alike.

    Where the middle is what distinguishes them, that is what stays; where nothing does, they are numbered.
    """
    short = {text: shorten_name(text, width, ellipsis) for text in texts}
    for alike in _groups(short):
        shared = _shared_length(alike)
        short.update({text: _from(text, shared, width, ellipsis) for text in alike})
    for number, text in enumerate((text for alike in _groups(short) for text in alike), 1):
        tag = f"{ellipsis}#{number}"
        short[text] = text[: max(1, width - len(tag))] + tag
    return short


def bind(text: str) -> str:
    """The text with no-break spaces between a number and its unit, around arrows, and in "block 128"."""
    bound = re.sub(r"(?<=\d) (?=(%|[num]?s|[kMGTP]?(B|FLOP)(/s)?)(\W|$))", NO_BREAK, text)
    bound = re.sub(r"((?<=\bgrid)|(?<=\bblock)) (?=\d)", NO_BREAK, bound)
    return re.sub(r"(?<=[\w%]) (->|\N{RIGHTWARDS ARROW}) (?=\d)", rf"{NO_BREAK}\1{NO_BREAK}", bound)


def wrap(text: str, width: int, indent: str = "") -> list[str]:
    """The text in lines, the later ones indented by four more; what `bind` binds stays together."""
    # textwrap breaks at no space but the ASCII one.
    lines = textwrap.wrap(
        bind(text),
        width,
        initial_indent=indent,
        subsequent_indent=indent + "    ",
        break_on_hyphens=False,
        # A path or a command in two pieces cannot be copied.
        break_long_words=False,
    )
    return [line.replace(NO_BREAK, " ") for line in lines]


def _groups(short: dict[str, str]) -> list[list[str]]:
    """The texts that look alike when shortened, each group in a list."""
    groups: dict[str, list[str]] = {}
    for text, shown in short.items():
        groups.setdefault(shown, []).append(text)
    return [group for group in groups.values() if len(group) > 1]


def _shared_length(texts: Sequence[str]) -> int:
    """How many signs all texts begin with."""
    columns = zip(*texts, strict=False)
    return next((place for place, signs in enumerate(columns) if len(set(signs)) > 1), min(map(len, texts)))


def _from(text: str, shared: int, width: int, ellipsis: str) -> str:
    """The text's beginning and what follows the first `shared` signs."""
    head = max(1, width // 4)
    rest = text[max(head, shared - 2) :]
    room = width - head - len(ellipsis)
    return text[:head] + ellipsis + (rest if len(rest) <= room else rest[: room - len(ellipsis)] + ellipsis)


def _narrowest(column: Column) -> int:
    return max(len(column.header), 12)


def _line(row: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    texts = (
        text.rjust(width) if column.is_number else text.ljust(width)
        for text, column, width in zip(row, columns, widths, strict=True)
    )
    return _GAP.join(texts).rstrip()
