"""Runs whose processes measure other cases than the stored ones: judged by what launches can carry."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from pytest_nsight.judge.contexts import CONTEXT_NS, estimate_contexts, expected_context, measure_context_shift
from pytest_nsight.judge.judge import SubjectRuns
from pytest_nsight.judge.location import Location
from pytest_nsight.judge.noise import LONG_KERNELS, SHIPPED_PRIOR, Prior
from pytest_nsight.model.comparison import NoiseLevel
from pytest_nsight.model.shapes import Shape, ShapeUse
from pytest_nsight.model.values import Policy
from pytest_nsight.model.verdicts import Verdict, VerdictKind
from tests.judge.runs import SUBJECT, judge, kernel, make_runs, place, suspects, wobble

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
def test_a_long_kernel_gets_the_same_verdict_in_any_context(ratio: float) -> None:
    found = [verdict_of(subject_runs(LONG_NS, ratio, SUITE, new)) for new in (CONFIRMED, [26] * 9)]

    assert found[0].kind is found[1].kind


ROUTED = [16, 16, 16, 16, 13, 8, 6, 3, 2, 2, 1, 1, 1, 1]
"""How often a round of random routing among 16 experts launches each of its kernels."""


def chain_runs(stored_us: Sequence[float], new_us: Sequence[float]) -> SubjectRuns:
    """Runs of a chain of short kernels: stored ones of a suite of 16 cases, new ones mostly of a few suspects."""
    launches = tuple(ShapeUse(kernel(f"kernel_{index}"), count, 1_000) for index, count in enumerate(ROUTED))
    sides = [
        tuple(
            replace(run, cases=cases)
            for run, cases in zip(
                make_runs([1_000 * time for time in times_us], session, shapes=launches), counts, strict=True
            )
        )
        for times_us, session, counts in ((stored_us, "stored", [16] * 5), (new_us, "new", [13, *[7] * 8]))
    ]
    return SubjectRuns(SUBJECT, Policy(band=0.01), sides[0], sides[1])


TWO_LEVELS_US = (166.86, 167.03, 160.77, 161.24, 160.16)
UPPER_US = (167.65, 167.67, 167.70, 167.76, 168.68, 167.54, 167.6, 167.7, 167.8)


def test_a_chain_of_short_kernels_on_one_of_its_stored_levels_does_not_fail() -> None:
    """As seen on an H200: most of its launches take 40 to 60 ns more in some processes of the whole suite, and in
    all processes that measure few cases.
    """
    assert verdict_of(chain_runs(TWO_LEVELS_US, UPPER_US)).kind is VerdictKind.INCONCLUSIVE


def test_the_same_chain_fails_when_it_is_slower_than_contexts_explain() -> None:
    slower = [1.1 * time for time in UPPER_US]

    assert verdict_of(chain_runs(TWO_LEVELS_US, slower)).kind is VerdictKind.REGRESSION


def test_a_quiet_chain_that_gets_slower_by_five_percent_fails() -> None:
    slower = wobble(1.05 * 163.2, 9, 0.001)

    assert verdict_of(chain_runs(wobble(163.2, 5, 0.001), slower)).kind is VerdictKind.REGRESSION


def test_no_more_runs_are_advised_where_contexts_leave_the_change_open() -> None:
    verdict = verdict_of(chain_runs(wobble(163.2, 5, 0.0001), wobble(164.5, 9, 0.0001)))

    assert verdict.kind is VerdictKind.INCONCLUSIVE
    assert "more runs do not settle it" in verdict.sentence


def test_two_trees_are_measured_in_the_same_contexts() -> None:
    kinds = {
        verdict_of(subject_runs(SHORT_NS, 1.03, counts, counts, against="1a2b3c4")).kind
        for counts in ([26] * 9, [26, 26, 26, *[1] * 6])
    }

    assert kinds == {VerdictKind.REGRESSION}


def test_a_test_that_one_tree_lacks_makes_no_other_context() -> None:
    """Its own case is measured in the first pair only, by one tree."""
    sides = [26, 26, 26, *[1] * 6], [40, 26, 26, *[1] * 6]
    errors = {
        verdict_of(subject_runs(TINY_NS, 1.0, stored, new, against="1a2b3c4")).comparison.standard_error
        for stored, new in (sides, (sides[0], sides[0]))
    }

    assert len(errors) == 1


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
        ([31] * 5, [32] * 9, 0.0),
        # Six cases beside eight canaries, and one of them.
        ([14] * 5, [14, *[9] * 8], 8 / 9),
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


def launch(name: str, count: int, kind: str = "kernel", grid: int = 8) -> ShapeUse:
    return ShapeUse(Shape(kind, name, grid=(grid, 1, 1)), count, 1000)


@pytest.mark.parametrize(
    ("launches", "alike"),
    [
        ([], 1),
        ([launch("rms_norm", 1)], 1),
        ([launch("rms_norm", 16)], 16),
        ([launch("rms_norm", 7), launch("rms_norm", 9, grid=4)], 16),
        ([launch("step", 16, kind="graph")], 16),
        ([launch("add", 1), launch("mul", 1), launch("sum", 1), launch("div", 1)], 2),
        ([launch("add", 3), launch("mul", 4), launch("memcpy D2D", 16, kind="memcpy")], 5),
    ],
)
def test_the_launches_of_a_kernel_share_the_deviation_of_contexts(launches: list[ShapeUse], alike: int) -> None:
    (run,) = make_runs([100_000], "s", shapes=tuple(launches))

    for metric, times in (("kernel", alike), ("busy", alike), ("copy", 1), ("launch", 1)):
        assert expected_context(run, metric, 100_000) == pytest.approx(math.log1p(times * CONTEXT_NS / 100_000))


def test_contexts_do_not_count_on_a_cpu() -> None:
    (run,) = make_runs([100_000], "s", board="Intel Xeon", shapes=(launch("add", 3),))

    assert expected_context(run, "kernel", 100_000) == 0
    assert estimate_contexts(*WIDE, SHIPPED_PRIOR, LONG_KERNELS, 0.0).variance == 0


def in_contexts(
    logs: Sequence[float], cases: Sequence[int], session: str, board: str = "GPU-a"
) -> tuple[Location, ...]:
    places = zip(place(logs, session, board), cases, strict=True)
    return tuple(replace(run, cases=count) for run, count in places)


WIDE = (
    in_contexts([10 + step * 0.02 for step in (-1, -1, 0, 1, 1)], [26] * 5, "stored"),
    in_contexts([10.03, *[10.04] * 4], [26, 2, 2, 2, 2], "new"),
)


@pytest.mark.parametrize("scale", [1.0, 4.0])
def test_stored_runs_that_vary_more_than_runs_of_one_context_show_the_variance_of_contexts(scale: float) -> None:
    """(8 prior + 4 own) / 12: own is 4e-4 less the variance within a context, (2 scale 1e-6 + 0) / (2 + 3)."""
    found = estimate_contexts(*WIDE, Prior(scale, 2.0), LONG_KERNELS, 0.005)

    assert found.variance == pytest.approx((8 * 0.005**2 + 4 * (4e-4 - scale * 2e-6 / 5)) / 12)
    assert found.degrees_of_freedom == 8


def test_the_variance_of_contexts_is_that_within_stored_sessions_and_within_places_of_new_runs() -> None:
    stored, new = WIDE
    older = in_contexts([run.log_ns + 0.5 for run in stored], [26] * 5, "older")
    elsewhere = in_contexts([run.log_ns - 0.5 for run in new], [26, 2, 2, 2, 2], "new", "GPU-b")

    found = estimate_contexts((*older, *stored), (*new, *elsewhere), SHIPPED_PRIOR, LONG_KERNELS, 0.005)

    assert found.variance == pytest.approx((8 * 0.005**2 + 8 * (4e-4 - 2e-6 / 8)) / 16)


@pytest.mark.parametrize("new", [[10.0], [10.0, 10.05]])
def test_without_two_runs_of_one_context_the_variance_of_contexts_is_the_expected_one(new: list[float]) -> None:
    runs = in_contexts(new, [26, 2][: len(new)], "new")

    assert estimate_contexts(WIDE[0], runs, SHIPPED_PRIOR, LONG_KERNELS, 0.005).variance == 0.005**2


@pytest.mark.parametrize("step", [0.0, 0.01, 0.02])
def test_stored_runs_that_do_not_vary_more_beyond_doubt_leave_the_expected_variance_of_contexts(
    step: float,
) -> None:
    """F(4, 5) at 99 % is 11.4; new runs vary by 0.01, stored ones by up to twice as much."""
    stored = in_contexts([10 + sign * step for sign in (-1, -1, 0, 1, 1)], [26] * 5, "stored")
    new = in_contexts([10 + sign * 0.01 for sign in (-1.225, 0, 0, 1.225)], [2] * 4, "new")

    assert estimate_contexts(stored, new, SHIPPED_PRIOR, LONG_KERNELS, 0.005).variance == 0.005**2
