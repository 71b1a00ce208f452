"""The search with its measurement replaced by drawn runs: what is asked of it, and what comes of each answer."""

from __future__ import annotations

import math
import random
import shlex
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import pytest

from pytest_nsight.controller.bisection.commit_list import CommitLine
from pytest_nsight.controller.bisection.first_bad_commit import FirstBadCommit, SearchLimits
from pytest_nsight.controller.bisection.revision_measurement import AbsentCaseError, UnmeasurableError
from pytest_nsight.controller.trees.git_revision import Revision
from pytest_nsight.judge.judge import SubjectRuns
from pytest_nsight.judge.subject_runs import LOOKS
from pytest_nsight.model.bisection import Bisection, Commit, Criterion, Judgement
from pytest_nsight.model.errors import UsageError
from pytest_nsight.model.identity import Identity, LaunchIdentity, MachineCode, make_identity
from pytest_nsight.model.values import Policy, RunSummary
from pytest_nsight.model.verdicts import Verdict
from pytest_nsight.report.bisection_report import render_json, render_text
from tests.judge.runs import SUBJECT, judge, make_runs, uses

RUN_SD = 0.002
"""Deviation between runs of a quiet kernel of 200 us on an H200, generously."""


def commits(number: int) -> CommitLine:
    made = [Commit(f"{at:07x}{0:033x}", "2026-01-02T03:04:05+00:00", f"commit {at}") for at in range(number + 1)]
    return CommitLine(Path("/nowhere"), made[0], tuple(made[1:]))


def position(commit: str) -> int:
    return int(commit[:7], 16)


class Drawn:
    """Runs of commits by their position, drawn at random.

    Attributes:
        seen: positions in the order in which they were looked at.
        compared: positions whose times were compared, with the number of pairs.
    """

    def __init__(
        self,
        launches: Callable[[int], tuple[str, ...]],
        middle_ns: Callable[[int], float] = lambda _: 200_000.0,
        broken: Collection[int] = (),
        seed: int = 1,
        identity: Callable[[int], Identity] = lambda _: Identity(),
    ) -> None:
        self._launches, self._middle_ns, self._broken = launches, middle_ns, broken
        self._identity = identity
        self._choose = random.Random(seed)
        self.seen: list[int] = []
        self.compared: list[tuple[int, int]] = []

    def measure_launches(self, revision: Revision) -> tuple[RunSummary, ...]:
        at = position(revision.commit)
        self.seen.append(at)
        if at in self._broken:
            raise UnmeasurableError(f"not in {revision.short}")
        return self._runs(at, 1)

    def identify(self, revision: Revision) -> Identity:
        return self._identity(position(revision.commit))

    def compare(self, before: Revision, now: Revision, is_settled: Callable[[Verdict], bool]) -> Verdict:
        first, second = position(before.commit), position(now.commit)
        old, new = self._runs(first, LOOKS[-1]), self._runs(second, LOOKS[-1])
        for pairs in LOOKS[1:]:
            given = SubjectRuns(SUBJECT, Policy(), old[:pairs], new[:pairs], against=before.short)
            (verdict,) = judge([given])
            if is_settled(verdict):
                break
        self.compared.append((second, pairs))
        return verdict

    def keep_only(self, commits: Collection[str]) -> None:
        assert len(commits) <= 3

    def _runs(self, at: int, count: int) -> tuple[RunSummary, ...]:
        middles = [self._middle_ns(at) * math.exp(self._choose.gauss(0, RUN_SD)) for _ in range(count)]
        return make_runs(middles, "new", shapes=uses(*self._launches(at)))


def search(measured: Drawn, line: CommitLine, **limits: object) -> Bisection:
    found = FirstBadCommit(line, SUBJECT.case, measured, SearchLimits(**limits), lambda _: None)  # type: ignore[arg-type]
    return found.find()


def judgements(found: Bisection) -> Mapping[int, Judgement]:
    return {position(one.commit.hash): one.judgement for one in found.measured}


