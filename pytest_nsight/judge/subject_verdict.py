"""The verdict on one subject, from all its numbers."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_nsight.judge import sentences, structure_sentences
from pytest_nsight.judge.basis import change_of_others, collect_basis, find_slower_kernels
from pytest_nsight.judge.canary_shift import LARGEST_SHIFT
from pytest_nsight.judge.claims import ClaimFinding, ClaimState
from pytest_nsight.judge.contrast import Contrast
from pytest_nsight.judge.environment_checks import explain_shift
from pytest_nsight.judge.location import Location
from pytest_nsight.judge.looks import detectable_change
from pytest_nsight.judge.noise import Prior
from pytest_nsight.judge.prepared import PreparedSubject, find_other_metric
from pytest_nsight.judge.round_statistics import exp
from pytest_nsight.judge.subject_runs import MINIMUM_NEW_RUNS
from pytest_nsight.judge.thresholds import FALSE_DISCOVERY_RATE, equality_margin
from pytest_nsight.model.comparison import Comparison
from pytest_nsight.model.identity import CUDNN, DEVICE_METRICS
from pytest_nsight.model.verdicts import Verdict, VerdictKind

_NEEDS_SOUND_ENVIRONMENT = (VerdictKind.REGRESSION, VerdictKind.IMPROVEMENT, VerdictKind.INCONCLUSIVE)
_LARGEST_BY_CHOICE = math.log(2)
"""A tuner measures, so it does not choose what takes twice as long: choices seen differ by up to 29 %."""

_UNSETTLED = (VerdictKind.INCONCLUSIVE, VerdictKind.ENVIRONMENT)
"""What time does not settle; launches are settled all the same."""

_PASSING = (VerdictKind.UNCHANGED, VerdictKind.IMPROVEMENT)


@dataclass(frozen=True, slots=True)
class Significance:
    """The p-values of one subject, adjusted for all subjects compared.

    Attributes:
        compared: number of subjects compared on time.
        slower: adjusted p-value of "not slower", None where that was not tested.
        faster: adjusted p-value of "not faster", likewise.
        prior: of the run variance, learned from all.
    """

    compared: int
    slower: float | None
    faster: float | None
    prior: Prior


def decide(
    subject: PreparedSubject, contrast: Contrast | None, significance: Significance, claims: Sequence[ClaimFinding]
) -> Verdict:
    """The verdict on one subject: structure before time, failures before passes.

    Args:
        subject: what was measured.
        contrast: its difference on time, None where times cannot be compared.
        significance: of the difference.
        claims: of the mark, as checked.
    """
    comparison = _compare(subject, contrast, significance) if contrast is not None else None
    kind, body = _decide_without_time(subject, comparison) or _decide_on_time(subject, contrast, comparison)
    environment = subject.environment or _explain_shift(contrast)
    if kind in _NEEDS_SOUND_ENVIRONMENT and environment and comparison is not None:
        kind, body = VerdictKind.ENVIRONMENT, sentences.environment(environment, comparison)
    if subject.given.cause and (comparison is not None or subject.loses_structure):
        body = f"{body}; {subject.given.cause}"
    if kind in _UNSETTLED and subject.keeps_structure:
        body = f"{body}; structure: unchanged"
    kind, body = _join_claims(kind, body, claims)
    measured = subject.new or subject.new_aside
    return Verdict(
        subject=subject.given.subject,
        kind=kind,
        sentence=f"{subject.given.subject.label}: {body}",
        now_ns=exp(statistics.fmean(item.log_ns for item in measured)) if measured else None,
        comparison=comparison,
        changes=subject.structure.changes if subject.loses_structure else (),
        metric=subject.given.policy.metric,
        listing=structure_sentences.listing(subject.structure) if subject.loses_structure else "",
    )


def _explain_shift(contrast: Contrast | None) -> str:
    shift = contrast.shift if contrast is not None else None
    return explain_shift(shift.log_change) if shift is not None and abs(shift.log_change) > LARGEST_SHIFT else ""


def _decide_without_time(subject: PreparedSubject, comparison: Comparison | None) -> tuple[VerdictKind, str] | None:
    given = subject.given
    if not given.new:
        return VerdictKind.INCONCLUSIVE, sentences.unmeasured("no run of it finished")
    if not given.is_comparable:
        return VerdictKind.ENVIRONMENT, sentences.incomparable(given.incomparable, given.against)
    if not given.baseline:
        if subject.new or subject.new_aside:
            return VerdictKind.NO_BASELINE, sentences.no_baseline(given.absent, given.against)
        return VerdictKind.INCONCLUSIVE, _say_unmeasured(subject)
    if subject.loses_structure:
        return _decide_on_structure(subject, comparison)
    return _decide_on_runs_aside(subject)


def _say_unmeasured(subject: PreparedSubject) -> str:
    return sentences.unmeasured(
        subject.unmeasured, find_other_metric(subject.given.new, subject.given.policy.metric)
    )


def _decide_on_runs_aside(subject: PreparedSubject) -> tuple[VerdictKind, str] | None:
    if not subject.new and subject.new_aside:
        return VerdictKind.ENVIRONMENT, sentences.all_set_aside(
            _without_level(subject.new_aside), "of this session"
        )
    if not subject.stored and subject.stored_aside:
        stored = _without_level(subject.stored_aside)
        return VerdictKind.ENVIRONMENT, sentences.all_set_aside(stored, "of the baseline")
    return None


def _without_level(aside: Sequence[Location]) -> list[Location]:
    """The runs that were set aside for their own times, not because of other programs."""
    return [location for location in aside if not location.has_one_level]


def _decide_on_structure(subject: PreparedSubject, comparison: Comparison | None) -> tuple[VerdictKind, str]:
    runs = len(subject.given.new)
    if not subject.structure.is_retiled:
        return VerdictKind.STRUCTURE, structure_sentences.structure(subject.structure, comparison)
    if runs < MINIMUM_NEW_RUNS:
        return VerdictKind.INCONCLUSIVE, structure_sentences.retiled_once(subject.structure, runs)
    return VerdictKind.STRUCTURE, structure_sentences.retiled(subject.structure, comparison)


def _decide_on_time(
    subject: PreparedSubject, contrast: Contrast | None, comparison: Comparison | None
) -> tuple[VerdictKind, str]:
    if comparison is None or contrast is None:
        return VerdictKind.INCONCLUSIVE, _say_unmeasured(subject)
    kind = _classify(subject, contrast, comparison)
    structure = subject.structure
    if structure.retuned and (body := _explain_by_choice(subject, kind, contrast, comparison)):
        return VerdictKind.INCONCLUSIVE, body
    is_newly_varying = structure.is_varying and not structure.was_varying
    if is_newly_varying and not kind.fails:
        return VerdictKind.INCONCLUSIVE, structure_sentences.varying_launches(structure, comparison)
    if kind is VerdictKind.REGRESSION:
        body = sentences.regression(comparison, contrast)
    elif kind is VerdictKind.IMPROVEMENT:
        body = sentences.improvement(comparison, contrast)
    elif kind is VerdictKind.UNCHANGED:
        body = sentences.unchanged(comparison, contrast)
    elif not subject.is_sufficient:
        body = sentences.insufficient(comparison)
    elif subject.is_repeated:
        body = sentences.repeated(comparison)
    else:
        body = sentences.inconclusive(comparison, contrast)
    return kind, body + sentences.notes(subject)


def _explain_by_choice(
    subject: PreparedSubject, kind: VerdictKind, contrast: Contrast, comparison: Comparison
) -> str:
    """Explains why the time is no evidence after a new autotuner choice; "" if it is evidence."""
    structure, metric = subject.structure, subject.given.policy.metric
    if metric not in DEVICE_METRICS:
        return ""
    # cuDNN does not report the problem, so equal work is not proven.
    unknown = [kernel for kernel in structure.retuned if kernel.is_new and kernel.name != CUDNN]
    if not unknown or contrast.difference > _LARGEST_BY_CHOICE:
        return ""
    others = change_of_others(
        subject.baseline,
        subject.given.new,
        lambda shape: any(kernel.launches(shape) for kernel in unknown),
        with_copies=metric == "busy",
    )
    has_slowed = others > contrast.material
    if kind is VerdictKind.REGRESSION and not has_slowed:
        return structure_sentences.unsettled_by_choice(structure, comparison, 0.0)
    if has_slowed and not kind.fails:
        return structure_sentences.unsettled_by_choice(structure, comparison, others)
    return ""


def _classify(subject: PreparedSubject, contrast: Contrast, comparison: Comparison) -> VerdictKind:
    material = contrast.material
    if not subject.is_judgeable or not math.isfinite(material):
        return VerdictKind.INCONCLUSIVE
    if (
        _is_significant(comparison.adjusted_p_slower)
        and contrast.difference > material
        # One outlier moves a mean, but not the median of five.
        and contrast.median_difference > material / 2
    ):
        return VerdictKind.REGRESSION
    if (
        _is_significant(comparison.adjusted_p_faster)
        and contrast.difference < -material
        and contrast.median_difference < -material / 2
    ):
        return VerdictKind.IMPROVEMENT
    low, high = contrast.interval
    margin = equality_margin(material)
    return VerdictKind.UNCHANGED if -margin < low and high < margin else VerdictKind.INCONCLUSIVE


def _is_significant(adjusted_p: float | None) -> bool:
    return adjusted_p is not None and adjusted_p <= FALSE_DISCOVERY_RATE


def _compare(subject: PreparedSubject, contrast: Contrast, significance: Significance) -> Comparison:
    given = subject.given
    low, high = contrast.interval
    is_slower = contrast.difference > 0
    return Comparison(
        metric=given.policy.metric,
        baseline_ns=exp(contrast.baseline_log_ns),
        now_ns=exp(contrast.now_log_ns),
        ratio=exp(contrast.difference),
        low=exp(low),
        high=exp(high),
        p_slower=contrast.p_slower,
        p_faster=contrast.p_faster,
        adjusted_p_slower=significance.slower,
        adjusted_p_faster=significance.faster,
        band=given.policy.band,
        mde=exp(detectable_change(contrast, significance.compared)) - 1,
        standard_error=contrast.standard_error,
        degrees_of_freedom=contrast.degrees_of_freedom,
        run_sd=math.sqrt(contrast.run_variance),
        baseline_runs=contrast.baseline_runs,
        new_runs=contrast.new_runs,
        against=given.against,
        slower_kernels=find_slower_kernels(subject.baseline, given.new) if is_slower else (),
        basis=collect_basis(subject, contrast, significance.prior, significance.compared),
    )


def _join_claims(kind: VerdictKind, body: str, claims: Sequence[ClaimFinding]) -> tuple[VerdictKind, str]:
    # The sentence on a difference of structure has listed the launches already.
    is_listed = kind is VerdictKind.STRUCTURE
    failed = [claim.phrase if is_listed else claim.full for claim in claims if claim.state is ClaimState.FAILED]
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
