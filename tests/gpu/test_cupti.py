"""The collector cupti against Nsight Systems on a real GPU, launch by launch, and beside other profilers.

PYTEST_NSIGHT_REQUIRE_GPU=1 python -m pytest tests/gpu/test_cupti.py -n 0 -v
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import pandas as pd
import pytest

from pytest_nsight import api
from pytest_nsight.collectors.cupti.availability import find_working
from pytest_nsight.collectors.nsys.find import Installation
from tests.gpu.conftest import Project, make_project
from tests.gpu.programs.sizes import EXPECTED, LONG_CHAIN, ROUNDS

COLLECTORS = ("nsys", "cupti")
OPTIONS = ("--nsight-no-canaries", "--nsight-runs=1", "--nsight-keep")
CASES = [
    *(f"test_body[{name}]" for name in EXPECTED if name != "compiled"),
    "test_softmax",
    "test_matmul",
    "test_long_chain",
    "test_graph_of_the_session",
    "test_graph_of_the_test",
    "test_capture_inside_the_round",
    "test_set",
]
LAUNCH = ["kind", "kernel", "grid", "block", "registers", "shared_bytes", "bytes"]
LEAST_TIMED_NS = 20_000
"""Under it the context decides, and the two collectors are different ones."""

Measured = dict[str, Project]


@pytest.fixture(scope="module")
def both(gpu: Installation, tmp_path_factory: pytest.TempPathFactory) -> Measured:
    """One session over the same cases under each collector."""
    projects = {}
    for collector in COLLECTORS:
        project = make_project(tmp_path_factory.mktemp(collector), "perf_cupti")
        code = project.pytest(f"--nsight-collector={collector}", *OPTIONS)
        assert code == pytest.ExitCode.OK, project.said
        projects[collector] = project
    return projects


@pytest.fixture(scope="module")
def launches(both: Measured) -> dict[str, pd.DataFrame]:
    """Every launch of every round."""
    return {name: api.launches(api.load_session(project.run_folder().parent)) for name, project in both.items()}


def of_case(launches: dict[str, pd.DataFrame], case: str) -> list[pd.DataFrame]:
    """The launches of a case under nsys, and those under cupti."""
    return [table[table["case"].str.endswith(f"::{case}")] for table in (launches[name] for name in COLLECTORS)]


def by_round(table: pd.DataFrame, columns: Sequence[str]) -> list[list[tuple[object, ...]]]:
    """The launches of each round in order of their names: streams may finish in another order."""
    rounds = [group[list(columns)].itertuples(index=False, name=None) for _, group in table.groupby("round")]
    return [sorted(rows, key=repr) for rows in rounds]


@pytest.mark.parametrize("case", CASES)
def test_every_launch_is_the_same(launches, case):
    nsys, cupti = (by_round(table, LAUNCH) for table in of_case(launches, case))

    assert len(nsys) == len(cupti) == ROUNDS
    assert nsys == cupti


@pytest.mark.parametrize("case", CASES)
def test_they_run_on_as_many_streams_of_the_same_device(launches, case):
    found = [
        (table.groupby("round")["stream"].nunique().tolist(), set(table["device"]), 7 in set(table["stream"]))
        for table in of_case(launches, case)
    ]

    assert found[0] == found[1]


@pytest.mark.parametrize("case", CASES)
def test_medians_of_a_rounds_time_agree_within_5_percent(launches, case):
    nsys, cupti = (table.groupby("round")["duration_ns"].sum().median() for table in of_case(launches, case))

    assert cupti > 0
    if nsys > LEAST_TIMED_NS and case != "test_body[copies]":
        assert cupti == pytest.approx(nsys, rel=0.05)


def test_times_on_the_host_are_there(both):
    for project in both.values():
        (run,) = project.subject("::test_softmax")["runs"]
        medians = run["medians_ns"]
        assert 0 < medians["launch"] < medians["wall"]
        assert 0 < medians["sync"] < medians["wall"]
        assert medians["kernel"] < medians["wall"]


def test_a_thousand_launches_are_all_there(launches):
    _, cupti = of_case(launches, "test_long_chain")

    assert cupti.groupby("round").size().tolist() == [LONG_CHAIN] * ROUNDS


def test_the_boards_are_described_alike(both):
    nsys, cupti = (api.load_trace(both[name].run_folder()).devices for name in COLLECTORS)
    known = {board.uuid: board for board in nsys}

    assert cupti
    for board in cupti:
        other = known[board.uuid]
        assert (board.name, board.limits) == (other.name, other.limits)
        assert board.bytes_per_s == pytest.approx(other.bytes_per_s, rel=0.01)


def test_no_note_speaks_of_lost_calls(both):
    assert not [note for note in both["cupti"].result["nsight"]["notes"] if "API call" in note or "CUPTI" in note]


def test_a_profiler_inside_a_test_fails_that_test_and_no_other(gpu, tmp_path):
    project = make_project(tmp_path, "perf_profiled")
    code = project.pytest("--nsight-collector=cupti", *OPTIONS)

    assert code == pytest.ExitCode.TESTS_FAILED, project.said
    assert "::test_inside FAILED" in project.said, project.said
    said = " ".join(project.said.split())
    assert re.search(r"another profiler has taken CUPTI over \(torch.profiler", said), project.said
    for name in ("before", "between", "after"):
        assert counted(project, name) == 4, project.said
    # The case takes the records over from the profiler around it, or it says that it could not.
    assert "::test_around FAILED" in project.said or counted(project, "around") == 4, project.said


def counted(project: Project, name: str) -> int:
    """Launches of a round: zeros, and three additions."""
    subject = project.subject(f"::test_{name}")
    assert subject["verdict"] == "NO_BASELINE", project.said
    return sum(use["count"] for use in subject["structure"])


def test_what_is_saved_is_unchanged(gpu, tmp_path):
    project = make_project(tmp_path, "perf_cupti")
    options = ("--nsight-collector=cupti", "--nsight-no-identity", "-k", "softmax or matmul or graph_of_the_test")
    assert project.pytest(*options, "--nsight-save") == pytest.ExitCode.OK, project.said
    assert project.pytest(*options, "--nsight-band=5%") == pytest.ExitCode.OK, project.said

    for name in ("softmax", "matmul", "graph_of_the_test"):
        assert project.subject(f"::test_{name}")["verdict"] == "UNCHANGED", project.said


def test_the_library_is_that_of_a_package_and_auto_takes_it_without_nsys(gpu, tmp_path):
    project = make_project(tmp_path, "perf_profiled")
    found = find_working()
    code = project.pytest("-k", "before", *OPTIONS, PYTEST_NSIGHT_NSYS="/no/such/nsys")

    assert code == pytest.ExitCode.OK, project.said
    said = " ".join(project.said.split())
    assert f"collector cupti {found.version} ({found.path})" in said
    assert "CUPTI in the measuring process instead of Nsight Systems" in said
