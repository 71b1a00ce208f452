"""The session as pytest-benchmark's JSON, so that its `compare` and the dashboards that read it work.

Times under `stats` are the gated duration in seconds; all that is ours is under `extra_info["nsight"]`.

Source of the names and definitions of the statistics: `pytest_benchmark.stats.Stats` of version 5.3.
"""

from __future__ import annotations

import dataclasses
import json
import math
import statistics
from collections.abc import Mapping, Sequence

from pytest_nsight.judge.environment_checks import is_disturbed
from pytest_nsight.judge.location import has_one_level, typical_ns
from pytest_nsight.model.comparison import Comparison
from pytest_nsight.model.values import RunSummary
from pytest_nsight.model.verdicts import SessionResult, Verdict
from pytest_nsight.report.declared_work import launches, reach_of
from pytest_nsight.report.session_text import summary
from pytest_nsight.report.verdict_text import affected_by, fails, gated_metric, shown_ns

_FORMAT = "5.3.1"
"""The version of pytest-benchmark whose format this is."""


def render(result: SessionResult) -> str:
    """The session as JSON, newline at its end.

    Subjects without a single measured round cannot be benchmarks there: they are under `nsight.unmeasured`.
    """
    runs = {verdict.subject: result.runs_by_subject.get(verdict.subject, ()) for verdict in result.verdicts}
    by_measured: dict[bool, list[Verdict]] = {True: [], False: []}
    for verdict in result.verdicts:
        by_measured[bool(_seconds(runs[verdict.subject], gated_metric(verdict)))].append(verdict)
    file = {
        "machine_info": _machine(result.environment),
        "commit_info": _commit(result.runs),
        "benchmarks": [_benchmark(verdict, runs[verdict.subject], result) for verdict in by_measured[True]],
        "datetime": result.recorded,
        "version": _FORMAT,
        "nsight": {
            "session": result.session,
            "collector": result.collector,
            "strict": result.strict,
            "summary": summary(result),
            "saved": list(result.saved),
            "notes": list(result.notes),
            "seeds": dict(result.seeds),
            "canaries": _canaries(result.canaries),
            "limits": {board: dataclasses.asdict(limits) for board, limits in result.limits.items()},
            "datasheet": dataclasses.asdict(result.datasheet) if result.datasheet else None,
            "unmeasured": [_verdict(verdict, result) for verdict in by_measured[False]],
            **({"affected": dataclasses.asdict(result.affected)} if result.affected else {}),
        },
    }
    return json.dumps(_finite(file), indent=1, allow_nan=False) + "\n"


def _benchmark(verdict: Verdict, runs: Sequence[RunSummary], result: SessionResult) -> dict[str, object]:
    case, part = verdict.subject.case, verdict.subject.part
    suffix = f"/{part}" if part else ""
    _, bracket, parameters = case.partition("[")
    return {
        "group": _function(case),
        "name": _function(case) + bracket + parameters + suffix,
        "fullname": case + suffix,
        "params": None,
        "param": parameters.removesuffix("]") if bracket else None,
        "extra_info": {"nsight": _ours(verdict, runs, result)},
        "options": {"timer": f"pytest-nsight {gated_metric(verdict)}", "disable_gc": False},
        "stats": benchmark_stats(_seconds(runs, gated_metric(verdict))),
    }


def _canaries(runs: Sequence[RunSummary]) -> list[dict[str, object]]:
    """The runs of each canary, each with its rounds of kernel time in ns."""
    by_name: dict[str, list[RunSummary]] = {}
    for run in runs:
        by_name.setdefault(run.subject.label, []).append(run)
    return [{"name": name, "runs": [_run(run, "kernel") for run in by_name[name]]} for name in sorted(by_name)]


def _gpu_metrics(verdict: Verdict, result: SessionResult) -> dict[str, object] | None:
    means = None if verdict.subject.part else result.metrics.get(verdict.subject.case)
    return dataclasses.asdict(means) if means else None


def _ours(verdict: Verdict, runs: Sequence[RunSummary], result: SessionResult) -> dict[str, object]:
    metric = gated_metric(verdict)
    reach = reach_of(verdict, result)
    return {
        **_verdict(verdict, result),
        "metric": metric,
        "now_ns": shown_ns(verdict),
        "comparison": _list_comparison(verdict.comparison) if verdict.comparison else None,
        "changes": [dataclasses.asdict(change) for change in verdict.changes],
        "launches": launches(verdict, result),
        "gpu_metrics": _gpu_metrics(verdict, result),
        "roofline": dataclasses.asdict(reach) if reach else None,
        "faster_than": None if verdict.subject.part else result.partners.get(verdict.subject.case),
        "structure": [dataclasses.asdict(use) for use in runs[-1].shapes],
        "environment": dict(result.environment),
        "runs": [_run(run, metric) for run in runs],
    }


