"""What the canaries of a session have yielded, kept apart from the user's cases: they never get a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_nsight.baselines.environment import comparable
from pytest_nsight.judge.gate import Evidence
from pytest_nsight.manifest import Manifest
from pytest_nsight.model import Policy, RunSummary, Subject


def died_in_canary(manifest: Manifest, death: str) -> bool:
    """Whether the process died while a canary ran, and not while a case did."""
    is_over = {*manifest.ended, *(case for case, _ in manifest.canary_faults)}
    return bool(death) and any(Subject(case).is_canary for case in manifest.started if case not in is_over)


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
