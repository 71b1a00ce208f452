"""Drills into slower kernels after the verdict: counters of the case here, and of what it is compared with."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_nsight.collectors.ncu.ncu_collector import NcuCollector, find_ncu
from pytest_nsight.collectors.ncu.raw_page import base_name
from pytest_nsight.controller.session_folders import DRILL_FOLDER
from pytest_nsight.controller.workers.worker_run import LiveSource
from pytest_nsight.controller.workers.worker_starter import LiveSession
from pytest_nsight.judge.counter_moves import describe_counters, describe_moves
from pytest_nsight.model.errors import CollectorError, NsightError
from pytest_nsight.model.kernel_counters import CaseCounters, KernelCounters
from pytest_nsight.model.units import count
from pytest_nsight.model.verdicts import Verdict, VerdictKind
from pytest_nsight.protocol.job import OTHER_TREE, THIS_TREE, Assignment
from pytest_nsight.report.verdict_text import worst_first

MOST_CASES = 4
"""Cases that a session drills into, worst first: each takes a process or two."""
_MOST_KERNELS = 3

Profile = Callable[[str, str, Sequence[str]], tuple[KernelCounters, ...]]
"""(tree, case, kernels) -> counters."""


def explain_no_drill(collector: str) -> tuple[str, ...]:
    """The sentence on --nsight-drill where there is no GPU, whose counters it reads.

    Args:
        collector: as the user asked for it; "auto" has chosen one itself, so the option is no mistake.

    Raises:
        CollectorError: the one that measures CPU operators was asked for.
    """
    reason = "--nsight-drill reads counters of GPU kernels, and there is no CUDA device here"
    if collector == "torch":
        raise CollectorError(f"{reason}; leave the option out")
    return (f"{reason}, so none are read",)


@dataclass(frozen=True, slots=True)
class Drill:
    """What a session may compare counters with.

    Attributes:
        profile: reads the counters of a case in a tree.
        against: the other tree in words, "" where there is none.
        stored: case -> counters of the baseline.
        partners: case -> the case that it claims to beat.
    """

    profile: Profile
    against: str = ""
    stored: Mapping[str, CaseCounters] | None = None
    partners: Mapping[str, str] | None = None

    def explain(self, verdicts: Sequence[Verdict]) -> tuple[Verdict, ...]:
        """The verdicts, where those on slower kernels say which counters moved, or why that is not known."""
        chosen = [one for one in worst_first(verdicts) if self._is_drilled(one)][:MOST_CASES]
        return tuple(self._explain_one(one) if one in chosen else one for one in verdicts)

    def _is_drilled(self, verdict: Verdict) -> bool:
        """Regressions with slower kernels, and claims to beat another case; parts belong to their case."""
        if verdict.subject.part:
            return False
        if verdict.kind is VerdictKind.CLAIM:
            return verdict.subject.case in (self.partners or {})
        return verdict.kind is VerdictKind.REGRESSION and bool(_name_kernels(verdict))

    def _explain_one(self, verdict: Verdict) -> Verdict:
        try:
            clauses = self._list_clauses(verdict)
        except NsightError as error:
            clauses = [f"not drilled into: {error}"]
        return replace(verdict, sentence="; ".join([verdict.sentence, *clauses]))

    def _list_clauses(self, verdict: Verdict) -> list[str]:
        case = verdict.subject.case
        kernels = _name_kernels(verdict)
        now = self.profile(THIS_TREE, case, kernels)
        if verdict.kind is VerdictKind.CLAIM:
            return self._compare_with_partner(case, now)
        if self.against:
            before, source = self.profile(OTHER_TREE, case, kernels), self.against
        else:
            stored = (self.stored or {}).get(case)
            before, source = (stored.kernels, f"the baseline's {stored.source}") if stored else ((), "")
        by_name = {one.kernel: one for one in before}
        clauses = [
            describe_moves(by_name[one.kernel], one, source) if one.kernel in by_name else describe_counters(one)
            for one in now
        ]
        if not before:
            clauses.append(
                "nothing to compare these counters with: save with --nsight-save --nsight-drill, or measure with "
                "--nsight-against"
            )
        return clauses

    def _compare_with_partner(self, case: str, now: tuple[KernelCounters, ...]) -> list[str]:
        """The longest kernel of a case beside that of the case which it does not beat."""
        partner = (self.partners or {})[case]
        before = self.profile(THIS_TREE, partner, ())
        if len(now) == len(before) == 1:
            return [describe_moves(before[0], now[0], partner.rpartition("::")[2])]
        return [describe_counters(one) for one in (*now, *before)]


def profile_with_ncu(session: LiveSession, parallel: Collection[str]) -> Profile:
    """A function that reads the counters of cases in fresh workers of a session, one round each.

    Args:
        session: as the cases were measured.
        parallel: cases that several ranks run together.
    """

    def profile(tree: str, case: str, kernels: Sequence[str]) -> tuple[KernelCounters, ...]:
        if case in parallel:
            raise CollectorError(
                "Nsight Compute cannot profile tests with ranks=: its ranks wait for one another, and a kernel "
                "that is replayed would wait for ever"
            )
        # Without ncu, the measured runs are still judged and saved.
        collector = NcuCollector(find_ncu(os.environ), kernels)
        drills = session.folder / DRILL_FOLDER
        folder = drills / f"{len(list(drills.glob('[0-9]*'))) + 1:03}"
        # ncu replays kernels, so their times mean nothing: one round is enough, and canaries are not needed.
        alone = replace(session, folder=folder, collector=collector, rounds=1, canaries=False)
        # Where counters cannot be read, they cannot be read the next time.
        source = LiveSource(alone, lambda _: None, measures_again=False)
        try:
            source.execute(Assignment((case,), tree=tree))
        finally:
            source.close()
        return collector.counters

    return profile


def read_cases(profile: Profile, cases: Iterable[str], source: str) -> tuple[list[CaseCounters], list[str]]:
    """The counters of cases, to be stored with their baselines, and a sentence for each reason why some have none.

    Args:
        profile: reads them.
        cases: node ids.
        source: whose they are, in words.
    """
    found: list[CaseCounters] = []
    reasons: dict[str, list[str]] = {}
    for case in cases:
        counters = _read_case(profile, case, source)
        if isinstance(counters, str):
            reasons.setdefault(counters, []).append(case)
        else:
            found.append(counters)
    return found, [
        f"no counters of {names[0] if len(names) == 1 else count(len(names), 'case')} were stored: {reason}"
        for reason, names in reasons.items()
    ]


def _read_case(profile: Profile, case: str, source: str) -> CaseCounters | str:
    """The counters, or why there are none."""
    try:
        return CaseCounters(case, source, profile(THIS_TREE, case, ()))
    except NsightError as error:
        return str(error)


def _name_kernels(verdict: Verdict) -> tuple[str, ...]:
    """The slower kernels, those with the most time lost first."""
    compared = verdict.comparison
    slower = compared.slower_kernels if compared is not None else ()
    return tuple(dict.fromkeys(base_name(kernel.name) for kernel in slower))[:_MOST_KERNELS]
