"""Two branches that both saved: git merges them without a conflict, and no run is lost."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_nsight.baselines.baseline_file import read_file
from pytest_nsight.baselines.file_format import by_age
from pytest_nsight.baselines.merge import unite
from pytest_nsight.baselines.store import file_name, save
from pytest_nsight.cli import main
from pytest_nsight.model.values import RunSummary, Subject
from tests.baselines.examples import CASE, run

pytestmark = pytest.mark.slow

OTHER = "perf_tests/test_rms_norm.py::test_rms_norm[unfused-4096]"
SUBJECT = Subject(CASE)
DRIVER = f"{sys.executable} -m pytest_nsight.cli merge-baselines %O %A %B %P"
ATTRIBUTES = "baselines/**/*.json -diff linguist-generated merge=pytest-nsight\n"
FILE = f"baselines/model/{file_name(CASE)}"


def runs(*numbers: int) -> dict[Subject, tuple[RunSummary, ...]]:
    return {SUBJECT: tuple(run(number) for number in numbers)} if numbers else {}


def ids(stored: dict[Subject, tuple[RunSummary, ...]]) -> list[int]:
    return [int(one.run.removeprefix("run-")) for one in stored.get(SUBJECT, ())]


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "united"),
    [
        ([1, 2], [1, 2, 3], [1, 2, 4], [1, 2, 3, 4]),
        ([], [1], [2], [1, 2]),
        ([1, 2, 3], [2, 3], [1, 2, 3, 4], [2, 3, 4]),
        ([1, 2, 3], [1, 2, 3, 4], [3], [3, 4]),
        ([1, 2], [2], [2], [2]),
        ([1], [], [1], []),
        ([1], [2], [], [2]),
        ([1], [1, 5], [1, 5], [1, 5]),
    ],
)
def test_what_one_added_stays_and_what_one_removed_goes(
    base: list[int], ours: list[int], theirs: list[int], united: list[int]
) -> None:
    assert ids(dict(unite(runs(*base), runs(*ours), runs(*theirs)))) == united
    assert ids(dict(unite(runs(*base), runs(*theirs), runs(*ours)))) == united


def test_the_newest_are_kept_and_all_that_both_branches_added_among_them() -> None:
    base = list(range(20))

    found = unite(runs(*base), runs(*base[5:], *range(20, 25)), runs(*base[5:], *range(30, 35)))

    assert ids(dict(found)) == [*range(10, 25), *range(30, 35)]


def test_a_run_that_one_branch_changed_is_taken_from_it() -> None:
    changed = {SUBJECT: (dataclasses.replace(run(1), reason="mine"),)}

    assert unite(runs(1), changed, runs(1)) == changed
    assert unite(runs(1), runs(1), changed) == changed
    assert unite(runs(1), changed, {}) == changed
    assert unite(runs(1), {SUBJECT: (dataclasses.replace(run(1), reason="other"),)}, changed) != changed


_sets = st.sets(st.integers(0, 30), max_size=20).map(sorted)


@given(_sets, _sets, _sets)
def test_uniting_is_the_union_less_what_was_removed(base: list[int], ours: list[int], theirs: list[int]) -> None:
    added = ({*ours} | {*theirs}) - {*base}
    expected = sorted(added | ({*base} & {*ours} & {*theirs}))

    found = unite(runs(*base), runs(*ours), runs(*theirs))

    assert ids(dict(found)) == [int(one.run[4:]) for one in sorted(map(run, expected), key=by_age)][-20:]


class Repository:
    """A git repository whose branches save baselines."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("config", "user.name", "Somebody")
        self.git("config", "user.email", "somebody@example.org")

    def git(self, *arguments: str, fails: bool = False) -> str:
        done = subprocess.run(["git", *arguments], cwd=self.folder, capture_output=True, text=True, check=False)
        assert bool(done.returncode) == fails, done.stdout + done.stderr
        return done.stdout + done.stderr

    def save(self, *stored: RunSummary) -> None:
        save(self.folder / "baselines", "model", stored)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message=save")

    def branch_twice(self) -> None:
        """Two branches from a common save; each saves both cases, and ends as the checked-out `one`."""
        (self.folder / ".gitattributes").write_text(ATTRIBUTES)
        self.save(*map(run, range(5)), *(run(number, OTHER) for number in range(5)))
        for name, first in (("two", 10), ("one", 20)):
            self.git("switch", "--quiet", "--create", name, "main")
            self.save(*map(run, range(first, first + 5)), *(run(n, OTHER) for n in range(first, first + 5)))

    def stored(self) -> dict[str, list[str]]:
        return {
            subject.case: [one.run for one in found] for subject, found in read_file(self.folder / FILE).items()
        }


