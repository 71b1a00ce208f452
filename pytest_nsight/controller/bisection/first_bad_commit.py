"""The search for the first bad commit: measures GOOD and BAD, chooses a criterion, bisects the commits between."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from pytest_nsight.controller.bisection.commit_list import CommitLine, write_search
from pytest_nsight.controller.bisection.revision_measurement import AbsentCaseError, UnmeasurableError
from pytest_nsight.controller.trees.git_revision import Revision
from pytest_nsight.gate.commit_judgement import (
    compare_launches,
    describe_time,
    judge_launches,
    judge_time,
)
from pytest_nsight.gate.commit_search import CommitSearch
from pytest_nsight.judge.code_changes import describe_change
from pytest_nsight.model.bisection import Bisection, Commit, Criterion, Judgement, MeasuredCommit
from pytest_nsight.model.comparison import Comparison
from pytest_nsight.model.errors import UsageError
from pytest_nsight.model.identity import Identity
from pytest_nsight.model.units import percent
from pytest_nsight.model.values import RunSummary
from pytest_nsight.model.verdicts import Verdict, VerdictKind

_SETTLED = (VerdictKind.REGRESSION, VerdictKind.IMPROVEMENT, VerdictKind.UNCHANGED)
_REMEDIES = {
    "GOOD": "give a later GOOD, which has it; if it had another name then, check out a commit with that name",
    "BAD": "give an earlier BAD, which has it",
}


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """What the search may do.

    Attributes:
        wants_improvement: whether a BAD that is faster than GOOD is searched for, too.
        ends_s: moment of `time.monotonic` from which no further commit is begun, None for no limit.
    """

    wants_improvement: bool = False
    ends_s: float | None = None


class CommitMeasurement(Protocol):
    """Protocol of what measures one case in commits; RevisionMeasurement implements and documents it."""

    def measure_launches(self, revision: Revision) -> tuple[RunSummary, ...]:
        """What a commit launches."""

    def identify(self, revision: Revision) -> Identity:
        """What a commit launches, exactly."""

    def compare(self, before: Revision, now: Revision, is_settled: Callable[[Verdict], bool]) -> Verdict:
        """The gate's verdict on one commit compared with another."""

    def keep_only(self, commits: Collection[str]) -> None:
        """Says that all other commits are no longer needed."""


