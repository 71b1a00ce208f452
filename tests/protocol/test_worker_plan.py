"""The plan of workers that run side by side, and how they ended: as written, and as older versions wrote them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_nsight.model.errors import RecordingError
from pytest_nsight.protocol.job import OTHER_TREE, Assignment, Job, TreeMapping
from pytest_nsight.protocol.worker_plan import (
    WorkerExit,
    WorkerGroup,
    WorkerPlan,
    WorkerSpec,
    has_plan,
    read_exits,
)

PLAN = WorkerPlan(
    (
        (
            WorkerGroup(("a", "b"), (WorkerSpec("worker-1", {"CUDA_VISIBLE_DEVICES": "GPU-1"}),)),
            WorkerGroup(("c",), (WorkerSpec("worker-2"),)),
        ),
        (WorkerGroup(("d",), (WorkerSpec("rank-0"), WorkerSpec("rank-1"))),),
    )
)


def test_a_plan_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert not has_plan(tmp_path)
    PLAN.write(tmp_path)
    assert has_plan(tmp_path)
    assert WorkerPlan.read(tmp_path) == PLAN


def test_exits_are_read_up_to_one_that_is_cut_off(tmp_path: Path) -> None:
    ends = [
        {"member": "rank-0", "code": 1, "failed_peer": "", "children": [5]},
        {"member": "rank-1", "code": -15, "failed_peer": "rank-0", "children": []},
    ]
    text = "".join(json.dumps(end) + "\n" for end in ends)
    (tmp_path / "ends.jsonl").write_text(text + '{"member": "cut o')

    assert read_exits(tmp_path) == {"rank-0": WorkerExit(1, "", (5,)), "rank-1": WorkerExit(-15, "rank-0")}


def test_a_run_without_recorded_exits_has_none(tmp_path: Path) -> None:
    assert read_exits(tmp_path) == {}


@pytest.mark.parametrize(
    "line", ['{"member": "x", "code": "1"}', "[]", "not JSON", '{"code": 1, "children": [1.5]}']
)
def test_a_damaged_end_is_refused_with_its_place(tmp_path: Path, line: str) -> None:
    (tmp_path / "ends.jsonl").write_text(line + "\n")

    with pytest.raises(RecordingError, match=r"ends\.jsonl, line 1 is damaged"):
        read_exits(tmp_path)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"stages": 3}', '{"stages": [[{"cases": []}]]}'])
def test_a_damaged_plan_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "plan.json").write_text(text)

    with pytest.raises(RecordingError, match=r"plan\.json is damaged"):
        WorkerPlan.read(tmp_path)


def test_job_and_assignment_are_read_as_they_were_written(tmp_path: Path) -> None:
    job = Job(
        "s/001", "s", "2026-01-01", "abc", "nsys", None, ("-q",), ("/x",), {"a": "b"},
        mapping=TreeMapping("/r", "/t", ("/s",)), unable={"c": "too few GPUs"},
    )  # fmt: skip
    assignment = Assignment(("a", "b"), 7, OTHER_TREE)
    job.write(tmp_path)
    assignment.write(tmp_path)

    assert Job.read(tmp_path) == job
    assert Assignment.read(tmp_path) == assignment
