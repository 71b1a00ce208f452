"""Three kernels are saved sound and measured spoiled: Nsight Compute names the counter that moved in each."""

from __future__ import annotations

import os
import re

import pytest

from pytest_nsight.collectors.ncu.ncu_collector import find_ncu
from pytest_nsight.collectors.nsys.find import Installation
from pytest_nsight.model.errors import CollectorError
from tests.gpu.conftest import Project, make_project


@pytest.fixture(scope="module")
def drilled(gpu: Installation, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Counters of the sound kernels, then a session on the spoiled ones; no board of this machine may forbid it."""
    try:
        find_ncu(os.environ)
    except CollectorError as error:
        if os.environ.get("PYTEST_NSIGHT_REQUIRE_NCU") == "1":
            pytest.fail(str(error))
        pytest.skip(str(error))
    project = make_project(tmp_path_factory.mktemp("drill"), "perf_drill")
    options = ("--nsight-collector=nsys", "--nsight-no-canaries", "--nsight-drill")
    assert project.pytest(*options, "--nsight-save", "--nsight-runs=3") == 0, project.said
    if "may not read the GPU's counters" in " ".join(project.said.split()):
        if os.environ.get("PYTEST_NSIGHT_REQUIRE_NCU") == "1":
            pytest.fail(project.said)
        pytest.skip("this user may not read the GPU's counters")
    assert project.pytest(*options, SPOILED="1") == pytest.ExitCode.TESTS_FAILED, project.said
    return project


@pytest.mark.parametrize(
    ("kernel", "moved"),
    [
        ("registers", r"spilled registers and local arrays 0 B -> [\d.]+ .?B"),
        ("coalescing", r"sectors per memory request 4\.00 -> \d+"),
        (
            "occupancy",
            r"achieved occupancy \d+ % -> \d+ %, (registers [\d.]+ -> [\d.]+, )?shared memory of a block",
        ),
    ],
)
def test_the_sentence_names_the_counter_that_was_spoiled_first(drilled: Project, kernel: str, moved: str) -> None:
    subject = drilled.subject(f"test_drilled[{kernel}]")

    assert subject["verdict"] == "REGRESSION", drilled.said
    found = re.search(
        rf"Nsight Compute on drill_{kernel}, against the baseline's counters of [^:]*: (.*)", subject["sentence"]
    )
    assert found, subject["sentence"]
    assert re.match(moved, found[1]), found[1]


def test_without_an_ncu_the_verdict_stands_and_the_sentence_says_why_nothing_more(
    gpu: Installation, drilled: Project
) -> None:
    code = drilled.pytest(
        "--nsight-collector=nsys",
        "--nsight-drill",
        "-k",
        "coalescing",
        PYTEST_NSIGHT_NCU="/missing/ncu",
        SPOILED="1",
    )

    assert code == pytest.ExitCode.TESTS_FAILED
    assert "not drilled into: PYTEST_NSIGHT_NCU is" in " ".join(drilled.said.split())
