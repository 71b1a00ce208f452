"""An autotuner that chooses anew fails nothing, and only for the same work."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_nsight.baselines.decode import decode
from pytest_nsight.collectors.nsys.find import Installation
from tests.gpu.conftest import Project, make_project

NAME = "perf_autotuned"


@pytest.fixture(scope="module")
def checked(gpu: Installation, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Saved with the first configuration of each kernel, checked with the second one."""
    project = make_project(tmp_path_factory.mktemp("autotuners"), NAME)
    options = ("--nsight-collector=nsys", "--nsight-no-identity")
    assert project.pytest(*options, "--nsight-save", CHOICE="0") == 0, project.said
    code = project.pytest(*options, CHOICE="1")
    assert code == pytest.ExitCode.TESTS_FAILED, project.said
    return project


CHOICE = (
    "an autotuner chose another configuration for the same source and arguments "
    "(_tuned_kernel BLOCK: 1024 -> BLOCK: 512)"
)


def test_as_fast_a_choice_passes(checked: Project) -> None:
    subject = checked.subject("::test_equal")

    assert subject["verdict"] in ("UNCHANGED", "INCONCLUSIVE", "IMPROVEMENT"), checked.said
    assert CHOICE in subject["sentence"]


def test_a_slower_choice_is_named_and_fails_nothing(checked: Project) -> None:
    subject = checked.subject("::test_slower_choice")

    assert subject["verdict"] == "INCONCLUSIVE", checked.said
    assert f", but {CHOICE}, so the time does not show whether the code is slower: " in subject["sentence"]


def test_other_work_in_another_configuration_fails(checked: Project) -> None:
    subject = checked.subject("::test_less_work")

    assert subject["verdict"] == "STRUCTURE", checked.said
    assert "same kernels, other launch shapes" in subject["sentence"]


def test_what_triton_and_inductor_chose_is_stored(checked: Project) -> None:
    (file,) = checked.folder.glob(f"baselines/*/test_{NAME}.json")
    chosen = {
        subject.case.rpartition("::")[2]: runs[-1].tuned
        for subject, runs in decode(file.read_text()).items()
        if not subject.part
    }

    (tuned,) = chosen["test_equal"]
    assert (tuned.name, tuned.config.partition(",")[0]) == ("_tuned_kernel", "BLOCK: 1024")
    (compiled,) = chosen["test_compiled"]
    assert compiled.name.startswith("triton_poi_fused")
    assert "BLOCK" in compiled.config


def test_what_cudnn_chose_otherwise_is_judged_on_time(gpu: Installation, tmp_path: Path) -> None:
    """The first candidate of each convolution stands in for what is fastest on another machine."""
    project = make_project(tmp_path, "perf_convolutions")
    options = ("--nsight-collector=nsys", "--nsight-no-identity", "--nsight-runs=3")
    assert project.pytest(*options, "--nsight-save", CHOICE="10") == 0, project.said

    project.pytest(*options, CHOICE="1")

    subject = project.subject("::test_step")
    assert subject["verdict"] != "STRUCTURE", project.said
    assert "cuDNN, which chooses by time, launched other kernels for convolutions (" in subject["sentence"]
