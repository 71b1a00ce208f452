"""From numbers to the verdict on one subject."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pytest_nsight.judge import sentences
from pytest_nsight.judge.basis import find_slower_kernels, tell_basis
from pytest_nsight.judge.claims import ClaimFinding, ClaimState
from pytest_nsight.judge.contrast import Contrast
from pytest_nsight.judge.location import exp
from pytest_nsight.judge.looks import FALSE_DISCOVERY_RATE, detectable_change, equality_margin
from pytest_nsight.judge.noise import Prior
from pytest_nsight.judge.subject_runs import MINIMUM_NEW_RUNS
from pytest_nsight.judge.trial import Trial, Weighing
from pytest_nsight.model.verdicts import Comparison, Verdict, VerdictKind

_SPOILED_BY_ENVIRONMENT = (VerdictKind.REGRESSION, VerdictKind.IMPROVEMENT, VerdictKind.INCONCLUSIVE)
_PASSING = (VerdictKind.UNCHANGED, VerdictKind.IMPROVEMENT)


@dataclass(frozen=True, slots=True)
class Significance:
    """What the p-values of one subject mean among those of all.

    Attributes:
        compared: number of subjects compared on time.
        slower: adjusted p-value of "not slower".
        faster: adjusted p-value of "not faster".
        prior: of the run variance, learned from all.
    """

    compared: int
    slower: float
    faster: float
    prior: Prior


def decide(weighing: Weighing, significance: Significance, claims: Sequence[ClaimFinding]) -> Verdict:
    """Return the verdict: structure before time, what fails before what passes."""
    trial = weighing.trial
    comparison = _compare(weighing, significance)
    kind, body = _decide_without_time(trial, comparison) or _decide_on_time(weighing, comparison)
    if kind in _SPOILED_BY_ENVIRONMENT and trial.environment and comparison is not None:
        kind, body = VerdictKind.ENVIRONMENT, sentences.spoiled(trial.environment, comparison)
    kind, body = _join_claims(kind, body, claims)
    measured = trial.new or trial.unsteady
    return Verdict(
        subject=trial.evidence.subject,
        kind=kind,
        sentence=f"{trial.evidence.subject.label}: {body}",
        now_ns=float(np.median(np.concatenate([item.durations_ns for item in measured]))) if measured else None,
        comparison=comparison,
        changes=trial.structure.changes if trial.loses_structure else (),
        metric=trial.evidence.policy.metric,
    )


def _decide_without_time(trial: Trial, comparison: Comparison | None) -> tuple[VerdictKind, str] | None:
    evidence = trial.evidence
    if not evidence.new:
        return VerdictKind.INCONCLUSIVE, sentences.unmeasured("no run of it finished")
    if evidence.incomparable:
        return VerdictKind.ENVIRONMENT, sentences.incomparable(evidence.incomparable, evidence.against)
    if not evidence.baseline:
        if trial.new or trial.unsteady:
            return VerdictKind.NO_BASELINE, sentences.no_baseline(evidence.absent)
        return VerdictKind.INCONCLUSIVE, sentences.unmeasured(trial.unmeasured)
    if trial.loses_structure:
        return _decide_on_structure(trial, comparison)
    return _decide_on_steadiness(trial)


def _decide_on_steadiness(trial: Trial) -> tuple[VerdictKind, str] | None:
    if not trial.new and trial.unsteady:
        return VerdictKind.ENVIRONMENT, sentences.all_unsteady(trial.unsteady, "of this session")
    if not trial.reference.locations and trial.reference.unsteady:
        return VerdictKind.ENVIRONMENT, sentences.all_unsteady(trial.reference.unsteady, "of the baseline")
    return None


def _decide_on_structure(trial: Trial, comparison: Comparison | None) -> tuple[VerdictKind, str]:
    runs = len(trial.evidence.new)
    if not trial.structure.is_retiled:
        return VerdictKind.STRUCTURE, sentences.structure(trial.structure, comparison)
    if runs < MINIMUM_NEW_RUNS:
        return VerdictKind.INCONCLUSIVE, sentences.retiled_once(trial.structure, runs)
    return VerdictKind.STRUCTURE, sentences.retiled(trial.structure, comparison)


def _decide_on_time(weighing: Weighing, comparison: Comparison | None) -> tuple[VerdictKind, str]:
    trial, contrast = weighing.trial, weighing.contrast
    if comparison is None or contrast is None:
        return VerdictKind.INCONCLUSIVE, sentences.unmeasured(trial.unmeasured)
    kind = _classify(weighing, contrast, comparison)
    is_newly_unsteady = trial.structure.is_unsteady and not trial.structure.was_unsteady
    if is_newly_unsteady and not kind.fails:
        return VerdictKind.INCONCLUSIVE, sentences.unsteady(trial.structure, comparison)
    if kind is VerdictKind.REGRESSION:
        body = sentences.regression(comparison, weighing.material)
    elif kind is VerdictKind.IMPROVEMENT:
        body = sentences.improvement(comparison, weighing.material)
    elif kind is VerdictKind.UNCHANGED:
        body = sentences.unchanged(comparison, equality_margin(weighing.material))
    elif not trial.is_sufficient:
        body = sentences.insufficient(comparison)
    elif trial.is_repeated:
        body = sentences.repeated(comparison)
    else:
        body = sentences.inconclusive(comparison, contrast, weighing.material)
    return kind, body + sentences.notes(trial)


def _classify(weighing: Weighing, contrast: Contrast, comparison: Comparison) -> VerdictKind:
    material = weighing.material
    if not weighing.trial.is_judgeable or not math.isfinite(material):
        return VerdictKind.INCONCLUSIVE
    if (
        comparison.adjusted_p_slower <= FALSE_DISCOVERY_RATE
        and contrast.difference > material
        # One wild run moves a mean; it does not move the median of five.
        and contrast.median_difference > material / 2
    ):
        return VerdictKind.REGRESSION
    if (
        comparison.adjusted_p_faster <= FALSE_DISCOVERY_RATE
        and contrast.difference < -material
        and contrast.median_difference < -material / 2
    ):
        return VerdictKind.IMPROVEMENT
    low, high = contrast.interval
    margin = equality_margin(material)
    return VerdictKind.UNCHANGED if -margin < low and high < margin else VerdictKind.INCONCLUSIVE


def _compare(weighing: Weighing, significance: Significance) -> Comparison | None:
    contrast, trial = weighing.contrast, weighing.trial
    if contrast is None:
        return None
    low, high = contrast.interval
    mde = detectable_change(contrast, weighing.material, significance.compared)
    return Comparison(
        metric=trial.evidence.policy.metric,
        baseline_ns=exp(contrast.baseline_log_ns),
        now_ns=exp(contrast.now_log_ns),
        ratio=exp(contrast.difference),
        low=exp(low),
        high=exp(high),
        p_slower=contrast.p_slower,
        p_faster=contrast.p_faster,
        adjusted_p_slower=significance.slower,
        adjusted_p_faster=significance.faster,
        band=trial.evidence.policy.band,
        mde=exp(mde) - 1,
        standard_error=contrast.standard_error,
        degrees_of_freedom=contrast.degrees_of_freedom,
        run_sd=math.sqrt(contrast.run_variance),
        baseline_runs=contrast.baseline_runs,
        new_runs=contrast.new_runs,
        against=trial.evidence.against,
        slower_kernels=find_slower_kernels(trial.reference.runs, trial.evidence.new)
        if contrast.difference > 0
        else (),
        basis=tell_basis(weighing, contrast, significance.prior, significance.compared),
    )


def _join_claims(kind: VerdictKind, body: str, claims: Sequence[ClaimFinding]) -> tuple[VerdictKind, str]:
    # A difference of structure has listed the launches already.
    is_told = kind is VerdictKind.STRUCTURE
    failed = [claim.phrase if is_told else claim.full for claim in claims if claim.state is ClaimState.FAILED]
    unchecked = [claim.phrase for claim in claims if claim.state is ClaimState.UNCHECKED]
    is_open = [claim.phrase for claim in claims if claim.state is ClaimState.OPEN]
    if failed and not kind.fails:
        return VerdictKind.CLAIM, sentences.claim_failed(failed)
    if failed:
        return kind, f"{body}; {sentences.claim_failed(failed)}"
    if is_open:
        joined = f"{body}; {sentences.claim_open(is_open)}"
        return (VerdictKind.INCONCLUSIVE, joined) if kind in _PASSING else (kind, joined)
    if unchecked:
        return kind, f"{body}; {sentences.claims_unchecked(unchecked)}"
    return kind, body
