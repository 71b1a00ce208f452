"""Which programs get more work, and how much."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.gpu.foreign.more_work import choose, cycles_for, read_share, read_times
from tests.gpu.foreign.programs import PROGRAMS

NAMES = ("adam", "conv", "sort", "top")


def test_half_of_the_cases_get_more_work_whatever_their_order() -> None:
    assert choose(NAMES) == choose(reversed(NAMES)) == {"adam", "sort"}


def test_the_wait_is_a_share_of_the_case_in_cycles() -> None:
    times_ns = {"adam": 100_000.0, "conv": 100_000.0}

    assert cycles_for("adam", 0.02, choose(NAMES), times_ns, 1.98) == 3960
    assert cycles_for("conv", 0.02, choose(NAMES), times_ns, 1.98) == 0
    assert cycles_for("adam", 0.0, choose(NAMES), {}, 1.98) == 0


def test_a_case_of_unknown_time_is_refused() -> None:
    with pytest.raises(ValueError, match="says nothing of sort"):
        cycles_for("sort", 0.02, choose(NAMES), {}, 1.98)


@pytest.mark.parametrize(("text", "share"), [("", 0.0), ("2%", 0.02), ("+0.5 %", 0.005)])
def test_share(text: str, share: float) -> None:
    assert read_share(text) == share


@pytest.mark.parametrize("text", ["2", "two", "-2%", "%"])
def test_a_share_that_is_no_percentage_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="FOREIGN_MORE_WORK"):
        read_share(text)


def test_times_of_a_result(tmp_path: Path) -> None:
    def benchmark(case: str, part: str, seconds: float) -> object:
        return {"extra_info": {"nsight": {"case": case, "part": part}}, "stats": {"median": seconds}}

    path = tmp_path / "result.json"
    benchmarks = [benchmark("test_foreign.py::test_program[sort]", "", 2e-6), benchmark("x[sort]", "forward", 1.0)]
    path.write_text(json.dumps({"benchmarks": benchmarks}))

    assert read_times(path) == {"sort": pytest.approx(2000)}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"benchmarks": [1]}', '{"benchmarks": [{"stats": {}}]}'])
def test_what_is_no_result_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "result.json"
    path.write_text(text)

    with pytest.raises(ValueError, match="FOREIGN_TIMES"):
        read_times(path)


def test_the_suite_is_as_large_as_its_readme_says() -> None:
    text = (Path(__file__).parent / "README.md").read_text()
    projects = {program.project for program in PROGRAMS.values()}

    assert f"{len(PROGRAMS)} programs of {len(projects)} projects" in text
    assert [project for project in projects if project not in text] == []
