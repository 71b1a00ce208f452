from __future__ import annotations

import numpy as np
import pytest

from pytest_nsight.model.shapes import Shape
from pytest_nsight.model.trace import ANY_THREAD, Calls, Launches, Ranges, Trace
from pytest_nsight.model.trace_devices import TraceDevice
from pytest_nsight.trace.measures import measure


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def smalls(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def test_an_empty_trace_measures_to_nothing():
    result = measure(Trace())
    assert len(result.ranges) == len(result.kernels) == len(result.unattributed) == 0


def test_columns_of_unequal_length_are_refused_by_name():
    with pytest.raises(ValueError, match=r"Calls.*correlation"):
        Calls(ints(1), ints(2), smalls(0), ints(1), ints(1), ints())


def test_operators_without_calls_belong_where_they_start():
    """What a collector without a GPU hands over: operators, no calls of any API."""
    trace = Trace(
        ranges=Ranges(ints(0), ints(100), smalls(0), smalls(1), ints(5), ints(1), ints(1), np.array([False])),
        launches=Launches(
            ints(10, 20, 150), ints(18, 30, 160), smalls(0, 0, 0), smalls(0, 0, 0), ints(0, 0, 0), ints(1, 1, 1),
            ints(0, 0, 0), ints(0, 0, 0), ints(0, 0, 0),
        ),
        shapes=(Shape("operator", "aten::mul"),),
        strings=("case", "pytest_nsight"),
    )  # fmt: skip
    result = measure(trace)
    row = result.ranges.iloc[0]
    assert (row["id"], row["launches"], row["kernel_ns"], row["gap_ns"]) == (5, 2, 18, 2)
    assert [(one.name, one.count) for one in result.unattributed] == [("aten::mul", 1)]
    assert result.notes == ()
    assert row["thread"] != ANY_THREAD


def test_a_board_told_for_the_process_goes_before_one_told_for_all():
    every, mine = TraceDevice(None, 0, "GPU-a", "H200"), TraceDevice(7, 0, "GPU-b", "H200")
    trace = Trace(devices=(every, mine))
    assert trace.find_device(7, 0) == mine
    assert trace.find_device(8, 0) == every
    assert trace.find_device(7, 1) is None
