"""The reports that other programs read: GitHub, JUnit, pytest-benchmark and what reads its files."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest_benchmark.stats import Stats

from pytest_nsight.model.verdicts import ShapeChange, VerdictKind
from pytest_nsight.report import ci_formats, markdown, pytest_benchmark_json, verdict_text
from pytest_nsight.report.pytest_benchmark_json import benchmark_stats
from pytest_nsight.report.result_file import read_result
from tests.report import canned


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=60))
def test_statistics_are_those_of_pytest_benchmark(durations_ns: list[int]) -> None:
    """Whole seconds, so that rounding cannot move a value over a fence."""
    theirs = Stats()
    for ns in durations_ns:
        theirs.update(float(ns))

    ours = benchmark_stats([float(ns) for ns in durations_ns])

    assert set(ours) - {"data", "iterations"} == set(Stats.fields)
    for field, value in theirs.as_dict().items():
        if field == "hd15iqr" and version("pytest-benchmark") < "5.3.1":
            continue  # it named the first value above the fence instead of the last one below
        assert ours[field] == (value if isinstance(value, str) else pytest.approx(value)), field


def compare(*arguments: str, folder: Path) -> str:
    """What the command `pytest-benchmark compare` prints."""
    command = [sys.executable, "-m", "pytest_benchmark", "compare", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "Failed to load" not in done.stderr + done.stdout
    return done.stdout


@pytest.mark.slow
def test_pytest_benchmark_compares_two_of_our_files(tmp_path: Path) -> None:
    for name in ("0001_before.json", "0002_after.json"):
        (tmp_path / name).write_text(pytest_benchmark_json.render(canned.full()))

    shown = compare("0001_before.json", "0002_after.json", "--group-by=fullname", folder=tmp_path)

    assert "Name (time in us)" in shown
    assert "rms_norm[fused-4096x4096-bf16] (0001_before" in shown
    assert "rms_norm[fused-4096x4096-bf16] (0002_after" in shown
    assert "26.1" in shown


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        ("--group-by=param",),
        ("--group-by=group", "--sort=name"),
        ("--columns=min,iqr,outliers,ops,iterations",),
    ],
)
def test_every_way_of_showing_works(tmp_path: Path, options: tuple[str, ...]) -> None:
    (tmp_path / "a.json").write_text(pytest_benchmark_json.render(canned.full()))

    shown = compare("a.json", *options, f"--csv={tmp_path / 'out'}", folder=tmp_path)

    assert "swiglu[fused-8192]" in shown
    assert "swiglu[fused-8192]" in (tmp_path / "out.csv").read_text()


def test_stats_are_the_gated_rounds_of_all_runs_in_seconds() -> None:
    result = canned.full()
    file = json.loads(pytest_benchmark_json.render(result))
    subject = result.verdicts[1].subject

    found = next(entry for entry in file["benchmarks"] if entry["fullname"] == subject.case)

    rounds = [ns for run in result.runs if run.subject == subject for ns in run.rounds["kernel"]]
    assert found["stats"]["data"] == [pytest.approx(ns / 1e9) for ns in rounds]
    assert found["stats"]["rounds"] == len(rounds) == 10
    assert found["group"] == "test_rms_norm"
    assert found["name"] == "test_rms_norm[fused-4096x4096-bf16]"
    assert found["param"] == "fused-4096x4096-bf16"


def test_ours_is_complete_under_extra_info() -> None:
    result = canned.full()
    file = json.loads(pytest_benchmark_json.render(result))

    ours = {entry["extra_info"]["nsight"]["case"]: entry["extra_info"]["nsight"] for entry in file["benchmarks"]}
    slower = ours["perf_tests/test_rms_norm.py::test_rms_norm[fused-4096x4096-bf16]"]

    assert (slower["verdict"], slower["fails"]) == ("REGRESSION", True)
    assert slower["comparison"]["ratio"] == 1.07
    assert slower["comparison"]["slower_kernels"][0] == {
        "name": "_rms_norm_fused",
        "baseline_ns": 20_100.0,
        "now_ns": 21_500.0,
    }
    assert [run["run"] for run in slower["runs"]] == ["20260301-120000-1", "20260301-120000-2"]
    assert slower["runs"][0]["clocks"]["sm_mhz"] == 1980
    assert slower["structure"][0]["shape"]["grid"] == [4096, 1, 1]
    assert slower["environment"]["driver"] == "570.86.15"


def test_the_time_of_a_case_is_its_typical_one_where_nothing_was_compared(tmp_path: Path) -> None:
    result = canned.saved_only()
    # Its rounds have another median.
    typical = {verdict.subject.case: (verdict.now_ns or 0.0) * 0.9 for verdict in result.verdicts}
    verdicts = tuple(replace(verdict, now_ns=typical[verdict.subject.case]) for verdict in result.verdicts)
    file = tmp_path / "result.json"
    file.write_text(pytest_benchmark_json.render(replace(result, verdicts=verdicts)), encoding="utf-8")

    assert {entry.case: entry.now_ns for entry in read_result(file).entries} == typical


def test_no_verdict_is_lost() -> None:
    """A subject without rounds cannot be a benchmark: its statistics would be made up."""
    result = canned.full()
    file = json.loads(pytest_benchmark_json.render(result))

    unmeasured = [entry["case"] for entry in file["nsight"]["unmeasured"]]

    assert unmeasured == ["perf_tests/test_crashes.py::test_crashes"]
    assert len(file["benchmarks"]) + len(unmeasured) == len(result.verdicts)


def test_commit_and_machine_are_told() -> None:
    file = json.loads(pytest_benchmark_json.render(canned.full()))

    assert file["commit_info"]["id"] == "4be90d0c"
    assert file["commit_info"]["dirty"] is True
    assert file["machine_info"]["gpu"] == "NVIDIA H200"
    assert file["datetime"] == "2026-03-01T12:00:00+00:00"


def test_numbers_that_json_does_not_have_are_null() -> None:
    endless = canned.comparison(1000, 1.0, 0.01, 0.5, mde=float("inf"), run_sd=float("nan"))
    result = canned.session((canned.verdict(VerdictKind.INCONCLUSIVE, "test_x", "why", endless),))

    file = json.loads(pytest_benchmark_json.render(result), parse_constant=pytest.fail)

    found = file["benchmarks"][0]["extra_info"]["nsight"]["comparison"]
    assert (found["mde"], found["run_sd"]) == (None, None)


def test_an_annotation_for_each_failing_verdict_and_no_other() -> None:
    lines = ci_formats.workflow_annotations(canned.full()).splitlines()

    assert [line.split("title=")[1].split(" ")[0] for line in lines] == [
        "STRUCTURE",
        "REGRESSION",
        "REGRESSION",
        "CLAIM",
    ]
    assert len(ci_formats.workflow_annotations(canned.full(strict=True)).splitlines()) == 8
    assert ci_formats.workflow_annotations(canned.quiet()) == ""


def test_an_annotation_is_one_line_that_cannot_be_broken_out_of() -> None:
    case = "test_x[a,b:c%d::e]"
    found = canned.verdict(VerdictKind.REGRESSION, case, "50 % slower\r\n::warning::mine")

    text = ci_formats.workflow_annotations(canned.session((found,)))

    assert text == (
        "::error file=perf_tests/test_x.py,title=REGRESSION test_x[a%2Cb%3Ac%25d%3A%3Ae]::"
        "test_x[a,b:c%25d::e]: 50 %25 slower  ::warning::mine\n"
    )


def test_an_annotation_points_at_the_line_of_the_test_in_the_repository() -> None:
    found = canned.verdict(VerdictKind.REGRESSION, "test_x", "slower")
    result = canned.session((found,), lines={found.subject.case: 12})

    assert ci_formats.workflow_annotations(result).startswith("::error file=perf_tests/test_x.py,line=12,title=")
    assert ci_formats.workflow_annotations(result, "python").startswith("::error file=python/perf_tests/test_x.py,")


def test_markdown_shows_which_launches_a_save_makes_the_baseline() -> None:
    changes = (ShapeChange(canned.FUSED, 1, 0), ShapeChange(canned.ADD, 0, 2))
    verdicts = (
        canned.verdict(VerdictKind.SAVED, "test_a", "test_a: 5 runs stored", now_ns=24_000, before_ns=20_000),
        canned.verdict(VerdictKind.SAVED, "test_b", "test_b: new", now_ns=9_000, before_ns=9_000, changes=changes),
    )

    text = markdown.render(canned.session(verdicts))

    before_the_fold, _, folded = text.partition("<details>")
    assert "| SAVED | `test_b` |" in before_the_fold
    assert "1 → 0  _add_rms_norm_fused" in before_the_fold
    assert "0 → 2  vectorized_elementwise_kernel" in before_the_fold
    assert "| SAVED | `test_a` |" in folded


def test_markdown_leads_with_the_outcome_and_counts_what_it_left_out() -> None:
    text = markdown.render(canned.quiet(30), rows=20)

    assert text.splitlines()[1] == "**passed**, 30 verdicts: 0 regressions, 0 improvements, 30 unchanged"
    assert "... and 10 more UNCHANGED" in text
    assert text.count("| UNCHANGED |") == 20
    assert markdown.render(canned.full()).splitlines()[1].startswith("**failed**, 12 verdicts")


def test_a_comment_can_be_found_again_by_its_first_line() -> None:
    first = markdown.render(canned.full()).splitlines()[0]

    assert first == markdown.render(canned.quiet()).splitlines()[0] == "<!-- pytest-nsight: NVIDIA H200 -->"
    hostile = canned.quiet(environment={"gpu": "x --> <b> @all"})
    assert markdown.render(hostile).splitlines()[0] == "<!-- pytest-nsight: x  b all -->"


def test_where_nothing_moved_one_line_is_seen() -> None:
    text = markdown.render(canned.quiet(notes=("torch is old",)))
    unfolded = re.sub(r"(?s)<details>.*</details>|<!--.*?-->", "", text).strip()

    assert unfolded == "**passed**, 3 verdicts: 0 regressions, 0 improvements, 3 unchanged"
    assert "torch is old" in text


def test_a_comment_is_never_longer_than_github_takes() -> None:
    long = "x" * 3_000
    verdicts = tuple(
        canned.verdict(
            VerdictKind.REGRESSION, f"test_x[{long}{number}]", long + str(number), canned.comparison(1e3, 2, 0.1, 0)
        )
        for number in range(40)
    )
    text = markdown.render(canned.session(verdicts))
    hopeless = markdown.render(canned.session(verdicts, notes=("y" * 70_000,)))

    assert markdown.LONGEST / 2 < len(text.encode()) <= markdown.LONGEST
    assert "... and 35 more REGRESSION" in text
    assert "**failed**, 40 verdicts" in hopeless
    assert len(hopeless) < 1_000


def test_markdown_shows_names_as_they_are() -> None:
    sentence = "_a_kernel and __b__ <img> *c* [d](e) `f` x_y"
    found = canned.verdict(VerdictKind.REGRESSION, "test_x[a|b`c]", sentence)

    text = markdown.render(canned.session((found,)))

    assert "| REGRESSION | `` test_x[a\\|b`c] `` |" in text
    assert "\\_a_kernel and \\_\\_b\\_\\_ \\<img> \\*c\\* \\[d](e) \\`f\\` x_y" in text


def test_the_line_beside_a_tests_name_has_the_number_and_not_the_name_again() -> None:
    slower, part, structure = (canned.full().verdicts[index] for index in (1, 2, 3))

    assert verdict_text.headline(slower) == "+7.0 %, 24.4 -> 26.1 us"
    assert verdict_text.headline(part) == "backward +130 %, 1.40 -> 3.22 ms"
    assert verdict_text.headline(structure).startswith("launches changed, 1 -> 2 per round, ")


def test_properties_hold_the_plain_numbers() -> None:
    properties = dict(ci_formats.properties(canned.full().verdicts[1]))

    assert properties["nsight_verdict"] == "REGRESSION"
    assert float(properties["nsight_baseline_ns"]) == 24_400
    assert float(properties["nsight_now_ns"]) == 26_108
    assert float(properties["nsight_change_percent"]) == 7
    assert float(properties["nsight_p"]) == 2e-6


def test_properties_of_a_named_range_do_not_overwrite_those_of_the_case() -> None:
    backward = dict(ci_formats.properties(canned.full().verdicts[2]))

    assert backward["nsight_verdict.backward"] == "REGRESSION"
    assert all(name.endswith(".backward") for name in backward)


def test_properties_without_a_comparison_hold_what_was_measured() -> None:
    found = canned.verdict(VerdictKind.NO_BASELINE, "test_x", "none", now_ns=17_300)

    assert dict(ci_formats.properties(found)) == {
        "nsight_verdict": "NO_BASELINE",
        "nsight_sentence": "none",
        "nsight_now_ns": "17300",
    }


def test_a_comment_gives_the_reason_of_every_case_without_a_judgement() -> None:
    text = markdown.render(canned.full())

    assert "throttled in 8 of 9 runs" in text
    assert "no rounds: the test failed in run 1" in text
    assert "save one with --nsight-save" in text
    assert "not settled; 4 more baseline runs would do" in text
    assert text.count("MDE (minimum detectable effect)") == 1
    assert "MDE" not in markdown.render(canned.quiet())


def test_a_comment_says_a_shared_reason_once() -> None:
    reason = "no baseline of this test for this machine's model"
    cases = [canned.verdict(VerdictKind.NO_BASELINE, f"test_x[{n}]", reason, now_ns=1e3) for n in range(5)]

    text = markdown.render(canned.session(tuple(cases)))

    assert text.count(reason) == 1
    assert "**NO_BASELINE** 5 cases (`test_x[0]`, `test_x[1]`, `test_x[2]` and 2 more): no baseline" in text


def test_changed_launches_are_listed_once() -> None:
    text = markdown.render(canned.full())

    assert text.count("_add_rms_norm_fused") == 1
    assert "as when a fusion is lost; kernel time" in text
    assert "+ 2 launches: vectorized" in canned.full().verdicts[3].sentence


def test_numbers_of_a_reason_stay_with_their_units_and_arrows() -> None:
    found = canned.verdict(VerdictKind.REGRESSION, "test_x", "kernel time 19.0 -> 230 us (+5 %); f -> int")

    assert "19.0\u00a0→\u00a0230\u00a0us (+5\u00a0%); f -> int" in markdown.render(canned.session((found,)))


@pytest.mark.parametrize("collector", ["nsys 2025.3.1 (/opt/nvidia/nsys)", "nsys, replay of slow"])
def test_a_comment_names_machine_and_collector_once_and_no_folder_of_the_machine(collector: str) -> None:
    environment = {**canned.ENVIRONMENT, "device": "NVIDIA H200"}

    text = markdown.render(canned.quiet(collector=collector, environment=environment))

    assert "/opt" not in text
    assert "device:" not in text
    assert text.count("nsys") == text.count("nsys: 2025.3.1") + 1
    assert "device: other" in markdown.render(canned.quiet(environment={**environment, "device": "other"}))
