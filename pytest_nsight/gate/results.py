"""What the runs of a session have yielded so far.

MERGED: What the canaries of a session have yielded, kept apart from the user's cases: they never get a verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_nsight.baselines.comparability import comparable
from pytest_nsight.gate.other_tree import OtherHarvest
from pytest_nsight.gate.pair_results import RaceHarvest
from pytest_nsight.judge.judge import Evidence
from pytest_nsight.model.values import Policy, RunSummary, Subject
from pytest_nsight.protocol.manifest import Manifest


def died_in_canary(manifest: Manifest, failure: str) -> bool:
    """Whether the process died while a canary ran, and not while a case did."""
    is_over = {*manifest.ended, *(case for case, _ in manifest.canary_faults)}
    return bool(failure) and any(Subject(case).is_canary for case in manifest.started if case not in is_over)


class CanaryHarvest:
    """The canaries' runs so far.

    Attributes:
        summaries: one per canary and run.
    """

    def __init__(self) -> None:
        self.summaries: list[RunSummary] = []
        self._has_told = False

    def take(self, manifest: Manifest, summaries: Sequence[RunSummary], problems: Mapping[str, str]) -> str:
        """Keeps the canaries that came to their end.

        Returns:
            A sentence about the first of the session that did not, and "" from then on: a canary that cannot
            be measured is worth knowing, and no more than that.
        """
        self.summaries += [one for one in summaries if one.subject.is_canary and one.subject.case in manifest.ended]
        faults = dict(manifest.canary_faults)
        faults.update((case, text) for case, text in problems.items() if Subject(case).is_canary)
        if self._has_told or not faults:
            return ""
        self._has_told = True
        case, text = next(iter(faults.items()))
        return f"the canary {Subject(case).label} was not measured: {text}"

    def evidence(self, stored: Mapping[Subject, Sequence[RunSummary]]) -> tuple[Evidence, ...]:
        """New and stored runs of each canary side by side, in the order of their names."""
        new: dict[Subject, list[RunSummary]] = {}
        for summary in self.summaries:
            new.setdefault(summary.subject, []).append(summary)
        gathered = []
        for subject in sorted(new):
            baseline, incomparable = comparable(stored.get(subject, ()), new[subject][-1].environment)
            gathered.append(Evidence(subject, Policy(), tuple(baseline), tuple(new[subject]), incomparable))
        return tuple(gathered)


@dataclass(slots=True)
class Harvest:
    """What the runs have yielded so far.

    Attributes:
        summaries: one per subject and run.
        reports: case -> serialised pytest reports, of the first run or of the first that failed.
        problems: case -> why there is nothing to judge.
        notes: sentences about the session as a whole.
        device: product name of what was measured.
        bytes_per_s: memory bandwidth of the GPU as the recording tells it, None if it does not.
        environment: of the first run, with its board.
        canaries: what the canaries have yielded.
        other: what a revision yielded that is measured beside the user's tree.
        seeds: run id -> seed of the order of its cases.
        pairs: of cases with those that they claim to beat.
    """

    summaries: list[RunSummary] = field(default_factory=list)
    reports: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    device: str = ""
    bytes_per_s: float | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    canaries: CanaryHarvest = field(default_factory=CanaryHarvest)
    other: OtherHarvest = field(default_factory=OtherHarvest)
    seeds: dict[str, int] = field(default_factory=dict)
    pairs: RaceHarvest = field(default_factory=RaceHarvest)

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
    return report["outcome"] == "passed" or is_strict_xpass(report.get("longrepr"))


def is_strict_xpass(longrepr: object) -> bool:
    """Whether a report's text says that a test passed which was expected to fail, strictly."""
    return str(longrepr).startswith("[XPASS(strict)]")
