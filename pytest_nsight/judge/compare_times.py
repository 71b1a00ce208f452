"""The comparison of times, subject by subject, with the noise that all subjects and the canaries show."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytest_nsight.judge.canary_shift import CanaryLevels, Panel, read_canary
from pytest_nsight.judge.contexts import estimate_contexts, expected_context
from pytest_nsight.judge.contrast import Contrast, contrast
from pytest_nsight.judge.location import Location, resolution_ns
from pytest_nsight.judge.noise import (
    Prior,
    estimate_noise,
    expected_spread,
    fit_prior,
    pool_runs,
)
from pytest_nsight.judge.prepared import PreparedSubject
from pytest_nsight.judge.round_statistics import exp
from pytest_nsight.judge.thresholds import material_change
from pytest_nsight.model.values import is_gpu


@dataclass(frozen=True, slots=True)
class Priors:
    """What is expected of the run variance.

    Attributes:
        of_runs: of runs of one session.
        within_pairs: of runs in pairs, without what both runs of a pair share.
    """

    of_runs: Prior
    within_pairs: Prior

    def of(self, subject: PreparedSubject) -> Prior:
        """The one that the runs of a subject are compared by."""
        return self.within_pairs if subject.has_whole_pairs else self.of_runs


def learn_priors(subjects: Sequence[PreparedSubject]) -> Priors:
    """The priors of a suite, from all its subjects and the canaries."""
    return Priors(_learn_prior(subjects, in_pairs=False), _learn_prior(subjects, in_pairs=True))


def _learn_prior(subjects: Sequence[PreparedSubject], *, in_pairs: bool) -> Prior:
    ratios, degrees = [], []
    for subject in subjects:
        if in_pairs and not subject.has_whole_pairs:
            continue
        squares, df = pool_runs(subject.stored, subject.new, in_pairs=in_pairs)
        if df > 0:
            first = (*subject.stored, *subject.new)[0]
            spread = expected_spread(exp(first.log_ns), first.board)
            ratios.append(squares / df / spread.run**2)
            degrees.append(df)
    return fit_prior(ratios, degrees)


def build_panel(canaries: Sequence[PreparedSubject], prior: Prior) -> Panel:
    """The canaries with the level of each in every session."""
    return Panel([_read(canary, prior) for canary in canaries])


def _read(canary: PreparedSubject, prior: Prior) -> CanaryLevels:
    stored = canary.stored
    noise = estimate_noise(stored, canary.new, prior, expected_spread(_mean_ns(stored), stored[0].board))
    return read_canary(canary.given.subject.case, noise.run.variance, (*stored, *canary.new))


def compare_times(subject: PreparedSubject, priors: Priors, panel: Panel) -> Contrast | None:
    """The difference on time of one subject, None where times cannot be compared.

    Runs in whole pairs are compared pair by pair, like `scipy.stats.ttest_rel`: what both runs of a pair share,
    because they measured the same cases in the same order, cancels.

    Args:
        subject: what was measured.
        priors: of the run variance.
        panel: the canaries.
    """
    if not subject.has_times:
        return None
    compared, stored, new = subject.compared, subject.stored, subject.new
    baseline_ns, shift = _mean_ns(compared), None
    # Stored sessions without canaries are not corrected; they still show the noise.
    levels = panel.levels((*stored, *new)) or panel.levels((*compared, *new))
    if levels is not None:
        shift = levels.shift(compared, new)
        stored, compared, new = levels.correct(stored), levels.correct(compared), levels.correct(new)
    spread = expected_spread(baseline_ns, compared[0].board)
    is_paired, metric = bool(subject.given.against), subject.given.policy.metric
    in_pairs = subject.has_whole_pairs
    prior = priors.of(subject)
    # The runs of a pair measure the same cases, but for those that one of the trees lacks.
    context = 0.0 if is_paired else expected_context(subject.baseline[-1], metric, baseline_ns)
    noise = replace(
        estimate_noise(stored, new, prior, spread, in_pairs=in_pairs),
        context=estimate_contexts(stored, new, prior, spread, context),
    )
    floor_ns = resolution_ns((*compared, *new))
    # Pairs of two trees run side by side, so that what changes between sessions cancels.
    on_cpu = not is_paired and not all(is_gpu(location.board) for location in (*compared, *new))
    return replace(
        contrast(compared, new, noise, shift, in_pairs=in_pairs),
        material=material_change(subject.given.policy.band, floor_ns, baseline_ns, on_cpu=on_cpu),
        floor_ns=floor_ns,
        is_paired=is_paired,
    )


def _mean_ns(locations: Sequence[Location]) -> float:
    return exp(math.fsum(item.log_ns for item in locations) / len(locations))
