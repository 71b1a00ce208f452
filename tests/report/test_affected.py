"""What --nsight-affected has left out and why the others are measured stands in every report."""

from __future__ import annotations

import dataclasses
import json

from pytest_nsight.controller.collection.affected_cases import describe_affected
from pytest_nsight.model.verdicts import AffectedCases, SessionResult
from pytest_nsight.report import html_report, markdown, pytest_benchmark_json, session_file, terminal
from tests.report import canned

LEFT_OUT = ("perf_tests/test_a.py::test_left[1]", "perf_tests/test_a.py::test_left[2]")


def chosen() -> SessionResult:
    result = canned.quiet()
    causes = {verdict.subject.case: "kernels/<x>.py, imported by test_a.py" for verdict in result.verdicts}
    affected = AffectedCases("main (1a2b3c4)", causes, LEFT_OUT, {"test_a.py": "modules by a computed name"})
    return dataclasses.replace(result, affected=affected, notes=describe_affected(affected))


def test_terminal_and_html_count_and_explain() -> None:
    for text in (terminal.render(chosen(), 200), html_report.render(chosen())):
        assert "since main (1a2b3c4): 3 of 5 cases affected, 2 NOT_AFFECTED and not measured" in text
        assert "2 cases not affected" in text
        assert "imported by test_a.py: " in text
        assert "changes that --nsight-affected does not see: test_a.py (modules by a computed name)" in text
    assert "    affected by kernels/<x>.py" in terminal.render(chosen(), 200, verbose=True)
    assert "kernels/<x>.py" not in html_report.render(chosen())


def test_markdown_lists_each_case_with_its_cause_escaped() -> None:
    text = markdown.render(chosen())

    assert "affected since main (1a2b3c4): 3 of 5 cases" in text
    assert "- NOT_AFFECTED `perf_tests/test_a.py::test_left[1]`" in text
    assert "kernels/\\<x>.py, imported by" in text
    assert "kernels/<x>" not in text
    assert "... and 3 more cases" not in text


def test_result_and_session_file_hold_all_of_it(tmp_path) -> None:
    file = json.loads(pytest_benchmark_json.render(chosen()))
    (tmp_path / "session.json").write_text(session_file.render(chosen()))

    assert file["nsight"]["affected"]["left_out"] == list(LEFT_OUT)
    entries = [benchmark["extra_info"]["nsight"] for benchmark in file["benchmarks"]]
    assert {entry["affected_by"] for entry in entries} == {"kernels/<x>.py, imported by test_a.py"}
    assert session_file.read_session(tmp_path).affected == chosen().affected


def test_without_any_affected_case_the_summary_says_so() -> None:
    none = AffectedCases("v1", {}, LEFT_OUT)
    result = canned.session((), affected=none, runs=(), notes=describe_affected(none))

    assert "nothing was measured: 2 cases not affected" in terminal.render(result)
    assert "nothing was measured: 2 cases not affected" in markdown.render(result)
    assert "html" in html_report.render(result)
