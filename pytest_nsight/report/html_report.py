"""The session as one HTML page that needs nothing else: no network, no other file, and no script to be read.

Plots are SVG. The script only filters, searches and takes keys; the page's policy lets nothing but that script run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pytest_nsight.model.units import count
from pytest_nsight.model.values import RunSummary, Subject
from pytest_nsight.model.verdicts import SessionResult
from pytest_nsight.report.declared_work import limits_lines, reach_of, work_rows
from pytest_nsight.report.escapes import html_text
from pytest_nsight.report.html_case import PageCase, kind_class, render_case
from pytest_nsight.report.html_page import render_page, search_bar, table
from pytest_nsight.report.next_steps import plan_next_steps
from pytest_nsight.report.session_text import SessionOutcome, launch_noun, machine_name, outcome, setup, summary
from pytest_nsight.report.shared_reasons import group_by_reason, state_reason, state_wider_bands
from pytest_nsight.report.svg_plots import ForestRow, RooflinePoint, forest, roofline
from pytest_nsight.report.verdict_text import fails, labels, worst_first

_MOST_ROWS = 40
_TITLES = {"kernel": "Performance of GPU kernels", "operator": "Performance of CPU operators"}
_HIGHEST_RATE = 1e24
_OUTCOME_CLASSES = {
    SessionOutcome.FAILED: "failed",
    SessionOutcome.NOT_JUDGED: "open",
    SessionOutcome.PASSED: "passed",
}


def render(result: SessionResult) -> str:
    """The whole page."""
    cases = _page_cases(result)
    anchors = {case.verdict.subject: case.anchor for case in cases}
    noun = launch_noun(result)
    came_to = outcome(result)
    is_open = came_to is SessionOutcome.NOT_JUDGED
    sections = [
        _why_not_judged(cases) if is_open else "",
        _next_steps(result),
        "" if is_open else _list_not_judged(cases),
        _changes(cases, result),
        search_bar(Counter(case.verdict.kind.value for case in cases), f"cases and {noun}s"),
        "".join(render_case(case, result, anchors, is_open=is_open) for case in cases),
        _work(result),
        _roofline(cases, result),
        _environment(result),
    ]
    header = f"""<h1>{_TITLES[noun]}: <span class="outcome {_OUTCOME_CLASSES[came_to]}">{came_to.value}</span></h1>
