"""The rounds of one case in the HTML report, run by run, with a key of what is drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pytest_nsight.judge.location import typical_ns
from pytest_nsight.model.comparison import Comparison, RunLevel
from pytest_nsight.model.units import duration, short_commit
from pytest_nsight.model.values import RunSummary
from pytest_nsight.model.verdicts import Verdict
from pytest_nsight.report.escapes import html_text
from pytest_nsight.report.svg_strip import StripRun, strip
from pytest_nsight.report.verdict_text import gated_metric

_LEVELS = {
    True: "the mean of the middle half of its rounds",
    False: "the 10th percentile of its rounds, since on a shared CPU the fast rounds say what the code takes",
}


def name_time(metric: str, noun: str) -> str:
    """What the page calls a duration: "kernel time", which is "operator time" on a CPU.

    Args:
        metric: the duration.
        noun: what the session has measured: "kernel" or "operator".
    """
    return f"{noun if metric == 'kernel' else metric} time"


def render_rounds(verdict: Verdict, baseline: Sequence[RunSummary], new: Sequence[RunSummary], noun: str) -> str:
    """The rounds run by run with a key, as HTML; "" where none are known.

    Args:
        verdict: on the runs.
        baseline: the stored runs. A report may lack them; it then draws the levels that the verdict holds.
        new: those of this session.
        noun: what the session has measured: "kernel" or "operator".
    """
    compared = verdict.comparison
    metric = gated_metric(verdict)
    levels = {level.run: level for level in compared.basis.runs} if compared and compared.basis else {}
    stored = sorted(baseline, key=lambda run: run.recorded)
    shown = [] if stored else [_strip_of_level(level) for level in levels.values() if not level.is_new]
    runs = [(run, is_new) for group, is_new in ((stored, False), (new, True)) for run in group]
    shown += [
        _strip_of_run(run, metric, levels.get(run.run), is_new=is_new)
        for run, is_new in runs
        if run.rounds.get(metric)
    ]
    plot = strip(
        shown, compared.baseline_ns if compared else None, max(compared.effective_band, 0.0) if compared else 0.0
    )
    on_gpu = any(run.ran_on_gpu for run in new)
    name = name_time(metric, noun)
    title = html_text(name[:1].upper() + name[1:])
    explained = _explain_rounds(shown, compared, _LEVELS[on_gpu])
    return f"<h3>{title}, round by round</h3>{plot}{explained}" if plot else ""


def _explain_rounds(runs: Sequence[StripRun], compared: Comparison | None, level: str) -> str:
    """The key of what the plot shows, and of nothing else."""
    colours = [
        *([("old", "baseline")] if any(not run.is_new for run in runs) else []),
        *([("new", "this session")] if any(run.is_new for run in runs) else []),
        *([("band", "band around the baseline")] if compared else []),
    ]
    key = "".join(f'<span><i class="{name}"></i>{what}</span>' for name, what in colours)
    said = f"A dot is a round. The bar through its dots is the time of a run: {level}."
    if compared:
        said += " The long line is the baseline."
    if not all(run.is_compared for run in runs):
        said += " Pale runs do not count."
    return f'<p class="soft key">{key}</p><p class="soft">{said}</p>'


def _strip_of_run(run: RunSummary, metric: str, level: RunLevel | None, *, is_new: bool) -> StripRun:
    ns = math.exp(level.log_ns) if level else typical_ns([run], metric)
    commit = f"commit {run.commit or 'unknown'}"
    reason = f", {run.reason}" if run.reason else ""
    return StripRun(
        title=f"{run.run}: {duration(ns)}, {run.board}, {commit}, {run.recorded}{reason}",
        group="this session" if is_new else f"{run.recorded[:10]} {short_commit(run.commit)}",
        is_new=is_new,
        is_compared=level is None or level.is_compared,
        rounds_ns=run.rounds[metric],
        level_ns=ns,
    )


def _strip_of_level(level: RunLevel) -> StripRun:
    """A stored run whose rounds the report does not have."""
    ns = math.exp(level.log_ns)
    return StripRun(
        title=f"{level.run}: {duration(ns)}, {level.board}",
        group=level.session,
        is_new=level.is_new,
        is_compared=level.is_compared,
        rounds_ns=(),
        level_ns=ns,
    )
