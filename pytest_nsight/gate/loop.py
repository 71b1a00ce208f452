"""The stages in order: runs, summaries, looks, verdicts. No pytest, no processes, no files of its own."""

from __future__ import annotations

import dataclasses
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from pytest_nsight.baselines.comparability import comparable, told
from pytest_nsight.gate.pair_results import place_partners_together
from pytest_nsight.gate.results import Harvest, died_in_canary
from pytest_nsight.judge.judge import LOOKS, Evidence, confirm, judge, suspects
from pytest_nsight.model.kernel_names import family
from pytest_nsight.model.roofline import Limits, measure_limits
from pytest_nsight.model.units import duration
from pytest_nsight.model.values import Case, RunSummary, Subject
from pytest_nsight.model.verdicts import Verdict, VerdictKind
from pytest_nsight.protocol.job import OTHER_TREE, Assignment
from pytest_nsight.protocol.manifest import Manifest
from pytest_nsight.trace.process_record import INTERRUPTED, ProcessRecord, ProcessResults, summarise_records

NOTHING_MEASURED = (
    "nothing was measured: only test functions are, not unittest's methods, coroutines or doctests; take the mark "
    "away or turn it into a function"
)

CLAIMS_UNCHECKED = "the marks' claims were not checked: they are about GPU kernels, and no GPU was measured"

_WORTH_GUESSING = 5
"""Of so many cases one is probably doubtful after the first look; of fewer none, and the session would have to wait
for the end of processes that nobody needs."""

Stored = Mapping[Subject, Sequence[RunSummary]]


class Source(Protocol):
    """Where runs come from: a machine, or a recorded session."""

    def execute(self, assignment: Assignment, upcoming: Sequence[Assignment] = ()) -> Sequence[ProcessRecord]:
        """Measures cases in a fresh process, or several side by side; none when a recording has no more.

        Args:
            assignment: what to measure.
            upcoming: the next calls' assignments if nothing happens in between; without cases those of which no more is
                known than that they may come.
        """

    def close(self) -> None:
        """Ends what was prepared for a next call that will not come."""


