"""Short kernels whose processes measure other cases than the stored ones: judged by what their timing can carry."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from pytest_nsight.judge.judge import SubjectRuns
from pytest_nsight.judge.noise import CONTEXT_NS, measure_context_shift
from pytest_nsight.model.comparison import NoiseLevel
from pytest_nsight.model.values import Policy
from pytest_nsight.model.verdicts import Verdict, VerdictKind
from tests.judge.runs import SUBJECT, judge, make_runs, place, suspects, wobble

TINY_NS, SHORT_NS, LONG_NS = 1_300, 4_000, 60_000


def subject_runs(
    before_ns: float, ratio: float, stored: Sequence[int], new: Sequence[int], *, against: str = ""
) -> SubjectRuns:
    """Quiet runs of processes with these numbers of cases."""
    policy = Policy(band=0.02)
    sides = [
        tuple(
            replace(run, cases=cases)
            for run, cases in zip(make_runs(wobble(middle, len(counts), 0.002), session), counts, strict=True)
        )
        for middle, counts, session in (
            (before_ns, stored, "s" if against else "stored"),
            (before_ns * ratio, new, "s" if against else "new"),
        )
    ]
    if against:
        sides[0] = tuple(replace(run, run=f"other-{run.run}") for run in sides[0])
    return SubjectRuns(SUBJECT, policy, *sides, against=against)


def verdict_of(runs: SubjectRuns) -> Verdict:
    (verdict,) = judge([runs])
    return verdict


SUITE, CONFIRMED = [26] * 5, [26, *[1] * 8]


def test_a_tiny_kernel_that_is_slower_in_confirming_runs_only_does_not_fail() -> None:
    """As seen on an H100: 1.3 us in processes of the whole suite, 1.4 us in those that measure it alone."""
    verdict = verdict_of(subject_runs(TINY_NS, 1.065, SUITE, CONFIRMED))

    assert verdict.kind is VerdictKind.INCONCLUSIVE


def test_the_same_kernel_fails_when_its_processes_measured_the_same_cases() -> None:
    assert verdict_of(subject_runs(TINY_NS, 1.065, SUITE, [26] * 9)).kind is VerdictKind.REGRESSION


def test_a_change_far_beyond_what_contexts_do_fails_a_tiny_kernel_all_the_same() -> None:
    assert verdict_of(subject_runs(TINY_NS, 1.5, SUITE, CONFIRMED)).kind is VerdictKind.REGRESSION


@pytest.mark.parametrize("ratio", [1.0, 1.025, 1.06])
def test_a_long_kernel_is_judged_as_if_there_were_no_contexts(ratio: float) -> None:
    found = [verdict_of(subject_runs(LONG_NS, ratio, SUITE, new)) for new in (CONFIRMED, [26] * 9)]

    assert found[0].kind is found[1].kind
    assert found[0].comparison is not None
    assert found[1].comparison is not None
    assert found[0].comparison.p_slower == found[1].comparison.p_slower


def test_two_trees_are_measured_in_the_same_contexts() -> None:
    kinds = {
        verdict_of(subject_runs(SHORT_NS, 1.03, counts, counts, against="1a2b3c4")).kind
        for counts in ([26] * 9, [26, 26, 26, *[1] * 6])
    }

    assert kinds == {VerdictKind.REGRESSION}


def test_unchanged_after_one_run_of_the_suite_needs_no_more_runs() -> None:
    runs = subject_runs(SHORT_NS, 1.0, SUITE, [26])

    assert verdict_of(runs).kind is VerdictKind.UNCHANGED
    assert suspects([runs]) == ()


def test_a_tiny_kernel_alone_in_its_suite_keeps_its_context_in_confirming_runs() -> None:
    alone, among = (verdict_of(subject_runs(TINY_NS, 1.0, [n] * 5, [n])).comparison for n in (1, 26))

    assert alone is not None
    assert among is not None
    assert alone.mde < among.mde


def test_a_larger_share_of_confirming_runs_is_less_sure() -> None:
    errors = [
        verdict.comparison.standard_error
        for confirming in (0, 2, 8)
        if (verdict := verdict_of(subject_runs(TINY_NS, 1.0, SUITE, [26] * (9 - confirming) + [1] * confirming)))
        and verdict.comparison
    ]

    assert errors == sorted(errors)
    assert errors[-1] == pytest.approx(8 / 9 * CONTEXT_NS / TINY_NS, rel=0.1)


@pytest.mark.parametrize(
    ("stored", "new", "shift"),
    [
        ([26] * 5, [26], 0.0),
        ([26] * 5, [31] * 9, 0.0),
        ([26] * 5, [1] * 9, 1.0),
        ([26] * 5, [26, *[1] * 8], 8 / 9),
        ([26] * 4 + [1] * 4, [26, 1], 0.0),
        ([26] * 4 + [1] * 4, [1], 0.5),
        # Runs of older files: a save measured all that was selected.
        ([0] * 5, [26, *[1] * 8], 8 / 9),
        ([0] * 5, [0] * 9, 0.0),
    ],
)
def test_the_shift_is_the_share_of_runs_without_a_like(stored: list[int], new: list[int], shift: float) -> None:
    sides = [
        [replace(run, cases=cases) for run, cases in zip(place([7.0] * len(side)), side, strict=True)]
        for side in (stored, new)
    ]

    assert measure_context_shift(*sides) == pytest.approx(shift)


def test_the_numbers_behind_the_verdict_have_the_context() -> None:
    verdict = verdict_of(subject_runs(TINY_NS, 1.0, SUITE, CONFIRMED))

    assert verdict.comparison is not None
    basis = verdict.comparison.basis
    assert basis is not None
    (level,) = (one for one in basis.levels if one.name == "context")
    assert level == NoiseLevel("context", pytest.approx(math.log1p(CONTEXT_NS / TINY_NS), rel=1e-3), 8.0)
    assert basis.context_shift == pytest.approx(8 / 9)
    assert [run.cases for run in basis.runs] == [*SUITE, *CONFIRMED]
