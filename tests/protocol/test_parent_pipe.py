"""What the controller says to a worker that waits, and that it may say nothing any more."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_nsight.protocol.job import Assignment
from pytest_nsight.protocol.parent_pipe import PipeFromParent, PipeToWorker

ASSIGNMENT = Assignment(("t.py::test_one",), seed=7)


@pytest.fixture
def controller(tmp_path: Path) -> PipeToWorker:
    return PipeToWorker(tmp_path)


@pytest.fixture
def worker(tmp_path: Path, controller: PipeToWorker) -> PipeFromParent:
    return PipeFromParent(tmp_path)


def never(name: str) -> None:
    pytest.fail(f"imports {name}")


def test_a_worker_imports_what_is_suggested_until_its_assignment_comes(
    controller: PipeToWorker, worker: PipeFromParent
) -> None:
    imported: list[str] = []

    def import_early(name: str) -> None:
        imported.append(name)
        if len(imported) == 2:
            controller.send(ASSIGNMENT)

    for name in ("one", "two", "three"):
        controller.suggest_import(name)

    assert worker.wait_for_assignment(import_early) == ASSIGNMENT
    assert imported == ["one", "two"]


def test_an_assignment_that_is_there_does_not_wait_for_imports(
    controller: PipeToWorker, worker: PipeFromParent
) -> None:
    controller.suggest_import("slow")
    controller.send(ASSIGNMENT)

    assert worker.wait_for_assignment(never) == ASSIGNMENT


def test_a_closed_pipe_means_that_nothing_is_wanted(controller: PipeToWorker, worker: PipeFromParent) -> None:
    assert not worker.is_given_up

    controller.close()
    controller.suggest_import("slow")

    assert worker.is_given_up
    assert worker.wait_for_assignment(never) is None


def test_a_pipe_that_closes_during_an_import_ends_the_wait(
    controller: PipeToWorker, worker: PipeFromParent
) -> None:
    controller.suggest_import("slow")

    assert worker.wait_for_assignment(lambda _: controller.close()) is None


def test_a_worker_with_an_assignment_is_not_given_up(controller: PipeToWorker, worker: PipeFromParent) -> None:
    controller.send(ASSIGNMENT)
    worker.wait_for_assignment(never)

    controller.close()

    assert not worker.is_given_up


def test_a_descriptor_that_the_users_code_closes_gives_nothing_up(
    controller: PipeToWorker, worker: PipeFromParent, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = os.open(os.devnull, os.O_RDONLY)
    os.close(closed)
    monkeypatch.setattr(worker, "_pipe", closed)

    assert not worker.is_given_up
