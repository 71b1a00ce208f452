"""One subject, prepared for its verdict as far as that goes without the other subjects."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pytest_nsight.judge.board_groups import keep_same_software
from pytest_nsight.judge.canary_shift import LARGEST_SHIFT, CanaryLevels, Panel, read_canary
from pytest_nsight.judge.contrast import Contrast, contrast
from pytest_nsight.judge.drift_and_modes import is_repeated
from pytest_nsight.judge.environment_checks import explain_environment, explain_shift
from pytest_nsight.judge.location import Location, exp, locate_all, resolution_ns
from pytest_nsight.judge.looks import material_change
from pytest_nsight.judge.noise import (
    Prior,
    estimate_noise,
    expected_spread,
    fit_prior,
    group_by_session,
    pool_within,
)
from pytest_nsight.judge.structure import StructureFinding, compare_structure
from pytest_nsight.judge.subject_runs import MINIMUM_BASELINE_RUNS, Reference, SubjectRuns, choose_reference


@dataclass(frozen=True, slots=True)
class Trial:
    """What is known of one subject.

    Attributes:
        evidence: as given.
        reference: the stored runs that count.
        new: locations of the new runs that are steady.
        unsteady: locations of the new runs that are not.
        structure: how the launches changed.
        environment: why times cannot be compared, "" if they can.
        unmeasured: why some run has no location, "" if all have.
    """

    evidence: SubjectRuns
    reference: Reference
    new: tuple[Location, ...]
    unsteady: tuple[Location, ...]
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
    def is_repeated(self) -> bool:
        """Whether all runs of a side hold the very same rounds, which measuring does not give."""
        return any(
            is_repeated([location.durations_ns for location in side])
            for side in (self.reference.compared, self.new)
        )

    @property
    def is_judgeable(self) -> bool:
        """Whether the times are such that a verdict on them may be more than INCONCLUSIVE."""
        return self.is_sufficient and not self.is_repeated

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
        floor_ns: the smallest change in ns that may count.
        compared: the stored runs that were compared, corrected by the canaries.
        new: the new runs, likewise.
    """

    trial: Trial
    contrast: Contrast | None
    material: float
    floor_ns: float = math.nan
    compared: tuple[Location, ...] = ()
    new: tuple[Location, ...] = ()


def prepare(evidence: SubjectRuns, family: Callable[[str], str]) -> Trial:
    """Prepare one subject; no argument of the right type makes this raise."""
    metric, band = evidence.policy.metric, evidence.policy.band
    reference = choose_reference(
        evidence.baseline, evidence.new, metric, band if band >= 0 else 0.0, evidence.board_groups
    )
    new, unmeasured = locate_all(evidence.new, metric, evidence.board_groups)
    if not reference.locations and not unmeasured:
        _, unmeasured = locate_all(reference.runs, metric)
    both = bool(reference.runs and evidence.new)
    return Trial(
        evidence=evidence,
        reference=reference,
        new=tuple(item for item in new if item.is_steady),
        unsteady=tuple(item for item in new if not item.is_steady),
        structure=compare_structure(reference.runs, evidence.new, family) if both else StructureFinding(),
        environment=explain_environment(reference.runs, evidence.new) if both else "",
        unmeasured=unmeasured,
    )


def prepare_canary(evidence: SubjectRuns, family: Callable[[str], str]) -> Trial | None:
    """Prepare a canary, None if it is not the same work as before."""
    if evidence.incomparable or not evidence.new:
        return None
    trial = prepare(keep_same_software(evidence), family)
    is_same = trial.is_comparable and not trial.structure.changes and not trial.is_repeated
    return trial if is_same else None


def learn_prior(trials: Sequence[Trial]) -> Prior:
    """Learn from all subjects how much runs vary in this suite."""
    ratios, degrees = [], []
    for trial in trials:
        groups = (*group_by_session(trial.reference.locations), *group_by_session(trial.new))
        squares, df = pool_within([[location.log_ns for location in group] for group in groups])
        if df > 0:
            first = groups[0][0]
            spread = expected_spread(exp(first.log_ns), first.board)
            ratios.append(squares / df / spread.run**2)
            degrees.append(df)
    return fit_prior(ratios, degrees)


def build_panel(canaries: Sequence[Trial], prior: Prior) -> Panel:
    """Put the canaries together that tell what sessions and boards do."""
    return Panel([_read(trial, prior) for trial in canaries])


def _read(trial: Trial, prior: Prior) -> CanaryLevels:
    stored = trial.reference.locations
    noise = estimate_noise(stored, trial.new, prior, expected_spread(_mean_ns(stored), stored[0].board))
    return read_canary(trial.evidence.subject.case, noise.run.variance, (*stored, *trial.new))


def weigh(trial: Trial, prior: Prior, panel: Panel) -> Weighing:
    """Compare the times of one subject."""
    if not trial.is_comparable:
        return Weighing(trial, None, math.inf)
    compared, stored, new = trial.reference.compared, trial.reference.locations, trial.new
    baseline_ns, shift = _mean_ns(compared), None
    # Sessions from before there were canaries tell of the noise as they are.
    levels = panel.levels((*stored, *new)) or panel.levels((*compared, *new))
    if levels is not None:
        shift = levels.shift(compared, new)
        stored, compared, new = levels.correct(stored), levels.correct(compared), levels.correct(new)
    noise = estimate_noise(stored, new, prior, expected_spread(baseline_ns, compared[0].board))
    floor_ns = resolution_ns((*compared, *new))
    return Weighing(
        trial if shift is None else _tell_shift(trial, shift.log_change),
        replace(contrast(compared, new, noise, shift), is_paired=bool(trial.evidence.against)),
        material_change(trial.evidence.policy.band, floor_ns, baseline_ns),
        floor_ns,
        compared,
        new,
    )


def _tell_shift(trial: Trial, log_change: float) -> Trial:
    if trial.environment or abs(log_change) <= LARGEST_SHIFT:
        return trial
    return replace(trial, environment=explain_shift(log_change))


def _mean_ns(locations: Sequence[Location]) -> float:
    return exp(math.fsum(item.log_ns for item in locations) / len(locations))