ALL = [f"run-{number}" for number in (*range(5), *range(10, 15), *range(20, 25))]


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    folder = tmp_path / "a project"
    folder.mkdir()
    return Repository(folder)


def test_two_branches_that_both_saved_merge_without_a_conflict(repository: Repository) -> None:
    repository.git("config", "merge.pytest-nsight.driver", DRIVER)
    repository.branch_twice()

    repository.git("merge", "--quiet", "--no-edit", "two")

    assert repository.git("status", "--porcelain") == ""
    assert repository.stored() == {CASE: ALL, OTHER: ALL}
    assert repository.git("log", "--oneline", "--merges")


def test_rebasing_and_cherry_picking_unite_too(repository: Repository) -> None:
    repository.git("config", "merge.pytest-nsight.driver", DRIVER)
    repository.branch_twice()

    repository.git("rebase", "--quiet", "two")

    assert repository.stored() == {CASE: ALL, OTHER: ALL}


def test_files_that_both_branches_added_are_united(repository: Repository) -> None:
    repository.git("config", "merge.pytest-nsight.driver", DRIVER)
    (repository.folder / ".gitattributes").write_text(ATTRIBUTES)
    repository.git("add", "--all")
    repository.git("commit", "--quiet", "--message=start")
    repository.git("switch", "--quiet", "--create", "two")
    repository.save(run(2))
    repository.git("switch", "--quiet", "main")
    repository.save(run(1))

    repository.git("merge", "--quiet", "--no-edit", "two")

    assert repository.stored() == {CASE: ["run-1", "run-2"]}


def test_without_the_driver_a_conflict_is_united_by_hand(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    repository.branch_twice()
    repository.git("merge", "--quiet", "--no-edit", "two", fails=True)
    path = repository.folder / FILE
    assert "<<<<<<< " in path.read_text()

    assert main(["merge-baselines", str(path)]) == 0

    assert repository.stored() == {CASE: ALL, OTHER: ALL}
    assert f"git add '{path}'" in capsys.readouterr().out
    repository.git("add", FILE)
    repository.git("commit", "--quiet", "--no-edit")


def test_a_damaged_version_stays_a_conflict_that_is_explained(repository: Repository) -> None:
    repository.git("config", "merge.pytest-nsight.driver", DRIVER)
    repository.branch_twice()
    repository.git("switch", "--quiet", "two")
    (repository.folder / FILE).write_text("{}")
    repository.git("commit", "--quiet", "--all", "--message=damage")
    repository.git("switch", "--quiet", "one")
    before = (repository.folder / FILE).read_bytes()

    said = repository.git("merge", "--no-edit", "two", fails=True)

    assert f"their version of {FILE} is damaged: format is null, expected 1 to 4" in said
    assert "CONFLICT" in said
    assert "Traceback" not in said
    assert (repository.folder / FILE).read_bytes() == before


def test_a_file_in_no_conflict_is_left_alone(repository: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    repository.branch_twice()
    path = repository.folder / FILE
    before = path.read_bytes()

    assert main(["merge-baselines", str(path)]) == 2

    said = capsys.readouterr().err
    assert "git holds no two versions of" in said
    assert (
        f"committed with conflict markers, take it from a commit before that, `git checkout <commit> -- '{path}'`"
        in said
    )
    assert path.read_bytes() == before


def test_another_number_of_files_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["merge-baselines", "a", "b"]) == 2

    assert "give one file in conflict, or git's %O %A %B %P" in capsys.readouterr().err
