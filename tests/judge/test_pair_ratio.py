"""Claims are judged from interleaved pairs of rounds, where every run has them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import pytest

from pytest_nsight.judge.judge import SubjectRuns
from pytest_nsight.judge.pair_ratio import estimate_pair, estimate_pairs
from pytest_nsight.model.values import InterleavedPairs, Policy, RunSummary, Subject
from pytest_nsight.model.verdicts import VerdictKind
from tests.judge.runs import judge, make_runs, suspects

FUSED, UNFUSED = Subject("t.py::test_norm[fused]"), Subject("t.py::test_norm[unfused]")


def summary(subject: Subject, run: str, durations: Sequence[float]) -> RunSummary:
    rounds = {"kernel": tuple(round(value) for value in durations)}
    (made,) = make_runs([100_000], "new", subject=subject)
    return dataclasses.replace(made, run=run, rounds=rounds)


def race(
    run: str, ratio: float, *, sd: float = 0.002, drift: float = 0.0, pairs: int = 30, seed: int | None = None
) -> InterleavedPairs:
    """Pairs with independent noise on top of a drift that both share."""
    noise = np.random.default_rng(seed)
    shared = drift * np.linspace(0, 1, pairs)
    own = 1e6 * np.exp(shared + noise.normal(0, sd, pairs))
    partner = 1e6 * ratio * np.exp(shared + noise.normal(0, sd, pairs))
    return InterleavedPairs(run, summary(FUSED, run, own.tolist()), summary(UNFUSED, run, partner.tolist()))


def evidence(
    races: Sequence[InterleavedPairs], *, by: float = 1.2, runs: Sequence[str] | None = None
) -> list[SubjectRuns]:
    """The two cases in runs whose own rounds say that they are equally fast."""
    ids = [one.run for one in races] if runs is None else runs
    own = tuple(summary(FUSED, run, [1e6] * 30) for run in ids)
    other = tuple(summary(UNFUSED, run, [1e6] * 30) for run in ids)
    policy = Policy(faster_than=UNFUSED.case, by=by)
    return [SubjectRuns(FUSED, policy, (), own, pairs=tuple(races)), SubjectRuns(UNFUSED, Policy(), (), other)]


def test_the_pairs_decide_and_the_sentence_says_so() -> None:
    held, failed = (judge(evidence([race("r1", ratio, seed=1)]))[0] for ratio in (1.3, 1.1))

    assert held.kind is VerdictKind.NO_BASELINE
    assert failed.kind is VerdictKind.CLAIM
    assert (
        "1.10x as fast as test_norm[unfused], 1.2x claimed (95 % CI 1.10 to 1.10x, 30 interleaved pairs in 1 run)"
        in (failed.sentence)
    )


def test_a_drift_that_both_share_cancels() -> None:
    still, drifting = (estimate_pair(race("r1", 1.3, drift=drift, seed=3), "kernel") for drift in (0.0, 0.1))

    assert still is not None
    assert drifting is not None
    assert drifting.mean == pytest.approx(math.log(1.3), abs=0.002)
    assert drifting.standard_error < 1.5 * still.standard_error


@pytest.mark.slow
def test_the_interval_of_a_process_covers_its_ratio_in_95_percent() -> None:
    covered = 0
    for seed in range(800):
        found = estimate_pair(race("r1", 1.3, sd=0.01, seed=seed), "kernel")
        assert found is not None
        covered += abs(found.mean - math.log(1.3)) < 2.365 * found.standard_error

    assert 0.93 < covered / 800 < 0.97


@pytest.mark.parametrize("ratio", [1.195, 1.21])
def test_a_claim_within_2_percent_of_the_interval_takes_five_runs(ratio: float) -> None:
    for runs in (1, 3):
        near = evidence([race(f"r{n}", ratio, sd=0.0005, seed=n) for n in range(runs)])
        assert suspects(near) == (FUSED, UNFUSED)
    settled = evidence([race(f"r{n}", ratio, sd=0.0005, seed=n) for n in range(9)])

    assert suspects(settled) == ()
    assert (judge(settled)[0].kind is VerdictKind.CLAIM) == (ratio < 1.2)


@pytest.mark.parametrize("ratio", [1.1, 1.3])
def test_a_claim_far_from_the_interval_takes_one(ratio: float) -> None:
    assert suspects(evidence([race("r1", ratio, seed=1)])) == ()


def test_runs_that_differ_widen_the_interval_beyond_that_of_each() -> None:
    ratios = (1.20, 1.23, 1.21, 1.25, 1.22)
    several = evidence([race(f"r{n}", ratio, sd=0.0002, seed=n) for n, ratio in enumerate(ratios)], by=1.21)
    single = evidence([race("r1", 1.222, sd=0.0002, seed=1)], by=1.21)

    assert judge(single)[0].kind is VerdictKind.NO_BASELINE
    assert judge(several)[0].kind is VerdictKind.CLAIM


def test_without_a_race_in_every_run_the_runs_decide() -> None:
    only_one = evidence([race("r1", 1.3, seed=1)], runs=("r1", "r2"))

    assert estimate_pairs(only_one[0].pairs, ["r1", "r2"], "kernel") is None
    assert judge(only_one)[0].kind is VerdictKind.CLAIM


@pytest.mark.parametrize("durations", [[], [1e6] * 3, [0.0] * 30, [1e6] * 29])
def test_pairs_that_are_too_few_or_no_times_are_no_evidence(durations: list[float]) -> None:
    made = race("r1", 1.3, seed=1)
    spoiled = dataclasses.replace(made, partner=summary(UNFUSED, "r1", durations))

    assert estimate_pair(spoiled, "kernel") is None
    assert judge(evidence([spoiled]))[0].kind is VerdictKind.CLAIM
