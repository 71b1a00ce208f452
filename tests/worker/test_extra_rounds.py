"""Which bodies are kept and raced, in which turns; and how cases come to stand side by side."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_nsight.gate.pair_results import RaceHarvest, place_partners_together
from pytest_nsight.model.values import RunSummary, Shape, ShapeUse, Subject
from pytest_nsight.protocol.manifest import Journal, Manifest, read_manifest
from pytest_nsight.worker.extra_rounds import PAIRS, PairBody, PairSchedule
from pytest_nsight.worker.rounds import RoundPlan, Stopwatch
from tests.worker.board import Board, Silent


class Garage(Board):
    """A board that tells whether bodies may be kept, and when memory was given back."""

    def __init__(self, *, has_room: bool = True) -> None:
        super().__init__()
        self.has_room = has_room
        self.released = 0

    def has_room_to_keep(self) -> bool:
        return self.has_room

    def release(self) -> None:
        self.released += 1


@pytest.fixture
def board(monkeypatch: pytest.MonkeyPatch) -> Garage:
    board = Garage()
    board.keep_time(monkeypatch)
    return board


def run(
    board: Garage, folder: Path, cases: list[str], partners: dict[str, str], **bodies: object
) -> tuple[Manifest, list[str]]:
    """Enters all cases in order; returns the manifest and the cases in the order in which they ran."""
    journal = Journal(folder / "manifest.jsonl")
    stopwatch = Stopwatch(board, Silent(), journal)
    track = PairSchedule(cases, partners)
    turns: list[str] = []
    for case in cases:
        body = bodies.get(case) or (lambda case=case: turns.append(case))
        track.enter(PairBody(case, body, RoundPlan()), stopwatch, journal)  # type: ignore[arg-type]
        track.leave(case, stopwatch)
    return read_manifest(folder / "manifest.jsonl"), turns


@pytest.mark.parametrize("order", [["f", "u"], ["u", "f"]])
def test_a_pair_takes_turns_in_either_order(board: Garage, tmp_path: Path, order: list[str]) -> None:
    manifest, turns = run(board, tmp_path, order, {"f": "u"})

    ((case, partner, own_rounds, partner_rounds),) = manifest.pairs
    assert (case, partner) == ("f", "u")
    assert Counter(one.case for one in manifest.rounds) == {own_rounds: PAIRS, partner_rounds: PAIRS}
    assert turns[-2 * PAIRS :] == ["f", "u", "u", "f"] * (PAIRS // 2)
    assert board.released == 1


def test_one_partner_is_kept_for_all_that_claim_to_beat_it(board: Garage, tmp_path: Path) -> None:
    order = place_partners_together(["a", "x", "b", "u", "c"], {"a": "u", "b": "u", "c": "u"})
    manifest, _ = run(board, tmp_path, order, {"a": "u", "b": "u", "c": "u"})

    assert order == ["a", "u", "b", "c", "x"]
    assert sorted(race[:2] for race in manifest.pairs) == [("a", "u"), ("b", "u"), ("c", "u")]


def test_what_is_not_next_is_let_go(board: Garage, tmp_path: Path) -> None:
    manifest, turns = run(board, tmp_path, ["f", "x", "u"], {"f": "u"})

    assert manifest.pairs == ()
    assert turns == []


def test_without_room_nothing_is_kept(board: Garage, tmp_path: Path) -> None:
    board.has_room = False
    manifest, _ = run(board, tmp_path, ["f", "u"], {"f": "u"})

    assert manifest.pairs == ()


def test_a_body_that_fails_when_its_fixtures_are_gone_harms_nobody(board: Garage, tmp_path: Path) -> None:
    def gone() -> None:
        raise ValueError("I/O operation on closed file")

    manifest, _ = run(board, tmp_path, ["f", "u"], {"f": "u"}, f=gone)

    assert manifest.pairs == ()
    assert manifest.pair_faults == (("f", "ValueError: I/O operation on closed file"),)
    (sentence,) = RaceHarvest().take(manifest, [])
    assert sentence == "f and its partner were not measured in turns: ValueError: I/O operation on closed file"


def summary(case: str, *kernels: str) -> RunSummary:
    uses = tuple(ShapeUse(Shape("kernel", name), 1, 1000) for name in kernels)
    return RunSummary(Subject(case), "run", "session", "GPU-1", {"kernel": (1, 2)}, uses)


def test_a_race_counts_only_if_both_launch_what_they_launch_alone(board: Garage, tmp_path: Path) -> None:
    manifest, _ = run(board, tmp_path, ["f", "u"], {"f": "u"})
    ((_, _, own, partner),) = manifest.pairs
    alone = [summary("f", "fused"), summary("u", "pow", "mean")]
    same, other = RaceHarvest(), RaceHarvest()

    assert same.take(manifest, [*alone, summary(own, "fused"), summary(partner, "mean", "pow")]) == ()
    (sentence,) = other.take(manifest, [*alone, summary(own, "pow", "mean"), summary(partner, "pow", "mean")])
    assert len(same.of("f")) == 1
    assert other.of("f") == same.of("u") == ()
    assert "launch other kernels" in sentence


_cases = st.lists(st.sampled_from("abcdefgh"), unique=True, min_size=1)


@given(_cases, st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from("abcdefghz")))
def test_the_order_keeps_every_case_and_lone_ones_their_places(order: list[str], partners: dict[str, str]) -> None:
    moved = place_partners_together(order, partners)

    assert sorted(moved) == sorted(order)
    assert place_partners_together(order, {}) == order
    claims = [(case, partner) for case, partner in partners.items() if {case, partner} <= set(order)]
    if len(claims) == 1 and claims[0][0] != claims[0][1]:
        first, second = (moved.index(case) for case in claims[0])
        assert abs(first - second) == 1