@pytest.mark.parametrize("first_bad", [1, 2, 15, 16, 17, 31, 32])
def test_a_lost_fusion_of_32_commits_takes_7_measured_ones_and_is_timed_once(first_bad: int) -> None:
    line = commits(32)
    measured = Drawn(lambda at: ("fused",) if at < first_bad else ("a", "b"))

    found = search(measured, line)

    assert found.first_bad == line.commits[first_bad - 1]
    assert found.criterion is Criterion.STRUCTURE
    assert len(measured.seen) == len(set(measured.seen)) <= 7
    assert [at for at, _ in measured.compared] == [first_bad]
    assert (found.before, found.now, len(found.changes)) == (1, 2, 3)
    text = render_text(found, 100)
    assert f"commit {first_bad}" in text
    assert "- 1 launch: fused   + 2 launches: a, b" in text


@pytest.mark.parametrize("seed", range(20))
def test_3_percent_of_32_commits_take_at_most_9_measured_ones(seed: int) -> None:
    first_bad = random.Random(seed).randint(1, 32)
    line = commits(32)
    measured = Drawn(lambda _: ("k",), lambda at: 200_000.0 * (1.03 if at >= first_bad else 1), seed=seed)

    found = search(measured, line)

    assert found.criterion is Criterion.TIME
    assert found.first_bad == line.commits[first_bad - 1]
    assert len(found.measured) <= 9
    assert f"kernel time from GOOD ({line.good.short}) to {found.candidates[0].short}, bad: " in render_text(
        found, 200
    )


def identify_code(at: int, changes: Sequence[int]) -> Identity:
    """Of a commit of a repository in which the machine code changes in these commits."""
    version = sum(at >= change for change in changes)
    code = MachineCode(f"code {version}", instructions=200 + version, registers=40)
    return make_identity([LaunchIdentity("kernel", "k", code, (8, 1, 1), (128, 1, 1))])


def test_commits_that_launch_what_a_known_one_does_are_not_timed() -> None:
    """GOOD and BAD are compared, and the two sides of the answer; of those between, identities say all."""
    measured = Drawn(
        lambda _: ("k",),
        lambda at: 200_000.0 * (1.03 if at >= 11 else 1),
        identity=lambda at: identify_code(at, [11]),
    )

    found = search(measured, commits(32))

    assert found.first_bad == commits(32).commits[10]
    assert [at for at, _ in measured.compared] == [32, 11]
    assert measured.seen == [0, 32]
    assert len(found.measured) <= 7
    assert found.comparison is not None
    text = render_text(found, 200)
    assert "  machine code changed: instructions 200 -> 201" in text
    assert "kernel time from 000000a to 000000b: " in text


def test_a_commit_whose_code_is_that_of_neither_end_is_timed_once() -> None:
    """The code changed for nothing in 6, and for the worse in 20."""
    measured = Drawn(
        lambda _: ("k",),
        lambda at: 200_000.0 * (1.03 if at >= 20 else 1),
        identity=lambda at: identify_code(at, [6, 20, 30]),
    )

    found = search(measured, commits(32))

    assert found.first_bad == commits(32).commits[19]
    code_of = {at: identify_code(at, [6, 20, 30]).digest for at, _ in measured.compared}
    of_search = [at for at, _ in measured.compared[:-1]]
    assert len({code_of[at] for at in of_search}) == len(of_search)
    assert "machine code changed: instructions 201 -> 202" in render_text(found, 200)


def test_ends_that_are_identical_are_refused_without_timing() -> None:
    measured = Drawn(lambda _: ("k",), identity=lambda at: identify_code(at, []))

    with pytest.raises(UsageError, match=r"launch the same machine code .* so there is no commit to find"):
        search(measured, commits(8))
    assert measured.compared == []


def test_without_identities_time_decides_and_the_answer_says_why() -> None:
    measured = Drawn(
        lambda _: ("k",),
        lambda at: 200_000.0 * (1.03 if at >= 3 else 1),
        identity=lambda at: Identity(why_none="its rounds differ") if at else identify_code(0, []),
    )

    found = search(measured, commits(8))

    assert found.first_bad == commits(8).commits[2]
    assert "the launches of 0000008 have no identity (its rounds differ): commits were compared by time alone" in (
        found.sentences
    )


def test_a_faster_bad_is_refused_until_it_is_asked_for() -> None:
    def faster(at: int) -> float:
        return 200_000.0 * (0.9 if at >= 6 else 1)

    with pytest.raises(UsageError, match=r"is faster than GOOD .*give --improvement"):
        search(Drawn(lambda _: ("k",), faster), commits(8))
    found = search(Drawn(lambda _: ("k",), faster), commits(8), wants_improvement=True)

    assert found.first_bad == commits(8).commits[5]


