"""Runs of several workers that cannot be prepared."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_nsight.controller import parallel_runs as fleet
from pytest_nsight.controller.worker_run import Identity
from pytest_nsight.model.errors import CollectorError
from pytest_nsight.model.values import Case
from pytest_nsight.protocol.job import Assignment
from pytest_nsight.protocol.parent_pipe import FILE_NAME

CASES = ("t.py::test_a", "t.py::test_b")


@pytest.fixture
def source(tmp_path: Path) -> fleet.ParallelSource:
    collector = SimpleNamespace(environment={}, name="none", tidy=lambda _folder, *, keep: keep)
    return fleet.ParallelSource(
        [Case(case) for case in CASES],
        ["GPU-a", "GPU-b"],
        ["GPU-a", "GPU-b"],
        collector=collector,
        identity=Identity("s", "", ""),
        folder=tmp_path / "sessions" / "s",
        arguments=(),
        where=tmp_path,
        rounds=None,
        keep=False,
        canaries=False,
        environment={},
        watch=lambda _progress: None,
    )


def test_workers_that_are_prepared_are_let_go_when_another_cannot_be(
    source: fleet.ParallelSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def write_job(folder, job):
        if made:
            raise PermissionError(13, "Permission denied")
        made.append(write(folder, job))
        return made[0]

    write = fleet.write_job
    monkeypatch.setattr(fleet, "write_job", write_job)

    with pytest.raises(CollectorError, match=r"cannot be written \(Permission denied\).*make that writable"):
        source.execute(Assignment(CASES))

    assert len(made) == 1
    assert not list(tmp_path.rglob(FILE_NAME))
