"""A recorded run on two clocks: Python's of the manifest, and the profiler's of the trace."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from pytest_nsight.analysis.round_clocks import RoundClocks, compare_clocks
from pytest_nsight.collectors.nsys.read import read
from pytest_nsight.show.range_tables import tabulate_clocks
from tests.trace.test_descendants import manifest
from tests.trace.trace_builder import TraceBuilder


@pytest.mark.parametrize(
    ("board", "expected", "caption"),
    [
        ("GPU-1", RoundClocks("t.py::a", 0.5, 3, 220, 200, 30), "medians over the rounds"),
        # Others share a CPU: its fast rounds say what the code takes, as in the gate's verdicts.
        ("Some CPU", RoundClocks("t.py::a", 0.1, 3, 132, 120, 30), "10th percentiles over the rounds"),
    ],
)
def test_each_case_has_the_typical_times_of_both_clocks_over_rounds_in_both_records(
    tmp_path: Path, board: str, expected: RoundClocks, caption: str
) -> None:
    builder = TraceBuilder()
    for number, length in enumerate((100, 300, 200), 1):
        at = 1000 * number
        builder.range("case", at, at + length, payload=number).launch("k", at + 20, at + 50, api_at=at + 5)
    known = manifest(100, "", {"t.py::a": 4})
    walls = (110, 330, 220, 9_999)
    rounds = tuple(dataclasses.replace(one, wall_ns=wall) for one, wall in zip(known.rounds, walls, strict=True))
    own = dataclasses.replace(known, rounds=rounds, board=board)

    (found,) = compare_clocks(own, read(builder.write(tmp_path / "t.sqlite")))

    assert found == expected
    assert round(found.difference, 6) == 0.1
    section = tabulate_clocks([found], 5)
    assert section is not None
    assert caption in section.render(120)
    python, profiler = f"{expected.python_ns:.0f} ns", f"{expected.range_ns:.0f} ns"
    row = f"a 3 {python} {profiler} 30.0 ns 10.0 % {3000 / expected.python_ns:.1f} %"
    assert section.render(120).splitlines()[3].split() == row.split()
    assert tabulate_clocks([], 5) is None
