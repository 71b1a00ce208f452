"""What killed sessions and commands leave is removed, and what belongs to one that runs stays: killed for real."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from pytest_nsight import cli
from pytest_nsight.baselines.folder_lock import locked
from pytest_nsight.collectors.nsys.private_folder import FOLDER_NAME, make_private_folder
from pytest_nsight.controller.abandoned_sessions import remove_abandoned
from pytest_nsight.controller.trees.git_revision import check_out, resolve
from pytest_nsight.controller.trees.revision_tree import WORKTREE
from pytest_nsight.model.errors import NsysError
from pytest_nsight.processes.owned_folder import IN_USE, own, scratch
from tests.collectors.real import environment
from tests.processes.marked_processes import wait_until

SECRET = "planted-hunter2"
KILLED = "20260101-120000-ab01"
RUNNING = "20260102-120000-ab02"

# A session that is killed in the middle of a run.
SESSION = """
import os, sys
from pathlib import Path
from pytest_nsight.processes.owned_folder import own
from pytest_nsight.collectors.nsys.private_folder import make_private_folder

session, keeps = Path(sys.argv[1]), sys.argv[2] == "keeps"
held = own(session, keeps=keeps)
(session / "against-build.log").write_text("built")
(session / "caches/this").mkdir(parents=True)
for name in ("run-001", "run-001/worker-1"):
    run = session / name
    private = make_private_folder(run)
    (private / "report.nsys-rep").write_text("planted-hunter2")
    for file in ("manifest.jsonl", "worker.log", "job.json", "trace.sqlite"):
        (run / file).write_text("{}")
    (run / ".trace.sqlite.part7").write_text("half")
    os.mkfifo(run / "parent.pipe")
(session / "run-001/tmpabc").mkdir()
(session / "run-002").mkdir()
print("here", flush=True)
os.kill(os.getpid(), 9)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


@pytest.fixture
def sessions(tmp_path: Path) -> Path:
    folder = tmp_path / "project/.nsight"
    folder.mkdir(parents=True)
    return folder


def run(code: str, *arguments: object) -> None:
    done = subprocess.run([sys.executable, "-c", code, *map(str, arguments)], env=environment(), check=False)
    assert done.returncode == -9


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())


RECORDS = ["manifest.jsonl", "worker-1/manifest.jsonl", "worker-1/worker.log", "worker.log"]


def test_of_a_killed_session_only_manifests_and_logs_stay(sessions: Path, tmp_path: Path) -> None:
    run(SESSION, sessions / KILLED, "")
    assert IN_USE in files(sessions / KILLED)

    removal = remove_abandoned(sessions, tmp_path / "baselines")

    assert files(sessions / KILLED) == ["against-build.log", *(f"run-001/{name}" for name in RECORDS)]
    (sentence,) = removal.removed
    assert sentence.startswith(
        f"removed from {sessions / KILLED}, whose session was killed: run-001/nsys, run-001/"
    )
    assert removal.left == ()
    assert str(remove_abandoned(sessions, tmp_path / "baselines")) == "nothing was left behind"


def test_a_recording_that_was_to_be_kept_stays_without_its_secrets(sessions: Path, tmp_path: Path) -> None:
    run(SESSION, sessions / KILLED, "keeps")

    remove_abandoned(sessions, tmp_path / "baselines")

    kept = sorted([*RECORDS, "job.json", "trace.sqlite", "worker-1/job.json", "worker-1/trace.sqlite"])
    assert files(sessions / KILLED / "run-001") == kept


