"""Shards: disjoint, complete, alike on every machine, and of about equal length."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_nsight.baselines import store
from pytest_nsight.controller.collection.shards import divide, parse_shard, read_durations
from pytest_nsight.gate.measured_shard import Shard, ShardBy
from pytest_nsight.model.errors import UsageError
from pytest_nsight.model.values import RunSummary, Subject

names = st.text("abcdefgh:[]-0123", min_size=1, max_size=6)
groups_of_tests = st.lists(names, unique=True, max_size=30).flatmap(
    lambda tests: st.lists(st.integers(0, 5), min_size=len(tests), max_size=len(tests)).map(
        lambda keys: [
            [test for test, key in zip(tests, keys, strict=True) if key == wanted] for wanted in sorted(set(keys))
        ]
    )
)


@pytest.mark.slow
@given(
    groups_of_tests, st.lists(names.map("plain".__add__), unique=True), st.integers(1, 7), st.randoms(), st.data()
)
def test_every_test_is_in_one_shard_with_its_group_in_any_order(
    groups: Sequence[list[str]], others: list[str], n: int, shuffler: random.Random, data: st.DataObject
) -> None:
    tests = [test for group in groups for test in group]
    durations = data.draw(st.dictionaries(st.sampled_from(tests or ["x"]), st.integers(0, 10_000)))

    found = divide(groups, others, durations, n)

    assert sorted(test for shard in found.shards for test in shard) == sorted([*tests, *others])
    assert len(found.shards) == n
    for group in groups:
        assert sum(bool(set(group) & set(shard)) for shard in found.shards) == 1
    shuffled = [shuffler.sample(group, len(group)) for group in shuffler.sample(list(groups), len(groups))]
    again = divide(shuffled, shuffler.sample(others, len(others)), durations, n)
    assert again == found
    assert again.fingerprint == found.fingerprint


@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=6), st.integers(1, 3))
@example([132, 109, 112, 219, 230], 3)
def test_the_longest_shard_is_within_the_bound_of_the_method(lengths: list[int], n: int) -> None:
    """Graham (1969): longest first takes at most 4/3 - 1/(3n) of the best division; trying all finds that one."""
    durations = {f"case {number}": ms for number, ms in enumerate(lengths)}

    loads = divide([[case] for case in durations], [], durations, n).loads

    best = min(
        max(sum(ms for ms, own in zip(lengths, shards, strict=True) if own == shard) for shard in range(n))
        for shards in itertools.product(range(n), repeat=len(lengths))
    )
    assert sum(loads) == sum(lengths)
    assert max(loads) <= best * (4 / 3 - 1 / (3 * n)) + 1e-6


def test_a_case_without_a_duration_counts_as_the_median_and_is_named() -> None:
    found = divide([["a"], ["b"], ["c"], ["new"]], [], {"a": 10, "b": 20, "c": 60}, 2)

    assert sorted(found.loads) == [50, 60]
    assert found.unknown == 1
    assert divide([["a"], ["b"]], [], {}, 2).loads == ()


@pytest.mark.parametrize("text", ["", "2", "0/4", "5/4", "1/0", "-1/4", "a/b", "1/2/3", "1.5/3", "\u00b2/4"])
def test_a_shard_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="give K/N, such as 2/4"):
        parse_shard(text, "duration")


def test_a_shard_is_read_with_who_divides() -> None:
    assert parse_shard("2/4", "duration") == Shard(2, 4)
    assert parse_shard("1/1", "selection") == Shard(1, 1, ShardBy.SELECTION)
    assert parse_shard(None, "duration") is None
    with pytest.raises(UsageError, match="duration or selection"):
        parse_shard("1/2", "luck")


def run(case: str, number: int, elapsed_ms: int, part: str = "") -> RunSummary:
    return RunSummary(Subject(case, part), f"s-{number}", "s", "GPU-a", {"kernel": (1000,)}, elapsed_ms=elapsed_ms)


def test_durations_come_from_the_baselines_of_all_models(tmp_path: Path) -> None:
    store.save(tmp_path, "model-a", [run("t.py::a", 1, 100), run("t.py::a", 2, 120), run("t.py::a", 1, 7, "part")])
    store.save(tmp_path, "model-b", [run("t.py::b", 1, 50), run("t.py::old", 1, 0), run("u.py::c", 1, 9)])

    found = read_durations(tmp_path, None, ["t.py::a", "t.py::b", "t.py::old"])

    assert found.of_case == {"t.py::a": 100, "t.py::b": 50}
    assert found.source == "the baselines"
