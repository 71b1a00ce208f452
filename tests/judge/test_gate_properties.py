"""What holds of every verdict, whatever the numbers."""

import dataclasses
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_nsight.judge.judge import SubjectRuns
from pytest_nsight.model.shapes import ShapeUse
from pytest_nsight.model.values import CANARIES, Clocks, Policy, RunSummary, Subject
from pytest_nsight.model.verdicts import VerdictKind
from tests.judge.runs import SUBJECT, judge, kernel, make_evidence, suspects

pytestmark = pytest.mark.slow

some = settings(max_examples=60, deadline=None)
ratios = st.floats(0.7, 1.4)
counts = st.sampled_from([1, 3, 5, 9])
deviations = st.floats(0.0002, 0.05)


def judge_one(evidence):
    (verdict,) = judge([evidence])
    return verdict


def without_history(verdict):
    """The verdict less its single runs and looks, which have an order."""
    return dataclasses.replace(verdict, comparison=dataclasses.replace(verdict.comparison, basis=None))


@some
@given(ratios, counts, counts, deviations)
def test_scale_does_not_matter(ratio, stored, new, sd):
    """The same runs a thousand times as long: the same verdict, ratio and p-value."""
    one, other = (judge_one(make_evidence(time, ratio, stored=stored, new=new, sd=sd)) for time in (4e6, 4e9))

    assert one.kind is other.kind
    assert one.comparison.ratio == pytest.approx(other.comparison.ratio, rel=1e-5)
    assert one.comparison.p_slower == pytest.approx(other.comparison.p_slower, rel=0.02, abs=1e-12)


@some
@given(ratios, counts, counts, deviations, st.randoms(use_true_random=False))
def test_the_order_of_runs_does_not_matter(ratio, stored, new, sd, rng: random.Random):
    evidence = make_evidence(ratio=ratio, stored=stored, new=new, sd=sd)
    baseline, fresh = (rng.sample(runs, len(runs)) for runs in (evidence.baseline, evidence.new))
    shuffled = dataclasses.replace(evidence, baseline=tuple(baseline), new=tuple(fresh))

    assert without_history(judge_one(shuffled)) == without_history(judge_one(evidence))
    assert suspects([shuffled]) == suspects([evidence])


@some
@given(st.lists(ratios, min_size=2, max_size=5), counts, deviations)
def test_slower_is_never_judged_milder(ratios, stored, sd):
    """With equal noise the p-value falls and the verdict worsens as the new runs get slower."""
    verdicts = [judge_one(make_evidence(4e6, ratio, stored=stored, sd=sd)) for ratio in sorted(ratios)]
    p_values = [verdict.comparison.p_slower for verdict in verdicts]
    fails = [verdict.kind.fails for verdict in verdicts]

    assert p_values == sorted(p_values, reverse=True)
    assert fails == sorted(fails)


@some
@given(ratios, counts, counts, deviations)
def test_the_interval_holds_the_ratio_and_a_regression_has_an_interval_above_one(ratio, stored, new, sd):
    verdict = judge_one(make_evidence(ratio=ratio, stored=stored, new=new, sd=sd))
    comparison = verdict.comparison

    assert comparison.low <= comparison.ratio <= comparison.high
    assert verdict.kind is not VerdictKind.REGRESSION or comparison.low > 1
    assert verdict.kind is not VerdictKind.UNCHANGED or 1 / 1.03 <= comparison.low <= comparison.high <= 1.03


@some
@given(ratios, counts, deviations)
def test_whoever_fails_in_the_end_was_a_suspect_at_every_look_he_took(ratio, stored, sd):
    """Slowness of a whole session that ends in a failure is not lost at the first look."""
    final = make_evidence(ratio=ratio, stored=stored, sd=sd)
    if judge_one(final).kind is VerdictKind.REGRESSION:
        middle = tuple(sorted(final.new, key=lambda run: run.rounds["kernel"][0])[4:5])

        assert suspects([dataclasses.replace(final, new=middle)]) == (SUBJECT,)


@some
@given(ratios, counts, deviations, st.sampled_from([0.005, 0.02, 0.05]))
def test_swapping_the_sides_turns_a_regression_into_an_improvement_and_back(ratio, runs, sd, band):
    """Same looks, same error rate: nothing favours one direction."""
    policy = Policy(band=band)
    there = make_evidence(4e6, ratio, stored=runs, new=runs, sd=sd, policy=policy)
    back = SubjectRuns(SUBJECT, policy, there.new, there.baseline)

    one, other = judge_one(there), judge_one(back)

    mirrored = {
        VerdictKind.REGRESSION: VerdictKind.IMPROVEMENT,
        VerdictKind.IMPROVEMENT: VerdictKind.REGRESSION,
    }
    assert other.kind is mirrored.get(one.kind, one.kind)
    assert other.comparison.ratio == pytest.approx(1 / one.comparison.ratio, rel=1e-6)
    assert other.comparison.p_faster == pytest.approx(one.comparison.p_slower, rel=1e-4, abs=1e-12)
    assert suspects([there]) == suspects([back])


@some
@given(ratios, counts, deviations, st.floats(0.99, 1.01))
def test_what_all_canaries_did_moves_the_ratio_by_just_that(ratio, runs, sd, shift):
    """Multiplying the new runs of the case and of the canaries alike changes no verdict."""

    def watched(factor):
        names = [Subject(f"{CANARIES}::{index}") for index in range(8)]
        canaries = [make_evidence(4e6, factor, sd=0.0005, subject=name) for name in names]
        (verdict,) = judge([make_evidence(4e6, ratio * factor, stored=5, new=runs, sd=sd)], canaries=canaries)
        return verdict

    still, moved = watched(1.0), watched(shift)

    assert moved.comparison.ratio == pytest.approx(still.comparison.ratio, rel=1e-5)
    assert moved.comparison.p_slower == pytest.approx(still.comparison.p_slower, rel=0.01, abs=1e-9)


