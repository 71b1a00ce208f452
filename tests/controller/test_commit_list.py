"""The commits between two others, from real repositories."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_nsight.controller.bisection.commit_list import list_commits
from pytest_nsight.model.errors import UsageError
from tests.repositories import git


def commit(folder: Path, subject: str) -> str:
    git(folder, "commit", "--quiet", "--allow-empty", "--allow-empty-message", "--message", subject)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet", "--initial-branch", "main")
    return tmp_path


def test_a_line_begins_after_good_ends_with_bad_and_counts_a_merge_once(repository: Path) -> None:
    good = commit(repository, "first")
    git(repository, "checkout", "--quiet", "-b", "branch")
    commit(repository, "on the branch")
    tip = commit(repository, "on the branch, too")
    git(repository, "checkout", "--quiet", "main")
    second = commit(repository, "")
    git(repository, "merge", "--quiet", "--no-ff", "--message", "merges", "branch")
    bad = commit(repository, 'last: "quoted" \u00e9')

    line = list_commits(repository, good, "HEAD")

    assert line.good.hash == good
    assert [one.subject for one in line.commits] == ["", "merges", 'last: "quoted" \u00e9']
    assert line.bad.hash == bad
    merge = line.commits[1]
    assert merge.parents == (second, tip)
    assert line.branch_of(merge, line.commits[0]) == (good, tip)
    assert line.branch_of(line.bad, merge) is None
    assert line.revision(merge).commit == merge.hash


def test_commits_that_do_not_contain_good_are_left_out(repository: Path) -> None:
    root = commit(repository, "root")
    git(repository, "checkout", "--quiet", "-b", "branch")
    good = commit(repository, "released on a branch")
    git(repository, "checkout", "--quiet", "main")
    commit(repository, "older than the release")
    beside = commit(repository, "beside the release")
    git(repository, "merge", "--quiet", "--no-ff", "--message", "merges", "branch")
    commit(repository, "last")

    line = list_commits(repository, good, "main")

    assert [one.subject for one in line.commits] == ["merges", "last"]
    # GOOD is on the merge's second side, so the first one is what is new to it.
    assert line.branch_of(line.commits[0], line.good) == (root, beside)


def test_what_follows_good_on_a_merged_branch_is_searched(repository: Path) -> None:
    commit(repository, "root")
    git(repository, "checkout", "--quiet", "-b", "branch")
    good = commit(repository, "good")
    tip = commit(repository, "bad")
    git(repository, "checkout", "--quiet", "main")
    git(repository, "merge", "--quiet", "--no-ff", "--message", "merges", "branch")

    line = list_commits(repository, good, "main")
    from_tip = list_commits(repository, tip, "main")

    assert [one.subject for one in line.commits] == ["merges"]
    assert line.branch_of(line.bad, line.good) == (good, tip)
    assert from_tip.branch_of(from_tip.bad, from_tip.good) is None, "main brought nothing in"


def test_a_branch_that_took_good_in_is_searched_after_it(repository: Path) -> None:
    commit(repository, "root")
    git(repository, "checkout", "--quiet", "-b", "branch")
    commit(repository, "without good")
    git(repository, "checkout", "--quiet", "main")
    good = commit(repository, "good")
    git(repository, "checkout", "--quiet", "branch")
    git(repository, "merge", "--quiet", "--no-ff", "--message", "takes good in", "main")
    tip = commit(repository, "after it")

    line = list_commits(repository, good, tip)

    assert [one.subject for one in line.commits] == ["takes good in", "after it"]


def test_a_shallow_clone_has_a_sentence_of_its_own(
    repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    old = commit(repository, "old")
    git(repository, "tag", "v1")
    commit(repository, "new")
    commit(repository, "newest")
    clone = tmp_path_factory.mktemp("shallow") / "clone"
    git(repository, "clone", "--quiet", "--depth=1", f"file://{repository}", str(clone))
    git(clone, "fetch", "--quiet", "--depth=1", "origin", "tag", "v1")

    with pytest.raises(UsageError, match=r"clone is shallow.*git fetch --unshallow --tags"):
        list_commits(clone, old, "HEAD")


def test_what_is_no_line_of_commits_is_one_sentence(
    repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    old = commit(repository, "first")
    git(repository, "checkout", "--quiet", "-b", "branch")
    commit(repository, "on the branch")
    git(repository, "checkout", "--quiet", "main")
    new = commit(repository, "second")

    with pytest.raises(
        UsageError, match=f"{new} is older|{old} is older than {new}; give GOOD, the older one, first"
    ):
        list_commits(repository, new, old)
    with pytest.raises(UsageError, match="are the same commit"):
        list_commits(repository, "HEAD", "main")
    with pytest.raises(UsageError, match=r"no ancestor of branch .*git merge-base 'main\^\{\}' branch"):
        list_commits(repository, "main^{}", "branch")
    with pytest.raises(UsageError, match="bisect nowhere: git knows no such commit"):
        list_commits(repository, "nowhere", "HEAD")
    with pytest.raises(UsageError, match="bisect --all: git knows no such commit"):
        list_commits(repository, "--all", "HEAD")
    with pytest.raises(UsageError, match=r"is in no git repository; .* there is nothing to search"):
        list_commits(tmp_path_factory.mktemp("elsewhere"), "a", "b")
