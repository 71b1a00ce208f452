"""Error rates of the whole gate on simulated suites; bounds are wide of what the full simulation shows.

The exact rates are in docs/statistics.md and come from benchmarks/simulate_gate.py.
"""

import numpy as np
import pytest
from scipy import stats

from benchmarks.simulate_gate import POPULATIONS, Population, draw_rounds, run_gate
from pytest_nsight.result import VerdictKind

pytestmark = pytest.mark.slow

HALF_PERCENT = Population(run_sd=(0.005, 0.005), round_sd=(0.002, 0.005), session_sd=0.001)


@pytest.mark.parametrize("name", ["h200", "mixed", "processor"])
def test_suites_of_unchanged_code_fail_in_at_most_one_of_a_hundred(name):
    population, suites = POPULATIONS[name], 25
    rng = np.random.default_rng([7, *name.encode()])
    alarms = 0
    for _ in range(suites):
        verdicts, _ = run_gate(draw_rounds(population, 20, 5, rng, rounds=20), 5, population)
        alarms += any(verdict.kind.fails for verdict in verdicts)

    assert stats.binomtest(alarms, suites, 0.01, alternative="greater").pvalue > 0.001


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
