"""The report for a pull request's comment or a CI job's summary page, in GitHub's Markdown."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from pytest_nsight.model.units import count
from pytest_nsight.model.verdicts import SessionResult, Verdict
from pytest_nsight.report import rows as wording
from pytest_nsight.report.declared_work import limits_lines, work_rows

_HEADERS = ("verdict", "case", "baseline", "now", "change", "90 % interval")


def render(result: SessionResult, rows: int = 20) -> str:
    """The session as Markdown, newline at its end.

    Args:
        result: the finished session.
        rows: the most rows of the table, and the most sentences; a comment's length is limited.
    """
    verdicts = wording.worst_first(result.verdicts)
    failing = [verdict for verdict in verdicts if wording.fails(verdict, strict=result.strict)]
    sections = [
        [f"**{'failed' if failing else 'passed'}**, {_escape(wording.summary(result))}"],
        _table(verdicts[:rows]) if verdicts else [],
        _rest(verdicts[rows:]),
        *(_reason(verdict) for verdict in failing[:rows]),
        *_work(result),
        [f"- {_escape(note)}" for note in result.notes],
        _environment(result),
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines) + "\n"


def _table(verdicts: Iterable[Verdict]) -> list[str]:
    verdicts = list(verdicts)
    labels = wording.labels(verdicts)
    lines = [_row(_HEADERS), "|:--|:--|--:|--:|--:|--:|"]
    for verdict in verdicts:
        cells = wording.cells(verdict, labels[verdict.subject])
        name = f"{cells.verdict} (MDE {cells.mde})" if cells.mde else cells.verdict
        case = _code(cells.case).replace("|", "\\|")
        lines.append(_row((name, case, cells.baseline, cells.now, cells.change, cells.interval)))
    return lines


def _work(result: SessionResult) -> list[list[str]]:
    """The table of work, all rows of it: it is made to be copied into a project's documents."""
    rows = work_rows(result)
    if not rows:
        return []
    head, *body = rows
    table = [_row(head), f"|:--|{'--:|' * (len(head) - 1)}"]
    table += [_row((_code(row[0]).replace("|", "\\|"), *row[1:])) for row in body]
    summary = f"<details><summary>{count(len(body), 'case')} with declared work</summary>"
    return [[summary], [_escape(line) for line in limits_lines(result)], table, ["</details>"]]


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _rest(verdicts: Sequence[Verdict]) -> list[str]:
    kinds = Counter(verdict.kind.value for verdict in verdicts)
    if not kinds:
        return []
    if len(kinds) == 1:
        return [f"... and {len(verdicts)} more {next(iter(kinds))}"]
    return [f"... and {len(verdicts)} more: {', '.join(f'{number} {kind}' for kind, number in kinds.items())}"]


def _reason(verdict: Verdict) -> list[str]:
    details = wording.detail_lines(verdict)
    block = ["", "```text", *details, "```"] if details else []
    return [f"**{verdict.kind.value}** {_escape(wording.sentence(verdict))}", *block]


def _environment(result: SessionResult) -> list[str]:
    told = [f"- {_escape(name)}: {_escape(value)}" for name, value in sorted(result.environment.items())]
    saved = [f"- saved: {_code(path)}" for path in result.saved]
    head = f"<details><summary>{_escape_html(wording.setup(result))}</summary>"
    return [head, "", *told, *saved, "", "</details>"]


def _escape(text: str) -> str:
    # Kernel names are full of what Markdown takes for emphasis, HTML or links; a "_" inside a word is safe.
    return re.sub(r"([\\`*\[<~]|(?<![a-zA-Z0-9])_|_(?![a-zA-Z0-9]))", r"\\\1", text)


def _escape_html(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _code(text: str) -> str:
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {text} {fence}" if longest else f"`{text}`"