@dataclass
class FirstBadCommit:
    """A search; what it has found so far survives an interrupt.

    Attributes:
        line: the commits.
        case: node id of what is measured.
        measurement: measures them.
        limits: what the search may do.
        say: called with one sentence for each measured commit.
    """

    line: CommitLine
    case: str
    measurement: CommitMeasurement
    limits: SearchLimits
    say: Callable[[str], None]
    _criterion: Criterion = Criterion.STRUCTURE
    _of_bad: Comparison | None = None
    _runs: dict[str, tuple[RunSummary, ...]] = field(default_factory=dict)
    _identities: dict[str, Identity] = field(default_factory=dict)
    _proven: dict[str, MeasuredCommit] = field(default_factory=dict)
    _measured: list[MeasuredCommit] = field(default_factory=list)
    _sentences: list[str] = field(default_factory=list)
    _search: CommitSearch | None = None

    def find(self) -> Bisection:
        """The answer.

        Raises:
            UsageError: GOOD or BAD cannot be measured, or they do not differ as they have to.
        """
        self._look_at_ends()
        self._search = CommitSearch.over(len(self.line.commits))
        while (position := self._search.next_position) is not None:
            if not self._has_time:
                self._sentences.append("the time of --minutes is over: give more, or begin from these commits")
                break
            self._take(position)
        return self._explain(self.so_far())

    def so_far(self) -> Bisection | None:
        """What is known by now; None before GOOD and BAD are measured."""
        search = self._search
        if search is None:
            return None
        good, bad = self._last_good, self.line.commits[search.candidates[-1]]
        difference = compare_launches(self._runs[good.hash], self._runs[bad.hash])
        return Bisection(
            case=self.case,
            good=self.line.good,
            bad=self.line.bad,
            commits=len(self.line.commits),
            criterion=self._criterion,
            candidates=tuple(self.line.commits[one] for one in search.candidates),
            measured=tuple(self._measured),
            last_good=good,
            changes=difference.finding.changes if difference.differs else (),
            difference=difference.text,
            code_change=describe_change(self._identities.get(good.hash), self._identities.get(bad.hash)),
            before=difference.before,
            now=difference.now,
            resources=difference.finding.resources,
            sentences=tuple(self._sentences),
        )

    @property
    def _last_good(self) -> Commit:
        low = self._search.low if self._search is not None else -1
        return self.line.commits[low] if low >= 0 else self.line.good

    @property
    def _has_time(self) -> bool:
        return self.limits.ends_s is None or time.monotonic() < self.limits.ends_s

    def _look_at_ends(self) -> None:
        good, bad = self.line.good, self.line.bad
        for commit, name in ((good, "GOOD"), (bad, "BAD")):
            self._runs[commit.hash] = self._measure_end(commit, name)
        if compare_launches(self._runs[good.hash], self._runs[bad.hash]).needs_another_look:
            for commit, name in ((good, "GOOD"), (bad, "BAD")):
                self._runs[commit.hash] += self._measure_end(commit, name)
        difference = compare_launches(self._runs[good.hash], self._runs[bad.hash])
        if difference.differs:
            self._note(good, Judgement.GOOD, "as given")
            self._note(bad, Judgement.BAD, str(difference))
            return
        self._criterion = Criterion.TIME
        self._identify_ends()
        self._note(good, Judgement.GOOD, "as given")
        self._of_bad = self._compare_ends()
        self._note(bad, Judgement.BAD, describe_time(self._of_bad), self._of_bad)

    def _measure_end(self, commit: Commit, name: str) -> tuple[RunSummary, ...]:
        try:
            return self.measurement.measure_launches(self.line.revision(commit))
        except UnmeasurableError as error:
            remedy = f"; {_REMEDIES[name]}" if isinstance(error, AbsentCaseError) else ""
            raise UsageError(f"bisect: {name} ({commit.short}) cannot be measured: {error}{remedy}") from None

    def _identify_ends(self) -> None:
        """Compares GOOD's and BAD's identities: commits with identical launches need no statistics.

        Raises:
            UsageError: GOOD and BAD are proven to launch the same.
        """
        good, bad = (self._identify(commit) for commit in (self.line.good, self.line.bad))
        if good.digest and good.digest == bad.digest:
            raise UsageError(
                f"bisect: GOOD ({self.line.good.short}) and BAD ({self.line.bad.short}) launch the same machine "
                "code with the same shapes and arguments, so there is no commit to find; to compare their times "
                "all the same, add --nsight-no-identity"
            )
        for commit, identity in ((self.line.good, good), (self.line.bad, bad)):
            if identity.why_none:
                why = f"the launches of {commit.short} have no identity ({identity.why_none})"
                self._sentences.append(f"{why}: commits were compared by time alone")
                break

    def _identify(self, commit: Commit) -> Identity:
        identity = self.measurement.identify(self.line.revision(commit))
        self._identities[commit.hash] = identity
        return identity

    def _compare_ends(self) -> Comparison:
        good, bad = self.line.good, self.line.bad
        try:
            verdict = self._compare(good, bad, lambda found: found.kind in _SETTLED)
        except UnmeasurableError as error:
            raise UsageError(f"bisect: GOOD and BAD cannot be compared: {error}") from None
        found = verdict.comparison
        wanted = VerdictKind.REGRESSION
        if verdict.kind is VerdictKind.IMPROVEMENT and found is not None:
            wanted = VerdictKind.IMPROVEMENT
            if not self.limits.wants_improvement:
                raise UsageError(
                    f"bisect: BAD ({bad.short}) is faster than GOOD ({good.short}), {percent(found.ratio - 1)}: "
                    "give --improvement to find the commit that made it faster"
                )
        if verdict.kind is not wanted or found is None:
            is_equal = verdict.kind is VerdictKind.UNCHANGED
            raise UsageError(
                f"bisect: GOOD ({good.short}) and BAD ({bad.short}) launch the same, and their times "
                + ("do not differ, so there is no commit to find" if is_equal else "do not show a difference")
                + f": {verdict.kind.value}, {verdict.sentence}"
            )
        return found

    def _take(self, position: int) -> None:
        """Measures a commit, and narrows the search by the result."""
        assert self._search is not None
        commit = self.line.commits[position]
        try:
            judgement, why, comparison = self._classify(commit)
        except UnmeasurableError as error:
            judgement, why, comparison = Judgement.SKIPPED, str(error), None
        self._note(commit, judgement, why, comparison)
        step = {
            Judgement.GOOD: self._search.with_good,
            Judgement.BAD: self._search.with_bad,
            Judgement.SKIPPED: self._search.with_skipped,
        }
        self._search = step[judgement](position)
        ends = (self.line.good, self._last_good, self.line.commits[self._search.high])
        self.measurement.keep_only({one.hash for one in ends})

    def _classify(self, commit: Commit) -> tuple[Judgement, str, Comparison | None]:
        # An identity holds all that the launches say, and its process is not slowed by a profiler.
        if self._proven and (same := self._proven.get(self._identify(commit).digest)) is not None:
            self._runs[commit.hash] = self._runs[same.commit.hash]
            why = f"the same machine code, launch shapes and arguments as {same.commit.short}"
            return same.judgement, why, None
        good = self._runs[self.line.good.hash]
        revision = self.line.revision(commit)
        runs = self.measurement.measure_launches(revision)
        if self._criterion is Criterion.STRUCTURE and compare_launches(good, runs).needs_another_look:
            runs += self.measurement.measure_launches(revision)
        self._runs[commit.hash] = runs
        if self._criterion is Criterion.STRUCTURE:
            difference = compare_launches(good, runs)
            return judge_launches(difference), str(difference), None
        of_bad = self._of_bad
        assert of_bad is not None
        verdict = self._compare(self.line.good, commit, lambda found: judge_time(found, of_bad) is not None)
        judgement = judge_time(verdict, of_bad)
        if judgement is None or verdict.comparison is None:
            return Judgement.SKIPPED, f"neither like GOOD nor like BAD: {verdict.sentence}", verdict.comparison
        return judgement, describe_time(verdict.comparison), verdict.comparison

    def _compare(self, before: Commit, now: Commit, is_settled: Callable[[Verdict], bool]) -> Verdict:
        revision = self.line.revision
        return self.measurement.compare(revision(before), revision(now), is_settled)

    def _note(self, commit: Commit, judgement: Judgement, why: str, comparison: Comparison | None = None) -> None:
        measured = MeasuredCommit(commit, judgement, why, comparison)
        self._measured.append(measured)
        identity = self._identities.get(commit.hash)
        if identity is not None and identity.digest and judgement is not Judgement.SKIPPED:
            self._proven.setdefault(identity.digest, measured)
        first, *_ = why.splitlines() or [""]
        self.say(f"{commit.short} {judgement.value}: {first}")

    def _explain(self, found: Bisection | None) -> Bisection:
        """The answer with the times of the last good commit and the first known bad one, and what else to do."""
        assert found is not None
        good, bad = found.last_good, found.candidates[-1]
        comparison, sentences = None, [*found.sentences, *self._describe_merge(found), *self._describe_rest(bad)]
        is_timed = any(one.commit == bad and one.comparison is not None for one in found.measured)
        if not is_timed and self._has_time:
            try:
                comparison = self._compare(good, bad, lambda verdict: verdict.kind in _SETTLED).comparison
            except UnmeasurableError as error:
                sentences.append(f"{good.short} and {bad.short} were not compared on time: {error}")
        return replace(found, comparison=comparison, sentences=tuple(sentences))

    def _describe_merge(self, found: Bisection) -> Sequence[str]:
        branch = self.line.branch_of(found.first_bad, found.last_good) if found.first_bad is not None else None
        if branch is None:
            return ()
        fork, tip = branch
        command = write_search(fork[:12], tip[:12], self.case)
        return (f"it is a merge; to search the branch that it brought in, type:\n{command}",)

    def _describe_rest(self, first_bad: Commit) -> Sequence[str]:
        """A sentence if the launches change again between the first bad commit and BAD."""
        bad = self.line.bad
        if self._criterion is Criterion.TIME or first_bad.hash == bad.hash:
            return ()
        later = compare_launches(self._runs[first_bad.hash], self._runs[bad.hash])
        if not later.differs:
            return ()
        command = write_search(first_bad.short, bad.short, self.case)
        return (f"after it the launches change again; to search on, type:\n{command}",)
