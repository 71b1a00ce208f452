"""What is proven without timing, on a real GPU: unchanged cases, touched ones with their cause, all mutations."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pytest_nsight.collectors.nsys.find import Installation
from tests.collectors.real import environment
from tests.gpu.conftest import PROGRAMS, Json, Project, make_project

ROOT = Path(__file__).parents[2]
COLLECTOR = "--nsight-collector=nsys"
RANDOM, CHANGING = "test_random", "test_changing"
"""The number of one is another in every round; the grid of the other alternates."""

PROVEN = {
    "test_triton",
    "test_argument",
    "test_grid",
    "test_matmul",
    "test_softmax",
    "test_graph",
    "test_parts",
    "test_counting",
}

OWN_KERNEL = {"test_triton", "test_argument", "test_grid", "test_graph", "test_parts"}
"""Those that launch the kernel of own_kernel.py."""


def make_saved(folder: Path) -> Project:
    project = make_project(folder, "perf_identity")
    shutil.copyfile(PROGRAMS / "own_kernel.py", folder / "own_kernel.py")
    return project


def list_notes(project: Project) -> str:
    return "\n".join(project.result["nsight"]["notes"])


@pytest.fixture(scope="module")
def saved(gpu: Installation, tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = make_saved(tmp_path_factory.mktemp("identity"))
    assert project.pytest(COLLECTOR, "--nsight-save", "--nsight-runs=3") == 0, project.said
    return project


def test_unchanged_cases_are_identical_in_another_process_and_the_rest_is_named(saved: Project) -> None:
    code = saved.pytest(COLLECTOR, "--nsight-keep")

    assert code == 0, saved.said
    verdicts = saved.verdicts()
    assert {case for case, verdict in verdicts.items() if verdict == "IDENTICAL"} == PROVEN, saved.said
    assert f"without an identity ({CHANGING}): its rounds differ: grid" in list_notes(saved)
    assert "changes from round to round, in another way than before" in saved.subject(f"::{RANDOM}")["sentence"]
    assert "audit: 3 identical cases timed all the same" in list_notes(saved)
    assert "CONTRADICT" not in list_notes(saved), saved.said
    session = saved.run_folder().parent
    before = verdicts

    assert saved.pytest(f"--nsight-replay={session}") == 0, saved.said
    assert saved.verdicts() == before


@pytest.mark.parametrize(
    ("spoiled", "case", "cause"),
    [
        ("code", "test_triton", "machine code changed: "),
        ("argument", "test_argument", "argument "),
        ("grid", "test_grid", "grid "),
        ("graph", "test_graph", "argument "),
    ],
)
def test_a_touched_case_is_timed_and_its_cause_is_said(saved: Project, spoiled: str, case: str, cause: str) -> None:
    saved.pytest(COLLECTOR, SPOILED=spoiled)

    verdicts = saved.verdicts()
    assert {name for name, verdict in verdicts.items() if verdict == "IDENTICAL"} == PROVEN - {case}, saved.said
    assert cause in saved.subject(f"::{case}")["sentence"], saved.said


def test_without_identity_all_are_timed(saved: Project) -> None:
    saved.pytest(COLLECTOR, "--nsight-no-identity")

    assert "IDENTICAL" not in saved.verdicts().values()


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=n", "-c", "user.email=e@example.org")
    subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True)


def test_of_two_trees_what_is_identical_is_not_timed(gpu: Installation, tmp_path: Path) -> None:
    project = make_saved(tmp_path)
    git(tmp_path, "init", "-b", "main")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "-m", "a commit")

    assert project.pytest(COLLECTOR, "--nsight-against=HEAD") == 0, project.said
    assert {case for case, verdict in project.verdicts().items() if verdict == "IDENTICAL"} == PROVEN

    kernel = tmp_path / "own_kernel.py"
    kernel.write_text(kernel.read_text().replace("LOOPS = 3", "LOOPS = 40"))
    assert project.pytest(COLLECTOR, "--nsight-against=HEAD") == pytest.ExitCode.TESTS_FAILED, project.said
    verdicts = project.verdicts()
    assert {case for case, verdict in verdicts.items() if verdict == "IDENTICAL"} == PROVEN - OWN_KERNEL
    assert verdicts["test_triton"] == "REGRESSION"
    assert "machine code changed: " in project.subject("::test_triton")["sentence"]


def run_perf_tests(folder: Path, *options: str) -> Json:
    written = folder / "result.json"
    written.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--nsight", COLLECTOR, "perf_tests"]
    command += [f"--nsight-baselines={folder / 'baselines'}", f"--nsight-json={written}", *options]
    began_s = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False)
    assert written.exists(), done.stdout + done.stderr
    result: Json = json.loads(written.read_text())
    result["seconds"] = time.monotonic() - began_s
    return result


def test_of_the_kernels_here_all_are_identical_or_named(gpu: Installation, tmp_path: Path) -> None:
    run_perf_tests(tmp_path, "--nsight-save", "--nsight-runs=3")
    project = Project(tmp_path, result=run_perf_tests(tmp_path))

    verdicts, notes = project.verdicts(), list_notes(project)
    others = {case for case, verdict in verdicts.items() if verdict != "IDENTICAL"}
    print(f"{len(verdicts)} cases in {project.result['seconds']:.0f} s, not identical: {others}\n{notes}")
    # A claim that the stored runs do not show to hold is settled by new ones.
    unnamed = {
        case for case in others if case not in notes and "claim" not in project.subject(f"::{case}")["sentence"]
    }
    assert not unnamed, notes
    assert len(others) <= len(verdicts) // 10


def test_every_mutation_is_judged_right(gpu: Installation) -> None:
    command = [sys.executable, "-m", "benchmarks.cupti.identify"]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False)

    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert done.returncode == 0, done.stderr
    wrong = [line for line in lines if line["finding"] == "mutation" and not line.get("right")]
    (total,) = (line for line in lines if line["finding"] == "mutations")
    assert total["tried"] >= 49
    assert not wrong
    unidentified = [line for line in lines if line["finding"] == "identity" and line["why_none"]]
    assert not unidentified


def test_each_launch_of_kernels_of_one_name_leads_to_the_code_of_its_own_module(gpu: Installation) -> None:
    command = [sys.executable, str(PROGRAMS / "one_name.py")]
    output = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=True).stdout
    found = json.loads(output)

    assert len(set(found["compiled"])) == 3
    assert found["launched"] == found["compiled"], found


def test_a_graph_is_seen_if_it_was_captured_before_a_tuner_ran_and_has_no_identity_otherwise(
    gpu: Installation,
) -> None:
    command = [sys.executable, str(PROGRAMS / "graphs_and_pauses.py")]
    output = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=True).stdout
    found = json.loads(output)

    # Three nodes, and the three calls that were captured.
    assert found["before"] == {"why_none": "", "launches": 6}
    assert "in a CUDA graph were not seen" in found["within"]["why_none"], found
