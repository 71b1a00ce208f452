"""An nsys that never ends is ended, with what it has started, and one sentence says so."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from pytest_nsight.collectors.nsys import find as find_module
from pytest_nsight.collectors.nsys import profiling
from pytest_nsight.collectors.nsys.export import export
from pytest_nsight.collectors.nsys.find import CHOICE, find
from pytest_nsight.collectors.nsys.nsys_collector import NsysCollector
from pytest_nsight.model.errors import NsysError
from pytest_nsight.processes.child_process import ENDED
from pytest_nsight.protocol.job import WORKER_LOG
from tests.collectors.real import environment

pytestmark = pytest.mark.slow


@pytest.fixture
def run_until_ended(fake, tmp_path, monkeypatch):
    monkeypatch.setattr(profiling, "START_LIMIT_S", 3)
    monkeypatch.setattr(profiling, "END_LIMIT_S", 3)

    def run(mode):
        began_s = time.monotonic()
        folder, worker = tmp_path / "run", (sys.executable, "-c", "")
        with NsysCollector(fake).start(worker, folder, tmp_path, environment(NSYS_FAKE=mode)) as process:
            process.wait(100)
            assert process.find_running() == ()
        # The fake's child sleeps for 600 s.
        assert time.monotonic() - began_s < 100
        return folder

    return run


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("never-starts", "Nsight Systems did not start the worker within 3 s"),
        ("never-ends", "Nsight Systems did not end after the worker within 3 s"),
    ],
)
def test_a_profiler_that_never_ends_is_ended_and_the_log_says_why(mode, words, run_until_ended, fake, tmp_path):
    folder = run_until_ended(mode)

    assert f"{ENDED}{words}." in (folder / WORKER_LOG).read_text()
    with pytest.raises(NsysError, match=rf"wrote no report to .*: {words}; measure again"):
        NsysCollector(fake).collect(folder)
    assert not processes_with(str(tmp_path))


def test_an_export_that_never_ends_is_ended(fake, tmp_path):
    (tmp_path / "r.nsys-rep").write_bytes(b"report")
    environ = environment(NSYS_FAKE="export-never-ends")

    with pytest.raises(NsysError, match=r"did not export .*r.nsys-rep \(0 MB\) within 1 s and was ended; measure"):
        export(fake, tmp_path / "r.nsys-rep", tmp_path / "r.sqlite", environ, limit_s=0.7)

    assert not processes_with(str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fake", "r.export.log", "r.nsys-rep"]


def test_a_version_that_never_comes_is_not_waited_for(fake, monkeypatch):
    monkeypatch.setattr(find_module, "ANSWER_S", 1.0)
    monkeypatch.setenv("NSYS_FAKE", "version-never-ends")
    monkeypatch.setenv(CHOICE, str(fake.path))

    with pytest.raises(NsysError, match="does not answer to --version within 1 s; reinstall it or take it off"):
        find()

    assert not processes_with(str(fake.path))


def processes_with(text: str) -> list[str]:
    """Command lines that mention a path."""
    listing = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return [line for line in listing.splitlines() if text in line]
