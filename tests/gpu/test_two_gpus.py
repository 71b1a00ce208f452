"""Workers and ranks on two real GPUs: each launch counted once, in its round, on the board that it ran on.

    PYTEST_NSIGHT_REQUIRE_GPU=1 python -m pytest tests/gpu/test_two_gpus.py -v

What this project says is held against joins in plain SQL over the scrubbed export.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from pytest_nsight.collectors.nsys.find import Installation
from pytest_nsight.processes.machine import gpus
from pytest_nsight.protocol.manifest import Manifest
from pytest_nsight.protocol.manifest_reader import read_manifest
from pytest_nsight.protocol.worker_plan import WorkerPlan
from tests.gpu.conftest import Project, make_project
from tests.gpu.programs.sizes_two_gpus import CASES, CHILD_LAUNCHES, RANKS, ROUNDS

ARGUMENTS = ("-n", "2", "--nsight-collector=nsys", "--nsight-keep", "--nsight-no-canaries")

# Process, board and name of each kernel; a process's own number of a board leads to its UUID.
KERNELS = """
SELECT k.globalPid >> 24 & 16777215, 'GPU-' || g.uuid, s.value
FROM CUPTI_ACTIVITY_KIND_KERNEL k
JOIN TARGET_INFO_CUDA_DEVICE d ON d.pid = k.globalPid >> 24 & 16777215 AND d.cudaId = k.deviceId
JOIN TARGET_INFO_GPU g ON g.id = d.gpuId
JOIN StringIds s ON s.id = k.demangledName
"""

# The same, inside rounds of its own process, with the round's name and number.
IN_ROUNDS = (
    KERNELS.replace("s.value", "s.value, COALESCE(n.text, t.value), n.int64Value")
    + """
JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = k.correlationId AND r.globalTid >> 24 = k.globalPid >> 24
JOIN NVTX_EVENTS n ON n.globalTid >> 24 = r.globalTid >> 24 AND n.eventType = 59 AND n.domainId != 0
  AND r.start >= n.start AND r.start < n.end AND n.int64Value > 0
LEFT JOIN StringIds t ON t.id = n.textId
"""
)


@pytest.fixture(scope="module")
def measured(gpu: Installation, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """One session of two workers, and then two ranks."""
    if len(gpus()) < RANKS:
        pytest.skip(f"needs {RANKS} GPUs, {len(gpus())} visible")
    project = make_project(tmp_path_factory.mktemp("two_gpus"), "perf_two_gpus")
    code = project.pytest(*ARGUMENTS)
    print(project.said)
    assert code == pytest.ExitCode.OK, project.said
    return project


def manifests(project: Project) -> dict[str, Manifest]:
    """Worker's or rank's folder -> its account."""
    folder = project.run_folder()
    names = [member.folder for group in WorkerPlan.read(folder).groups for member in group.members]
    return {name: read_manifest(folder / name / "manifest.jsonl") for name in names}


def rows(project: Project, query: str) -> list[tuple]:
    path: Path = project.run_folder() / "trace.sqlite"
    with closing(sqlite3.connect(path)) as database:
        return database.execute(query).fetchall()


def test_everything_is_measured_and_too_many_ranks_are_skipped(measured: Project) -> None:
    assert f"{CASES + 3} passed, 1 skipped" in measured.said
    assert set(manifests(measured)) == {"worker-1", "worker-2", "ranks-2-rank-0", "ranks-2-rank-1"}


def test_each_worker_has_a_board_of_its_own_and_each_case_is_on_it(measured: Project) -> None:
    known = manifests(measured)
    boards = {name: manifest.board for name, manifest in known.items()}
    assert [boards["worker-1"], boards["worker-2"]] == [gpu.uuid for gpu in gpus()[:2]]
    for name in ("worker-1", "worker-2"):
        for case in known[name].ended:
            if "test_single" in case:
                assert {run["board"] for run in measured.subject(case)["runs"]} == {boards[name]}


def test_every_kernel_of_every_process_ran_on_the_board_that_its_worker_names(measured: Project) -> None:
    boards = {manifest.pid: manifest.board for manifest in manifests(measured).values()}
    found = {process: set() for process in boards}
    for process, uuid, *_ in rows(measured, KERNELS):
        if process in found:
            found[process].add(uuid)

    assert found == {process: {board} for process, board in boards.items()}


def test_each_round_of_a_worker_has_its_one_kernel(measured: Project) -> None:
    for number in range(CASES):
        (use,) = measured.subject(f"test_single[{number}]")["structure"]
        assert use["count"] == 1
    workers = {manifest.pid for name, manifest in manifests(measured).items() if name.startswith("worker")}
    counts = Counter((process, text) for process, _, _, text, _ in rows(measured, IN_ROUNDS) if process in workers)
    singles = [count for (_, text), count in counts.items() if "test_single" in text]
    assert singles == [ROUNDS] * CASES


def test_an_all_reduce_is_one_kernel_a_round_on_every_rank_and_board(measured: Project) -> None:
    ranks = [manifests(measured)[f"ranks-2-rank-{rank}"] for rank in range(RANKS)]
    for rank, manifest in enumerate(ranks):
        (run,) = measured.subject("test_all_reduce", f"rank {rank}")["runs"]
        assert run["board"] == manifest.board == gpus()[rank].uuid
        (use,) = measured.subject("test_all_reduce", f"rank {rank}")["structure"]
        assert "nccl" in use["shape"]["name"].lower()
        assert use["count"] == 1
    (run,) = measured.subject("test_all_reduce")["runs"]
    assert run["board"] == "+".join(manifest.board for manifest in ranks)
    counts = Counter(
        (process, uuid)
        for process, uuid, kernel, text, _ in rows(measured, IN_ROUNDS)
        if "test_all_reduce" in text and "nccl" in kernel.lower()
    )
    assert counts == {(manifest.pid, manifest.board): ROUNDS for manifest in ranks}


def test_the_slowest_rank_is_what_counts(measured: Project) -> None:
    for case in ("test_all_reduce", "test_uneven"):
        found = {
            row["name"].partition("/")[2]: row["stats"]["data"]
            for row in measured.result["benchmarks"]
            if row["name"].partition("/")[0] == case
        }
        assert found[""] == [max(pair) for pair in zip(found["rank 0"], found["rank 1"], strict=True)]
    trees = [measured.subject("test_uneven", f"rank {rank}")["structure"] for rank in range(RANKS)]
    assert [sum(use["count"] for use in side) for side in trees] == [1, 21]


def test_a_spawned_child_s_kernels_are_in_its_parent_s_round(measured: Project) -> None:
    counts = {use["shape"]["name"]: use["count"] for use in measured.subject("test_child")["structure"]}
    assert CHILD_LAUNCHES in counts.values(), counts
    workers = {manifest.pid for manifest in manifests(measured).values()}
    assert {process for process, *_ in rows(measured, KERNELS)} - workers, "nsys recorded no child"
    assert "are in no round" not in measured.said


def test_the_recording_gives_the_same_verdicts_again(measured: Project) -> None:
    live = {row["fullname"]: row["stats"]["data"] for row in measured.result["benchmarks"]}
    session = measured.run_folder().parent

    assert measured.pytest("--nsight-replay", str(session)) == pytest.ExitCode.OK, measured.said

    assert {row["fullname"]: row["stats"]["data"] for row in measured.result["benchmarks"]} == live
