"""Sets of time against sets of instants."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_nsight.analysis.intervals import Axis, TimeSet
from pytest_nsight.model.errors import TraceError

LINES, LOW, HIGH = 3, -5, 30
Interval = tuple[int, int, int]
intervals = st.lists(
    st.tuples(st.integers(0, LINES - 1), st.integers(LOW, HIGH), st.integers(LOW, HIGH)), max_size=8
)


def build(some: list[Interval]) -> TimeSet:
    line, start, end = (np.array([one[at] for one in some], np.int64) for at in range(3))
    return TimeSet.union(Axis.over(LOW, HIGH, LINES), line, start, end)


def instants(some: list[Interval]) -> set[tuple[int, int]]:
    return {(line, instant) for line, start, end in some for instant in range(start, end)}


def spell(times: TimeSet) -> set[tuple[int, int]]:
    rows = zip(times.line.tolist(), times.start_ns.tolist(), times.length_ns.tolist(), strict=True)
    found = [(line, start + offset) for line, start, length in rows for offset in range(length)]
    assert len(found) == len(set(found))
    return set(found)


@pytest.mark.slow
@settings(deadline=None)
@given(one=intervals, other=intervals)
def test_sets_of_time_are_sets_of_instants(one: list[Interval], other: list[Interval]) -> None:
    left, right, whole = build(one), build(other), build([(line, LOW, HIGH) for line in range(LINES)])

    assert spell(left) == instants(one)
    assert spell(TimeSet.merged(left, right)) == instants(one) | instants(other)
    assert spell(left.minus(right)) == instants(one) - instants(other)
    assert spell(left.complement(whole)) == instants([(line, LOW, HIGH) for line in range(LINES)]) - instants(one)
    assert left.common(right) == len(instants(one) & instants(other))
    assert left.total_ns == len(instants(one))
    expected = [len({at for line, at in instants(one) if line == number}) for number in range(LINES)]
    assert left.by_line().tolist() == expected


def test_times_too_far_apart_to_add_up_are_an_error() -> None:
    with pytest.raises(TraceError, match="record again"):
        Axis.over(-(2**61), 2**61, 4)
