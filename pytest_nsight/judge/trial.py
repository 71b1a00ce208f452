"""One subject, prepared for its verdict as far as that goes without the other subjects."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_nsight.judge.contrast import Contrast, contrast
from pytest_nsight.judge.evidence import MINIMUM_BASELINE_RUNS, Evidence
from pytest_nsight.judge.guards import explain_environment
from pytest_nsight.judge.location import Location, locate_all, resolution_ns
from pytest_nsight.judge.looks import material_change
from pytest_nsight.judge.noise import (
    Prior,
    estimate_noise,
    expected_spread,
    fit_prior,
    group_by_session,
    pool_within,
)
from pytest_nsight.judge.reference import Reference, choose_reference
from pytest_nsight.judge.structure import StructureFinding, compare_structure


@dataclass(frozen=True, slots=True)
class Trial:
    """What is known of one subject.

    Attributes:
        evidence: as given.
        reference: the stored runs that count.
        new: locations of the new runs.
        structure: how the launches changed.
        environment: why times cannot be compared, "" if they can.
        unmeasured: why some run has no location, "" if all have.
    """

    evidence: Evidence
    reference: Reference
    new: tuple[Location, ...]
    structure: StructureFinding
    environment: str
    unmeasured: str

    @property
    def is_comparable(self) -> bool:
        """Whether there are times on both sides that may be compared."""
        return bool(self.reference.compared and self.new and not self.evidence.incomparable)

    @property
    def is_sufficient(self) -> bool:
        """Whether enough runs are stored to judge a time."""
        return len(self.reference.compared) >= MINIMUM_BASELINE_RUNS

    @property
    def loses_structure(self) -> bool:
        """Whether the launches changed in a way that fails by itself."""
        return bool(self.structure.changes) and not self.evidence.incomparable


@dataclass(frozen=True, slots=True)
class Weighing:
    """A trial with its difference on time.

    Attributes:
        trial: the subject.
        contrast: new against stored runs, None where times cannot be compared.
        material: the smallest material difference of log times.
    """

    trial: Trial
    contrast: Contrast | None
    material: float


def prepare(evidence: Evidence, family: Callable[[str], str]) -> Trial:
    """Prepare one subject; no argument of the right type makes this raise."""
    metric, band = evidence.policy.metric, evidence.policy.band
    reference = choose_reference(evidence.baseline, evidence.new, metric, band if band >= 0 else 0.0)
    new, unmeasured = locate_all(evidence.new, metric)
    if not reference.locations and not unmeasured:
        _, unmeasured = locate_all(reference.runs, metric)
    both = bool(reference.runs and evidence.new)
    return Trial(
        evidence=evidence,
        reference=reference,
        new=new,
        structure=compare_structure(reference.runs, evidence.new, family) if both else StructureFinding(),
        environment=explain_environment(reference.runs, evidence.new) if both else "",
        unmeasured=unmeasured,
    )


def learn_prior(trials: Sequence[Trial]) -> Prior:
    """Learn from all subjects how much runs vary in this suite."""
    ratios, degrees = [], []
    for trial in trials:
        groups = (*group_by_session(trial.reference.locations), *group_by_session(trial.new))
        squares, df = pool_within([[location.log_ns for location in group] for group in groups])
        if df > 0:
            first = groups[0][0]
            spread = expected_spread(math.exp(min(first.log_ns, 700.0)), first.board)
            ratios.append(squares / df / spread.run**2)
            degrees.append(df)
    return fit_prior(ratios, degrees)


def weigh(trial: Trial, prior: Prior) -> Weighing:
    """Compare the times of one subject."""
    if not trial.is_comparable:
        return Weighing(trial, None, math.inf)
    compared = trial.reference.compared
    baseline_ns = math.exp(min(math.fsum(item.log_ns for item in compared) / len(compared), 700.0))
    noise = estimate_noise(
        trial.reference.locations, trial.new, prior, expected_spread(baseline_ns, compared[0].board)
    )
    return Weighing(
        trial,
        contrast(compared, trial.new, noise),
        material_change(trial.evidence.policy.band, resolution_ns((*compared, *trial.new)), baseline_ns),
    )