def _verdict(verdict: Verdict, result: SessionResult) -> dict[str, object]:
    return {
        "case": verdict.subject.case,
        "part": verdict.subject.part,
        "verdict": verdict.kind.value,
        "fails": fails(verdict, strict=result.strict),
        "sentence": verdict.sentence,
        **({"affected_by": cause} if (cause := affected_by(verdict, result)) else {}),
    }


def _run(run: RunSummary, metric: str) -> dict[str, object]:
    durations = run.rounds.get(metric, ())
    return {
        "run": run.run,
        "board": run.board,
        "recorded": run.recorded,
        "commit": run.commit,
        "median_ns": statistics.median(durations) if durations else None,
        "rounds": len(durations),
        "medians_ns": {name: statistics.median(ns) for name, ns in sorted(run.rounds.items()) if ns},
        "times_ns": {name: round(typical_ns([run], name), 1) for name, ns in sorted(run.rounds.items()) if ns},
        "without_level": sorted(
            name for name, ns in run.rounds.items() if ns and (is_disturbed(run) or not has_one_level(run, name))
        ),
        "is_stable": run.is_stable,
        "copied_bytes": run.copied_bytes,
        "clocks": dataclasses.asdict(run.clocks),
    }


def _machine(environment: Mapping[str, str]) -> dict[str, object]:
    # Readers expect these names to exist; the host's name stays private, so it is empty.
    expected = {
        "node": "",
        "processor": environment.get("cpu", ""),
        "machine": "",
        "system": "",
        "release": "",
    }
    python = {"python_version": environment.get("python", ""), "python_implementation": ""}
    machine: dict[str, object] = {**environment, **expected, **python}
    return {**machine, "cpu": {"brand_raw": environment.get("cpu", "")}}


def _commit(runs: Sequence[RunSummary]) -> dict[str, object]:
    commit = runs[-1].commit if runs else ""
    return {
        "id": commit.removesuffix("+") or "unversioned",
        "dirty": commit.endswith("+"),
        "time": None,
        "author_time": None,
        "project": "",
        "branch": "(unknown)",
    }


def _function(case: str) -> str:
    return case.split("[", 1)[0].rsplit("::", 1)[-1]


def _seconds(runs: Sequence[RunSummary], metric: str) -> list[float]:
    return [ns / 1e9 for run in runs for ns in run.rounds.get(metric, ())]


def _finite(value: object) -> object:
    """The value with null in place of what JSON has no number for."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value


def benchmark_stats(seconds: Sequence[float]) -> dict[str, object]:
    """The field "stats" of a benchmark.

    Args:
        seconds: one duration per round, in seconds, in order of execution; at least one.
    """
    ordered = sorted(seconds)
    mean = statistics.mean(ordered)
    stddev = statistics.stdev(ordered) if len(ordered) > 1 else 0.0
    q1, q3 = _quantile(ordered, 0.25), _quantile(ordered, 0.75)
    iqr = q3 - q1
    low, high = q1 - 1.5 * iqr, q3 + 1.5 * iqr
    # Rounding may put a fence beyond the very quartile that it was computed from.
    inside = [value for value in ordered if low <= value <= high] or ordered
    stddev_outliers = _outliers(ordered, mean - stddev, mean + stddev)
    iqr_outliers = _outliers(ordered, low, high)
    total = sum(ordered)
    return {
        "min": ordered[0],
        "max": ordered[-1],
        "mean": mean,
        "stddev": stddev,
        "rounds": len(ordered),
        "median": statistics.median(ordered),
        "iqr": iqr,
        "q1": q1,
        "q3": q3,
        "iqr_outliers": iqr_outliers,
        "stddev_outliers": stddev_outliers,
        "outliers": f"{stddev_outliers};{iqr_outliers}",
        "ld15iqr": inside[0],
        "hd15iqr": inside[-1],
        "ops": len(ordered) / total if total else 0.0,
        "total": total,
        "data": list(seconds),
        "iterations": 1,
    }


def _list_comparison(compared: Comparison) -> dict[str, object]:
    return {**dataclasses.asdict(compared), "effective_band": compared.effective_band}


def _quantile(ordered: Sequence[float], share: float) -> float:
    # Hazen's rule: its quartiles are the medians of both halves, whatever the number of values.
    position = min(max(len(ordered) * share - 0.5, 0.0), len(ordered) - 1.0)
    below = int(position)
    weight = position - below
    return ordered[below] if not weight else (1 - weight) * ordered[below] + weight * ordered[below + 1]


def _outliers(values: Sequence[float], low: float, high: float) -> int:
    return sum(not low <= value <= high for value in values)
