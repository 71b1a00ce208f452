"""Which bodies are kept, and how the rounds of two cases are interleaved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from pytest_nsight.protocol.journal import Journal
from pytest_nsight.protocol.manifest import Manifest
from pytest_nsight.protocol.manifest_events import CaseFault
from pytest_nsight.protocol.manifest_reader import read_manifest
from pytest_nsight.worker.extra_rounds import PAIRS, PairSchedule
from pytest_nsight.worker.measured_body import MeasuredBody, RoundPlan
from pytest_nsight.worker.pacing import AUDIT, USUAL, StoppingRule
from pytest_nsight.worker.rounds import RoundRunner
from tests.worker.board import Board, Silent


class KeepingBoard(Board):
    """A board that says whether bodies may be kept, and counts how often memory was released."""

    def __init__(self, *, has_room: bool = True) -> None:
        super().__init__()
        self.has_room = has_room
        self.released = 0

    def has_room_to_keep(self) -> bool:
        return self.has_room

    def release(self) -> None:
        self.released += 1


@pytest.fixture
def board(monkeypatch: pytest.MonkeyPatch) -> KeepingBoard:
    board = KeepingBoard()
    board.keep_time(monkeypatch)
    return board


def run(
    board: KeepingBoard,
    folder: Path,
    cases: list[str],
    partners: dict[str, str],
    plans: Mapping[str, RoundPlan] = MappingProxyType({}),
    **bodies: object,
) -> tuple[Manifest, list[str]]:
    """Enters all cases in order; returns the manifest and the cases in the order in which they ran."""
    journal = Journal(folder / "manifest.jsonl")
    runner = RoundRunner(board, Silent(), journal)
    schedule = PairSchedule(cases, partners)
    order_run: list[str] = []
    for case in cases:
        body = bodies.get(case) or (lambda case=case: order_run.append(case))
        plan = plans.get(case, RoundPlan())
        schedule.enter(MeasuredBody(case, case, body, plan=plan), runner, journal)  # type: ignore[arg-type]
        schedule.leave(case, runner)
    return read_manifest(folder / "manifest.jsonl"), order_run


@pytest.mark.parametrize("order", [["f", "u"], ["u", "f"]])
def test_the_rounds_of_a_pair_alternate_in_either_order(
    board: KeepingBoard, tmp_path: Path, order: list[str]
) -> None:
    manifest, order_run = run(board, tmp_path, order, {"f": "u"})

    (pair,) = manifest.pairs
    assert (pair.case, pair.partner) == ("f", "u")
    assert Counter(one.case for one in manifest.rounds) == {pair.own_rounds: PAIRS, pair.partner_rounds: PAIRS}
    assert order_run[-2 * PAIRS :] == ["f", "u", "u", "f"] * (PAIRS // 2)
    assert board.released == 1


@pytest.mark.parametrize(
    ("own", "partner", "pairs"),
    [
        (RoundPlan(rule=USUAL), RoundPlan(rule=AUDIT), 15),
        (RoundPlan(rule=AUDIT), RoundPlan(rule=USUAL), 15),
        (RoundPlan(rounds=7), RoundPlan(), 7),
        (RoundPlan(rounds=100), RoundPlan(rounds=100, rule=AUDIT), PAIRS),
        (RoundPlan(rule=StoppingRule(fewest=90, long_ns=1)), RoundPlan(rounds=50), PAIRS),
    ],
)
def test_a_pair_has_at_most_the_rounds_that_its_cases_must_have(
    board: KeepingBoard, tmp_path: Path, own: RoundPlan, partner: RoundPlan, pairs: int
) -> None:
    manifest, _ = run(board, tmp_path, ["f", "u"], {"f": "u"}, {"f": own, "u": partner})

    assert sorted(Counter(one.case for one in manifest.rounds).values()) == [pairs, pairs]


def test_a_body_may_compile_and_capture_and_replay_again_before_its_pairs(
    board: KeepingBoard, tmp_path: Path
) -> None:
    _, order_run = run(board, tmp_path, ["f", "u"], {"f": "u"})

    assert order_run.count("f") == order_run.count("u") == PAIRS + 3


def test_one_partner_is_kept_for_all_that_claim_to_beat_it(board: KeepingBoard, tmp_path: Path) -> None:
    manifest, _ = run(board, tmp_path, ["a", "u", "b", "c", "x"], {"a": "u", "b": "u", "c": "u"})

    assert sorted((pair.case, pair.partner) for pair in manifest.pairs) == [("a", "u"), ("b", "u"), ("c", "u")]


def test_what_is_not_next_is_let_go(board: KeepingBoard, tmp_path: Path) -> None:
    manifest, order_run = run(board, tmp_path, ["f", "x", "u"], {"f": "u"})

    assert manifest.pairs == ()
    assert order_run == []


def test_without_room_nothing_is_kept(board: KeepingBoard, tmp_path: Path) -> None:
    board.has_room = False
    manifest, _ = run(board, tmp_path, ["f", "u"], {"f": "u"})

    assert manifest.pairs == ()


def test_a_body_that_fails_when_its_fixtures_are_gone_harms_nobody(board: KeepingBoard, tmp_path: Path) -> None:
    def gone() -> None:
        raise ValueError("I/O operation on closed file")

    manifest, _ = run(board, tmp_path, ["f", "u"], {"f": "u"}, f=gone)

    assert manifest.pairs == ()
    assert manifest.pair_faults == (CaseFault("f", "ValueError: I/O operation on closed file"),)
