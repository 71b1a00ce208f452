"""What needs no further runs: a change beyond doubt, and what two pairs show to be within the band."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from pytest_nsight.judge.contrast import contrast
from pytest_nsight.judge.judge import SubjectRuns
from pytest_nsight.judge.looks import is_beyond_doubt, is_within_band
from pytest_nsight.judge.noise import LONG_KERNELS, SHIPPED_PRIOR, estimate_noise
from pytest_nsight.judge.thresholds import BOARDS_DIFFER
from pytest_nsight.model.values import Policy, RunSummary
from pytest_nsight.model.verdicts import VerdictKind
from tests.judge.runs import GPU, SUBJECT, judge, make_evidence, place, suspects, uses

MATERIAL = 0.02


def paired(ratio: float, runs: int, sd: float = 0.001) -> SubjectRuns:
    """As many runs of each of two trees, whose standard deviation within pairs is exactly `sd`."""
    # The slowest run is the counterpart of the fastest one, so the differences vary twice as much.
    found = make_evidence(ratio=ratio, stored=runs, new=runs, sd=sd / 2**0.5)
    times = [run.rounds for run in reversed(found.baseline)]
    baseline = tuple(
        replace(run, session="new", rounds=rounds) for run, rounds in zip(found.baseline, times, strict=True)
    )
    return replace(found, baseline=baseline, against="1a2b3c4")


@pytest.mark.parametrize(("ratio", "kind"), [(1.1, VerdictKind.REGRESSION), (0.9, VerdictKind.IMPROVEMENT)])
def test_a_change_beyond_doubt_gets_its_verdict_after_five_runs(ratio: float, kind: VerdictKind) -> None:
    clear = paired(ratio, runs=5)

    assert suspects([clear]) == ()
    assert judge([clear])[0].kind is kind


@pytest.mark.parametrize(
    "evidence",
    [paired(1.1, runs=3), paired(1.0205, runs=5), paired(1.1, runs=5, sd=0.04)],
    ids=["seen too seldom", "hardly beyond the band", "of noisy runs"],
)
def test_any_other_change_gets_all_its_looks(evidence: SubjectRuns) -> None:
    assert suspects([evidence]) == (evidence.subject,)


@pytest.mark.parametrize("excess", [0.0, 0.002, 0.003, 0.004, 0.006])
def test_beyond_doubt_is_a_hundredth_of_the_error_probability_shared_by_all_that_are_compared(
    excess: float,
) -> None:
    logs = np.array([0.0, 0.0004, -0.0004, 0.0002, -0.0002])
    before, after = place(logs), place(logs + MATERIAL + excess)
    noise = estimate_noise(before, after, replace(SHIPPED_PRIOR, degrees_of_freedom=1e-9), LONG_KERNELS)
    slower = replace(contrast(before, after, noise), material=MATERIAL, is_paired=True)
    faster = replace(slower, difference=-slower.difference)

    p_value = stats.ttest_ind(logs + excess, logs, equal_var=True, alternative="greater").pvalue

    for compared in (1, 10, 1000):
        assert is_beyond_doubt(slower, compared) == (p_value <= 0.005 / 100 / compared)
        assert is_beyond_doubt(faster, compared) == is_beyond_doubt(slower, compared)


@pytest.mark.parametrize(
    ("board", "change", "is_again"),
    [
        ("GPU-b", 1.03, False),
        ("GPU-b", 1 / 1.03, False),
        ("GPU-b", 1 + 0.97 * BOARDS_DIFFER, False),
        ("GPU-b", 1 + 1.03 * BOARDS_DIFFER, True),
        ("GPU-b", 1 - 0.97 * BOARDS_DIFFER, False),
        ("GPU-b", 1 - 1.03 * BOARDS_DIFFER, True),
        (GPU, 1.03, True),
    ],
)
def test_a_proof_is_contradicted_only_by_more_than_boards_differ(board: str, change: float, is_again: bool) -> None:
    """On a board that had stored nothing two audits at +0.8 and +1.1 % once made a check of 56 s take 133 s."""
    evidence = make_evidence(ratio=change, new=1, new_board=board)

    assert bool(suspects([evidence], proven={evidence.subject.case})) == is_again


@pytest.mark.parametrize(
    ("evidence", "is_again"),
    [
        pytest.param(paired(1.001, runs=2), False, id="equal"),
        pytest.param(paired(1.019, runs=2), True, id="perhaps beyond the band"),
        pytest.param(paired(1.024, runs=2), True, id="beyond the band, below the margin"),
        pytest.param(paired(1.001, runs=2, sd=0.03), True, id="noisy"),
        pytest.param(paired(1.1, runs=2), True, id="slower"),
        pytest.param(paired(1.001, runs=1), False, id="a part of the first round only"),
    ],
)
def test_a_third_pair_is_for_what_two_do_not_show_to_be_within_the_band(
    evidence: SubjectRuns, is_again: bool
) -> None:
    assert bool(suspects([evidence])) == is_again


def test_what_two_pairs_show_to_be_within_the_band_is_unchanged() -> None:
    (verdict,) = judge([paired(1.001, runs=2)])

    assert verdict.kind is VerdictKind.UNCHANGED
    assert verdict.comparison is not None
    assert (verdict.comparison.baseline_runs, verdict.comparison.new_runs) == (2, 2)


@pytest.mark.parametrize("runs", [3, 5])
def test_later_pairs_end_what_they_show_to_be_within_the_band(runs: int) -> None:
    """Its change is more than 80 % of noise would give, and not 99 % sure to be below the band."""
    sd = 0.008 * (runs / 3) ** 0.5
    evidence = paired(1.008, runs=runs, sd=sd)

    assert suspects([evidence]) == ()
    assert judge([evidence])[0].kind is VerdictKind.UNCHANGED
    stored = make_evidence(ratio=1.008, stored=runs, new=runs, sd=sd)
    stored = replace(stored, baseline=tuple(replace(run, session="new") for run in stored.baseline))
    assert suspects([stored]) == (SUBJECT,)


def test_one_run_beside_three_of_the_other_tree_ends_nothing() -> None:
    evidence = paired(1.008, runs=3, sd=0.008)

    assert suspects([replace(evidence, new=evidence.new[1:2])]) == (SUBJECT,)


def test_two_stored_runs_are_as_few_as_ever() -> None:
    evidence = make_evidence(ratio=1.001, stored=2, new=2)

    assert judge([evidence])[0].kind is VerdictKind.INCONCLUSIVE
    assert suspects([evidence]) == ()


def test_two_pairs_do_not_settle_launches_that_differ() -> None:
    evidence = paired(1.001, runs=2)
    other = replace(
        evidence,
        baseline=tuple(replace(run, shapes=uses("old")) for run in evidence.baseline),
        new=tuple(replace(run, shapes=uses("new")) for run in evidence.new),
    )

    assert suspects([other]) == (SUBJECT,)


def drifting(run: RunSummary) -> RunSummary:
    """The run with rounds that drift: it is set aside."""
    return replace(run, rounds={"kernel": tuple(int(200_000 * (1 + 0.004 * at)) for at in range(100))})


def test_two_pairs_do_not_settle_a_case_that_lost_one_of_its_runs() -> None:
    evidence = paired(1.001, runs=2)
    aside = replace(evidence, new=(evidence.new[0], drifting(evidence.new[1])))

    assert suspects([aside]) == (SUBJECT,)
    assert judge([aside])[0].kind is VerdictKind.INCONCLUSIVE


@pytest.mark.parametrize("side", ["baseline", "new"])
@pytest.mark.parametrize("runs", [1, 2])
def test_what_is_proven_gets_no_further_pair_for_a_run_that_is_set_aside(side: str, runs: int) -> None:
    """The optimizer of a block, proven, drifted in one run: the block got three further pairs, 35 s."""
    evidence = paired(1.001, runs=runs)
    first, *others = getattr(evidence, side)
    aside = replace(evidence, **{side: (drifting(first), *others)})

    assert suspects([replace(aside, proof="the same machine code")]) == ()
    assert suspects([aside], proven={SUBJECT.case}) == ()
    assert suspects([aside]) == (SUBJECT,)


def without_time(run: RunSummary) -> RunSummary:
    return replace(run, rounds={"kernel": (0,) * 12})


FLAKY_SLOWER, FLAKY_FASTER, THREE, TWO = paired(1.1, 5), paired(0.9, 9), paired(1.001, 3), paired(1.001, 2)


@pytest.mark.parametrize(
    "evidence",
    [
        pytest.param(replace(FLAKY_SLOWER, baseline=FLAKY_SLOWER.baseline[:2]), id="fails there from the third on"),
        pytest.param(replace(FLAKY_FASTER, baseline=FLAKY_FASTER.baseline[:2]), id="the same, faster"),
        pytest.param(replace(TWO, new=TWO.new[:1]), id="one new run"),
        pytest.param(
            replace(THREE, baseline=(*THREE.baseline[:2], without_time(THREE.baseline[2]))),
            id="one has no time there",
        ),
        pytest.param(replace(TWO, new=(TWO.new[0], without_time(TWO.new[1]))), id="one has no time here"),
    ],
)
def test_only_two_whole_pairs_take_the_place_of_three_runs(evidence: SubjectRuns) -> None:
    assert judge([evidence])[0].kind is VerdictKind.INCONCLUSIVE


@pytest.mark.parametrize("side", ["new", "baseline"])
def test_what_other_programs_have_disturbed_ends_at_no_first_look(side: str) -> None:
    evidence = paired(1.001, runs=2)
    runs = tuple(
        replace(run, board="cpu-x", clocks=replace(run.clocks, processor_lost=0.8))
        for run in getattr(evidence, side)
    )
    other = "baseline" if side == "new" else "new"
    quiet = tuple(replace(run, board="cpu-x") for run in getattr(evidence, other))
    disturbed = replace(evidence, policy=Policy(band=0.5), **{side: runs, other: quiet})

    assert suspects([disturbed]) == (SUBJECT,)


def test_a_new_case_gets_no_third_pair_as_there_is_nothing_to_compare_it_with() -> None:
    evidence = replace(paired(1.0, runs=2), baseline=(), absent="not in 1a2b3c4")

    assert suspects([evidence]) == ()


@pytest.mark.parametrize("share", [0.2, 0.4, 0.6, 0.8, 0.95])
def test_within_the_band_is_shown_by_two_one_sided_tests_at_5_percent(share: float) -> None:
    logs = np.array([0.0, 0.002])
    before, after = place(logs), place(logs + share * MATERIAL)
    noise = estimate_noise(before, after, replace(SHIPPED_PRIOR, degrees_of_freedom=1e-9), LONG_KERNELS)
    found = replace(contrast(before, after, noise), is_paired=True)

    for material in (MATERIAL, 2 * MATERIAL, 10 * MATERIAL):
        p_value = stats.ttest_ind(logs + share * MATERIAL, logs + material, alternative="less").pvalue
        assert is_within_band(replace(found, material=material)) == (p_value < 0.05)
