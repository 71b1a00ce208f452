"""The judge's input, and how many runs it asks for.

Every subject enters with its stored runs and the new ones. The subjects of a session are judged together, because
they share the prior of the noise, the canaries, and the correction for multiple comparisons.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_nsight.model.roofline import Limits
from pytest_nsight.model.values import InterleavedPairs, Policy, RunSummary, Subject

LOOKS = (1, 3, 5, 9)
"""Numbers of new runs, cumulated, after which `suspects` is asked; only suspects get the next runs."""

SAVED_AT_ONCE = 5
"""Runs that --nsight-save stores."""

MINIMUM_BASELINE_RUNS = 3
"""With fewer stored runs the gate knows too little about a case's noise to fail or clear it by its time. Two whole
pairs of two trees may clear it, too (FIRST_PAIRS)."""

FIRST_PAIRS = 2
"""Runs of each of two trees before the first look. That look ends a subject only where its change is within the
band; any other one that can be compared gets a third pair first."""

MINIMUM_NEW_RUNS = 5
"""A regression must be seen in this many fresh processes; in 9 if it is not beyond doubt after these."""


@dataclass(frozen=True, slots=True)
class SubjectRuns:
    """All runs of one subject, and what its case demands.

    Attributes:
        subject: what was measured.
        policy: what its case demands; `faster_than` holds the id of the partner case.
        baseline: stored runs, of any number of sessions and boards.
        new: runs of this session.
        incomparable: why the stored runs cannot be compared with the new ones, "" if they can.
        limits: board -> what it can do, for claims on the share of it.
        pairs: rounds interleaved with those of the case that it claims to beat, at most one set of pairs a run.
        against: the revision whose runs of this session stand in place of stored ones, "" if none do. Both trees
            then get more runs together.
        absent: why there are no runs to compare with, "" if there are some, or if that is unknown.
        cause: how the launches of the two differ; "" if they do not, or if that is unknown.
        proof: of a part that launches the same though its case does not, in words; "" of all others.
        board_groups: board -> its group of boards that time alike, as far as the canaries show it.
    """

    subject: Subject
    policy: Policy
    baseline: tuple[RunSummary, ...]
    new: tuple[RunSummary, ...]
    incomparable: str = ""
    limits: Mapping[str, Limits] = field(default_factory=dict)
    pairs: tuple[InterleavedPairs, ...] = ()
    against: str = ""
    absent: str = ""
    board_groups: Mapping[str, str] = field(default_factory=dict)
    cause: str = ""
    proof: str = ""

    @property
    def is_comparable(self) -> bool:
        """Whether the stored runs may be compared with the new ones."""
        return not self.incomparable