<p>{html_text(summary(result))}</p>
<p class="soft">{html_text(setup(result))}, recorded {html_text(result.recorded)}</p>
{"".join(f"<p>Note: {html_text(note)}</p>" for note in result.notes)}"""
    title = f"{came_to.value}: {machine_name(result)}, nsight {result.session}"
    return render_page(title, header, "".join(sections))


def _page_cases(result: SessionResult) -> list[PageCase]:
    """The cases of the page, worst first."""
    verdicts = worst_first(result.verdicts)
    named = labels(one.subject for one in verdicts)
    runs, stored = result.runs_by_subject, _by_subject(result.baseline_runs)
    return [
        PageCase(verdict, named[subject], f"case-{place}", runs.get(subject, ()), stored.get(subject, ()))
        for place, verdict in enumerate(verdicts, 1)
        for subject in (verdict.subject,)
    ]


def _why_not_judged(cases: list[PageCase]) -> str:
    """Why nothing is known of any case, one line for each reason; a reason ends with what to do."""
    why = _list_reasons(cases) or "<p>No case was measured; the notes above say why.</p>"
    return (
        "<h2>What to do</h2><p>No case was shown slower, faster or equal, so this session says nothing about the "
        f"code.</p>{why}"
    )


def _list_not_judged(cases: list[PageCase]) -> str:
    """Why some cases were not judged while others were. The page folds those cases below."""
    reasons = _list_reasons([case for case in cases if kind_class(case.verdict, strict=False) == "warn"])
    return f"<h2>Not judged</h2>{reasons}" if reasons else ""


def _list_reasons(cases: list[PageCase]) -> str:
    named = {case.verdict.subject: case.label for case in cases}
    lines = [
        f'<li><span class="kind warn">{kind.value}</span> {html_text(state_reason(group, named))}</li>'
        for (kind, _), group in group_by_reason([case.verdict for case in cases]).items()
    ]
    return f"<ul>{''.join(lines)}</ul>" if lines else ""


def _next_steps(result: SessionResult) -> str:
    failing = [verdict for verdict in worst_first(result.verdicts) if fails(verdict, strict=result.strict)]
    steps = plan_next_steps(failing, result)
    if steps is None:
        return ""
    origin = html_text(steps.origin)
    compared = "its commit" if steps.is_against_commit else "the stored runs"
    accept, check = ("\n".join(map(html_text, command.splitlines())) for command in (steps.accept, steps.check))
    machine = {"kernel": "GPU", "operator": "CPU"}[launch_noun(result)]
    caution = f"<p>{html_text(steps.caution)}</p>" if steps.caution else ""
    return (
        f"<h2>What to do</h2><p>The baseline: {origin}.</p><p>To accept these changes, save them on "
        f"a machine with this {machine}, and commit the baselines with them:</p>"
        f"<pre>{accept}</pre>{caution}<p>To check again, against {compared}:</p><pre>{check}</pre>"
    )


def _changes(cases: list[PageCase], result: SessionResult) -> str:
    rows = []
    for case in cases:
        compared = case.verdict.comparison
        if compared is not None:
            kind = kind_class(case.verdict, strict=result.strict)
            change, low, high = compared.ratio - 1, compared.low - 1, compared.high - 1
            rows.append(
                ForestRow(case.label, case.anchor, kind, change, low, high, max(compared.effective_band, 0.0))
            )
    if not rows:
        return ""
    named = {case.verdict.subject: case.label for case in cases}
    wider = state_wider_bands([case.verdict for case in cases], named)
    bands = "".join(f'<p class="soft">{html_text(line[:1].upper() + line[1:])}.</p>' for line in wider)
    rest = rows[_MOST_ROWS:]
    more = f"<details><summary>{count(len(rest), 'more case')}</summary>{forest(rest)}</details>" if rest else ""
    return (
        '<h2>Changes</h2><p class="soft">Change of each compared case with its 90 % interval; the band, within '
        f"which a change does not count, is shaded. Half the time is as far to the left as twice the time to the "
        f"right.</p>{bands}{forest(rows[:_MOST_ROWS])}{more}"
    )


def _work(result: SessionResult) -> str:
    rows = work_rows(result)
    if not rows:
        return ""
    limits = "".join(f'<p class="soft">{html_text(line)}</p>' for line in limits_lines(result))
    return f"<h2>Declared work</h2>{limits}{table(rows[0], rows[1:])}"


def _roofline(cases: list[PageCase], result: SessionResult) -> str:
    limits = [
        limit for limit in result.limits.values() if _is_rate(limit.bytes_per_s) and _is_rate(limit.flops_per_s)
    ]
    points = []
    for case in cases:
        reach = reach_of(case.verdict, result)
        if reach is not None and reach.flops_per_s and _is_rate(reach.flops_per_s) and reach.work.bytes_moved > 0:
            intensity = reach.work.flops / reach.work.bytes_moved
            points.append(RooflinePoint(case.label, case.anchor, intensity, reach.flops_per_s))
    if not limits or not points:
        return ""
    best = max(limits, key=lambda limit: limit.bytes_per_s or 0.0)
    return f"<h2>Roofline</h2>{roofline(points, best.bytes_per_s or 1.0, best.flops_per_s or 1.0)}"


def _is_rate(value: float | None) -> bool:
    """Whether a logarithmic axis has a place for it."""
    return value is not None and 1.0 <= value < _HIGHEST_RATE


def _environment(result: SessionResult) -> str:
    rows = [*sorted(result.environment.items()), *(("saved", path) for path in result.saved)]
    return "<h2>Environment</h2>" + table(("name", "value"), rows, numbers_from=2) if rows else ""


def _by_subject(runs: Sequence[RunSummary]) -> dict[Subject, list[RunSummary]]:
    found: dict[Subject, list[RunSummary]] = {}
    for run in runs:
        found.setdefault(run.subject, []).append(run)
    return found
