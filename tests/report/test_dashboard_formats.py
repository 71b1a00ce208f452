"""The formats of other projects' dashboards, held against what those projects' readers ask for."""

from __future__ import annotations

import csv
import io
import json
import math
from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_nsight.model.verdicts import VerdictKind
from pytest_nsight.report import dashboard_formats
from tests.report import canned

RMS_NORM = "test_rms_norm[fused-4096x4096-bf16]"
MEASURED = 11


def test_github_action_benchmark_gets_a_list_of_named_numbers() -> None:
    entries = json.loads(dashboard_formats.github_action_benchmark(canned.full()))
    found = next(entry for entry in entries if entry["name"] == RMS_NORM)

    assert len(entries) == len({entry["name"] for entry in entries}) == MEASURED
    assert all(isinstance(entry["name"], str) and math.isfinite(entry["value"]) for entry in entries)
    assert (found["unit"], found["value"], found["range"]) == ("ns", 26_108, "+- 0.90 %")
    assert found["extra"].startswith("REGRESSION: kernel time 24.4 -> 26.1 us")


def test_bencher_gets_our_interval_as_bounds() -> None:
    found = json.loads(dashboard_formats.bencher(canned.full()))

    for measures in found.values():
        (metric,) = measures.values()
        assert set(measures) == {"latency"}
        assert metric.get("lower_value", -math.inf) <= metric["value"] <= metric.get("upper_value", math.inf)
    bounds = found[RMS_NORM]["latency"]
    assert bounds["lower_value"] == pytest.approx(24_400 * 1.061)
    assert bounds["upper_value"] == pytest.approx(24_400 * 1.079)
    assert set(found["test_cumsum[1048576]"]["latency"]) == {"value"}


def test_bencher_takes_no_name_over_its_limit() -> None:
    verdict = canned.verdict(VerdictKind.SAVED, f"test_x[{'y' * 3_000}]", "saved", now_ns=5.0)

    assert [len(name) for name in json.loads(dashboard_formats.bencher(canned.session((verdict,))))] == [1024]


def test_otava_gets_one_row_of_finite_numbers_at_a_time() -> None:
    head, row = csv.reader(io.StringIO(dashboard_formats.otava(canned.full())))
    numbers = dict(zip(head, row, strict=True))

    assert datetime.fromisoformat(numbers.pop("time")).tzinfo is not None
    assert numbers.pop("commit") == "4be90d0c"
    assert len(numbers) == MEASURED
    assert float(numbers[RMS_NORM]) == 26_108


def test_pytorch_gets_a_record_in_each_line_with_the_types_of_its_table() -> None:
    records = [json.loads(line) for line in dashboard_formats.pytorch_benchmark(canned.full()).splitlines()]
    found = next(record for record in records if record["model"]["name"] == RMS_NORM)

    assert len(records) == MEASURED
    for record in records:
        assert all(isinstance(value, str) for value in record["benchmark"]["extra_info"].values())
        assert all(isinstance(record["benchmark"][name], str) for name in ("name", "mode", "dtype"))
        assert all(isinstance(record["model"][name], str) for name in ("name", "type", "backend"))
        assert all(math.isfinite(value) for value in record["metric"]["benchmark_values"])
    assert found["benchmark"]["name"] == "test_rms_norm"
    assert found["metric"]["name"] == "kernel_time(ns)"
    assert found["metric"]["benchmark_values"] == [26_108, 26_108]


def test_prometheus_reads_the_metrics() -> None:
    parser = pytest.importorskip("prometheus_client.openmetrics.parser")
    families = {
        family.name: family
        for family in parser.text_string_to_metric_families(dashboard_formats.openmetrics(canned.full()))
    }
    times = {sample.labels["case"]: sample.value for sample in families["nsight_time_seconds"].samples}
    failed = {sample.labels["case"]: sample.value for sample in families["nsight_failed"].samples}

    assert times[RMS_NORM] == pytest.approx(26.108e-6)
    assert (failed[RMS_NORM], failed["test_swiglu[fused-8192]"]) == (1, 0)
    assert all(len(family.samples) == MEASURED for family in families.values())


@settings(deadline=None)
@given(st.text(max_size=30))
def test_no_name_breaks_a_format(name: str) -> None:
    verdict = canned.verdict(VerdictKind.SAVED, f"test_x[{name}]", "saved", now_ns=5.0)
    result = canned.session((verdict,), runs=())

    assert len(json.loads(dashboard_formats.bencher(result))) == 1
    assert len(list(csv.reader(io.StringIO(dashboard_formats.otava(result))))) == 2
    assert len(dashboard_formats.pytorch_benchmark(result).splitlines()) == 1
    assert dashboard_formats.openmetrics(result).count("\n") == 4 + 3 + 4 + 4 + 1


def test_a_session_without_times_has_no_entries() -> None:
    result = canned.session((canned.verdict(VerdictKind.ENVIRONMENT, "test_x", "throttled"),))

    assert json.loads(dashboard_formats.github_action_benchmark(result)) == []
    assert json.loads(dashboard_formats.bencher(result)) == {}
    assert dashboard_formats.pytorch_benchmark(result) == ""
    assert dashboard_formats.openmetrics(result).endswith("# EOF\n")
