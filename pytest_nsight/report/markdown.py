"""The report for a pull request's comment or a CI job's summary page, in GitHub's Markdown.

Its first line is a marker that nobody sees: by it, a job finds the comment of the last push and replaces it. Where
nothing moved, one line is seen and the rest is folded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from pytest_nsight.model.units import count
from pytest_nsight.model.values import Subject
from pytest_nsight.model.verdicts import SessionResult, Verdict, VerdictKind
from pytest_nsight.report.declared_work import limits_lines, work_rows
from pytest_nsight.report.escapes import markdown_block, markdown_code, markdown_summary, markdown_text
from pytest_nsight.report.next_steps import plan_next_steps
from pytest_nsight.report.session_text import launch_noun, machine_name, outcome, setup, summary
from pytest_nsight.report.shared_reasons import group_by_reason, name_group
from pytest_nsight.report.table import NO_BREAK, bind
from pytest_nsight.report.verdict_text import (
    MDE_LEGEND,
    arrows,
    cells,
    detail_lines,
    fails,
    labels,
    reason_above_details,
    worst_first,
)

MARKER = "<!-- pytest-nsight"
"""What the report begins with; the machine's name follows, for each machine has a comment of its own."""

LONGEST = 65_536
"""GitHub refuses longer comments."""

_HEADERS = ("verdict", "case", "baseline → now", "change", "90 % interval")
_EXPLAINED = (
    VerdictKind.ENVIRONMENT,
    VerdictKind.INCONCLUSIVE,
    VerdictKind.NO_BASELINE,
    VerdictKind.NOT_SAVED,
)
_UNMOVED = (VerdictKind.UNCHANGED, VerdictKind.IDENTICAL, VerdictKind.SAVED, VerdictKind.MEASURED)
_LONGEST_REASON = 2_000
_PATH = re.compile(r" \([^()]*[/\\][^()]*\)")


