"""Git is asked in the folder that is meant, and what it complains of is one sentence."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pytest_nsight.model.errors import UsageError
from pytest_nsight.processes import git_calls
from pytest_nsight.processes.git_calls import GitAnswer, ask_git


@pytest.fixture
def two_repositories(tmp_path: Path) -> tuple[Path, Path]:
    folders = (tmp_path / "asked", tmp_path / "callers")
    for folder in folders:
        subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    return folders


def test_the_folder_names_the_repository_also_in_a_hook_of_another(
    two_repositories: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, callers = two_repositories
    monkeypatch.setenv("GIT_DIR", str(callers / ".git"))

    answer = ask_git(asked, "rev-parse", "--absolute-git-dir")
    of_the_caller = ask_git(asked, "rev-parse", "--absolute-git-dir", in_callers_repository=True)

    assert answer.text.strip() == str(asked / ".git")
    assert of_the_caller.text.strip() == str(callers / ".git")


def test_a_failure_has_a_code_and_a_complaint(two_repositories: tuple[Path, Path]) -> None:
    answer = ask_git(two_repositories[0], "rev-parse", "--verify", "nothing")

    assert answer.code == 128
    assert answer.complaint == "Needed a single revision"


@pytest.mark.parametrize(
    ("errors", "complaint"),
    [
        ("", "git said nothing"),
        ("Preparing worktree\nerror: no room\nfatal: gave up\n", "no room; gave up"),
        ("one\ntwo\n", "two"),
    ],
)
def test_a_complaint_leaves_progress_out(errors: str, complaint: str) -> None:
    assert GitAnswer(1, b"", errors).complaint == complaint


def test_a_git_that_does_not_end_is_ended(
    two_repositories: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_calls, "ANSWER_S", 0.5)

    with pytest.raises(UsageError, match=r"git -c alias.wait=!sleep 60 did not answer within 0 s"):
        ask_git(two_repositories[0], "-c", "alias.wait=!sleep 60", "wait")


def test_a_machine_without_git_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(UsageError, match=r"git is needed and cannot be started .*; install it"):
        ask_git(tmp_path, "status")
