"""The session in the formats of dashboards and change detectors that other projects run.

Times are those of the tables. A subject without a measured time is left out, because no format has a place for it.

Sources: github-action-benchmark's README (`customSmallerIsBetter`); Bencher's reference of its metric format;
`otava/importer.py` of apache-otava 0.8; `benchmark.oss_ci_benchmark_v3` in pytorch/test-infra; OpenMetrics 1.0.
"""

from __future__ import annotations

import csv
import io
import json
import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from pytest_nsight.model.units import percent
from pytest_nsight.model.verdicts import SessionResult, Verdict
from pytest_nsight.report.escapes import visible
from pytest_nsight.report.verdict_text import gated_metric, labels, reason, shown_ns

_LONGEST_BENCHER_NAME = 1024


@dataclass(frozen=True, slots=True)
class _TimedSubject:
    """A subject with its time.

    Attributes:
        verdict: on it.
        name: unique in the session.
        ns: its gated duration.
        low_ns: lower end of the 90 % confidence interval; `ns` where nothing was compared.
        high_ns: upper end, likewise.
    """

    verdict: Verdict
    name: str
    ns: float
    low_ns: float
    high_ns: float


def _measured(result: SessionResult) -> Iterator[_TimedSubject]:
    named = labels(one.subject for one in result.verdicts)
    for verdict in result.verdicts:
        ns, compared = shown_ns(verdict), verdict.comparison
        if ns is None:
            continue
        # The interval is that of the ratio; it is carried over to the time itself.
        ratio = compared.ratio if compared else 0.0
        low, high = (compared.low / ratio, compared.high / ratio) if compared and ratio > 0 else (1.0, 1.0)
        yield _TimedSubject(verdict, named[verdict.subject], ns, ns * low, ns * high)


def github_action_benchmark(result: SessionResult) -> str:
    """Input of github-action-benchmark's tool `customSmallerIsBetter`: a JSON list, times in ns."""
    entries = []
    for one in _measured(result):
        compared = one.verdict.comparison
        half = percent(compared.half_width, signed=False, error=compared.half_width) if compared else ""
        extra = f"{one.verdict.kind.value}: {reason(one.verdict)}"
        range_ = {"range": f"+- {half}"} if half else {}
        entries.append({"name": one.name, "unit": "ns", "value": round(one.ns, 3), **range_, "extra": extra})
    return json.dumps(entries, indent=1) + "\n"


def bencher(result: SessionResult) -> str:
    """Bencher Metric Format: a JSON object, times in ns under `latency`, the interval as bounds."""
    found = {}
    for one in _measured(result):
        bounds = {"lower_value": one.low_ns, "upper_value": one.high_ns} if one.verdict.comparison else {}
        found[one.name[-_LONGEST_BENCHER_NAME:]] = {"latency": {"value": one.ns, **bounds}}
    return json.dumps(found, indent=1) + "\n"


def otava(result: SessionResult) -> str:
    """A table for Apache Otava's CSV importer: one row, a column for each case in ns, beside `time` and `commit`.

    Rows of several sessions under one header are the series that Otava looks for changes in.
    """
    measured = list(_measured(result))
    commit = result.runs[-1].commit.removesuffix("+") if result.runs else ""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["time", "commit", *(one.name for one in measured)])
    writer.writerow([result.recorded, commit, *(f"{one.ns:.3f}" for one in measured)])
    return text.getvalue()


def pytorch_benchmark(result: SessionResult) -> str:
    """Version 3 of the PyTorch project's benchmark records: one JSON object in each line.

    The benchmark is the test's function, the model its parameters; `benchmark_values` has the median of each run.
    """
    lines = []
    for one in _measured(result):
        metric = gated_metric(one.verdict)
        runs = [
            run.rounds[metric]
            for run in result.runs_by_subject.get(one.verdict.subject, ())
            if run.rounds.get(metric)
        ]
        function, _, parameters = one.name.removesuffix("]").partition("[")
        record = {
            "benchmark": {
                "name": visible(function),
                "mode": "",
                "dtype": "",
                "extra_info": {"device": result.environment.get("gpu", "cpu"), "verdict": one.verdict.kind.value},
            },
            "model": {
                "name": visible(one.name),
                "type": "kernel",
                "backend": visible(parameters),
            },
            "metric": {
                "name": f"{metric}_time(ns)",
                "benchmark_values": [statistics.median(rounds) for rounds in runs] or [one.ns],
                "target_value": 0.0,
            },
        }
        lines.append(json.dumps(record))
    return "".join(f"{line}\n" for line in lines)


def openmetrics(result: SessionResult) -> str:
    """OpenMetrics text, for Prometheus: gauges of time, interval and outcome, labelled by case and metric."""
    families = [
        ("nsight_time_seconds", "seconds", "Time of a case in this session."),
        ("nsight_time_low_seconds", "seconds", "Lower end of the 90 % confidence interval of that."),
        ("nsight_time_high_seconds", "seconds", "Upper end of the 90 % confidence interval of that."),
        ("nsight_failed", "", "1 for a verdict that fails its test."),
    ]
    measured = list(_measured(result))
    lines = []
    for name, unit, text in families:
        lines += [f"# TYPE {name} gauge", *([f"# UNIT {name} {unit}"] if unit else []), f"# HELP {name} {text}"]
        for one in measured:
            values = (one.ns / 1e9, one.low_ns / 1e9, one.high_ns / 1e9)
            failed = int(one.verdict.kind.fails_in(strict=result.strict))
            value = dict(zip([family[0] for family in families], (*values, failed), strict=True))[name]
            lines.append(f"{name}{{{_labels(one)}}} {value:.9g}")
    return "\n".join([*lines, "# EOF"]) + "\n"


def _labels(one: _TimedSubject) -> str:
    values = {"case": one.name, "metric": gated_metric(one.verdict)}
    return ",".join(f'{name}="{_openmetrics_text(value)}"' for name, value in values.items())


def _openmetrics_text(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