def render(result: SessionResult, rows: int = 20) -> str:
    """The session as Markdown, newline at its end, at most LONGEST bytes of UTF-8.

    Args:
        result: the finished session.
        rows: the most rows of a table, and the most reasons; fewer where the report would become too long.
    """
    for most in (rows, rows // 2, rows // 4, 1):
        for has_work in (True, False):
            text = _render(result, most, has_work=has_work)
            if len(text.encode("utf-8", "backslashreplace")) <= LONGEST:
                return text
    return f"{_marker(result)}\n{_headline(result)}; the rest is too long for a comment\n"


def _render(result: SessionResult, rows: int, *, has_work: bool) -> str:
    verdicts = worst_first(result.verdicts)
    moved = [one for one in verdicts if _has_moved(one)]
    others = [one for one in verdicts if not _has_moved(one)]
    failing = [verdict for verdict in moved if fails(verdict, strict=result.strict)]
    named = labels(one.subject for one in verdicts)
    work = _work(result) if has_work else []
    notes = [[f"- {markdown_text(note)}" for note in result.notes]]
    unmoved = [_table(others[:rows], named), _rest(others[rows:])]
    folded = [
        *_folded(count(len(others), "other case"), unmoved),
        *work,
        *_affected(result, rows),
        *_folded(_setup(result), [_environment(result)]),
    ]
    if not moved:
        inside = [*unmoved, *notes, *work, *_affected(result, rows), _environment(result)]
        folded = _folded(_setup(result), inside)
        notes = []
    sections = [
        [_marker(result), _headline(result)],
        _table(moved[:rows], named),
        _rest(moved[rows:]),
        [f"{MDE_LEGEND}."] if any(cells(verdict, "").mde for verdict in moved[:rows]) else [],
        *_reasons([one for one in moved if one in failing or _is_explained(one)], named)[:rows],
        *_next_steps(failing, result),
        *notes,
        *folded,
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines) + "\n"


def _has_moved(verdict: Verdict) -> bool:
    return verdict.kind not in _UNMOVED or verdict.saves_other_launches


def _is_explained(verdict: Verdict) -> bool:
    return verdict.kind in _EXPLAINED or verdict.saves_other_launches


def _marker(result: SessionResult) -> str:
    return f"{MARKER}: {re.sub('[^A-Za-z0-9 ._]', '', machine_name(result))} -->"


def _headline(result: SessionResult) -> str:
    return f"**{outcome(result).value}**, {markdown_text(summary(result))}"


def _table(verdicts: Sequence[Verdict], named: dict[Subject, str]) -> list[str]:
    if not verdicts:
        return []
    lines = [_row(map(_bound, _HEADERS)), "|:--|:--|--:|--:|--:|"]
    for verdict in verdicts:
        row = cells(verdict, named[verdict.subject])
        name = f"{row.verdict} (MDE {row.mde})" if row.mde else row.verdict
        numbers = map(_bound, (arrows(row.pair), row.change, row.interval))
        lines.append(_row((name, markdown_code(row.case, is_in_table=True), *numbers)))
    return lines


def _bound(text: str) -> str:
    """The text of a cell that stays in one line, however narrow the table is."""
    return text.replace(" ", NO_BREAK)


def _work(result: SessionResult) -> list[list[str]]:
    """The table of work, all rows of it: it is made to be copied into a project's documents."""
    rows = work_rows(result)
    if not rows:
        return []
    head, *body = rows
    table = [_row(map(_bound, head)), f"|:--|{'--:|' * (len(head) - 1)}"]
    table += [_row((markdown_code(row[0], is_in_table=True), *(_bound(text) for text in row[1:]))) for row in body]
    return _folded(f"{count(len(body), 'case')} with declared work", [_escaped(limits_lines(result)), table])


def _affected(result: SessionResult, rows: int) -> list[list[str]]:
    """Why each case is measured, and which ones are not."""
    chosen = result.affected
    if chosen is None:
        return []
    measured = [
        _row((markdown_code(case, is_in_table=True), markdown_text(cause))) for case, cause in chosen.causes.items()
    ]
    table = [_row(("case", "affected by")), "|:--|:--|", *measured[:rows]] if measured else []
    left_out = [f"- NOT_AFFECTED {markdown_code(case)}" for case in chosen.left_out[:rows]]
    more = [count(len(cases) - rows, "more case") for cases in (measured, chosen.left_out) if len(cases) > rows]
    title = f"affected since {markdown_summary(chosen.since)}: {len(measured)} of "
    total = count(len(measured) + len(chosen.left_out), "case")
    return _folded(title + total, [table, left_out, [f"... and {', '.join(more)}"] if more else []])


def _folded(title: str, sections: Iterable[list[str]]) -> list[list[str]]:
    inside = [lines for lines in sections if lines]
    return [[f"<details><summary>{title}</summary>"], *inside, ["</details>"]] if inside else []


def _row(texts: Iterable[str]) -> str:
    return f"| {' | '.join(texts)} |"


def _rest(verdicts: Sequence[Verdict]) -> list[str]:
    if not verdicts:
        return []
    kinds = list(dict.fromkeys(verdict.kind.value for verdict in verdicts))
    if len(kinds) == 1:
        return [f"... and {len(verdicts)} more {kinds[0]}"]
    numbers = {kind: sum(verdict.kind.value == kind for verdict in verdicts) for kind in kinds}
    return [f"... and {len(verdicts)} more: {', '.join(f'{number} {kind}' for kind, number in numbers.items())}"]


def _reasons(verdicts: Sequence[Verdict], named: dict[Subject, str]) -> list[list[str]]:
    """A section for each reason, whoever has it, and what changed below it."""
    coded = {subject: markdown_code(label) for subject, label in named.items()}
    sections = []
    for (kind, _), group in group_by_reason(verdicts).items():
        text = bind(markdown_text(arrows(reason_above_details(group[0]))[:_LONGEST_REASON]))
        lines = [f"**{kind.value}** {name_group(group, coded)}: {text}"]
        for details in filter(None, map(detail_lines, group)):
            lines += ["", *markdown_block(list(map(arrows, details)))]
        sections.append(lines)
    return sections


def _next_steps(failing: Sequence[Verdict], result: SessionResult) -> list[list[str]]:
    steps = plan_next_steps(failing, result)
    if steps is None:
        return []
    compared = "the commit of the baseline" if steps.is_against_commit else "the stored runs"
    machine = {"kernel": "GPU", "operator": "CPU"}[launch_noun(result)]
    return [
        [f"The baseline: {markdown_text(steps.origin)}."],
        [f"To accept these changes, save them on a machine with this {machine}, and commit the baselines:"],
        markdown_block(steps.accept.splitlines()),
        *([[steps.caution]] if steps.caution else []),
        [f"To check again, against {compared}:", "", *markdown_block(steps.check.splitlines())],
    ]


def _setup(result: SessionResult) -> str:
    """The way of measuring, without the folders that the collector's name gives: a comment is public."""
    return markdown_summary(_PATH.sub("", setup(result)))


def _environment(result: SessionResult) -> list[str]:
    """What `_setup`, which stands above it, does not say; the names of one product once."""
    values = {name: value for name, value in sorted(result.environment.items()) if name != "collector"}
    if values.get("device") in (values.get("gpu"), values.get("cpu")):
        values.pop("device", None)
    lines = _escaped(f"{name}: {value}" for name, value in values.items())
    return [*lines, *(f"- saved: {markdown_code(path)}" for path in result.saved)]


def _escaped(texts: Iterable[str]) -> list[str]:
    return [f"- {markdown_text(text)}" for text in texts]
