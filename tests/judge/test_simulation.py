"""Error rates of the whole gate on simulated suites; bounds are wide of what the full simulation shows.

The exact rates are in docs/statistics.md and come from benchmarks/simulate_gate.py.
"""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from benchmarks.simulate_context import check, count_alarms, draw_suite
from benchmarks.simulate_gate import POPULATIONS, SEED_NAMES, Population, draw_rounds, run_gate
from pytest_nsight.judge.contexts import CONTEXT_NS
from pytest_nsight.model.verdicts import VerdictKind

pytestmark = pytest.mark.slow

HALF_PERCENT = Population(run_sd=(0.005, 0.005), round_sd=(0.002, 0.005), session_sd=0.001)


@pytest.mark.parametrize("name", ["h200", "mixed", "placement", "watched", "against", "same_group", "cpu"])
def test_suites_of_unchanged_code_fail_or_improve_in_at_most_one_of_a_hundred(name):
    population, suites = POPULATIONS[name], 25
    rng = np.random.default_rng([7, *SEED_NAMES.get(name, name).encode()])
    alarms = improved = 0
    for _ in range(suites):
        verdicts, _ = run_gate(draw_rounds(population, 20, 5, rng, rounds=20), 5, population)
        alarms += any(verdict.kind.fails for verdict in verdicts)
        improved += any(verdict.kind is VerdictKind.IMPROVEMENT for verdict in verdicts)

    assert stats.binomtest(alarms, suites, 0.01, alternative="greater").pvalue > 0.001
    assert stats.binomtest(improved, suites, 0.01, alternative="greater").pvalue > 0.001


def test_a_common_shift_of_the_session_alarms_without_canaries_and_not_with_them():
    """Table T4: the same suites, judged with the canaries and without."""
    shifted, blind = POPULATIONS["quiet"], dataclasses.replace(POPULATIONS["quiet"], canaries=0)
    rng = np.random.default_rng(17)
    watched = unwatched = 0
    for _ in range(15):
        rounds = draw_rounds(shifted, 20, 5, rng, rounds=20)
        for population, run in ((shifted, rounds), (blind, rounds[: -shifted.canaries])):
            verdicts, _ = run_gate(run, 5, population, band=0.005)
            differs = any(v.kind in (VerdictKind.REGRESSION, VerdictKind.IMPROVEMENT) for v in verdicts)
            watched += differs and population is shifted
            unwatched += differs and population is blind

    assert watched <= 1
    assert unwatched >= 5


def test_a_slowdown_of_the_whole_suite_is_found_beside_the_canaries():
    rng = np.random.default_rng(19)
    population = dataclasses.replace(POPULATIONS["h200"], canaries=8)
    rounds = draw_rounds(population, 20, 5, rng, rounds=20)
    rounds[:20, 5:] = np.rint(rounds[:20, 5:] * 1.04)

    verdicts, _ = run_gate(rounds, 5, population)

    assert sum(verdict.kind is VerdictKind.REGRESSION for verdict in verdicts) >= 18


@pytest.mark.parametrize("stored", [3, 5])
def test_five_percent_is_found_at_a_run_deviation_of_half_a_percent(stored):
    rng = np.random.default_rng(11)
    found, suites = 0, 25
    for _ in range(suites):
        rounds = draw_rounds(HALF_PERCENT, 20, stored, rng, rounds=20)
        rounds[0, stored:] = np.rint(rounds[0, stored:] * 1.05)
        verdicts, _ = run_gate(rounds, stored, HALF_PERCENT)
        found += verdicts[0].kind is VerdictKind.REGRESSION

    assert stats.binomtest(found, suites, 0.95, alternative="less").pvalue > 0.001


def test_unchanged_code_on_a_quiet_gpu_costs_next_to_no_further_runs():
    rng = np.random.default_rng(13)
    _, extra = run_gate(draw_rounds(POPULATIONS["h200"], 100, 5, rng, rounds=20), 5, POPULATIONS["h200"])

    assert extra <= 30


def test_forced_looks_fail_short_kernels_only_if_the_gate_does_not_know_which_runs_confirm():
    blind, knowing = (count_alarms("fixed", 20, 16, 5, knows_context=knows).failed for knows in (False, True))

    assert blind["short"] > 0
    assert knowing["short"] == 0
    assert blind["long"] == knowing["long"] == 0


def test_contexts_change_no_verdict_on_a_long_kernel_and_its_error_by_what_one_launch_deviates():
    rng = np.random.default_rng(9)
    for _ in range(5):
        suite = draw_suite("mixed", 8, rng)
        blind, knowing = (
            check(suite, [4, 5, 6, 7], knows_context=knows, slower={5: 0.03}) for knows in (False, True)
        )

        for before, after, duration_ns in zip(blind[4:], knowing[4:], suite.durations_ns[4:], strict=True):
            assert before.kind is after.kind
            error = np.hypot(before.comparison.standard_error, 8 / 9 * CONTEXT_NS / duration_ns)
            assert after.comparison.standard_error == pytest.approx(error, rel=0.02)
