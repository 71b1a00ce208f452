"""What the processes of a revision measured beside the user's tree, and why some cases have no runs there."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from pytest_nsight.baselines.comparability import BLOCKING
from pytest_nsight.model.identity import Identity
from pytest_nsight.model.units import count, name_cases, short_commit
from pytest_nsight.model.values import RunSummary, Subject
from pytest_nsight.protocol.manifest import Manifest
from pytest_nsight.protocol.phase_reports import first_line_of, last_attempt

_MOST_NAMES = 3


@dataclass(frozen=True, slots=True)
class OtherTree:
    """The runs of the revision that this session compares with; empty where it compares with stored ones.

    Attributes:
        commit: of the revision, "" before its first run.
        absent: case -> why it cannot be compared, as the beginning of a sentence.
        runs: subject -> its runs, canaries among them.
        only_there: marked tests that the revision has and the session did not select.
        identities: case -> what its rounds launch.
        claims: case -> what it claims, as text.
    """

    commit: str = ""
    absent: Mapping[str, str] = field(default_factory=dict)
    runs: Mapping[Subject, tuple[RunSummary, ...]] = field(default_factory=dict)
    only_there: tuple[str, ...] = ()
    identities: Mapping[str, Identity] = field(default_factory=dict)
    claims: Mapping[str, str] = field(default_factory=dict)

    @property
    def short_commit(self) -> str:
        """The commit as people read it."""
        return short_commit(self.commit)

    def runs_of(self, subject: Subject) -> tuple[RunSummary, ...]:
        """The revision's runs of a subject."""
        return self.runs.get(subject, ())

    def explain_absent(self, subject: Subject) -> str:
        """Why a subject has no run."""
        return self.absent.get(subject.case, self._says_absent)

    def explain_incomparable(self, subject: Subject, now: Mapping[str, str]) -> str:
        """Why the subject's runs cannot be compared with those of the user's tree, "" if they can."""
        for run in self.runs_of(subject)[-1:]:
            pairs = [(name, run.environment.get(name, ""), now.get(name, "")) for name in BLOCKING]
            differing = [f"{name} {old} -> {new}" for name, old, new in pairs if old and new and old != new]
            if differing:
                return f"{self.short_commit} measures it differently: {', '.join(differing)}"
        return ""

    def has_no_test(self, case: str) -> bool:
        """Whether the revision was found to have no test of this id."""
        return self.absent.get(case) == self._says_absent

    @property
    def _says_absent(self) -> str:
        return f"not in {self.short_commit}"

    def explain_removed(self, known: Collection[str]) -> str:
        """A sentence on tests that only the revision has, "" if there are none.

        Args:
            known: every test that the user's tree has.
        """
        gone = [case for case in self.only_there if case not in known]
        if not gone:
            return ""
        return f"{count(len(gone), 'test')} of {self.short_commit} not here any more: {name_cases(gone)}"

    def add(
        self, manifest: Manifest, cases: Sequence[str], summaries: Sequence[RunSummary], problems: Mapping[str, str]
    ) -> OtherTree:
        """This record with what a process measured.

        Args:
            manifest: the worker's account.
            cases: those of its cases that need no further process.
            summaries: of what was measured.
            problems: case -> why it cannot be compared.
        """
        good = {case for case in manifest.ended if case in cases and case not in problems}
        good -= {case for case in good if _find_failure(manifest, case)}
        runs = dict(self.runs)
        for summary in summaries:
            if summary.subject.is_canary or summary.subject.case in good:
                runs[summary.subject] = (*runs.get(summary.subject, ()), summary)
        tree = replace(
            self,
            commit=self.commit or manifest.commit,
            only_there=self.only_there if self.commit else manifest.only_there,
            runs=runs,
        )
        measured = {subject.case for subject in runs}
        absent = dict(self.absent)
        for case in cases:
            if case not in measured:
                absent.setdefault(case, tree.describe_absence(manifest, case, problems))
        return replace(tree, absent=absent)

    def add_identities(self, manifest: Manifest) -> OtherTree:
        """This record with what an identity pass found."""
        return replace(
            self,
            commit=self.commit or manifest.commit,
            only_there=self.only_there if self.commit else manifest.only_there,
            identities={**self.identities, **manifest.identities},
            claims={**self.claims, **manifest.claims},
        )

    def describe_absence(self, manifest: Manifest, case: str, problems: Mapping[str, str]) -> str:
        """Why a process of the revision has no runs of a case."""
        if failure := _find_failure(manifest, case):
            return f"{failure[0]} in {self.short_commit}: {failure[1]}"
        if case in problems:
            return f"not measured in {self.short_commit}: {problems[case]}"
        if case in manifest.ended:
            return f"not measured in {self.short_commit}: it measured nothing there"
        for fault in manifest.faults:
            if fault.startswith(f"{case.partition('::')[0]}: "):
                lines = [line for line in fault.splitlines() if line.startswith("E ")]
                said = lines[-1][1:].strip() if lines else fault.strip().splitlines()[-1]
                return (
                    f"its file cannot be imported in {self.short_commit}: {said} (untracked files and build "
                    "products are absent there; nsight_against_build names a command that makes them)"
                )
        file = PurePosixPath(case.partition("::")[0])
        for path in map(str, (file, *file.parents)):
            if path in manifest.ignored:
                return (
                    f"not collected in {self.short_commit}, though {path} is there: pytest ignores it (a "
                    "conftest.py, norecursedirs or an option); a rule on absolute paths must let the folder "
                    ".nsight pass, where the revision is checked out"
                )
        return self._says_absent


def _find_failure(manifest: Manifest, case: str) -> tuple[str, str] | None:
    """("fails" or "is skipped", why) of the first phase of a case that did not pass, None if all passed."""
    reports = [one.report for one in manifest.reports if one.case == case]
    for report in last_attempt(reports):
        if report["outcome"] in {"failed", "skipped"}:
            what = "is skipped" if report["outcome"] == "skipped" else "fails"
            return what, first_line_of(report.get("longrepr")) or "no message"
    return None
