"""The worktree of a comparison that was killed goes with the next comparison; one in use stays."""

from __future__ import annotations

import fcntl
import subprocess
from pathlib import Path

from pytest_nsight.controller.git_revision import check_out, resolve
from pytest_nsight.controller.revision_tree import LOCK_FILE, WORKTREE, remove_abandoned_worktrees


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=n", "-c", "user.email=n@example.org")
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_an_abandoned_worktree_is_removed_and_forgotten_and_one_in_use_is_not(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "first")
    revision = resolve(tmp_path, "HEAD", may_build=False)
    sessions = tmp_path / ".nsight"
    for name in ("killed", "running"):
        (sessions / name).mkdir(parents=True)
        (sessions / name / LOCK_FILE).touch()
        check_out(revision, sessions / name / WORKTREE)

    with (sessions / "running" / LOCK_FILE).open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        remove_abandoned_worktrees(revision, sessions)

    assert not (sessions / "killed" / WORKTREE).exists()
    assert (sessions / "running" / WORKTREE).exists()
    worktrees = git(tmp_path, "worktree", "list")
    assert "killed" not in worktrees
    assert "running" in worktrees
