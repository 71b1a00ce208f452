"""One split through the gate, look by look, by the functions that judge a live session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_nsight.baselines.comparability import comparable
from pytest_nsight.calibrate.resampling import Split
from pytest_nsight.judge.board_groups import find_board_groups
from pytest_nsight.judge.judge import SubjectRuns, confirm, judge, suspects
from pytest_nsight.model.kernel_names import family
from pytest_nsight.model.values import Policy, RunSummary, Subject
from pytest_nsight.model.verdicts import Verdict

_OTHER_TREE = "the runs between"


@dataclass(frozen=True, slots=True)
class Replay:
    """What the gate said of a split.

    Attributes:
        verdicts: one per subject, canaries apart.
        runs: subject -> runs that were measured, another tree's included.
        processes: fresh processes that were started for them.
        kinds: board -> its kind, as far as canaries tell.
    """

    verdicts: tuple[Verdict, ...]
    runs: Mapping[Subject, int]
    processes: int
    kinds: Mapping[str, str]


def replay(
    split: Split, policies: Mapping[str, Policy], *, fixed: int | None = None, is_strict: bool = False
) -> Replay:
    """Judges the new runs of a split against its stored ones.

    Args:
        split: what was saved and what is checked.
        policies: case -> what its verdict must obey; cases that are not in it get the default.
        fixed: this many new runs of every subject and no looks; None for the looks of the live gate.
        is_strict: whether cases that more runs may settle get them, too, as under --nsight-strict.
    """
    gathering = _Gathering(split, policies, fixed or split.first_look)
    if fixed is None:
        confirm(
            lambda: suspects(gathering.subjects(), family=family, settle=is_strict, canaries=gathering.canaries()),
            gathering.extend,
            first=split.first_look,
        )
    trees = 2 if split.is_paired else 1
    return Replay(
        judge(gathering.subjects(), family=family, canaries=gathering.canaries()),
        {subject: trees * count for subject, count in gathering.counts.items()},
        trees * gathering.processes,
        find_board_groups(gathering.canaries()),
    )


class _Gathering:
    """The runs that the gate has seen so far."""

    def __init__(self, split: Split, policies: Mapping[str, Policy], first: int) -> None:
        self._split = split
        self._policies = policies
        self.processes = first
        self.counts = {subject: first for subject in split.new[0].summaries if not subject.is_canary}
        self._canaries = [subject for subject in split.new[0].summaries if subject.is_canary]
        self._stored: dict[tuple[Subject, int], tuple[tuple[RunSummary, ...], str]] = {}

    def extend(self, cases: set[str], runs: int) -> bool:
        """Adds runs of the pool to these cases; False when it has no more."""
        # As live: what has been measured counts, even if not all runs were to be had.
        had = min(runs, len(self._split.new) - self.processes)
        for subject in self.counts:
            if subject.case in cases:
                self.counts[subject] += had
        self.processes += had
        return had == runs

    def subjects(self) -> list[SubjectRuns]:
        """Stored and new runs of each subject."""
        return [self._evidence(subject, count) for subject, count in self.counts.items()]

    def canaries(self) -> list[SubjectRuns]:
        """The same of the canaries, which every process measures."""
        return [self._evidence(subject, self.processes) for subject in self._canaries]

    def _evidence(self, subject: Subject, count: int) -> SubjectRuns:
        # Runs that were put together case by case may be fewer for one case than for another.
        measured = (process.summaries.get(subject) for process in self._split.new[:count])
        new = tuple(summary for summary in measured if summary is not None)
        stored = self._split.stored_at(count)
        key = (subject, len(stored))
        if key not in self._stored:
            saved = [process.summaries[subject] for process in stored if subject in process.summaries]
            self._stored[key] = comparable(saved, new[-1].environment)
        baseline, incomparable = self._stored[key]
        return SubjectRuns(
            subject,
            self._policies.get(subject.case, Policy()),
            baseline,
            new,
            incomparable=incomparable,
            against=_OTHER_TREE if self._split.is_paired else "",
        )
