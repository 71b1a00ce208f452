"""The stages in order: runs, summaries, looks, verdicts. No pytest, no processes, no files of its own."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pytest_nsight.baselines.environment import comparable, told
from pytest_nsight.canaries import CanaryHarvest, died_in_canary
from pytest_nsight.judge.confirm import confirm
from pytest_nsight.judge.gate import Evidence, judge, suspects
from pytest_nsight.manifest import Manifest
from pytest_nsight.model import Case, RunSummary, Subject
from pytest_nsight.races import RaceHarvest, put_side_by_side
from pytest_nsight.records import INTERRUPTED, ProcessRecord, Yield, summarise_records
from pytest_nsight.result import Verdict, VerdictKind
from pytest_nsight.roofline import Limits, measure_limits
from pytest_nsight.trace.names import family
from pytest_nsight.units import duration

NOTHING_MEASURED = (
    "nothing was measured: only test functions are, not unittest's methods, coroutines or doctests; take the mark "
    "away or turn it into a function"
)

CLAIMS_UNCHECKED = "the marks' claims were not checked: they are about GPU kernels, and no GPU was measured"

Stored = Mapping[Subject, Sequence[RunSummary]]


class Source(Protocol):
    """Where runs come from: a machine, or a recorded session."""

    def execute(self, cases: Sequence[str], seed: int | None = None) -> Sequence[ProcessRecord]:
        """Measures the cases in a fresh process, or several side by side; none when a recording has no more.

        The seed is that of the order, None where the order is the user's.
        """


@dataclass(slots=True)
class Harvest:
    """What the runs have yielded so far.

    Attributes:
        summaries: one per subject and run.
        reports: case -> serialised pytest reports, of the first run or of the first that failed.
        problems: case -> why there is nothing to judge.
        notes: sentences about the session as a whole.
        device: product name of what was measured.
        told_bytes_per_s: memory bandwidth of the GPU as the recording tells it, None if it does not.
        environment: of the first run, with its board.
        canaries: what the canaries have yielded.
        seeds: run id -> seed of the order of its cases.
        races: of cases with those that they claim to beat.
    """

    summaries: list[RunSummary] = field(default_factory=list)
    reports: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    device: str = ""
    told_bytes_per_s: float | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    canaries: CanaryHarvest = field(default_factory=CanaryHarvest)
    seeds: dict[str, int] = field(default_factory=dict)
    races: RaceHarvest = field(default_factory=RaceHarvest)

    def note(self, sentence: str) -> None:
        """Adds a sentence once."""
        if sentence and sentence not in self.notes:
            self.notes.append(sentence)

    def adopt_run(self, manifest: Manifest) -> None:
        """Takes over what is true of a whole run, and the boards of all its processes."""
        if manifest.seed is not None:
            self.seeds[manifest.run] = manifest.seed
        if not manifest.device:
            return
        if not self.device:
            self.device = manifest.device
            self.environment = {**manifest.environment, "board": manifest.board}
        boards = dict.fromkeys((*self.environment["board"].split("+"), *manifest.board.split("+")))
        self.environment = {**self.environment, "board": "+".join(boards)}

    def adopt_reports(self, manifest: Manifest, cases: Sequence[str]) -> None:
        """Takes over reports: a case shows its first run, unless a later one failed."""
        fresh: dict[str, list[dict[str, Any]]] = {}
        for case, report in manifest.reports:
            if case in cases:
                fresh.setdefault(case, []).append(report)
        for case, reports in fresh.items():
            if case not in self.reports or any(report["outcome"] == "failed" for report in reports):
                self.reports[case] = reports

    def passed(self, case: str) -> bool:
        """Whether every phase of the case passed."""
        reports = self.reports.get(case, [])
        return bool(reports) and all(_has_passed(report) for report in reports)

    def accepted(self) -> list[RunSummary]:
        """The summaries of cases that passed and of which nothing is missing."""
        good = (one for one in self.summaries if one.subject.case not in self.problems)
        return [one for one in good if self.passed(one.subject.case)]


def _has_passed(report: Mapping[str, Any]) -> bool:
    """A test that was expected to fail and passed has passed: its verdict may be the failure expected."""
    return report["outcome"] == "passed" or str(report.get("longrepr")).startswith("[XPASS(strict)]")


class Gate:
    """Measures cases and judges them."""

    def __init__(self, source: Source, cases: Sequence[Case], order: random.Random | None) -> None:
        """Prepares.

        Args:
            source: where runs come from.
            cases: what to measure, in the order of collection.
            order: shuffles the cases of each run, so that what one case leaves behind (a warm board, a
                fragmented allocator) becomes noise instead of bias; None keeps their order.
        """
        self._source = source
        self._cases = {case.id: case for case in cases}
        self._order = order
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

    def measure(self, runs: int) -> None:
        """Measures every case in `runs` fresh processes."""
        for _ in range(runs):
            if not self._run(self.cases):
                break

    def confirm(self, load: Callable[[str], Stored], *, settle: bool) -> None:
        """Gives suspicious cases more fresh processes, until none is left or the last look is reached.

        Args:
            load: returns the stored runs for a product name.
            settle: whether a case counts as suspicious, too, if more runs may show it to be unchanged.
        """

        def find() -> tuple[Subject, ...]:
            stored = load(self.harvest.device)
            canaries = self.harvest.canaries.evidence(stored)
            return suspects(self.evidence(stored), family=family, settle=settle, canaries=canaries)

        def extend(doubtful: set[str], runs: int) -> bool:
            todo = [case for case in self._cases if case in doubtful]
            return bool(todo) and all(self._run(todo) for _ in range(runs))

        confirm(find, extend)

    def evidence(self, stored: Stored) -> tuple[Evidence, ...]:
        """Puts new and stored runs of each subject side by side, in the order of the cases."""
        new: dict[Subject, list[RunSummary]] = {}
        for summary in self.harvest.accepted():
            new.setdefault(summary.subject, []).append(summary)
        limits = self.limits
        order = {case: position for position, case in enumerate(self._cases)}
        gathered = []
        for subject in sorted(new, key=lambda subject: (order[subject.case], subject.part)):
            environment = new[subject][-1].environment
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
                    races=() if subject.part else self.harvest.races.of(subject.case),
                )
            )
        return tuple(gathered)

    def judge(self, stored: Stored) -> tuple[Verdict, ...]:
        """The verdicts, in the order of the cases."""
        gathered = self.evidence(stored)
        if any(item.policy.has_claims and not item.new[0].ran_on_gpu for item in gathered):
            self.harvest.note(CLAIMS_UNCHECKED)
        return judge(gathered, family=family, canaries=self.harvest.canaries.evidence(stored))

    def saved(self) -> tuple[Verdict, ...]:
        """What to tell of runs that become baselines."""
        verdicts = []
        for evidence in self.evidence({}):
            metric = evidence.policy.metric
            metric = metric if metric in evidence.new[0].rounds else next(iter(evidence.new[0].rounds))
            medians = [sorted(run.rounds[metric])[len(run.rounds[metric]) // 2] for run in evidence.new]
            now_ns = float(sorted(medians)[len(medians) // 2])
            sentence = f"{evidence.subject.label}: {len(medians)} runs of {duration(now_ns)} stored"
            verdicts.append(Verdict(evidence.subject, VerdictKind.SAVED, sentence, now_ns, metric=metric))
        return tuple(verdicts)

    def _run(self, cases: Sequence[str]) -> bool:
        """Measures cases in a fresh process; after a crash, what is left in another. False: none to be had."""
        todo = list(cases)
        seed = None
        if self._order is not None:
            seed = self._order.getrandbits(32)
            random.Random(seed).shuffle(todo)
            todo = put_side_by_side(todo, self.partners)
        while todo:
            records = self._source.execute(todo, seed)
            if not records:
                return False
            left: list[str] = []
            for record, found in zip(records, summarise_records(records), strict=True):
                own = [case for case in todo if record.cases is None or case in record.cases]
                left += self._take(record, found, own)
            todo = left
            if any(record.death == INTERRUPTED for record in records):
                raise KeyboardInterrupt
        return True

    def _take(self, record: ProcessRecord, found: Yield, cases: list[str]) -> list[str]:
        """Keeps what a process yielded; returns the cases that another process has to measure."""
        manifest, summaries, problems = record.manifest, found.summaries, found.problems
        for sentence in found.notes:
            self.harvest.note(sentence)
        self.harvest.told_bytes_per_s = found.told_bytes_per_s or self.harvest.told_bytes_per_s
        self.harvest.note(self.harvest.canaries.take(manifest, summaries, problems))
        for sentence in self.harvest.races.take(manifest, summaries):
            self.harvest.note(sentence)
        self.harvest.adopt_run(manifest)
        ended = [case for case in cases if case in manifest.ended]
        if not record.death:
            self._accept(manifest, ended, summaries, problems)
            # Ranks stop together at the first failure: what comes after it is for others.
            is_cut_short = bool(record.ranks and ended)
            return [case for case in cases if is_cut_short and case not in manifest.started]
        # A crash takes unwritten records with it: only cases whose every round was seen are believed.
        whole = [case for case in ended if record.trace is not None and case not in problems]
        self._accept(manifest, whole, summaries, problems)
        if record.death == INTERRUPTED:
            return []
        self.harvest.note(record.death)
        self.harvest.note(record.trouble)
        crashed = [case for case in manifest.started if case in cases and case not in manifest.ended]
        for case in crashed:
            self.harvest.problems[case] = record.death
        if not crashed and not died_in_canary(manifest, record.death):
            # It died between cases, or before the first: another try would die the same way.
            for case in cases:
                if case not in whole:
                    self.harvest.problems[case] = record.death
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
