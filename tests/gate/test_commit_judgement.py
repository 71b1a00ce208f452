"""What a commit proves to be: by its launches without statistics, by its time where they are the same."""

from __future__ import annotations

import dataclasses
import math

import pytest

from pytest_nsight.gate.commit_judgement import compare_launches, judge_launches, judge_time
from pytest_nsight.model.bisection import Judgement
from pytest_nsight.model.comparison import Comparison
from pytest_nsight.model.values import RunSummary
from pytest_nsight.model.verdicts import Verdict, VerdictKind
from tests.judge.runs import judge, make_evidence, make_runs, uses


def one(*names: str, is_stable: bool = True) -> tuple[RunSummary, ...]:
    return make_runs([1000.0], "s", shapes=uses(*names), is_stable=is_stable)


def verdict_at(ratio: float, *, sd: float = 0.001, runs: int = 9) -> Verdict:
    """The gate's verdict on pairs of two trees whose times have this ratio."""
    stored = make_evidence(ratio=ratio, sd=sd, stored=runs, new=runs)
    before = tuple(dataclasses.replace(run, session="new") for run in stored.baseline)
    (verdict,) = judge([dataclasses.replace(stored, baseline=before, against="1a2b3c4")])
    return verdict


def compared(ratio: float) -> Comparison:
    found = verdict_at(ratio).comparison
    assert found is not None
    return found


def test_the_same_launches_are_good_and_others_bad() -> None:
    assert judge_launches(compare_launches(one("a", "b"), one("a", "b"))) is Judgement.GOOD
    lost = compare_launches(one("fused"), one("a", "b"))
    assert judge_launches(lost) is Judgement.BAD
    assert str(lost) == "2 launches: - 1 launch: fused   + 2 launches: a, b"


def test_launches_that_vary_prove_nothing() -> None:
    varying = one("a", is_stable=False)

    assert judge_launches(compare_launches(one("a"), varying)) is Judgement.SKIPPED
    assert judge_launches(compare_launches(one("a"), (*one("a"), *one("b")))) is Judgement.SKIPPED


@pytest.mark.parametrize(
    ("ratio", "bad", "judgement"),
    [
        (1.03, 1.03, Judgement.BAD),
        (1.0, 1.03, Judgement.GOOD),
        # Faster than GOOD is not what is searched for.
        (0.9, 1.03, Judgement.GOOD),
        (0.97, 0.97, Judgement.BAD),
        (1.0, 0.97, Judgement.GOOD),
        (1.1, 0.97, Judgement.GOOD),
    ],
)
def test_the_gates_verdict_decides_in_the_direction_that_is_searched(
    ratio: float, bad: float, judgement: Judgement
) -> None:
    assert judge_time(verdict_at(ratio), compared(bad)) is judgement


def test_without_a_verdict_the_side_of_half_the_way_decides() -> None:
    """As on a shared CPU, whose noise is far above the band but far below what is searched for."""
    undecided = dataclasses.replace(verdict_at(1.0, sd=0.001), kind=VerdictKind.INCONCLUSIVE)
    of_bad = compared(4.0)

    def at(low: float, high: float) -> Judgement | None:
        assert undecided.comparison is not None
        found = dataclasses.replace(undecided.comparison, ratio=math.sqrt(low * high), low=low, high=high)
        return judge_time(dataclasses.replace(undecided, comparison=found), of_bad)

    assert at(0.7, 1.9) is Judgement.GOOD
    assert at(2.1, 8.0) is Judgement.BAD
    assert at(1.9, 2.1) is None
    assert judge_time(dataclasses.replace(undecided, comparison=None), of_bad) is None


def test_times_that_the_machine_has_spoiled_settle_nothing() -> None:
    spoiled = dataclasses.replace(verdict_at(4.0), kind=VerdictKind.ENVIRONMENT)

    assert judge_time(spoiled, compared(4.0)) is None
