"""Old sessions go, and nothing else does."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from pytest_nsight.controller.session_folders import (
    MOST_SESSIONS,
    SESSIONS_FOLDER,
    keep_session,
    make_run_folder,
    prune_sessions,
)
from pytest_nsight.processes.owned_folder import own

TOMORROW_S = time.time() + 24 * 3600


def session(root: Path, number: int, *files: str) -> Path:
    """The session of that day of January."""
    folder = root / f"202601{number:02d}-120000-ab{number:02d}"
    (folder / "run-001").mkdir(parents=True)
    for name in ("run-001/manifest.jsonl", *files):
        (folder / name).write_text("")
    return folder


def test_the_newest_sessions_stay(tmp_path: Path) -> None:
    folders = [session(tmp_path, number, "result.json", "session.json") for number in range(1, MOST_SESSIONS + 4)]

    removed = prune_sessions(tmp_path, TOMORROW_S)

    assert removed == tuple(folder.name for folder in folders[:3])
    assert [folder.exists() for folder in folders] == [False] * 3 + [True] * MOST_SESSIONS


def test_git_ignores_the_sessions_by_one_file_and_not_what_lies_below(tmp_path: Path) -> None:
    sessions = tmp_path / SESSIONS_FOLDER

    make_run_folder(sessions / "20260101-120000-abcd" / "run-001")
    make_run_folder(sessions / "20260101-120000-abcd" / "drill" / "001" / "run-001")

    assert list(tmp_path.rglob(".gitignore")) == [sessions / ".gitignore"]


def test_kept_sessions_stay_and_do_not_count(tmp_path: Path) -> None:
    kept = session(tmp_path, 1, "result.json", "session.json")
    keep_session(kept)
    others = [session(tmp_path, number, "result.json", "session.json") for number in range(2, MOST_SESSIONS + 2)]

    assert prune_sessions(tmp_path, TOMORROW_S) == ()
    assert all(folder.exists() for folder in (kept, *others))


@pytest.mark.parametrize(
    "files", [(), ("session.json", "result.json")], ids=["that was killed", "that ended as it should"]
)
def test_a_session_that_may_still_run_stays(tmp_path: Path, files: tuple[str, ...]) -> None:
    folders = [session(tmp_path, number, *files) for number in range(1, MOST_SESSIONS + 2)]

    assert prune_sessions(tmp_path, time.time() + 60) == ()
    assert prune_sessions(tmp_path, TOMORROW_S) == (folders[0].name,)


def test_a_claimed_session_stays_however_long_it_is_silent(tmp_path: Path) -> None:
    """Parallel runs and drills write deeper than the files that show how long a session has been silent."""
    folders = [session(tmp_path, number) for number in range(1, MOST_SESSIONS + 2)]

    with own(folders[0]):
        assert prune_sessions(tmp_path, TOMORROW_S) == ()
    assert prune_sessions(tmp_path, TOMORROW_S) == (folders[0].name,)


def test_what_is_no_session_stays(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / "mine").write_text("")
    for number in range(3, MOST_SESSIONS + 3):
        session(tmp_path, number, "result.json", "session.json")
    (tmp_path / "20260102-120000-abcd").symlink_to(target)
    (tmp_path / "worker-cache").mkdir()
    (tmp_path / "20260101-mine").mkdir()

    assert prune_sessions(tmp_path, TOMORROW_S) == ()
    assert (target / "mine").exists()


def test_no_folder_of_sessions_is_no_fault(tmp_path: Path) -> None:
    assert prune_sessions(tmp_path / "nowhere") == ()
    keep_session(tmp_path / "nowhere")
