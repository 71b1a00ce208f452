"""Runs of several workers that cannot be prepared."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_nsight.controller.trees.revision_tree import Tree
from pytest_nsight.controller.workers import parallel_runs
from pytest_nsight.controller.workers.time_limits import TimeLimits
from pytest_nsight.controller.workers.worker_starter import LiveSession
from pytest_nsight.model.errors import CollectorError
from pytest_nsight.model.values import Case
from pytest_nsight.protocol.job import THIS_TREE, Assignment
from pytest_nsight.protocol.parent_pipe import FILE_NAME

CASES = ("t.py::test_a", "t.py::test_b")


@pytest.fixture
def source(tmp_path: Path) -> parallel_runs.ParallelSource:
    collector = SimpleNamespace(environment={}, name="none", start=None, tidy=lambda _folder, *, keep: keep)
    session = LiveSession(
        id="s",
        recorded="",
        commit="",
        folder=tmp_path / "sessions" / "s",
        collector=collector,  # type: ignore[arg-type]
        trees={THIS_TREE: Tree(tmp_path, (), ())},
        rounds=None,
        keep=False,
        canaries=False,
        environment={},
        limits=TimeLimits(600.0),
    )
    gpus = ["GPU-a", "GPU-b"]
    return parallel_runs.ParallelSource(session, lambda _progress: None, [Case(case) for case in CASES], gpus, gpus)


def test_workers_that_are_prepared_are_let_go_when_another_cannot_be(
    source: parallel_runs.ParallelSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def write_job(folder, job):
        if made:
            raise PermissionError(13, "Permission denied")
        made.append(write(folder, job))
        return made[0]

    write = parallel_runs.write_job
    monkeypatch.setattr(parallel_runs, "write_job", write_job)

    with pytest.raises(CollectorError, match=r"cannot be written \(Permission denied\).*make that writable"):
        source.execute(Assignment(CASES))

    assert len(made) == 1
    assert not list(tmp_path.rglob(FILE_NAME))
