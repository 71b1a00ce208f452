"""Claims of a mark: what must hold of the new runs alone, without any baseline.

A claim is about the whole measured body of a case; its named parts carry none. It is about GPU kernels: on a
CPU, which runs operators in their place, it is not checked.
"""

from __future__ import annotations

import enum
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pytest_nsight.judge.contrast import upper_quantile
from pytest_nsight.judge.location import Location, locate_all
from pytest_nsight.judge.noise import BOARD_PRIOR_DF, SESSION_PRIOR_DF, Prior, expected_spread
from pytest_nsight.judge.pair_ratio import NEAR_CLAIM, RUNS_NEAR_CLAIM, PairEstimate, estimate_pairs
from pytest_nsight.judge.round_statistics import exp
from pytest_nsight.judge.structure import LAUNCH_KINDS, count_launches
from pytest_nsight.judge.subject_runs import LOOKS, SubjectRuns
from pytest_nsight.judge.wording import write_counts, write_names
from pytest_nsight.model.roofline import find_bound, roofline_metric
from pytest_nsight.model.units import count, durations, number, percent
from pytest_nsight.model.values import RunSummary, Subject

_TAIL = 0.025
"""Each tail of the 95 % interval."""


NO_GPU = "they are about GPU kernels, and no GPU was measured"


class ClaimState(enum.Enum):
    """The outcome of checking a claim."""

    HELD = "held"
    FAILED = "failed"
    OPEN = "open"
    UNCHECKED = "unchecked"


@dataclass(frozen=True, slots=True)
class ClaimFinding:
    """One checked claim.

    Attributes:
        state: whether it held; OPEN where the runs do not settle it, UNCHECKED where no GPU was measured.
        phrase: what was claimed and what was found.
        is_close: whether more runs could turn a failure into a success, or the reverse.
        launched: the launches that were found in place of those claimed, "" for other claims.
    """

    state: ClaimState
    phrase: str
    is_close: bool = False
    launched: str = ""

    @property
    def full(self) -> str:
        """The phrase with the launches."""
        return f"{self.phrase}: {self.launched}" if self.launched else self.phrase


@dataclass(frozen=True, slots=True)
class _Estimate:
    """Mean of log values over runs with its 95 % interval."""

    mean: float
    low: float
    high: float
    runs: int


def find_partner(given: SubjectRuns, subjects: Mapping[Subject, SubjectRuns]) -> SubjectRuns | None:
    """The runs of the case that this one claims to beat, None if there are none."""
    if given.policy.faster_than is None:
        return None
    return subjects.get(Subject(given.policy.faster_than, given.subject.part))


def check_claims(given: SubjectRuns, partner: SubjectRuns | None, prior: Prior) -> tuple[ClaimFinding, ...]:
    """Checks every claim of a subject against its new runs.

    Args:
        given: runs of the claiming subject.
        partner: runs of the case that it claims to beat, None if that was not measured.
        prior: of the run variance.
    """
    policy, runs = given.policy, given.new
    if given.subject.part or not runs:
        return ()
    if not all(run.ran_on_gpu for run in runs):
        return (ClaimFinding(ClaimState.UNCHECKED, NO_GPU),) if policy.has_claims else ()
    findings: list[ClaimFinding] = []
    if policy.launches is not None:
        findings.append(_check_launches(runs, policy.launches))
    if policy.kernels is not None:
        findings.append(_check_kernels(runs, policy.kernels))
    if policy.max_time_ns is not None:
        findings.append(_check_max_time(given, policy.max_time_ns, prior))
    if policy.min_share_of_limit is not None:
        findings.append(_check_share(given, policy.min_share_of_limit, prior))
    if policy.faster_than is not None:
        findings.append(_check_factor(given, partner, prior))
    return tuple(findings)


def _check_launches(runs: Sequence[RunSummary], claimed: int) -> ClaimFinding:
    counts = [count_launches(run) for run in runs]
    phrase = f"{count(claimed, 'launch')} claimed, {'/'.join(map(str, dict.fromkeys(counts)))} per round"
    if not all(run.is_stable for run in runs):
        return ClaimFinding(ClaimState.OPEN, f"{phrase}, differing from round to round")
    if all(times == claimed for times in counts):
        return ClaimFinding(ClaimState.HELD, phrase)
    if claimed in counts:
        return ClaimFinding(ClaimState.OPEN, f"{phrase}, differing from run to run")
    launched: Counter[str] = Counter()
    for use in runs[-1].shapes:
        if use.shape.kind in LAUNCH_KINDS and use.count > 0:
            launched[use.shape.name] += use.count
    return ClaimFinding(ClaimState.FAILED, phrase, launched=write_counts(launched))


