"""What the other side of a comparison has yielded: runs to compare with, and why some cases have none."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pytest_nsight.baselines.comparability import BLOCKING
from pytest_nsight.model.units import count
from pytest_nsight.model.values import RunSummary, Subject
from pytest_nsight.protocol.manifest import Manifest

_SHORT = 7
_MOST_NAMES = 3


class OtherHarvest:
    """The runs of the revision that this session compares with; empty where it compares with stored ones.

    Attributes:
        commit: of the revision, "" before its first run.
        absent: case -> why it cannot be compared, as a sentence's beginning.
    """

    def __init__(self) -> None:
        self.commit = ""
        self.absent: dict[str, str] = {}
        self._summaries: dict[Subject, list[RunSummary]] = {}
        self._measured: set[str] = set()
        self._surplus: tuple[str, ...] = ()

    @property
    def short(self) -> str:
        """The commit as people read it."""
        return self.commit[:_SHORT]

    def runs(self, subject: Subject) -> tuple[RunSummary, ...]:
        """The revision's runs of a subject."""
        return tuple(self._summaries.get(subject, ()))

    def canary_runs(self) -> dict[Subject, Sequence[RunSummary]]:
        """The canaries' runs beside the revision's."""
        return {subject: tuple(runs) for subject, runs in self._summaries.items() if subject.is_canary}

    def explain(self, subject: Subject) -> str:
        """Why a subject has no run."""
        return self.absent.get(subject.case, f"not in {self.short}")

    def incomparable(self, subject: Subject, now: Mapping[str, str]) -> str:
        """Why a subject's runs cannot be compared with those of the user's tree, "" if they can."""
        for run in self.runs(subject)[-1:]:
            pairs = [(name, run.environment.get(name, ""), now.get(name, "")) for name in BLOCKING]
            differing = [f"{name} {old} -> {new}" for name, old, new in pairs if old and new and old != new]
            if differing:
                return f"{self.short} measures it differently: {', '.join(differing)}"
        return ""

    def take(
        self,
        manifest: Manifest,
        cases: Sequence[str],
        summaries: Sequence[RunSummary],
        problems: Mapping[str, str],
        failure: str,
    ) -> list[str]:
        """Keeps what a process yielded.

        Args:
            manifest: the worker's account.
            cases: what it had to measure.
            summaries: of what was measured.
            problems: case -> what is missing from its trace.
            failure: why the process ended early, "" if it came to its end.

        Returns:
            The cases that another process has to measure, after a crash.
        """
        if not self.commit:
            self.commit, self._surplus = manifest.commit, manifest.only_there
        good = {case for case in manifest.ended if case not in problems and not _failure(manifest, case)}
        for summary in summaries:
            if summary.subject.is_canary or summary.subject.case in good:
                self._summaries.setdefault(summary.subject, []).append(summary)
                self._measured.add(summary.subject.case)
        crashed = [case for case in cases if case in manifest.started and case not in manifest.ended]
        for case in cases:
            if case in crashed:
                self.absent[case] = failure
            elif case not in self._measured and (case in manifest.ended or not failure):
                self.absent.setdefault(case, self._reason(manifest, case, problems))
        return [case for case in cases if case not in manifest.started] if crashed else []

    def removed(self, known: Collection[str]) -> str:
        """A sentence about tests that only the revision has, "" if there are none.

        Args:
            known: every test that the user's tree has.
        """
        gone = [case for case in self._surplus if case not in known]
        if not gone:
            return ""
        names = ", ".join(gone[:_MOST_NAMES]) + (", ..." if len(gone) > _MOST_NAMES else "")
        return f"{count(len(gone), 'test')} of {self.short} not here any more: {names}"

    def _reason(self, manifest: Manifest, case: str, problems: Mapping[str, str]) -> str:
        if failure := _failure(manifest, case):
            return f"{failure[0]} in {self.short}: {failure[1]}"
        if case in manifest.ended:
            return f"not measured in {self.short}: {problems.get(case, 'it measured nothing there')}"
        for fault in manifest.faults:
            if fault.startswith(f"{case.partition('::')[0]}: "):
                lines = [line for line in fault.splitlines() if line.startswith("E ")]
                said = lines[-1][1:].strip() if lines else fault.strip().splitlines()[-1]
                return (
                    f"its file cannot be imported in {self.short}: {said} (untracked files and build products are "
                    "absent there; nsight_against_build names a command that makes them)"
                )
        return f"not in {self.short}"


def _failure(manifest: Manifest, case: str) -> tuple[str, str] | None:
    """("fails" or "is skipped", why) of the first phase of a case that did not pass."""
    for reported, report in manifest.reports:
        if reported == case and report["outcome"] != "passed":
            what = "skipped" if report["outcome"] == "skipped" else "fails"
            return what, _message(report.get("longrepr"))
    return None


def _message(longrepr: Any) -> str:
    if isinstance(longrepr, Mapping):
        text = str((longrepr.get("reprcrash") or {}).get("message", ""))
    elif isinstance(longrepr, Sequence) and not isinstance(longrepr, str):
        text = str(longrepr[-1]) if longrepr else ""
    else:
        text = str(longrepr or "")
    return (text.strip().splitlines() or ["no message"])[0]
