"""What Nsight Systems never sees, and that nothing of it stays: under the installed nsys, whatever its version."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from pytest_nsight.collectors.base import RecordingOptions
from pytest_nsight.collectors.nsys.nsys_collector import EXPORT_FILE, REPORT_FILE, NsysCollector
from pytest_nsight.collectors.nsys.private_folder import (
    FOLDER_NAME,
    is_visible,
    make_private_folder,
    remove_private_folder,
)
from pytest_nsight.protocol.job import WORKER_LOG
from pytest_nsight.protocol.worker_start import start_command
from tests.collectors.real import ROOT, environment

pytestmark = pytest.mark.xdist_group("nsys")

SECRETS = {
    "GITHUB_TOKEN": "planted-hunter2-token",
    "CUDA_API_KEY": "planted-hunter2-cuda",
    "MY_SETTING": "planted-hunter2-plain \udcff\n",
}
# A worker that reports its own state; if asked, it starts a child with the same environment.
WORKER = """
import json, os, subprocess, sys
from pathlib import Path

def main(folder):
    umask = os.umask(0)
    os.umask(umask)
    (folder / "made").mkdir()
    environ = {name: value for name, value in os.environ.items()}
    (folder / "seen.json").write_text(json.dumps({"umask": umask, "environ": environ}))
    if os.environ.get("CHILD"):
        subprocess.run([sys.executable, "-c", "import time; time.sleep(0.5)"], check=True)
    from pytest_nsight.recorders.nvtx.ranges import emitter, within
    with within(emitter(), "round", 7): pass
    return 0
"""


@pytest.fixture
def recorded(installation, tmp_path, monkeypatch):
    """Runs the worker as a session does; gives the run's folder."""

    def record(environ, *, options=RecordingOptions(), umask=0o027) -> Path:  # noqa: B008 - frozen
        (tmp_path / "own_worker.py").write_text(WORKER)
        run = tmp_path / "run-001"
        before = os.umask(umask)
        try:
            collector = NsysCollector(installation, options)
            path = os.pathsep.join([str(ROOT), str(tmp_path)])
            command = start_command("own_worker", run)
            with collector.start(command, run, tmp_path, {**environ, "PYTHONPATH": path}) as process:
                assert process.wait(120) == 0, (run / WORKER_LOG).read_text()
        finally:
            os.umask(before)
        return run

    return record


# A thread of nsys reads the environment some time after the start: on a busy machine it may see what came later.
@pytest.mark.long
def test_secrets_of_the_environment_reach_the_worker_and_no_file(recorded, installation, tmp_path):
    run = recorded({**environment(), **SECRETS})

    seen = json.loads((run / "seen.json").read_text())["environ"]
    assert {name: seen.get(name) for name in SECRETS} == SECRETS
    (run / "seen.json").unlink()
    assert (run / FOLDER_NAME / REPORT_FILE).exists()
    assert files_with(b"hunter2", tmp_path) == []

    collector = NsysCollector(installation)
    trace = collector.collect(run)
    assert trace.ranges.payload.tolist() == [7]
    assert (run / FOLDER_NAME / EXPORT_FILE).exists()
    assert files_with(b"hunter2", tmp_path) == []

    collector.tidy(run, keep=True)
    assert sorted(path.name for path in run.iterdir()) == ["made", "trace.sqlite", WORKER_LOG]


@pytest.mark.slow
def test_of_a_process_that_the_worker_starts_no_secret_stays(recorded, installation, tmp_path):
    """nsys records the environment of such a process, too; only until the report has been read."""
    run = recorded({**environment(), **SECRETS, "CHILD": "1"})
    (run / "seen.json").unlink()
    collector = NsysCollector(installation)
    assert collector.collect(run).ranges.payload.tolist() == [7]

    collector.tidy(run, keep=True)

    assert (run / "trace.sqlite").exists()
    assert files_with(b"hunter2", tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("temporary", [None, "", "own"])
def test_the_worker_has_the_outer_umask_and_temporary_folder(temporary, recorded, tmp_path):
    environ = environment()
    environ.pop("TMPDIR", None)
    if temporary is not None:
        (tmp_path / "own").mkdir()
        environ["TMPDIR"] = temporary and str(tmp_path / temporary)

    run = recorded(environ)

    seen = json.loads((run / "seen.json").read_text())
    assert seen["umask"] == 0o027
    assert seen["environ"].get("TMPDIR") == environ.get("TMPDIR")
    assert stat.S_IMODE((run / "made").stat().st_mode) == 0o750
    assert stat.S_IMODE((run / FOLDER_NAME).stat().st_mode) == 0o700
    assert not (tmp_path / "own").exists() or not list((tmp_path / "own").iterdir())


@pytest.mark.slow
def test_a_variable_that_the_user_allows_is_there_from_the_start(recorded):
    run = recorded({**environment(), "MY_SETTING": "shown"}, options=RecordingOptions(visible_variables=("MY_*",)))

    assert json.loads((run / "seen.json").read_text())["environ"]["MY_SETTING"] == "shown"
    assert not (run / FOLDER_NAME / "state.json").exists()


@pytest.mark.parametrize(
    ("name", "is_shown"),
    [
        ("PATH", True),
        ("LD_LIBRARY_PATH", True),
        ("PYTHONPATH", True),
        ("CUDA_VISIBLE_DEVICES", True),
        ("LC_ALL", True),
        ("CUDA_API_KEY", False),
        ("PYTHON_KEYRING_PASSWORD", False),
        ("GITHUB_TOKEN", False),
        ("AWS_SECRET_ACCESS_KEY", False),
        ("DATABASE_URL", False),
        ("MY_PATH", False),
        ("", False),
    ],
)
def test_nsys_sees_what_a_process_needs_to_start_and_no_more(name, is_shown):
    assert is_visible(name) is is_shown
    assert is_visible(name, (name,)) is True


def test_the_folder_is_new_and_its_owners_alone(tmp_path):
    before = os.umask(0)
    try:
        folder = make_private_folder(tmp_path / "run")
    finally:
        os.umask(before)
    (folder / "old").write_text("")

    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert list(make_private_folder(tmp_path / "run").iterdir()) == []


def test_a_link_in_its_place_is_not_followed(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("stays")
    run = tmp_path / "run"
    run.mkdir()
    (run / FOLDER_NAME).symlink_to(outside)

    remove_private_folder(run)
    make_private_folder(run)

    assert (outside / "file").read_text() == "stays"
    assert not (run / FOLDER_NAME).is_symlink()


def files_with(text: bytes, folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and text in path.read_bytes()]
