"""`pytest --nsight` writes the reports that are asked for, those of installed packages too."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

Gate = Callable[..., pytest.RunResult]

PACKAGE = Path(__file__).parents[1] / "examples" / "slowest_case_report"

SUITE = """
@pytest.mark.nsight
def test_slow(nsight):
    nsight(square, torch.ones(64))
"""


def test_a_session_writes_its_reports_and_can_be_reported_again(
    gate: Gate, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(PACKAGE), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(pytester.path.parent))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "summary.md"))

    strict = ("--nsight-strict", "--nsight-collector=torch")
    reports = ("--nsight-report=slowest=.", "--nsight-report=otava=out.csv", "--nsight-html=out.html")

    result = gate(*strict, *reports, body=SUITE)

    result.assert_outcomes(failed=1)
    lines = (pytester.path / "test_case.py").read_text().splitlines()
    place = f"file={pytester.path.name}/test_case.py,line={lines.index('def test_slow(nsight):')}"
    result.stdout.fnmatch_lines(
        [
            f"::error {place},title=NO_BASELINE test_slow::*",
            "NO_BASELINE test_case.py::test_slow - no baseline*",
        ]
    )
    assert (pytester.path / "nsight.txt").read_text().startswith("test_slow takes ")
    assert "test_slow" in (pytester.path / "out.csv").read_text()
    assert "<details" in (pytester.path / "out.html").read_text()
    assert (pytester.path / "summary.md").read_text().startswith("<!-- pytest-nsight")
    (folder,) = (path for path in (pytester.path / ".nsight").iterdir() if path.name[0].isdigit())
    again = pytester.run(sys.executable, "-m", "pytest_nsight.cli", "report", str(folder))
    assert again.ret == 1
    again.stdout.fnmatch_lines(["*test_slow*NO_BASELINE*"])


def test_a_report_that_nobody_knows_ends_the_session_before_it_begins(gate: Gate) -> None:
    result = gate("--nsight-report=nosuch=x", body=SUITE)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*--nsight-report asks for 'nosuch', and there is no such report; choose one of json, markdown, html, *"]
    )
