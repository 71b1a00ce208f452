"""A worker that identifies launches in place of timing them: whatever can say what rounds launch does it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from pytest_nsight.model.identity import READING, SHORT_OF_MEMORY, Identity, LaunchIdentity, make_identity
from pytest_nsight.protocol.job import Assignment, Job
from pytest_nsight.protocol.journal import Journal
from pytest_nsight.protocol.manifest_reader import read_manifest
from pytest_nsight.protocol.ranks import no_barrier
from pytest_nsight.worker import measured_case
from pytest_nsight.worker.measured_body import MeasuredBody, RoundPlan
from pytest_nsight.worker.measured_case import MeasuredRun
from tests.worker.board import Board, Silent

FOUND = make_identity([LaunchIdentity("copy", "1", arguments=("64 bytes",))])


class Listing(Silent):
    """Knows one answer for all cases that it was asked to keep."""

    rounds = 3
    is_due = True

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}
        self.forgotten = 0

    def pause(self) -> AbstractContextManager[None]:
        return nullcontext()

    def keep(self, case: str, name: str) -> None:
        self.kept[case] = name

    def forget(self) -> None:
        self.forgotten += 1

    def identify(self) -> dict[str, Identity]:
        found = dict.fromkeys(self.kept, FOUND)
        self.kept.clear()
        return found


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MeasuredRun:
    board = Board()
    board.keep_time(monkeypatch)
    monkeypatch.setattr(measured_case, "current_device", lambda _root_pid: board)
    job = Job("s/identity pass", "s", "", "", "nsys", None, (), (), {}, canaries=False, identifies=True)
    identifier = Listing()
    return MeasuredRun(job, Journal(tmp_path / "manifest.jsonl"), identifier, no_barrier, identifier)


def test_as_many_rounds_run_as_the_identifier_compares(run: MeasuredRun, tmp_path: Path) -> None:
    assert isinstance(run.identifier, Listing)
    calls = []

    result = run.identify(
        run.identifier, MeasuredBody("t.py::t", "t", lambda: len(calls), plan=RoundPlan(rounds=50)), "faster"
    )

    assert (run.identifier.kept, run.identifier.forgotten) == ({"t.py::t": "t"}, 1)
    run.write_identities(is_last=False)
    manifest = read_manifest(tmp_path / "manifest.jsonl")
    assert (result, len(manifest.rounds)) == (0, Listing.rounds)
    assert (manifest.identities, manifest.claims) == ({"t.py::t": FOUND}, {"t.py::t": "faster of None"})


def test_a_pass_launches_nothing_of_its_own_and_gives_the_next_case_the_memory_of_the_first(
    run: MeasuredRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[str] = []
    for name in ("isolate", "release", "launch_little", "flush"):
        monkeypatch.setattr(Board, name, lambda _, name=name: called.append(name))
    monkeypatch.setattr(measured_case.gc, "collect", lambda: called.append("collect"))
    assert run.identifier is not None

    run.identify(run.identifier, MeasuredBody("t.py::t", "t", lambda: None, plan=RoundPlan(cold_cache=True)), "")
    assert called == []
    run.finish_case("t.py::t", is_last=False)

    # Garbage may hold memory.
    assert called == ["collect", "isolate"]


def test_what_is_not_due_is_written_after_the_last_case(run: MeasuredRun, tmp_path: Path) -> None:
    assert isinstance(run.identifier, Listing)
    run.identifier.is_due = False
    run.identify(run.identifier, MeasuredBody("t.py::t", "t", lambda: None, plan=RoundPlan()), "")

    run.write_identities(is_last=False)
    assert read_manifest(tmp_path / "manifest.jsonl").identities == {}
    run.write_identities(is_last=True)
    assert read_manifest(tmp_path / "manifest.jsonl").identities == {"t.py::t": FOUND}


def test_a_case_that_fails_takes_its_launches_with_it(run: MeasuredRun, tmp_path: Path) -> None:
    assert isinstance(run.identifier, Listing)

    def fail() -> None:
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        run.identify(run.identifier, MeasuredBody("t.py::t", "t", fail, plan=RoundPlan()), "")

    run.write_identities(is_last=True)
    assert run.identifier.forgotten == 1
    assert read_manifest(tmp_path / "manifest.jsonl").identities == {}


@pytest.mark.parametrize(
    ("assignment", "is_kept"),
    [
        (Assignment(("t.py::t", "t.py::u"), identifies=True), False),
        (Assignment(("t.py::t",), identifies=True, continues=True), False),
        (Assignment(("t.py::t",), identifies=True), True),
        (Assignment(("t.py::t", "t.py::u"), identifies=True, repeats=True), True),
    ],
)
def test_a_case_that_found_the_memory_short_beside_others_has_no_identity_yet(
    run: MeasuredRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, assignment: Assignment, *, is_kept: bool
) -> None:
    assert isinstance(run.identifier, Listing)
    retries = iter((2, 3, 3, 3))
    monkeypatch.setattr(Board, "count_memory_retries", lambda _: next(retries))
    run.assign(assignment, [])

    for case in ("t.py::t", "t.py::u"):
        run.identify(run.identifier, MeasuredBody(case, case, lambda: None, plan=RoundPlan()), "faster")
        run.finish_case(case, is_last=False)

    manifest = read_manifest(tmp_path / "manifest.jsonl")
    none = Identity(why_none=SHORT_OF_MEMORY, reading=READING)
    assert manifest.identities == {"t.py::t": FOUND if is_kept else none, "t.py::u": FOUND}
    assert manifest.claims == {"t.py::t": "faster of None", "t.py::u": "faster of None"}
