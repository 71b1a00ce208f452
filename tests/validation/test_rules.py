"""The rules of other tools do what the tools do."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from benchmarks.validate.rules import RULES, Rule, mann_whitney, welch


def draw_rounds(
    seed: int, mean: float = 20_000, sd: float = 100, size: int = 40, step: int = 32
) -> tuple[int, ...]:
    values = np.random.default_rng(seed).normal(mean, sd, size)
    return tuple((np.rint(values / step) * step).astype(int).tolist())


def rule(beginning: str) -> Rule:
    return next(one for one in RULES if one.name.startswith(beginning))


def test_equal_rounds_are_no_difference() -> None:
    same = (500,) * 10

    assert welch(same, same).p_value == 1.0
    assert mann_whitney(same, same) == (1.0, False)
    assert not any(one.fires([same] * one.stored, [same] * one.new) for one in RULES)


def test_constant_rounds_that_differ_are_a_difference_without_error() -> None:
    found = welch((500,) * 10, (510,) * 10)

    assert (found.p_value, found.is_slower) == (0.0, True)
    assert found.low == pytest.approx(0.02)


@pytest.mark.parametrize("one", RULES, ids=lambda one: one.name)
def test_every_rule_finds_a_fifth_more_time_and_never_calls_less_time_slower(one: Rule) -> None:
    before = [draw_rounds(seed) for seed in range(one.stored)]
    slower = [draw_rounds(50 + seed, mean=24_000) for seed in range(one.new)]
    faster = [draw_rounds(50 + seed, mean=16_000) for seed in range(one.new)]

    assert one.fires(before, slower)
    assert not one.fires(before, faster)


@pytest.mark.parametrize(
    ("beginning", "quiet", "loud"),
    [
        ("the same, and mean", 20_550, 20_700),
        ("Mann-Whitney, p < .002", 21_700, 22_300),
        ("p < .05, interval", 20_180, 20_350),
        ("min:5%", 20_800, 21_300),
        ("mean > +5", 20_900, 21_100),
    ],
)
def test_bands_are_where_the_tools_have_them(beginning: str, quiet: float, loud: float) -> None:
    one, before = rule(beginning), [draw_rounds(1)]

    assert not one.fires(before, [draw_rounds(2, mean=quiet)])
    assert one.fires(before, [draw_rounds(2, mean=loud)])


@pytest.mark.slow
def test_welch_on_rounds_keeps_its_level_where_rounds_are_independent() -> None:
    one = rule("Welch")
    hits = sum(one.fires([draw_rounds(seed, step=1)], [draw_rounds(10_000 + seed, step=1)]) for seed in range(2000))

    assert stats.binomtest(hits, 2000, 0.025).pvalue > 0.001