def test_what_belongs_to_a_running_session_stays_and_is_named(
    sessions: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    held = own(sessions / RUNNING)
    private = make_private_folder(sessions / RUNNING / "run-001")
    (private / "report.nsys-rep").write_text(SECRET)
    before = files(sessions)

    assert cli.main(["clean", "--sessions", str(sessions), "--baselines", str(tmp_path / "none")]) == 0

    assert files(sessions) == before
    output = capsys.readouterr().out
    assert output.startswith(f"left {sessions / RUNNING}: its session still runs (process {os.getpid()} on ")
    held.release()
    remove_abandoned(sessions, tmp_path / "none")
    assert private.exists(), "what has no owner is nobody's to remove"


def test_a_session_that_was_killed_before_it_could_say_who_it_is(sessions: Path, tmp_path: Path) -> None:
    (sessions / KILLED).mkdir()
    (sessions / RUNNING).mkdir()
    (sessions / RUNNING / IN_USE).touch()

    remove_abandoned(sessions, tmp_path / "baselines")

    assert list(sessions.iterdir()) == []


def test_links_and_folders_of_others_are_left_alone(sessions: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    make_private_folder(outside / "run-001")
    (outside / IN_USE).touch()
    (sessions / KILLED).symlink_to(outside)
    (sessions / RUNNING).mkdir()
    os.mkfifo(sessions / RUNNING / IN_USE)
    (sessions / "20260103-120000-ab03/run-001").mkdir(parents=True)
    (sessions / "20260103-120000-ab03" / IN_USE).write_text('{"process": [], "host": 7}' + "[" * 5000)
    (sessions / "20260103-120000-ab03/run-001" / FOLDER_NAME).symlink_to(outside)

    remove_abandoned(sessions, tmp_path / "baselines")

    assert sorted(path.name for path in outside.iterdir()) == [IN_USE, "run-001"]
    assert (sessions / RUNNING / IN_USE).exists()
    assert not (sessions / "20260103-120000-ab03").exists()


COMMAND = """
import os, sys
from pytest_nsight.processes.owned_folder import scratch

with scratch() as folder:
    (folder / "r.sqlite").write_text("planted-hunter2")
    if sys.argv[1] == "dies":
        os.kill(os.getpid(), 9)
    print(folder, flush=True)
    sys.stdin.read()
"""


def test_the_folder_of_a_killed_command_goes_and_that_of_a_running_one_stays(
    sessions: Path, tmp_path: Path, temporary: Path
) -> None:
    run(COMMAND, "dies")
    (dead,) = temporary.iterdir()
    assert dead.stat().st_mode & 0o077 == 0
    command = [sys.executable, "-c", COMMAND, "lives"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
    ) as alive:
        assert alive.stdout is not None
        folder = Path(alive.stdout.readline().strip())
        # The one that lives has removed it before it made its own.
        assert list(temporary.iterdir()) == [folder]

        removal = remove_abandoned(sessions, tmp_path / "baselines")

        assert removal.left == (f"left {folder}: its command still runs ({read_owner(folder)})",)
        alive.communicate()
    assert list(temporary.iterdir()) == []


def read_owner(folder: Path) -> str:
    from pytest_nsight.processes.owned_folder import Owner, take_over  # noqa: PLC0415

    owner = take_over(folder)
    assert isinstance(owner, Owner)
    return str(owner)


def test_of_a_failed_nsys_only_the_log_stays(temporary: Path) -> None:
    with pytest.raises(NsysError):
        fail_to_export()

    (folder,) = temporary.iterdir()
    assert files(folder) == ["r.export.log"]


def fail_to_export() -> None:
    with scratch() as folder:
        (folder / "r.part7.sqlite").write_text(SECRET)
        (folder / "r.export.log").write_text("failed")
        raise NsysError("its output is in the log")


SAVER = """
import os, sys
from pathlib import Path
from pytest_nsight.baselines.folder_lock import locked
home = Path(sys.argv[1])
with locked(home):
    (home / f".perf.json.{os.getpid()}.tmp").write_text("{")
    os.kill(os.getpid(), 9)
"""


def test_drafts_of_killed_savers_go_and_those_of_one_that_saves_stay(sessions: Path, tmp_path: Path) -> None:
    homes = [tmp_path / "baselines" / name for name in ("h100", "h200")]
    for home in homes:
        home.mkdir(parents=True)
        (home / "perf.json").write_text("{}")
        run(SAVER, home)
    (sessions / ".pool.json.gz.999999999.tmp").write_text("")

    with locked(homes[1]):
        removal = remove_abandoned(sessions, tmp_path / "baselines")

        assert [path.name for path in homes[0].iterdir()] == ["perf.json"]
        assert len(list(homes[1].glob(".*.tmp"))) == 1
        assert len(removal.removed) == 2
        assert "is locked by process" in removal.left[0]
    remove_abandoned(sessions, tmp_path / "baselines")
    assert [path.name for path in homes[1].iterdir()] == ["perf.json"]
    assert list(sessions.iterdir()) == []


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=n", "-c", "user.email=n@example.org")
    return subprocess.run(
        ["git", "-C", str(folder), *identity, *arguments], capture_output=True, text=True, check=True
    ).stdout


@pytest.fixture
def repository(sessions: Path) -> Path:
    git(sessions.parent, "init", "-q")
    (sessions.parent / "file").write_text("content")
    git(sessions.parent, "add", "file")
    git(sessions.parent, "commit", "-qm", "first")
    return sessions.parent


def test_a_worktree_goes_with_its_killed_session_and_one_in_use_stays(
    repository: Path, sessions: Path, tmp_path: Path
) -> None:
    revision = resolve(repository, "HEAD", may_build=False)
    run(SESSION, sessions / KILLED, "")
    held = own(sessions / RUNNING)
    for name in (KILLED, RUNNING):
        check_out(revision, sessions / name / WORKTREE)

    remove_abandoned(sessions, tmp_path / "baselines")

    assert not (sessions / KILLED / WORKTREE).exists()
    assert (sessions / RUNNING / WORKTREE).exists()
    worktrees = git(repository, "worktree", "list")
    assert KILLED not in worktrees
    assert RUNNING in worktrees
    held.release()


CHECKS_OUT = """
import sys
from pathlib import Path
from pytest_nsight.processes.owned_folder import own
from pytest_nsight.controller.trees.git_revision import check_out, resolve
held = own(Path(sys.argv[2]))
check_out(resolve(Path(sys.argv[1]), "HEAD", may_build=False), Path(sys.argv[2], "against"))
"""


@pytest.mark.slow
def test_a_worktree_that_git_had_half_made_goes_too(repository: Path, sessions: Path, tmp_path: Path) -> None:
    """Killed in the middle of the checkout, when git has locked it."""
    begun = tmp_path / "begun"
    git(repository, "config", "filter.slow.smudge", f"touch {begun}; sleep 600")
    (repository / ".git/info/attributes").write_text("file filter=slow")
    command = [sys.executable, "-c", CHECKS_OUT, str(repository), str(sessions / KILLED)]
    session = subprocess.Popen(command, env=environment())
    wait_until(begun.exists)

    session.kill()
    session.wait()

    assert "locked" in git(repository, "worktree", "list", "--porcelain")
    wait_until(lambda: not processes_in(repository))
    remove_abandoned(sessions, tmp_path / "baselines")
    assert list(sessions.iterdir()) == []
    assert git(repository, "worktree", "list", "--porcelain").count("worktree ") == 1


def processes_in(folder: Path) -> list[str]:
    listing = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return [line for line in listing.splitlines() if str(folder) in line and "ps -eo" not in line]
