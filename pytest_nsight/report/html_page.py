"""What every HTML page has: head, style, script and policy; the search; tables of plain text.

A page is one file that needs no network. Its script only filters, searches and takes keys, and its policy lets
nothing but that script run.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files

from pytest_nsight.report.escapes import html_text


def render_page(title: str, header: str, main: str) -> str:
    """The whole page.

    Args:
        title: of the browser's window; plain text.
        header: HTML at its top.
        main: HTML of all the rest.
    """
    style, script = _resource("html_report.css"), _resource("html_report.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html_text(title)}</title>
<style>{style}</style>
</head>
<body>
<header>
{header}
</header>
<main>
{main}
</main>
<footer>Written by pytest-nsight. Where scripts run: / searches, j and k go to the next and the previous case,
Enter opens it, e opens all.</footer>
<script>{script}</script>
</body>
</html>
"""


def search_bar(kinds: Mapping[str, int], searched: str) -> str:
    """The heading of the cases, the field that searches them and a button for each kind of case.

    Args:
        kinds: `data-kind` of the cases -> how many there are.
        searched: what the field looks in: "cases and kernels".
    """
    buttons = "".join(
        f'<button type="button" data-kind="{kind}" aria-pressed="false">{kind} {how_many}</button>'
        for kind, how_many in kinds.items()
    )
    return (
        '<h2>Cases</h2><div class="tools" role="search">'
        f'<input id="search" type="search" placeholder="{searched}" aria-label="Search {searched}">'
        f'{buttons}<span id="shown" class="soft" aria-live="polite"></span></div>'
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, numbers_from: int = 1) -> str:
    """A table of plain texts; columns from `numbers_from` on are aligned to the right. "" without rows."""
    body = [[html_text(cell) for cell in row] for row in rows]
    if not body:
        return ""

    def line(texts: Sequence[str], tag: str) -> str:
        classes = ["" if place < numbers_from else ' class="number"' for place in range(len(texts))]
        return "".join(f"<{tag}{name}>{text}</{tag}>" for name, text in zip(classes, texts, strict=True))

    lines = "".join(f"<tr>{line(row, 'td')}</tr>" for row in body)
    titles = line([html_text(title) for title in head], "th")
    return f'<div class="scroll"><table><thead><tr>{titles}</tr></thead><tbody>{lines}</tbody></table></div>'


def _resource(name: str) -> str:
    return files("pytest_nsight.report").joinpath(name).read_text(encoding="utf-8").strip()
