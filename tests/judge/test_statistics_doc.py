"""docs/statistics.md derives the p-value that the gate computes."""

import re
from pathlib import Path

import pytest

from pytest_nsight.judge.contrast import contrast
from pytest_nsight.judge.noise import (
    CPU,
    LONG_KERNELS,
    SHIPPED_PRIOR,
    SHORT_KERNELS,
    estimate_noise,
)
from pytest_nsight.judge.subject_runs import LOOKS, MINIMUM_BASELINE_RUNS, MINIMUM_NEW_RUNS
from pytest_nsight.judge.thresholds import FALSE_DISCOVERY_RATE, MARGIN_FACTOR
from tests.judge.runs import place

PAGE = (Path(__file__).parents[2] / "docs" / "statistics.md").read_text(encoding="utf-8")


def test_the_worked_example_gives_the_gates_own_figures():
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    page: dict = {}
    exec(code, page)
    stored, new = place(page["stored"], "a"), place(page["new"], "b")

    found = contrast(stored, new, estimate_noise(stored, new, SHIPPED_PRIOR, SHORT_KERNELS))

    assert page["error"] == pytest.approx(found.standard_error)
    assert page["df"] == pytest.approx(found.degrees_of_freedom)
    assert page["p"] == pytest.approx(found.p_slower)
    assert page["p"] < FALSE_DISCOVERY_RATE


@pytest.mark.parametrize(
    ("row", "spread"),
    [("GPU, 30 µs and longer", LONG_KERNELS), ("GPU, shorter", SHORT_KERNELS), ("no GPU", CPU)],
)
def test_the_table_of_expected_deviations_is_that_of_the_code(row, spread):
    (cells,) = re.findall(rf"\| {row}[^|]*\|([^\n]*)\|", PAGE)
    percents = [float(cell.strip(" %")) for cell in cells.split("|")]

    assert [100 * part for part in (spread.run, spread.session, spread.board_group, spread.board)] == pytest.approx(
        percents
    )


def test_the_constants_told_are_those_of_the_code():
    assert f"`LOOKS` = {', '.join(map(str, LOOKS))}" in PAGE
    assert f"fewer than {MINIMUM_BASELINE_RUNS} stored runs" in PAGE
    assert f"*R* ≥ {MINIMUM_NEW_RUNS}, not cleared, adjusted p ≤ {100 * FALSE_DISCOVERY_RATE:g} %" in PAGE
    assert f"log(1 + {MARGIN_FACTOR:g}·(exp(*B*) - 1))" in PAGE
