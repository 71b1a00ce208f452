"""How many records that cannot be read end a session."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_nsight.controller.workers.unread_records import UnreadRecords
from pytest_nsight.model.errors import CollectorError
from pytest_nsight.model.trace import Trace
from pytest_nsight.protocol.job import UNREAD_FILE
from pytest_nsight.protocol.manifest import Manifest
from pytest_nsight.trace.process_record import ProcessEnd, ProcessRecord
from tests.gate.processes import make_process

ERROR = "Nsight Systems wrote no report."


def manifest_of(*cases: str) -> Manifest:
    return make_process(cases).manifest


def unread(*cases: str) -> ProcessRecord:
    return ProcessRecord(manifest_of(*cases), None, trace_error=ERROR)


@pytest.mark.parametrize(("cases", "most"), [(("a",), 2), (("a", "b"), 4)])
def test_where_no_record_can_be_read_the_session_ends_after_a_few(
    tmp_path: Path, cases: tuple[str, ...], most: int
) -> None:
    records = UnreadRecords()
    for _ in range(most - 1):
        records.count(tmp_path, [unread(*cases)])

    with pytest.raises(CollectorError, match=f"^{ERROR}$"):
        records.count(tmp_path, [unread(*cases)])


def test_a_profiler_that_hung_is_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.monotonic", iter([0.0, 901.0]).__next__)

    with pytest.raises(CollectorError, match=f"^{ERROR}$"):
        UnreadRecords().count(tmp_path, [unread("a", "b")])


def test_where_one_could_be_read_the_session_goes_on(tmp_path: Path) -> None:
    records = UnreadRecords()
    records.count(tmp_path, [ProcessRecord(manifest_of("a"), Trace())])

    for _ in range(9):
        records.count(tmp_path, [unread("a")])


def test_the_folder_of_such_a_run_says_why_for_a_replay(tmp_path: Path) -> None:
    records = UnreadRecords()

    records.count(tmp_path, [ProcessRecord(manifest_of("a"), None, ProcessEnd.FAILED, "died", ERROR)])
    assert not list(tmp_path.iterdir())

    records.count(tmp_path, [unread("a")])
    assert (tmp_path / UNREAD_FILE).read_text() == ERROR
