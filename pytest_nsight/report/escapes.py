"""Foreign text made harmless for the place where it is shown.

Test ids, kernel names, values of the environment and sentences come from tests, traces and stored files. They may
hold anything: escape sequences, bidirectional marks, Markdown, HTML, workflow commands.
"""

from __future__ import annotations

import html
import re

_ZERO_WIDTH_SPACE = "&#8203;"


def visible(text: str) -> str:
    r"""The text with escapes in place of what has no glyph: controls, bidirectional marks, lone surrogates.

    Line ends and tabs become blanks, for what is shown is one line: "a\nb" is "a b", "\x1b[31m" is r"\x1b[31m".
    """
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else _visible_sign(sign) for sign in text)


def _visible_sign(sign: str) -> str:
    return " " if sign in "\n\r\t" else sign.encode("unicode_escape").decode("ascii")


def log_line(line: str) -> str:
    """A line of a log that no CI system takes for a command: a backslash stands before "::" and "[".

    GitHub's runner reads a command at a line's start, whatever blanks stand before it, and the older form anywhere.
    """
    return re.sub(r"^(\s*)::", r"\1\\::", line).replace("##[", "#\\#[")


def html_text(text: str) -> str:
    """Text for HTML's elements and quoted attributes."""
    return html.escape(visible(text), quote=True)


def markdown_text(text: str) -> str:
    """Text that Markdown shows as it is: no emphasis, links, HTML, mentions, formulas, headings or lists."""
    # Kernel names are full of what Markdown takes for emphasis, HTML or links; a "_" inside a word is safe.
    escaped = re.sub(r"&(?=#|\w)", "&amp;", visible(text))
    escaped = re.sub(r"([\\`*\[<~|$]|(?<![a-zA-Z0-9])_|_(?![a-zA-Z0-9]))", r"\\\1", escaped)
    escaped = re.sub(r"^(\s*)([#>+=-])", r"\1\\\2", escaped)
    escaped = re.sub(r"^(\s*\d+)([.)])", r"\1\\\2", escaped)
    return _without_links(escaped)


def markdown_summary(text: str) -> str:
    """Text for HTML's elements inside Markdown."""
    return _without_links(html_text(text))


def markdown_code(text: str, *, is_in_table: bool = False) -> str:
    """The text as code inside a line; only in a table does a backslash before "|" not show."""
    shown = visible(text).replace("|", "\\|") if is_in_table else visible(text)
    longest = max(map(len, re.findall("`+", shown)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {shown} {fence}" if longest else f"`{shown}`"


def markdown_block(lines: list[str]) -> list[str]:
    """The lines as a block of code that they cannot end."""
    shown = [visible(line) for line in lines]
    fence = "`" * max(3, *(1 + len(run) for line in shown for run in re.findall("`+", line)), 0)
    return [f"{fence}text", *shown, fence]


def _without_links(text: str) -> str:
    # The name of a test must neither notify people nor add links.
    text = re.sub(r"([@#])(?=\w)", rf"\1{_ZERO_WIDTH_SPACE}", re.sub(r"&#(\d+);", "\0\\1;", text)).replace(
        "\0", "&#"
    )
    # Neither does it draw a picture or name an issue.
    text = re.sub(r":(?=[\w+\\-]+:)", f":{_ZERO_WIDTH_SPACE}", text)
    text = re.sub(r"(?i)\b(GH-)(?=\d)", rf"\1{_ZERO_WIDTH_SPACE}", text)
    return re.sub(r"(?i)\bwww\.", "www&#46;", text.replace("://", "&#58;//"))
