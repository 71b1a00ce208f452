"""The whole way under the real nsys. Without a GPU it records ranges and no kernels, and says so."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
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

@pytest.mark.nsight
def test_dies(nsight):
    nsight(square, torch.ones(8, 8))
    if os.environ.get("DIE"):
        os.kill(os.getpid(), int(os.environ["DIE"]))
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
    result = gate("--nsight-collector=nsys", "--nsight-keep", "-k", "ranges or wrong", "-v", body=BODY)

    result.assert_outcomes(failed=2, deselected=1)
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


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL])
def test_a_dying_worker_is_named_and_the_rest_goes_on(
    gate: Gate, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    monkeypatch.setenv("DIE", str(int(number)))

    result = gate("--nsight-collector=nsys", "-v", body=BODY)

    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(
        [f"*the worker process died with {number.name} while test_case.py::test_dies ran*", "*wrong result*"]
    )


@pytest.mark.parametrize(
    "numbers",
    [(signal.SIGINT,), (signal.SIGTERM,), (signal.SIGINT, signal.SIGINT)],
    ids=["interrupt", "terminate", "impatient"],
)
def test_an_interrupt_leaves_no_process_and_no_secret_behind(
    pytester: pytest.Pytester, numbers: tuple[signal.Signals, ...]
) -> None:
    pytester.makepyfile(
        test_case="""
        import time, pytest
        @pytest.mark.nsight
        def test_slow(nsight):
            nsight(time.sleep, 600)
        """
    )
    temporary = pytester.mkdir("temporary")
    started, manifest = _start_two_runs(pytester.path, {**os.environ, "TMPDIR": str(temporary)})

    for number in numbers:
        started.send_signal(number)
        time.sleep(0.3)
    output, _ = started.communicate(timeout=60)

    assert started.returncode == pytest.ExitCode.INTERRUPTED, output.decode()
    assert not list(manifest.parents[1].rglob("*.nsys-rep"))
    assert not [*temporary.rglob("*.qdstrm"), *temporary.rglob("*.nsys-rep")]
    assert len(numbers) > 1 or not (manifest.parents[1] / "run-002").exists()
    left = [pid for pid in Path("/proc").glob("[0-9]*") if _mentions(pid, str(pytester.path))]
    assert left == []


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


def _start_two_runs(folder: Path, environ: Mapping[str, str]) -> tuple[subprocess.Popen[bytes], Path]:
    """A session whose first process measures while its second waits, and the first one's manifest."""
    command = [sys.executable, "-m", "pytest", "--nsight", "--nsight-collector=nsys", "--nsight-runs=2"]
    for last in (False, False, True):
        started = subprocess.Popen(
            command, cwd=folder, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        try:
            manifest = _wait_for(folder, "*/run-001/manifest.jsonl", '"case"')
            _wait_for(folder, "*/run-002/manifest.jsonl", '"run"')
        except AssertionError:
            # On a loaded machine two sessions of nsys 2022.4 sometimes end each other.
            started.kill()
            started.communicate(timeout=60)
            if last:
                raise
            _wait_for_ends(folder)
            shutil.rmtree(folder / ".nsight")
        else:
            return started, manifest
    raise AssertionError


def _wait_for_ends(folder: Path) -> None:
    for _ in range(200):
        if not [process for process in Path("/proc").glob("[0-9]*") if _mentions(process, str(folder))]:
            return
        time.sleep(0.1)


def _wait_for(folder: Path, pattern: str, text: str) -> Path:
    for _ in range(600):
        for path in (folder / ".nsight").glob(pattern):
            if text in path.read_text(encoding="utf-8"):
                return path
        time.sleep(0.05)
    raise AssertionError(f"{pattern} with {text} did not appear")


def _mentions(process: Path, text: str) -> bool:
    try:
        return text.encode() in (process / "cmdline").read_bytes() and int(process.name) != os.getpid()
    except OSError:
        return False
