"""The simpler rules do what their tools do."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from pytest_nsight.calibrate.other_rules import RULES, Rule, mann_whitney, student, take_sample, welch


def draw_rounds(
    seed: int, mean: float = 20_000, sd: float = 100, size: int = 40, step: int = 32
) -> tuple[int, ...]:
    values = np.random.default_rng(seed).normal(mean, sd, size)
    return tuple((np.rint(values / step) * step).astype(int).tolist())


def rule(beginning: str) -> Rule:
    return next(one for one in RULES if one.name.startswith(beginning))


@pytest.mark.parametrize("seed", range(5))
def test_welch_is_scipys(seed: int) -> None:
    before, now = draw_rounds(seed), draw_rounds(seed + 100, mean=20_040, size=35)
    expected = stats.ttest_ind(now, before, equal_var=False)
    interval = expected.confidence_interval(0.95)

    p_value, low, high = welch(take_sample(before), take_sample(now))

    assert p_value == pytest.approx(expected.pvalue)
    assert (low, high) == pytest.approx((interval.low / np.mean(before), interval.high / np.mean(before)))


@pytest.mark.parametrize("step", [1, 32, 200])
@pytest.mark.parametrize("seed", range(3))
def test_mann_whitney_is_scipys(seed: int, step: int) -> None:
    before, now = draw_rounds(seed, step=step), draw_rounds(seed + 100, mean=20_030, size=33, step=step)
    expected = stats.mannwhitneyu(now, before, method="asymptotic")

    p_value, is_slower = mann_whitney(take_sample(before), take_sample(now))

    assert p_value == pytest.approx(expected.pvalue)
    assert is_slower == (expected.statistic > len(before) * len(now) / 2)


def test_students_test_is_scipys() -> None:
    before, now = np.log(draw_rounds(1, size=5)), np.log(draw_rounds(2, mean=20_050, size=7))
    expected = stats.ttest_ind(now, before)

    assert student(before, now) == (pytest.approx(expected.pvalue), bool(expected.statistic > 0))


def test_equal_rounds_are_no_difference() -> None:
    same = take_sample((500,) * 10)

    assert welch(same, same)[0] == 1.0
    assert mann_whitney(same, same) == (1.0, False)
    assert not any(one.fires([same] * one.stored, [same] * one.new) for one in RULES)


@pytest.mark.parametrize("one", RULES, ids=lambda one: one.name)
def test_every_rule_finds_a_fifth_more_time_and_never_calls_less_time_slower(one: Rule) -> None:
    before = [take_sample(draw_rounds(seed)) for seed in range(one.stored)]
    slower = [take_sample(draw_rounds(50 + seed, mean=24_000)) for seed in range(one.new)]
    faster = [take_sample(draw_rounds(50 + seed, mean=16_000)) for seed in range(one.new)]

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
    one, before = rule(beginning), [take_sample(draw_rounds(1))]

    assert not one.fires(before, [take_sample(draw_rounds(2, mean=quiet))])
    assert one.fires(before, [take_sample(draw_rounds(2, mean=loud))])


def test_welch_on_rounds_keeps_its_level_where_rounds_are_independent() -> None:
    one = rule("Welch")
    hits = sum(
        one.fires([take_sample(draw_rounds(seed, step=1))], [take_sample(draw_rounds(10_000 + seed, step=1))])
        for seed in range(2000)
    )

    assert stats.binomtest(hits, 2000, 0.025).pvalue > 0.001