def test_ends_that_do_not_differ_are_refused_after_one_comparison() -> None:
    measured = Drawn(lambda _: ("k",))

    with pytest.raises(UsageError, match=r"launch the same, and their times do not differ, .* UNCHANGED, "):
        search(measured, commits(8))
    assert measured.seen == [0, 8]
    assert len(measured.compared) == 1


def test_ends_that_cannot_be_measured_are_refused() -> None:
    with pytest.raises(UsageError, match=r"GOOD \(0000000\) cannot be measured: not in 0000000"):
        search(Drawn(lambda _: ("k",), broken={0}), commits(8))
    with pytest.raises(UsageError, match=r"BAD \(0000008\) cannot be measured"):
        search(Drawn(lambda _: ("k",), broken={8}), commits(8))


@pytest.mark.parametrize(("at", "remedy"), [(0, "give a later GOOD"), (8, "give an earlier BAD")])
def test_an_end_without_the_test_says_what_to_give_instead(at: int, remedy: str) -> None:
    class Lacking(Drawn):
        def measure_launches(self, revision: Revision) -> tuple[RunSummary, ...]:
            if position(revision.commit) == at:
                raise AbsentCaseError(f"the test t is not in {revision.short}")
            return super().measure_launches(revision)

    with pytest.raises(UsageError, match=rf"cannot be measured: the test t is not in 000000{at}; {remedy}"):
        search(Lacking(lambda _: ("k",)), commits(8))


def test_commits_that_cannot_be_measured_leave_a_range() -> None:
    measured = Drawn(lambda at: ("fused",) if at < 5 else ("a", "b"), broken={4, 5, 6})

    found = search(measured, commits(8))

    assert found.first_bad is None
    assert [position(one.hash) for one in found.candidates] == [4, 5, 6, 7]
    assert {at for at, judgement in judgements(found).items() if judgement is Judgement.SKIPPED} == {4, 5, 6}
    text = render_text(found, 100)
    assert "the first bad commit is one of these 4" in text
    assert len(measured.seen) == 5 + 3
    assert text.count("skipped 000000") == 3
    assert "\n5 commits of 9 measured, 3 skipped, by structure" in text
    assert '"first_bad":""' in render_json(found)


def test_the_first_of_two_changes_is_found_and_the_next_search_is_named() -> None:
    measured = Drawn(lambda at: ("fused",) if at < 3 else ("a", "b") if at < 7 else ("a", "b", "c"))

    found = search(measured, commits(8))

    assert found.first_bad == commits(8).commits[2]
    command = f"  {shlex.join(('pytest-nsight', 'bisect', '0000003', '0000008', '-k', SUBJECT.case))}"
    assert f"after it the launches change again; to search on, type:\n{command}\n" in render_text(found, 60)


def test_an_autotuners_choice_is_looked_at_twice() -> None:
    """The same kernel in another tile: only a second process shows whether that is the commit or chance."""
    measured = Drawn(lambda at: ("gemm_64x64",) if at < 2 else ("gemm_128x64",))

    found = search(measured, commits(4))

    assert found.first_bad == commits(4).commits[1]
    assert measured.seen.count(0) == measured.seen.count(4) == 2


def test_no_commit_is_begun_after_the_time_is_over() -> None:
    measured = Drawn(lambda at: ("fused",) if at < 5 else ("a", "b"))

    found = search(measured, commits(8), ends_s=time.monotonic() - 1)

    assert measured.seen == [0, 8]
    assert measured.compared == []
    assert len(found.candidates) == 8
    assert any("the time of --minutes is over" in one for one in found.sentences)


def test_what_is_known_after_an_interrupt_is_the_range_so_far() -> None:
    class Ended(Drawn):
        def measure_launches(self, revision: Revision) -> tuple[RunSummary, ...]:
            if len(self.seen) == 3:
                raise KeyboardInterrupt
            return super().measure_launches(revision)

    measured = Ended(lambda at: ("fused",) if at < 5 else ("a", "b"))
    found = FirstBadCommit(commits(8), SUBJECT.case, measured, SearchLimits(), lambda _: None)
    assert found.so_far() is None

    with pytest.raises(KeyboardInterrupt):
        found.find()

    so_far = found.so_far()
    assert so_far is not None
    assert [position(one.hash) for one in so_far.candidates] == [5, 6, 7, 8]
    assert (so_far.before, so_far.now) == (1, 2)
    assert so_far.changes
