"""Every launch in its place on a real GPU: one session over all that GPU code does, against known counts.

    PYTEST_NSIGHT_REQUIRE_GPU=1 python -m pytest tests/gpu -v

Three sources agree or a test fails: what the code must launch (`programs/sizes.py`), what torch's own profiler
counts in a process without nsys, and what this project says; sums are compared with a join in plain SQL.
"""

from __future__ import annotations

import json
import sqlite3
import statistics
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from pytest_nsight.collectors.nsys.export import export
from pytest_nsight.collectors.nsys.find import Installation
from pytest_nsight.collectors.nsys.nsys_collector import REPORT_FILE
from pytest_nsight.collectors.nsys.profiling import profile_command
from pytest_nsight.collectors.nsys.read import read
from pytest_nsight.protocol.manifest_reader import read_manifest
from pytest_nsight.trace.measures import measure
from tests.collectors.real import environment
from tests.gpu.conftest import PROGRAMS, Json, Project, make_project
from tests.gpu.programs.sizes import (
    BLOCK,
    CHAIN,
    DOWN_BYTES,
    EXPECTED,
    LENGTH,
    PARTS,
    ROUNDS,
    UP_BYTES,
)

# Kernels whose call began inside a range of the round, whichever thread made it.
SUMS = """
SELECT n.int64Value, k.end - k.start, r.globalTid = n.globalTid
FROM NVTX_EVENTS n
JOIN CUPTI_ACTIVITY_KIND_RUNTIME r
  ON r.start >= n.start AND r.start < n.end AND r.globalTid >> 24 = n.globalTid >> 24
JOIN {table} k ON k.correlationId = r.correlationId AND k.globalPid >> 24 = r.globalTid >> 24
WHERE n.eventType = 59
"""


