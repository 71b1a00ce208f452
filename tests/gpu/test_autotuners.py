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
    graph, compiled = chosen["test_compiled"]
    assert graph.name == "Inductor"
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
    named = "cuDNN, which chooses by time, launched other kernels for convolutions ("
    assert named in subject["sentence"], project.said


@pytest.fixture(scope="module")
def compiled(gpu: Installation, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Saved with one choice of each compiler, checked with the other one, without the caches of the first."""
    project = make_project(tmp_path_factory.mktemp("compilers"), "perf_compilers")
    options = ("--nsight-collector=nsys", "--nsight-no-identity", "--nsight-runs=3")
    for choice, save in (("0", ("--nsight-save",)), ("1", ())):
        project.pytest(
            *options, *save, CHOICE=choice, TORCHINDUCTOR_CACHE_DIR=str(project.folder / f"inductor-{choice}")
        )
    return project


@pytest.mark.parametrize(
    ("case", "by", "work"),
    [("::test_torch", "Inductor", "graph and inputs"), ("::test_jax[2048]", "XLA", "program")],
)
def test_other_kernels_that_a_compiler_chose_for_the_same_work_are_judged_on_time(
    compiled: Project, case: str, by: str, work: str
) -> None:
    subject = compiled.subject(case)

    assert subject["verdict"] in ("UNCHANGED", "INCONCLUSIVE", "IMPROVEMENT"), compiled.said
    assert f"{by}, which chooses by time, made other kernels of the same {work} (" in subject["sentence"]


def test_other_work_that_xla_compiled_otherwise_fails(compiled: Project) -> None:
    subject = compiled.subject("::test_jax[other_work]")

    assert subject["verdict"] in ("STRUCTURE", "REGRESSION"), compiled.said
    assert "of the same program" not in subject["sentence"]
