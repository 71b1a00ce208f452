"""The search itself, for any line of commits, any first bad one, any pattern of commits that cannot be measured."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_nsight.gate.commit_search import CommitSearch


@st.composite
def lines(draw: st.DrawFn, *, most: int = 200) -> tuple[int, int, frozenset[int]]:
    """Number of commits, position of the first bad one, positions that cannot be measured; the last one can."""
    commits = draw(st.integers(1, most))
    first_bad = draw(st.integers(0, commits - 1))
    broken = draw(st.frozensets(st.integers(0, commits - 2))) if commits > 1 else frozenset()
    return commits, first_bad, broken


def run(commits: int, first_bad: int, broken: frozenset[int]) -> tuple[CommitSearch, list[int]]:
    search, asked = CommitSearch.over(commits), []
    while (position := search.next_position) is not None:
        assert len(asked) < commits, "measures for ever"
        asked.append(position)
        if position in broken:
            search = search.with_skipped(position)
        elif position < first_bad:
            search = search.with_good(position)
        else:
            search = search.with_bad(position)
    return search, asked


@given(lines())
def test_the_first_bad_commit_is_among_the_candidates_and_all_others_of_them_are_skipped(
    line: tuple[int, int, frozenset[int]],
) -> None:
    commits, first_bad, broken = line
    search, _ = run(commits, first_bad, broken)

    assert first_bad in search.candidates
    assert set(search.candidates[:-1]) <= broken
    assert search.candidates[-1] not in broken
    assert search.low not in broken


@given(lines())
def test_only_commits_between_the_ends_are_measured_and_each_once(line: tuple[int, int, frozenset[int]]) -> None:
    commits, _, _ = line
    _, asked = run(*line)

    assert len(set(asked)) == len(asked)
    # The last one is BAD, which is known.
    assert all(0 <= position < commits - 1 for position in asked)


@given(st.integers(1, 5000).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n - 1))))
def test_without_skips_it_takes_as_many_steps_as_halving_does(line: tuple[int, int]) -> None:
    search, asked = run(*line, frozenset())

    assert list(search.candidates) == [line[1]]
    assert len(asked) <= math.ceil(math.log2(line[0]))


@pytest.mark.parametrize("first_bad", range(32))
def test_of_32_commits_at_most_5_are_measured_beside_good_and_bad(first_bad: int) -> None:
    search, asked = run(32, first_bad, frozenset())

    assert list(search.candidates) == [first_bad]
    assert len(asked) <= 5


@pytest.mark.parametrize("first_bad", range(32))
def test_a_row_of_broken_commits_in_the_middle_costs_few_measurements(first_bad: int) -> None:
    broken = frozenset(range(10, 22))

    search, asked = run(32, first_bad, broken)

    assert first_bad in search.candidates
    if first_bad not in range(10, 23):
        # All 12 need not be tried: the search halves its way to both edges of the row.
        assert len(asked) <= 10
        assert list(search.candidates) == [first_bad]


def test_one_commit_needs_no_measurement() -> None:
    search, asked = run(1, 0, frozenset())

    assert asked == []
    assert list(search.candidates) == [0]


def test_when_everything_between_is_broken_all_are_candidates() -> None:
    search, asked = run(6, 3, frozenset(range(5)))

    assert sorted(asked) == list(range(5))
    assert list(search.candidates) == list(range(6))