@pytest.fixture(scope="module")
def measured(gpu: Installation, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """One session over all bodies."""
    project = make_project(tmp_path_factory.mktemp("attribution"), "perf_attribution")
    code = project.pytest("--nsight-collector=nsys", "--nsight-keep")
    # One claim is false, on purpose.
    assert code == pytest.ExitCode.TESTS_FAILED, project.said
    return project


@pytest.fixture(scope="module")
def counted_by_torch(gpu: Installation) -> dict[str, dict[str, int]]:
    command = [sys.executable, str(PROGRAMS / "count_with_torch.py")]
    environ = environment(TORCHINDUCTOR_COMPILE_THREADS="1")
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    counts: dict[str, dict[str, int]] = json.loads(done.stdout.splitlines()[-1])
    return counts


def body(project: Project, name: str, part: str = "") -> Json:
    return project.subject(f"::test_body[{name}]", part)


def launches(subject: Json, *kinds: str) -> int:
    return sum(use["count"] for use in subject["structure"] if use["shape"]["kind"] in kinds)


def medians(subject: Json) -> dict[str, float]:
    (run,) = subject["runs"]
    return run["medians_ns"]


def payloads(project: Project, name: str, part: str = "") -> list[list[int]]:
    """For each round of a body, the payloads of its range or of those of a part."""
    rounds = read_manifest(project.run_folder() / "manifest.jsonl").rounds
    own = [one for one in rounds if one.case.endswith(f"::test_body[{name}]")]
    return [[id_ for id_, told in one.parts if told == part] if part else [one.id] for one in own]


def joined(project: Project, table: str, ids: Sequence[int]) -> list[tuple[int, bool]]:
    """Of each launch in the ranges with these payloads, its duration and whether the range's thread made it."""
    with closing(sqlite3.connect(project.run_folder() / "trace.sqlite")) as connection:
        marks = ", ".join("?" * len(ids))
        rows = connection.execute(f"{SUMS.format(table=table)} AND n.int64Value IN ({marks})", ids)
        return [(duration_ns, bool(is_own)) for _, duration_ns, is_own in rows]


@pytest.mark.parametrize("name", EXPECTED)
def test_a_round_launches_what_the_code_must_launch(measured, name):
    subject, (kernels, copies) = body(measured, name), EXPECTED[name]
    told = [(use["count"], use["shape"]["full_name"][:80]) for use in subject["structure"]]

    assert (launches(subject, "kernel"), launches(subject, "memcpy", "memset")) == (kernels, copies), told
    assert subject["runs"][0]["is_stable"], told
    assert subject["runs"][0]["rounds"] == ROUNDS


@pytest.mark.parametrize("name", EXPECTED)
def test_torch_s_profiler_counts_the_same(counted_by_torch, name):
    found = counted_by_torch[name]

    assert (found["kernel"], found["gpu_memcpy"] + found["gpu_memset"]) == EXPECTED[name], found


@pytest.mark.parametrize(("name", "part"), PARTS)
def test_a_named_part_has_its_launches(measured, name, part):
    assert launches(body(measured, name, part), "kernel") == PARTS[name, part]


@pytest.mark.parametrize("name", [name for name, (kernels, _) in EXPECTED.items() if kernels])
def test_the_sum_is_that_of_a_plain_join(measured, name):
    sums = []
    for ids in payloads(measured, name):
        found = joined(measured, "CUPTI_ACTIVITY_KIND_KERNEL", ids)
        assert len(found) == EXPECTED[name][0]
        sums.append(sum(duration_ns for duration_ns, _ in found))

    assert medians(body(measured, name))["kernel"] == statistics.median(sums)
    assert len(sums) == ROUNDS


def test_autograd_launches_from_a_thread_of_its_own_and_the_backward_part_has_it_all(measured):
    for ids in payloads(measured, "backward", "backward"):
        threads = [is_own for _, is_own in joined(measured, "CUPTI_ACTIVITY_KIND_KERNEL", ids)]
        assert len(threads) == CHAIN
        assert not any(threads), "autograd launched from the test's own thread: this shows nothing"
    for ids in payloads(measured, "backward", "forward"):
        assert all(is_own for _, is_own in joined(measured, "CUPTI_ACTIVITY_KIND_KERNEL", ids))


def test_a_user_s_thread_counts_in_the_round(measured):
    for ids in payloads(measured, "thread"):
        assert [is_own for _, is_own in joined(measured, "CUPTI_ACTIVITY_KIND_KERNEL", ids)] == [False] * 3


def test_the_parts_of_a_graph_add_up_to_it_and_one_call_launches_all(measured):
    whole = body(measured, "graph")
    parts = [body(measured, "graph", part) for part in ("additions", "products")]

    assert sum(launches(part, "kernel") for part in parts) == launches(whole, "kernel")
    assert sum(medians(part)["kernel"] for part in parts) == pytest.approx(medians(whole)["kernel"], rel=0.05)
    assert 0 < medians(whole)["launch"] < medians(whole)["wall"]
    # The host sees a replay as a whole.
    assert not {"wall", "launch", "sync"} & set(medians(parts[0]))


def test_streams_that_overlap_are_busy_for_less_than_the_sum(measured):
    times = medians(body(measured, "streams"))

    assert times["kernel"] > 1e6, "the kernels are too short to overlap"
    assert times["busy"] < 0.75 * times["kernel"]
    assert times["busy"] <= times["span"] < times["wall"]


def test_a_triton_kernel_has_its_name_grid_and_block(measured):
    (use,) = body(measured, "written_in_triton")["structure"]

    assert use["shape"]["name"] == "_scale_kernel"
    assert use["shape"]["grid"] == [LENGTH // BLOCK, 1, 1]
    assert use["shape"]["block"] == [4 * 32, 1, 1]


def test_a_compiled_function_is_one_generated_kernel(measured):
    (use,) = body(measured, "compiled")["structure"]

    assert use["shape"]["name"].startswith("triton_poi_fused"), use["shape"]["full_name"]
    assert not use["shape"]["name"][-1].isdigit(), "the number of the kernel changes from build to build"


def test_pinned_copies_have_their_bytes_directions_and_time(measured):
    subject = body(measured, "copies")
    times = medians(subject)

    assert {use["shape"]["name"]: use["count"] for use in subject["structure"]} == {
        "memcpy HtoD": 1,
        "memcpy DtoH": 1,
    }
    assert {use["shape"]["full_name"] for use in subject["structure"]} == {
        "memcpy HtoD (pinned to device)",
        "memcpy DtoH (device to pinned)",
    }
    assert subject["runs"][0]["copied_bytes"] == UP_BYTES + DOWN_BYTES
    assert times["kernel"] == 0
    # No link to a host is faster than 900 GB/s, and none that is worth a test slower than 1.
    assert (UP_BYTES + DOWN_BYTES) / 900 < times["copy"] < UP_BYTES + DOWN_BYTES
    assert times["copy"] < times["wall"]
    sums = [
        sum(duration_ns for duration_ns, _ in joined(measured, "CUPTI_ACTIVITY_KIND_MEMCPY", ids))
        for ids in payloads(measured, "copies")
    ]
    assert times["copy"] == statistics.median(sums)


def test_a_claim_that_holds_passes_and_one_that_does_not_fails_with_what_was_launched(measured):
    assert body(measured, "written_in_triton")["verdict"] == "NO_BASELINE"
    false = measured.subject("::test_false_claim")

    assert false["verdict"] == "CLAIM"
    assert "2 launches claimed, 1 per round: _scale_kernel" in false["sentence"]
    assert "claimed kernels not launched: _other_kernel; launched: _scale_kernel" in false["sentence"]


def test_no_launch_is_without_a_call(measured):
    assert not [note for note in measured.result["nsight"]["notes"] if "no API call" in note]


def test_a_graph_traced_whole_is_one_launch_a_replay(gpu, measured, tmp_path):
    """The plugin records nodes; an export of someone else's may hold graphs as nsys records them by default."""
    report = tmp_path / REPORT_FILE
    command = profile_command(gpu, report, [sys.executable, str(PROGRAMS / "replay_graph.py")])
    assert "--cuda-graph-trace=node" in command
    command = [word.replace("graph-trace=node", "graph-trace=graph") for word in command]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    export(gpu, report, Path(tmp_path, "export.sqlite"), environment())
    trace = read(tmp_path / "export.sqlite")
    result = measure(trace)
    replays = result.ranges[result.ranges["name"] == "replay"]

    if gpu.version < (2024, 2):
        assert replays["launches"].tolist() == [0, 0, 0]
        assert any("3 launches of CUDA graphs left no kernels" in note for note in trace.notes)
        return
    assert replays["launches"].tolist() == [1, 1, 1]
    used = result.kernels[result.kernels["range"].isin(replays.index)]
    assert {result.shapes[shape].kind for shape in used["shape"]} == {"graph"}
    # The same graph by its nodes, which takes somewhat longer, as every one of them is timed.
    span_ns = medians(body(measured, "graph"))["span"]
    assert span_ns / 4 < replays["kernel_ns"].median() < 4 * span_ns
