"""What the judge is given, and when it asks for more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_nsight.model import Policy, Race, RunSummary, Subject
from pytest_nsight.roofline import Limits

LOOKS = (1, 3, 5, 9)
"""Numbers of new runs, cumulated, after which `suspects` is asked; only suspects get the next runs."""

MINIMUM_BASELINE_RUNS = 3
"""With fewer stored runs the gate knows too little of a case's own noise to fail or clear it on time."""

FIRST_PAIRS = MINIMUM_BASELINE_RUNS
"""Runs of each of two trees before the first look."""

MINIMUM_NEW_RUNS = 5
"""A regression must have been seen in this many fresh processes; the controller makes 9."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything known of one subject.

    Attributes:
        subject: what was measured.
        policy: what its case demands; `faster_than` holds the id of the partner case.
        baseline: stored runs, of any number of sessions and boards.
        new: runs of this session.
        incomparable: why the stored runs cannot be compared with the new ones, "" if they can.
        races: rounds in turns with the case that it claims to beat, one race per run at most.
        limits: board -> what it can do, for claims on the share of it.
        against: the revision whose runs of this session stand in place of stored ones, "" if none do. Both sides
            then get more runs together.
        absent: why that revision has no run of the subject, "" if it has.
        kinds: board -> its kind, as far as canaries tell; boards of one kind time alike.
    """

    subject: Subject
    policy: Policy
    baseline: tuple[RunSummary, ...]
    new: tuple[RunSummary, ...]
    incomparable: str = ""
    limits: Mapping[str, Limits] = field(default_factory=dict)
    races: tuple[Race, ...] = ()
    against: str = ""
    absent: str = ""
    kinds: Mapping[str, str] = field(default_factory=dict)
