"""How many rounds a case gets: by its assignment, and by what its user asks for."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_nsight.protocol.job import Assignment, Job
from pytest_nsight.protocol.journal import Journal
from pytest_nsight.protocol.manifest_reader import read_manifest
from pytest_nsight.protocol.ranks import no_barrier
from pytest_nsight.worker import measured_case
from pytest_nsight.worker.measured_case import CaseMeasurement, MeasuredRun
from pytest_nsight.worker.pacing import AUDIT, USUAL
from tests.worker.board import Board, Silent

LONG_NS = 30_000_000
CASE = "t.py::t"


def count_rounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, assignment: Assignment, **mark: int) -> int:
    """Rounds of a case that takes LONG_NS, without noise."""
    board = Board()
    board.keep_time(monkeypatch)
    monkeypatch.setattr(measured_case, "current_device", lambda _root_pid: board)
    job = Job("s/001", "s", "", "", "nsys", None, (), (), {}, canaries=False)
    run = MeasuredRun(job, Journal(tmp_path / "manifest.jsonl"), Silent(), no_barrier)
    run.assign(assignment, [])
    node = SimpleNamespace(nodeid=CASE)
    item: Any = SimpleNamespace(
        nodeid=CASE, iter_markers_with_node=lambda _name: iter([(node, pytest.mark.nsight(**mark).mark)])
    )

    CaseMeasurement(run, item).measure(lambda: board.work(LONG_NS, full_w=300), None, None, None)

    return len(read_manifest(tmp_path / "manifest.jsonl").rounds)


@pytest.mark.parametrize(("audited", "rounds"), [((), USUAL.fewest), ((CASE,), AUDIT.fewest)])
def test_an_audited_case_gets_half_as_many_rounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, audited: tuple[str, ...], rounds: int
) -> None:
    assert count_rounds(tmp_path, monkeypatch, Assignment((CASE,), audited=audited)) == rounds


def test_a_number_that_the_user_asks_for_holds_in_an_audit_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert count_rounds(tmp_path, monkeypatch, Assignment((CASE,), audited=(CASE,)), rounds=21) == 21