undecided = {VerdictKind.INCONCLUSIVE, VerdictKind.ENVIRONMENT}


@some
@given(
    st.integers(1000, 10**9),
    st.integers(1000, 10**9),
    st.tuples(st.integers(2, 9), st.integers(2, 9)),
    st.tuples(st.integers(4, 60), st.integers(4, 60)),
)
def test_rounds_and_runs_without_any_spread_are_never_judged(before, now, runs, rounds):
    """Constants, in unequal numbers of runs and rounds: no clock gives them, so no verdict rests on them."""
    sides = [
        tuple(RunSummary(SUBJECT, f"{name}{n}", name, "GPU-a", {"kernel": (time,) * size}) for n in range(count))
        for name, time, count, size in zip("ab", (before, now), runs, rounds, strict=True)
    ]

    assert judge_one(SubjectRuns(SUBJECT, Policy(), *sides)).kind in undecided


@some
@given(ratios, st.sampled_from([1, 2]), counts, deviations)
def test_one_or_two_stored_runs_never_decide(ratio, stored, new, sd):
    assert judge_one(make_evidence(ratio=ratio, stored=stored, new=new, sd=sd)).kind in undecided


@some
@given(ratios, counts, deviations, st.sampled_from([float("nan"), float("inf"), 0, -5, 10**400, "fast"]))
def test_a_round_that_is_no_time_in_every_run_of_a_side_decides_nothing(ratio, runs, sd, absurd):
    sound = make_evidence(ratio=ratio, stored=5, new=runs, sd=sd)

    def spoil(side):
        return tuple(dataclasses.replace(run, rounds={"kernel": (*run.rounds["kernel"], absurd)}) for run in side)

    for spoiled in (
        dataclasses.replace(sound, new=spoil(sound.new)),
        dataclasses.replace(sound, baseline=spoil(sound.baseline)),
    ):
        assert judge_one(spoiled).kind in undecided


durations = st.one_of(
    st.integers(-(10**6), 10**12),
    st.floats(allow_nan=True, allow_infinity=True),
    st.just(0),
    st.just(10**400),
)
shapes = st.lists(
    st.builds(
        ShapeUse,
        st.sampled_from([kernel("a"), kernel("b"), kernel("a", 3)]),
        st.integers(-1, 3),
        st.integers(),
    ),
    max_size=3,
).map(tuple)
clocks = st.builds(
    Clocks,
    sm_mhz=st.none() | st.integers(0, 3000),
    throttled=st.none() | st.floats(allow_nan=True, allow_infinity=True),
    foreign_processes=st.sampled_from([(), ("python",)]),
    round_mhz=st.sampled_from([(), (1980, 1755), (0, 0, 0)]),
)
summaries = st.builds(
    RunSummary,
    st.just(SUBJECT),
    run=st.sampled_from(["r1", "r2", "r3"]),
    session=st.sampled_from(["s1", "s2"]),
    board=st.sampled_from(["GPU-a", "GPU-b", "", "cpu"]),
    rounds=st.dictionaries(st.sampled_from(["kernel", "gap"]), st.lists(durations, max_size=8).map(tuple)),
    shapes=shapes,
    is_stable=st.booleans(),
    clocks=clocks,
)
policies = st.builds(
    Policy,
    band=st.floats(allow_nan=True, allow_infinity=True) | st.just(0.02),
    metric=st.sampled_from(["kernel", "gap", "nonsense"]),
    launches=st.none() | st.integers(-1, 3),
    kernels=st.none() | st.just(("a",)),
    max_time_ns=st.none() | st.integers(-5, 10**6),
    faster_than=st.none() | st.sampled_from([SUBJECT.case, "t.py::nobody"]),
    by=st.floats(allow_nan=True, allow_infinity=True),
)
pieces = st.builds(
    SubjectRuns,
    st.sampled_from([SUBJECT, Subject("t.py::other")]),
    policies,
    baseline=st.lists(summaries, max_size=5).map(tuple),
    new=st.lists(summaries, max_size=5).map(tuple),
    incomparable=st.sampled_from(["", "other driver"]),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(pieces, max_size=4), st.lists(pieces, max_size=6))
def test_nothing_makes_the_gate_raise_and_every_verdict_has_its_sentence(evidence, canaries):
    verdicts = judge(evidence, canaries=canaries)

    assert [verdict.subject for verdict in verdicts] == [item.subject for item in evidence]
    assert all(verdict.sentence.startswith(f"{verdict.subject.label}: ") for verdict in verdicts)
    assert set(suspects(evidence, canaries=canaries)) <= {item.subject for item in evidence}
    for verdict in verdicts:
        if verdict.comparison is not None:
            assert not math.isnan(verdict.comparison.p_slower)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(durations, max_size=6).map(tuple), min_size=1, max_size=6))
def test_rounds_that_are_no_times_never_fail_on_time(rounds):
    """A run with any round that is no positive number has no location, so it can show no regression."""
    spoiled = tuple(
        RunSummary(SUBJECT, f"r{n}", "new", "GPU-a", {"kernel": (*values, 0)}) for n, values in enumerate(rounds)
    )
    evidence = make_evidence()

    verdict = judge_one(SubjectRuns(SUBJECT, Policy(), evidence.baseline, spoiled))

    assert verdict.kind is VerdictKind.INCONCLUSIVE
