"""The commit that stored runs name: with a "+" where it does not hold all that was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from pytest_nsight.controller.session_trees import SessionTrees
from pytest_nsight.gate.measured_shard import Shard
from pytest_nsight.model.values import Case
from tests.repositories import git

CASE = Case("perf/test_softmax.py::test_softmax[fused]")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository whose one test no commit holds yet, beside another new file."""
    git(tmp_path, "init", "-q")
    (tmp_path / "perf").mkdir()
    for name in ("README", "perf/test_softmax.py", "scratch.py"):
        (tmp_path / name).write_text("", encoding="utf-8")
    git(tmp_path, "add", "README")
    git(tmp_path, "commit", "-qm", "all but the test")
    return tmp_path


def describe(root: Path, *cases: Case, shard: Shard | None = None, save: bool = False) -> str:
    class GivenSettings:
        """What the trees read of the settings."""

        def __init__(self) -> None:
            self.root, self.against, self.shard, self.save = root, "", shard, save

    return SessionTrees(cast(Any, GivenSettings()), root / ".nsight/session", (), root).commit_with(cases)


def test_a_commit_without_the_test_does_not_hold_all_that_was_measured(root: Path) -> None:
    commit = git(root, "rev-parse", "HEAD")

    assert describe(root, CASE) == f"{commit}+"
    assert describe(root) == commit

    git(root, "add", "perf")
    git(root, "commit", "-qm", "the test")
    assert describe(root, CASE) == git(root, "rev-parse", "HEAD")


def test_changes_are_marked_once_and_no_repository_not_at_all(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (root / "README").write_text("changed", encoding="utf-8")

    assert describe(root, CASE) == git(root, "rev-parse", "HEAD") + "+"
    assert describe(tmp_path_factory.mktemp("plain"), CASE) == ""


def test_shards_that_are_judged_together_name_one_commit_whichever_has_the_new_test(root: Path) -> None:
    commit = git(root, "rev-parse", "HEAD")

    assert describe(root, CASE, shard=Shard(1, 2)) == describe(root, shard=Shard(2, 2)) == commit
    assert describe(root, CASE, shard=Shard(1, 2), save=True) == f"{commit}+"
    (root / "README").write_text("changed", encoding="utf-8")
    assert describe(root, shard=Shard(2, 2)) == f"{commit}+"
