"""The whole way under the real nsys. Without a GPU it records ranges and no kernels, and says so."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_nsight.controller.prewarmed import pool_size
from pytest_nsight.gate.absorbing import MOST_FAILURES_ALONE
from tests.collectors.real import require_nsys

Gate = Callable[..., pytest.RunResult]

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("real_nsys"), pytest.mark.xdist_group("nsys")]

BODY = """
@pytest.mark.nsight
def test_ranges(nsight):
    nsight(square, torch.ones(8, 8))

@pytest.mark.nsight
def test_wrong(nsight):
    assert nsight(square, torch.ones(3)).sum() == 4, "wrong result"
"""


@pytest.fixture
def real_nsys() -> None:
    require_nsys()


def test_a_kept_report_is_the_owners_only_and_the_session_warns_of_it(
    gate: Gate, pytester: pytest.Pytester
) -> None:
    result = gate("--nsight-collector=nsys", "--nsight-keep-report", "-k", "ranges", body=BODY)

    (report,) = pytester.path.glob(".nsight/*/run-*/report.nsys-rep")
    assert report.stat().st_size > 1000
    assert report.stat().st_mode & 0o077 == 0
    assert not list(pytester.path.glob(".nsight/*/run-*/nsys")), "the private folder is gone"
    text = " ".join(result.stdout.str().split())
    assert "--nsight-keep-report kept 1 report of the profiler in" in text
    assert "may hold environment variables with their values" in text


def test_without_the_option_no_report_stays(gate: Gate, pytester: pytest.Pytester) -> None:
    gate("--nsight-collector=nsys", "-k", "ranges", body=BODY)

    assert not list(pytester.path.glob(".nsight/**/*.nsys-rep"))


def test_reports_come_back_and_missing_kernels_are_explained(gate: Gate, pytester: pytest.Pytester) -> None:
    result = gate("--nsight-collector=nsys", "--nsight-keep", "-v", body=BODY)

    result.assert_outcomes(failed=2)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "nsight: collector nsys 20*",
            "*test_ranges FAILED*",
            "*test_wrong FAILED*",
            "*no GPU kernel ran in the measured rounds*",
            "*wrong result*",
            "*no CUDA activity*",
        ]
    )
    (run,) = (pytester.path / ".nsight").glob("2*/run-001")
    assert (run / "trace.sqlite").exists()
    assert not list(run.glob("*.nsys-rep")) + list(run.glob("export*"))


def test_a_process_that_got_ready_for_nothing_leaves_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_case="""
        import time, pytest
        with open("imports", "a") as file:
            print("once", file=file)
        @pytest.mark.nsight(rounds=3)
        @pytest.mark.parametrize("number", range(6))
        def test_many(nsight, number):
            nsight(time.sleep, 0.3)
        """
    )
    temporary = pytester.mkdir("temporary")
    command = [sys.executable, "-m", "pytest", "--nsight", "--nsight-collector=nsys"]
    environ = {**os.environ, "TMPDIR": str(temporary)}
    done = subprocess.run(command, cwd=pytester.path, env=environ, capture_output=True, text=True, check=False)

    assert "no GPU kernel ran" in done.stdout, done.stdout
    (session,) = (pytester.path / ".nsight").glob("2*")
    runs = sorted(session.glob("run-*"))
    # Cases without a kernel are measured again alone, until it is plain that the machine is at fault.
    assert 1 < len(runs) <= 2 * MOST_FAILURES_ALONE + 1
    # The outer pytest, the runs, and the processes that nothing asked for, which leave no folder.
    imports = (pytester.path / "imports").read_text().count("once")
    assert len(runs) + 1 < imports <= len(runs) + 1 + 2 * pool_size()
    assert all((run / "manifest.jsonl").exists() for run in runs)
    assert not [*pytester.path.rglob("*.nsys-rep"), *pytester.path.rglob("*.qdstrm")]
    assert not [process for process in Path("/proc").glob("[0-9]*") if _mentions(process, str(pytester.path))]


def _mentions(process: Path, text: str) -> bool:
    try:
        return text.encode() in (process / "cmdline").read_bytes() and int(process.name) != os.getpid()
    except OSError:
        return False
