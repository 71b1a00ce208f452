"""One case in the HTML report: verdict, changes, rounds run by run, kernels, numbers behind the verdict, runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_nsight.judge.location import typical_ns
from pytest_nsight.model.comparison import Comparison
from pytest_nsight.model.units import count, duration, durations, interval, number, p_value, percent
from pytest_nsight.model.values import Clocks, RunSummary, Subject
from pytest_nsight.model.verdicts import SessionResult, Verdict, VerdictKind
from pytest_nsight.report.declared_work import reach_of, reach_sentence
from pytest_nsight.report.escapes import html_text
from pytest_nsight.report.html_page import table
from pytest_nsight.report.html_rounds import name_time, render_rounds
from pytest_nsight.report.session_text import launch_noun
from pytest_nsight.report.svg_plots import Bar, bars
from pytest_nsight.report.svg_timeline import describe_round, timeline, timeline_key
from pytest_nsight.report.verdict_text import (
    arrows,
    cells,
    describe_metrics,
    detail_lines,
    fails,
    gated_metric,
    reason_above_details,
    shape_text,
    shown_ns,
)

_MOST_KERNELS = 12
_BOARD = 12
_CLOCKS = ("SM clock", "power", "temperature", "throttled")


@dataclass(frozen=True, slots=True)
class PageCase:
    """A verdict and its place on the page.

    Attributes:
        verdict: on the case.
        label: its name, unique on the page.
        anchor: id of its element.
        runs: its new runs.
        baseline_runs: what they are compared with.
    """

    verdict: Verdict
    label: str
    anchor: str
    runs: Sequence[RunSummary]
    baseline_runs: Sequence[RunSummary]


def kind_class(verdict: Verdict, *, strict: bool) -> str:
    """The class of the style sheet for the verdict: bad, warn, good or calm."""
    if fails(verdict, strict=strict):
        return "bad"
    if verdict.kind.fails_strict:
        return "warn"
    return "good" if verdict.kind is VerdictKind.IMPROVEMENT else "calm"


def render_case(
    case: PageCase, result: SessionResult, anchors: Mapping[Subject, str], *, is_open: bool = False
) -> str:
    """The case as an element that unfolds, without any script.

    Args:
        case: what it shows.
        result: the session.
        anchors: subject -> id of its element.
        is_open: whether it is unfolded though it does not fail.
    """
    verdict = case.verdict
    row = cells(verdict, case.label)
    runs = case.runs
    text = " ".join([verdict.kind.value, case.label, *(use.shape.name for run in runs[-1:] for use in run.shapes)])
    name = kind_class(verdict, strict=result.strict)
    unfolded = ' open=""' if is_open or fails(verdict, strict=result.strict) else ""
    sections = [
        f'<p class="reason">{html_text(arrows(reason_above_details(verdict)))}</p>',
        _changes(verdict),
        render_rounds(verdict, case.baseline_runs, case.runs, launch_noun(result)),
        _timeline(case, result),
        _metrics(case, result),
        _kernels(runs, case.baseline_runs, launch_noun(result)),
        _numbers(verdict, result, anchors),
        _runs(runs, gated_metric(verdict)),
    ]
    return (
        f'<details class="subject" id="{case.anchor}" data-kind="{verdict.kind.value}" '
        f'data-text="{html_text(text.lower())}"{unfolded}>'
        f'<summary><span class="kind {name}">{verdict.kind.value}</span>'
        f'<span class="case">{html_text(case.label)}</span>'
        f'<span class="number">{html_text(arrows(row.pair))}</span>'
        f'<span class="number">{html_text(row.change)}</span></summary>'
        f"<div>{''.join(sections)}</div></details>\n"
    )


def _changes(verdict: Verdict) -> str:
    if verdict.changes:
        rows = [(shape_text(change.shape), str(change.before), str(change.now)) for change in verdict.changes]
        return "<h3>What is launched</h3>" + table(("launch", "baseline", "now"), rows)
    details = [arrows(line) for line in detail_lines(verdict)]
    return (
        f"<pre>{html_text(details[0])}{''.join(chr(10) + html_text(line) for line in details[1:])}</pre>"
        if details
        else ""
    )


def _timeline(case: PageCase, result: SessionResult) -> str:
    subject = case.verdict.subject
    round_ = None if subject.part else result.timelines.get(subject.case)
    noun = launch_noun(result)
    plot = timeline(round_, noun) if round_ is not None else ""
    if round_ is None or not plot:
        return ""
    described = html_text(describe_round(round_, noun))
    return f'<h3>Timeline</h3><p class="soft">{described}</p>{plot}{timeline_key(round_, noun)}'


def _metrics(case: PageCase, result: SessionResult) -> str:
    subject = case.verdict.subject
    means = None if subject.part else result.metrics.get(subject.case)
    return f"<p>GPU metrics: {html_text(describe_metrics(means))}.</p>" if means is not None else ""


def _kernels(runs: Sequence[RunSummary], stored: Sequence[RunSummary], noun: str) -> str:
    if not runs:
        return ""
    now, before = _by_name(runs[-1]), _by_name(stored[-1]) if stored else {}
    ordered = sorted(now, key=lambda name: -now[name][1])
    rows = [
        Bar(
            name,
            before[name][1] if name in before else None,
            now[name][1],
            f"{now[name][0]} x, {duration(now[name][1])}",
        )
        for name in ordered[:_MOST_KERNELS]
    ]
    plot = bars(rows, f"Time of each {noun} in a round, baseline and now")
    more = (
        f'<p class="soft">and {count(len(ordered) - _MOST_KERNELS, "other")}</p>'
        if len(ordered) > _MOST_KERNELS
        else ""
    )
    above = (
        "; above them, in grey, those of the newest stored run" if any(name in before for name in ordered) else ""
    )
    said = f'<p class="soft">Medians over the rounds of the newest run{above}.</p>'
    return f"<h3>{noun.capitalize()}s of a round</h3>{said}{plot}{more}" if plot else ""


def _by_name(run: RunSummary) -> dict[str, tuple[int, int]]:
    """Name -> launches and time in ns of a round."""
    found: dict[str, tuple[int, int]] = {}
    for use in run.shapes:
        launches, ns = found.get(use.shape.name, (0, 0))
        found[use.shape.name] = (launches + use.count, ns + use.median_ns)
    return found


def _numbers(verdict: Verdict, result: SessionResult, anchors: Mapping[Subject, str]) -> str:
    reach = reach_of(verdict, result)
    rows = _comparison_rows(verdict.comparison, launch_noun(result)) if verdict.comparison else []
    if reach is not None:
        rows.append(("declared work", reach_sentence(reach)))
    partner = Subject(result.partners.get(verdict.subject.case, ""))
    link = ""
    if not verdict.subject.part and partner in anchors:
        other = next(one for one in result.verdicts if one.subject == partner)
        own_ns, other_ns = shown_ns(verdict), shown_ns(other)
        factor = f", which takes {number(other_ns / own_ns)} times as long" if own_ns and other_ns else ""
        link = f'<p>Claims to beat <a href="#{anchors[partner]}">{html_text(partner.label)}</a>{factor}.</p>'
    return link + ("<h3>Comparison</h3>" + table(("number", "value"), rows, numbers_from=2) if rows else "")


def _comparison_rows(compared: Comparison, noun: str) -> list[tuple[str, str]]:
    change = percent(compared.ratio - 1, error=compared.half_width)
    tests = (("slowdown", compared.adjusted_p_slower), ("speed-up", compared.adjusted_p_faster))
    rows = [
        (name_time(compared.metric, noun), durations(compared.baseline_ns, compared.now_ns, joined_by=" → ")),
        ("change", f"{change}, 90 % interval {interval(compared.low - 1, compared.high - 1)}"),
        ("band", _describe_band(compared)),
        ("smallest slowdown found", f"{percent(compared.mde, signed=False)}, in 95 % of such checks"),
        *(
            (f"test of a {what}", f"{p_value(adjusted)}, adjusted for the number of cases")
            for what, adjusted in tests
            if adjusted is not None
        ),
        ("runs", f"{compared.baseline_runs} of the baseline, {compared.new_runs} new"),
    ]
    if compared.against:
        rows.append(("against", compared.against))
    return rows


def _describe_band(compared: Comparison) -> str:
    """The band that judged, and the one that was asked for where that is narrower."""
    asked, judged = (percent(band, signed=False) for band in (compared.band, compared.effective_band))
    return judged if asked == judged else f"{judged} (instead of {asked})"


def _runs(runs: Sequence[RunSummary], metric: str) -> str:
    if not runs:
        return ""
    rows = [("run", "board", "commit", "rounds", "time", *_CLOCKS), *(_run_row(run, metric) for run in runs)]
    # A CPU has no clocks to show, nor has a GPU without NVML.
    kept = [place for place, cells in enumerate(zip(*rows[1:], strict=True)) if any(cells)]
    head, *body = [[row[place] for place in kept] for row in rows]
    return "<h3>New runs</h3>" + table(head, body, numbers_from=head.index("rounds"))


def _run_row(run: RunSummary, metric: str) -> tuple[str, ...]:
    rounds, clocks = run.rounds.get(metric, ()), run.clocks
    time = duration(typical_ns([run], metric)) if rounds else ""
    return (
        run.run,
        run.board[:_BOARD] if run.ran_on_gpu else run.board,
        run.commit[:12],
        str(len(rounds)),
        time,
        *_clock_cells(clocks),
    )


def _clock_cells(clocks: Clocks) -> tuple[str, str, str, str]:
    return (
        "" if clocks.sm_mhz is None else f"{clocks.sm_mhz} MHz",
        "" if clocks.power_w is None else f"{clocks.power_w:.0f} W",
        "" if clocks.temperature_c is None else f"{clocks.temperature_c} °C",
        ""
        if not clocks.throttled
        else f"{percent(clocks.throttled, signed=False)} {', '.join(clocks.reasons)}".strip(),
    )