class Gate:
    """Measures cases and judges them."""

    def __init__(
        self, source: Source, cases: Sequence[Case], order: random.Random | None, *, is_paired: bool = False
    ) -> None:
        """Prepares.

        Args:
            source: where runs come from.
            cases: what to measure, in the order of collection.
            order: shuffles the cases of each run, so that what one case leaves behind (a warm board, a
                fragmented allocator) becomes noise instead of bias; None keeps their order.
            is_paired: whether each run of the user's tree has one of another tree beside it.
        """
        self._source = source
        self._cases = {case.id: case for case in cases}
        self._order = order
        self._is_paired = is_paired
        self._planned = 0
        self._most = 0
        self._ahead: list[Assignment] = []
        self.harvest = Harvest()

    @property
    def cases(self) -> tuple[str, ...]:
        """Node ids, in the order of collection."""
        return tuple(self._cases)

    @property
    def limits(self) -> Mapping[str, Limits]:
        """Board -> what the canaries reached on it."""
        return measure_limits(self.harvest.canaries.summaries)

    @property
    def partners(self) -> Mapping[str, str]:
        """Case -> the case that it claims to beat."""
        claims = ((case.id, case.policy.faster_than) for case in self._cases.values())
        return {case: partner for case, partner in claims if partner is not None}

    def measure(self, runs: int, *, goes_on: bool = False, is_judged: bool = False) -> None:
        """Measures every case in `runs` fresh processes, or pairs of them.

        Args:
            runs: how many.
            goes_on: whether another call will probably follow, whose first process may get ready.
            is_judged: whether `confirm` will follow, for which processes may get ready.
        """
        self._most = max(runs, LOOKS[-1]) if is_judged else runs
        if self._is_paired:
            self._measure_pairs(runs)
            return
        while len(self._ahead) < runs + goes_on:
            self._ahead += self._assignments(self.cases)
        assignments, self._ahead = self._ahead[:runs], self._ahead[runs:]
        self._run_all(assignments, lambda: self._ahead)

    def _measure_pairs(self, runs: int) -> None:
        """Plans all pairs at once; of what the other tree turns out not to have one pair is enough."""
        first, *others = [self._assignments(self.cases) for _ in range(runs)]

        def shared() -> list[Assignment]:
            absent = self.harvest.other.absent
            assignments = (assignment for pair in others for assignment in pair)
            kept = [
                dataclasses.replace(
                    assignment, cases=tuple(case for case in assignment.cases if case not in absent)
                )
                for assignment in assignments
            ]
            return [assignment for assignment in kept if assignment.cases]

        if self._run_all(first, shared):
            left = shared()
            self._planned = runs if left else 1
            self._run_all(left)

    def confirm(self, load: Callable[[str], Stored], *, settle: bool) -> None:
        """Gives suspicious cases more fresh processes, until none is left or the last look is reached.

        Args:
            load: returns the stored runs for a product name.
            settle: whether a case counts as suspicious, too, if more runs may show it to be unchanged.
        """

        def find() -> tuple[Subject, ...]:
            stored = load(self.harvest.device)
            gathered = self.evidence(stored)
            return suspects(gathered, family=family, settle=settle, canaries=self._canaries(stored))

        def extend(doubtful: set[str], runs: int) -> bool:
            todo = [case for case in self._cases if case in doubtful]
            return bool(todo) and self._repeat(todo, runs)

        confirm(find, extend, first=self._planned)

    def evidence(self, stored: Stored) -> tuple[Evidence, ...]:
        """Puts new and stored runs of each subject side by side, in the order of the cases."""
        new: dict[Subject, list[RunSummary]] = {}
        for summary in self.harvest.accepted():
            new.setdefault(summary.subject, []).append(summary)
        limits, other = self.limits, self.harvest.other
        order = {case: position for position, case in enumerate(self._cases)}
        gathered = []
        for subject in sorted(new, key=lambda subject: (order[subject.case], subject.part)):
            environment = new[subject][-1].environment
            if other.commit:
                baseline, incomparable = other.runs(subject), other.incomparable(subject, environment)
            else:
                baseline, incomparable = comparable(stored.get(subject, ()), environment)
                self.harvest.note(told(baseline, environment))
            gathered.append(
                Evidence(
                    subject=subject,
                    policy=self._cases[subject.case].policy,
                    baseline=tuple(baseline),
                    new=tuple(new[subject]),
                    incomparable=incomparable,
                    limits=limits,
                    races=() if subject.part else self.harvest.pairs.of(subject.case),
                    against=other.short,
                    absent=other.explain(subject) if other.commit and not baseline else "",
                )
            )
        return tuple(gathered)

    def judge(self, stored: Stored) -> tuple[Verdict, ...]:
        """The verdicts, in the order of the cases."""
        gathered = self.evidence(stored)
        if any(item.policy.has_claims and not item.new[0].ran_on_gpu for item in gathered):
            self.harvest.note(CLAIMS_UNCHECKED)
        return judge(gathered, family=family, canaries=self._canaries(stored))

    def _canaries(self, stored: Stored) -> tuple[Evidence, ...]:
        other = self.harvest.other
        return self.harvest.canaries.evidence(other.canary_runs() if other.commit else stored)

    def saved(self) -> tuple[Verdict, ...]:
        """What to tell of runs that become baselines."""
        verdicts = []
        for evidence in self.evidence({}):
            metric = evidence.policy.metric
            metric = metric if metric in evidence.new[0].rounds else next(iter(evidence.new[0].rounds))
            medians = [statistics.median_high(run.rounds[metric]) for run in evidence.new]
            now_ns = float(statistics.median_high(medians))
            sentence = f"{evidence.subject.label}: {len(medians)} runs of {duration(now_ns)} stored"
            verdicts.append(Verdict(evidence.subject, VerdictKind.SAVED, sentence, now_ns, metric=metric))
        return tuple(verdicts)

    def _repeat(self, cases: Sequence[str], runs: int) -> bool:
        """Measures cases in so many more processes, or pairs of them. False: none to be had."""
        return not cases or self._run_all(
            [assignment for _ in range(runs) for assignment in self._assignments(cases)]
        )

    def _assignments(self, cases: Sequence[str]) -> tuple[Assignment, ...]:
        """One run's assignment, or a pair's: both in one order of cases, and the tree that goes first changes (ABBA)."""
        assignment = Assignment(tuple(cases))
        if self._order is not None:
            seed, order = self._order.getrandbits(32), list(cases)
            random.Random(seed).shuffle(order)
            assignment = Assignment(tuple(place_partners_together(order, self.partners)), seed)
        assignments = self._both_trees(assignment) if self._is_paired else (assignment,)
        self._planned += 1
        return assignments

    def _both_trees(self, assignment: Assignment) -> tuple[Assignment, Assignment]:
        other = dataclasses.replace(assignment, tree=OTHER_TREE)
        return (other, assignment) if self._planned % 2 == 0 else (assignment, other)

    def _run_all(
        self, assignments: Sequence[Assignment], ahead: Callable[[], Sequence[Assignment]] = tuple
    ) -> bool:
        """Measures assignment by assignment; `ahead` tells what will probably follow, by what is known when it is asked."""
        return all(
            self._run(assignment, (*assignments[number:], *ahead(), *self._prospects()))
            for number, assignment in enumerate(assignments, 1)
        )

    def _prospects(self) -> tuple[Assignment, ...]:
        """Turns that the next look may ask for, of which nobody knows the cases yet."""
        if self._planned >= self._most or len(self._cases) < _WORTH_GUESSING:
            return ()
        return self._both_trees(Assignment(())) if self._is_paired else (Assignment(()), Assignment(()))

    def _run(self, assignment: Assignment, upcoming: Sequence[Assignment]) -> bool:
        """Measures cases in a fresh process; after a crash, what is left in another. False: none to be had."""
        todo = list(assignment.cases)
        while todo:
            records = self._source.execute(dataclasses.replace(assignment, cases=tuple(todo)), upcoming)
            if not records:
                return False
            left: list[str] = []
            for record, found in zip(records, summarise_records(records), strict=True):
                own = [case for case in todo if record.cases is None or case in record.cases]
                left += self._take(record, found, own)
            todo = left
            if any(record.failure == INTERRUPTED for record in records):
                raise KeyboardInterrupt
        return True

    def _take(self, record: ProcessRecord, found: ProcessResults, cases: list[str]) -> list[str]:
        """Keeps what a process yielded; returns the cases that another process has to measure."""
        manifest, summaries, problems = record.manifest, found.summaries, found.problems
        for sentence in found.notes:
            self.harvest.note(sentence)
        self.harvest.bytes_per_s = found.bytes_per_s or self.harvest.bytes_per_s
        if manifest.tree == OTHER_TREE:
            self.harvest.adopt_run(manifest)
            return self.harvest.other.take(manifest, cases, summaries, problems, record.failure)
        self.harvest.note(self.harvest.canaries.take(manifest, summaries, problems))
        for sentence in self.harvest.pairs.take(manifest, summaries):
            self.harvest.note(sentence)
        self.harvest.adopt_run(manifest)
        ended = [case for case in cases if case in manifest.ended]
        if not record.failure:
            self._accept(manifest, ended, summaries, problems)
            # Ranks stop together at the first failure: what comes after it is for others.
            is_cut_short = bool(record.ranks and ended)
            return [case for case in cases if is_cut_short and case not in manifest.started]
        # A crash takes unwritten records with it: only cases whose every round was seen are believed.
        whole = [case for case in ended if record.trace is not None and case not in problems]
        self._accept(manifest, whole, summaries, problems)
        if record.failure == INTERRUPTED:
            return []
        self.harvest.note(record.failure)
        self.harvest.note(record.trace_error)
        crashed = [case for case in manifest.started if case in cases and case not in manifest.ended]
        for case in crashed:
            self.harvest.problems[case] = record.failure
        if not crashed and not died_in_canary(manifest, record.failure):
            # It died between cases, or before the first: another try would die the same way.
            for case in cases:
                if case not in whole:
                    self.harvest.problems[case] = record.failure
            return []
        return [case for case in cases if case not in whole and case not in crashed]

    def _accept(
        self,
        manifest: Manifest,
        cases: Sequence[str],
        summaries: Sequence[RunSummary],
        problems: Mapping[str, str],
    ) -> None:
        self.harvest.adopt_reports(manifest, cases)
        self.harvest.summaries.extend(summary for summary in summaries if summary.subject.case in cases)
        measured = {summary.subject.case for summary in summaries}
        for case in cases:
            if case not in measured and self.harvest.passed(case):
                self.harvest.problems.setdefault(case, problems.get(case, NOTHING_MEASURED))
