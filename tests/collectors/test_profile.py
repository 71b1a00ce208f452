"""Workers under the real Nsight Systems: exit codes, signals and interrupts."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pytest_nsight.collectors.nsys.export import find_report
from pytest_nsight.collectors.nsys.profiling import prepare, profile
from pytest_nsight.model.errors import NsysError, UsageError
from tests.collectors.real import environment, run
from tests.processes.test_child_process import STAYS, is_running

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("nsys")]


@pytest.mark.parametrize("code", [0, 1, 5, 77])
def test_the_return_code_is_the_workers(code, installation, tmp_path):
    assert run(installation, tmp_path, f"raise SystemExit({code})") == code
    assert (tmp_path / "r.nsys-rep").is_file()


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL])
def test_a_signal_that_kills_the_worker_is_told(number, installation, tmp_path):
    """nsys says 128 + n; a report is made all the same."""
    assert run(installation, tmp_path, f"import os; os.kill(os.getpid(), {number:d})") == -number
    assert find_report(tmp_path / "r.nsys-rep", tmp_path / "r.log").is_file()


def test_output_of_the_worker_and_nsys_is_in_one_log(installation, tmp_path):
    code = "import os, sys; print('to stdout'); print('to stderr', file=sys.stderr); print(os.getcwd())"
    run(installation, tmp_path, code)

    log = (tmp_path / "r.log").read_text()
    assert {"to stdout", "to stderr", str(tmp_path), "Generated:"} <= {line.strip() for line in log.splitlines()}


def read_pipe(pipe, log):
    """What a process writes; one that ends before it opens the pipe would be waited for without end."""
    begin = time.monotonic()
    descriptor = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        while time.monotonic() < begin + 60:
            with contextlib.suppress(BlockingIOError):
                if found := os.read(descriptor, 100):
                    return found
            time.sleep(0.05)
    finally:
        os.close(descriptor)
    pytest.fail(f"the worker did not start: {log.read_text()}")


@pytest.mark.parametrize("manner", ["willing", "stubborn"])
def test_interrupt_leaves_no_process_behind(manner, installation, tmp_path):
    """Neither the worker (2022.4 leaves one that ignores the interrupt alone), nor nsys, nor its agent."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    target = (sys.executable, "-c", STAYS, str(pipe), manner)
    report, log = tmp_path / "r.nsys-rep", tmp_path / "r.log"
    with profile(
        installation, report, target, log=log, cwd=tmp_path, environ=environment(TMPDIR=str(tmp_path))
    ) as process:
        worker = int(read_pipe(pipe, log))
        family = process.find_running()
        assert {worker, process.pid} < set(family), "nsys starts an agent or launcher, too"

        assert process.interrupt(worker, grace_s=60 if manner == "willing" else 1) == ()

    assert [pid for pid in family if is_running(pid)] == []
    assert (
        str(report) not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    )
    if manner == "willing":
        assert "KeyboardInterrupt" in log.read_text()
        assert report.is_file(), "an interrupted worker that ends by itself has a report"


def test_an_old_report_is_not_taken_for_the_new_one(installation, tmp_path):
    report = tmp_path / "sub" / "r.nsys-rep"
    report.parent.mkdir()
    report.write_bytes(b"of an earlier run")

    prepare(installation, report, ("true",))

    assert not report.exists()


def test_too_little_space_is_found_before_the_run(fake, tmp_path):
    with pytest.raises(NsysError, match=r"MB free and a run of Nsight Systems may need .* MB; make room"):
        prepare(fake, tmp_path / "r.nsys-rep", ("true",), needed_bytes=2**60)


def test_a_percent_sign_in_the_path_is_refused(fake, tmp_path):
    with pytest.raises(UsageError, match=r"holds a '%'"):
        prepare(fake, tmp_path / "100%" / "r.nsys-rep", ("true",))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_write_permission_is_found_before_the_run(fake, tmp_path):
    (tmp_path / "closed").mkdir(mode=0o500)

    with pytest.raises(NsysError, match="cannot write to"):
        prepare(fake, tmp_path / "closed" / "r.nsys-rep", ("true",))


def test_a_file_in_the_way_of_the_folder_is_named(fake, tmp_path):
    Path(tmp_path / "file").write_text("")

    with pytest.raises(NsysError, match="Cannot make way for the report"):
        prepare(fake, tmp_path / "file" / "r.nsys-rep", ("true",))