def _check_kernels(runs: Sequence[RunSummary], claimed: Sequence[str]) -> ClaimFinding:
    launched = [{use.shape.name for use in run.shapes if use.count > 0} for run in runs]
    never = [name for name in claimed if not any(name in names for names in launched)]
    if never:
        found = write_names(sorted(set().union(*launched))) or "none"
        return ClaimFinding(
            ClaimState.FAILED, f"claimed kernels not launched: {write_names(never)}; launched: {found}"
        )
    sometimes = [name for name in claimed if not all(name in names for names in launched)]
    if sometimes:
        return ClaimFinding(ClaimState.OPEN, f"claimed kernels not launched in every run: {write_names(sometimes)}")
    return ClaimFinding(ClaimState.HELD, f"claimed kernels launched: {write_names(claimed)}")


def _check_max_time(given: SubjectRuns, claimed_ns: float, prior: Prior) -> ClaimFinding:
    """Fails when the time is shown to be over the claim: the whole 95 % interval lies above it."""
    metric = given.policy.metric
    found_runs = locate_all(given.new, metric)
    locations = found_runs.locations
    if not locations:
        return ClaimFinding(ClaimState.OPEN, f"claimed {metric} time was not measured: {found_runs.why_not}")
    expected = _run_variance(locations, prior)
    found = _estimate(
        [item.log_ns for item in locations], expected, prior, [item.within_error**2 for item in locations]
    )
    middle, low, high = (exp(value) for value in (found.mean, found.low, found.high))
    phrase = (
        f"{metric} time {durations(middle)}, at most {durations(claimed_ns)} claimed "
        f"(95 % CI {durations(low, high, joined_by=' to ')}, {count(found.runs, 'run')})"
    )
    state = ClaimState.FAILED if low > claimed_ns else ClaimState.HELD
    return ClaimFinding(state, phrase, is_close=low <= claimed_ns < high and found.runs < LOOKS[-1])


def _check_share(given: SubjectRuns, claimed: float, prior: Prior) -> ClaimFinding:
    """Fails when the share is shown to be under the claim: the whole 95 % interval lies below it.

    Each run is held against the limit of its own board. The limit's own error, of about 0.1 %, is left out.
    """
    asked = f"at least {percent(claimed, signed=False)}"
    if all(run.work is None for run in given.new):
        why = "the test does not say what a round has to do; nsight.work(bytes=, flops=) does"
        return ClaimFinding(ClaimState.OPEN, f"{asked} of the board's limit claimed, not checked: {why}")
    bounds = {run.run: find_bound(run.work, given.limits.get(run.board)) for run in given.new if run.work}
    located = locate_all(given.new, roofline_metric(given.policy.metric))
    reached = [(item, bound) for item in located.locations if (bound := bounds.get(item.run)) is not None]
    if not reached:
        why = located.why_not or "the limit is not known, for the canaries of this session were not measured"
        return ClaimFinding(ClaimState.OPEN, f"{asked} of the board's limit claimed, not checked: {why}")
    found = _estimate(
        [math.log(bound.least_ns) - item.log_ns for item, bound in reached],
        _run_variance([item for item, _ in reached], prior),
        prior,
        [item.within_error**2 for item, _ in reached],
    )
    share, low, high = (exp(value) for value in (found.mean, found.low, found.high))
    interval = f"{percent(low, signed=False).removesuffix(' %')} to {percent(high, signed=False)}"
    phrase = (
        f"reaches {percent(share, signed=False)} of {reached[-1][1].text}, {asked} claimed "
        f"(95 % CI {interval}, {count(found.runs, 'run')})"
    )
    state = ClaimState.FAILED if high < claimed else ClaimState.HELD
    return ClaimFinding(state, phrase, is_close=low < claimed <= high and found.runs < LOOKS[-1])


def _check_factor(given: SubjectRuns, partner: SubjectRuns | None, prior: Prior) -> ClaimFinding:
    """Fails unless the factor is shown: the lower end of its 95 % interval must exceed the claim.

    Where every run interleaved the rounds of the two cases, their pairs decide. Elsewhere the cases are paired run
    by run, so that what a process or a session does to both cancels. Cases of two shards have no session in common.
    """
    policy = given.policy
    label = Subject(policy.faster_than or "").label
    estimates = estimate_pairs(given.pairs, [run.run for run in given.new], policy.metric)
    if estimates is not None:
        return _check_pairs(estimates, label, given, prior)
    if partner is None:
        return ClaimFinding(ClaimState.OPEN, f"{policy.by:g}x faster than {label} claimed, which was not measured")
    own, other = locate_all(given.new, policy.metric), locate_all(partner.new, policy.metric)
    pairs = [(mine, theirs) for mine in own.locations for theirs in other.locations if mine.run == theirs.run]
    if own.locations and other.locations and not _sessions(own.locations) & _sessions(other.locations):
        found, where = _estimate_apart(own.locations, other.locations, prior), ", in two sessions"
        return _conclude_factor(found, label, policy.by, where)
    if not pairs:
        why = own.why_not or other.why_not or "no run measured both"
        return ClaimFinding(ClaimState.OPEN, f"{policy.by:g}x faster than {label} claimed, not checked: {why}")
    expected = _run_variance([mine for mine, _ in pairs], prior) + _run_variance([t for _, t in pairs], prior)
    found = _estimate(
        [theirs.log_ns - mine.log_ns for mine, theirs in pairs],
        expected,
        prior,
        [mine.within_error**2 + theirs.within_error**2 for mine, theirs in pairs],
    )
    return _conclude_factor(found, label, policy.by)


