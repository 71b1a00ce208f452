"""The runs that baselines hold, as the gate asks for them: those that new runs may be compared with. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_nsight.baselines.comparability import ComparableRuns, find_comparable
from pytest_nsight.baselines.failed_saves import FailedSave
from pytest_nsight.judge.subject_runs import SAVED_AT_ONCE
from pytest_nsight.model.identity import READING, Identity
from pytest_nsight.model.values import RunSummary, Subject


class StoredRuns:
    """The runs that baselines hold, by subject, and the saves that failed."""

    def __init__(
        self,
        runs: Mapping[Subject, Sequence[RunSummary]] | None = None,
        failed_saves: Mapping[str, FailedSave] | None = None,
    ) -> None:
        self._runs = dict(runs or {})
        self.failed_saves: Mapping[str, FailedSave] = failed_saves or {}
        """Case -> its last save, where that failed."""
        self._comparable: dict[tuple[Subject, tuple[tuple[str, str], ...]], ComparableRuns] = {}
        self._own: frozenset[Subject] = frozenset()

    def without_session(self, session: str) -> StoredRuns:
        """All but the runs of a session that is judged again: they would be compared with themselves.

        Args:
            session: its id.
        """
        others = {
            subject: tuple(run for run in runs if run.session != session) for subject, runs in self._runs.items()
        }
        found = StoredRuns({subject: runs for subject, runs in others.items() if runs}, self.failed_saves)
        found._own = frozenset(subject for subject, runs in others.items() if not runs)
        return found

    @property
    def all(self) -> tuple[RunSummary, ...]:
        """Every run, comparable or not."""
        return tuple(run for runs in self._runs.values() for run in runs)

    def of(self, subject: Subject, environment: Mapping[str, str]) -> ComparableRuns:
        """The stored runs of a subject that were measured like the new ones; else a sentence on why none were.

        Args:
            subject: what was measured.
            environment: of its new runs.
        """
        # Cached, because every look asks for the same runs.
        key = (subject, tuple(sorted(environment.items())))
        if key not in self._comparable:
            self._comparable[key] = find_comparable(self._runs.get(subject, ()), environment)
        return self._comparable[key]

    def explain_absent(self, subject: Subject) -> str:
        """Why a subject has no runs, and what to do about it; "" if that is unknown."""
        if subject in self._own:
            return "the only stored runs are this session's own; judge a later session by them"
        failed = self.failed_saves.get(subject.case)
        if failed is None:
            return ""
        return f"{failed.sentence}; save {SAVED_AT_ONCE} runs with --nsight-save once that is mended"

    def newest_session(self, case: str) -> tuple[RunSummary, ...]:
        """The runs of the whole case that the last save stored, which are what was accepted, oldest first."""
        return newest_session(self._runs.get(Subject(case), ()))

    def parts_of_newest_session(self, case: str) -> tuple[Subject, ...]:
        """The parts of the case that the last save stored, sorted."""
        sessions = {run.session for run in self.newest_session(case)}
        parts = (subject for subject in self._runs if subject.case == case and subject.part)
        return tuple(sorted(one for one in parts if sessions & {run.session for run in self._runs[one]}))

    def newest_identity(self, case: str) -> Identity | None:
        """The identity of the newest stored run that has one, comparable or not."""
        found = [run.identity for run in self._runs.get(Subject(case), ()) if run.identity is not None]
        return found[-1] if found else None

    def lacks_identity(self, case: str) -> bool:
        """Whether the newest session that stored runs of the case stored some without an identity."""
        return any(run.identity is None for run in self.newest_session(case))

    @property
    def has_identities(self) -> bool:
        """Whether a run has an identity that a new one can be compared with."""
        return any(run.identity is not None and run.identity.reading == READING for run in self.all)


def newest_session(runs: Sequence[RunSummary]) -> tuple[RunSummary, ...]:
    """Those of the session that stored the newest of these runs, oldest first."""
    ordered = sorted(runs, key=lambda run: (run.recorded, run.run))
    return tuple(run for run in ordered if run.session == ordered[-1].session)


def group_by_subject(runs: Sequence[RunSummary]) -> dict[Subject, tuple[RunSummary, ...]]:
    """Subject -> its runs, in their order."""
    found: dict[Subject, list[RunSummary]] = {}
    for run in runs:
        found.setdefault(run.subject, []).append(run)
    return {subject: tuple(own) for subject, own in found.items()}
