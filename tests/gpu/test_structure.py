"""Five cases, saved as they should be and measured again come apart: five sentences, from a real GPU."""

from __future__ import annotations

import re

import pytest

from pytest_nsight.collectors.nsys.find import Installation
from tests.gpu.conftest import Project, make_project
from tests.gpu.programs.sizes import BLOCK, LENGTH


@pytest.fixture(scope="module")
def judged(gpu: Installation, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """One run saved, one run of the spoiled code judged against it, without more runs to confirm it."""
    project = make_project(tmp_path_factory.mktemp("structure"), "perf_structure")
    options = ("--nsight-collector=nsys", "--nsight-save", "--nsight-runs=1")
    assert project.pytest(*options) == 0, project.said
    assert project.pytest(*options, "--nsight-keep", "--nsight-baselines=other", SPOILED="1") == 0, project.said
    session = project.run_folder().parent
    code = project.pytest(f"--nsight-replay={session}")
    assert code == pytest.ExitCode.TESTS_FAILED, project.said
    return project


FUSION = (
    r"launches changed, 1 -> 2 per round, as when a fusion is lost: - 1 launch: _scale_kernel"
    r"   \+ 2 launches: \w*elementwise_kernel\(.*, \w*elementwise_kernel\("
)
TILE = (
    r"same kernels, other launch shapes in 1 run: "
    rf"_scale_kernel grid {LENGTH // BLOCK}x1x1 block 128x1x1 -> "
    rf"_scale_kernel grid {LENGTH // BLOCK // 4}x1x1 block 128x1x1; an autotuner may choose so by chance"
)
COPY = r"copies changed, launches did not \(1 per round\): \+ 1 copy: memcpy DtoH;"
LOST = r"launches lost, 2 -> 1 per round: - 1 launch: \w*elementwise_kernel\("
UNSTABLE = (
    r"launches differ from round to round \(\w*elementwise_kernel\(.* 0 to 1\), as they did not in the baseline"
)


@pytest.mark.parametrize(
    ("case", "verdict", "words"),
    [
        ("test_fusion", "STRUCTURE", FUSION),
        ("test_tile", "INCONCLUSIVE", TILE),
        ("test_copy", "STRUCTURE", COPY),
        ("test_lost", "STRUCTURE", LOST),
        ("test_unstable", "INCONCLUSIVE", UNSTABLE),
    ],
)
def test_each_way_of_coming_apart_has_its_sentence(judged, case, verdict, words):
    subject = judged.subject(f"::{case}")

    assert subject["verdict"] == verdict, subject["sentence"]
    assert re.search(words, subject["sentence"]), subject["sentence"]


def test_the_launches_behind_a_sentence_are_listed(judged):
    changes = {
        change["shape"]["name"]: (change["before"], change["now"])
        for change in judged.subject("::test_fusion")["changes"]
    }

    assert changes.pop("_scale_kernel") == (1, 0)
    assert list(changes.values()) == [(0, 1), (0, 1)]