def _conclude_factor(found: _Estimate, label: str, by: float, where: str = "") -> ClaimFinding:
    low, high = exp(found.low), exp(found.high)
    phrase = _say_factor(found, label, by, f"{count(found.runs, 'run')}{where}")
    is_close = low <= by < high and found.runs < LOOKS[-1]
    return ClaimFinding(ClaimState.HELD if low > by else ClaimState.FAILED, phrase, is_close)


def _say_factor(found: _Estimate, label: str, by: float, source: str) -> str:
    factor, low, high = (number(exp(value)) for value in (found.mean, found.low, found.high))
    return f"{factor}x as fast as {label}, {by:g}x claimed (95 % CI {low} to {high}x, {source})"


def _sessions(locations: Sequence[Location]) -> set[str]:
    return {item.session for item in locations}


def _estimate_apart(own: Sequence[Location], other: Sequence[Location], prior: Prior) -> _Estimate:
    """Estimates the factor between cases of two sessions, which shards are: nothing cancels.

    Beside the error of each mean, the spreads of sessions and, on two boards, of boards widen the interval.
    """
    sides = [
        _estimate(
            [item.log_ns for item in side],
            _run_variance(side, prior),
            prior,
            [item.within_error**2 for item in side],
        )
        for side in (other, own)
    ]
    are_apart = {item.board for item in own} != {item.board for item in other}
    spreads = [expected_spread(exp(side[0].log_ns), side[0].board) for side in (other, own)]
    between = math.fsum(one.session**2 + (one.board**2 if are_apart else 0.0) for one in spreads)
    df = BOARD_PRIOR_DF if are_apart else SESSION_PRIOR_DF
    half = math.hypot(*(side.high - side.mean for side in sides), upper_quantile(_TAIL, df) * math.sqrt(between))
    mean = sides[0].mean - sides[1].mean
    return _Estimate(mean, mean - half, mean + half, min(side.runs for side in sides))


def _check_pairs(estimates: Sequence[PairEstimate], label: str, given: SubjectRuns, prior: Prior) -> ClaimFinding:
    """One run is enough where its interval is clear of the claim; else the means of the runs decide.

    The pairs of one process show that process alone, so near the claim several have to agree.
    """
    by = math.log(given.policy.by)
    if len(estimates) == 1:
        half = upper_quantile(_TAIL, estimates[0].degrees_of_freedom) * estimates[0].standard_error
        found = _Estimate(estimates[0].mean, estimates[0].mean - half, estimates[0].mean + half, 1)
    else:
        own = locate_all([one.own for one in given.pairs], given.policy.metric)
        other = locate_all([one.partner for one in given.pairs], given.policy.metric)
        expected = _run_variance(own.locations, prior) + _run_variance(other.locations, prior)
        errors = [one.standard_error**2 for one in estimates]
        found = _estimate([one.mean for one in estimates], expected, prior, errors)
    total = sum(one.pairs for one in estimates)
    source = f"{count(total, 'interleaved pair')} in {count(len(estimates), 'run')}"
    phrase = _say_factor(found, label, given.policy.by, source)
    is_near = found.low <= by + NEAR_CLAIM and found.high >= by - NEAR_CLAIM
    is_open = found.low <= by < found.high
    is_close = (is_near and len(estimates) < RUNS_NEAR_CLAIM) or (is_open and len(estimates) < LOOKS[-1])
    return ClaimFinding(ClaimState.HELD if found.low > by else ClaimState.FAILED, phrase, is_close)


def _run_variance(locations: Sequence[Location], prior: Prior) -> float:
    duration_ns = exp(locations[0].log_ns)
    return prior.scale * expected_spread(duration_ns, locations[0].board).run ** 2


def _estimate(values: Sequence[float], expected: float, prior: Prior, floors: Sequence[float]) -> _Estimate:
    """Estimates a mean over runs, its variance drawn to the prior and no less than the rounds alone show."""
    mean = math.fsum(values) / len(values)
    squares = float(np.var(values)) * len(values)
    df = prior.degrees_of_freedom + len(values) - 1
    variance = max((prior.degrees_of_freedom * expected + squares) / df, float(np.mean(floors)))
    half = upper_quantile(_TAIL, df) * math.sqrt(variance / len(values))
    return _Estimate(mean, mean - half, mean + half, len(values))
