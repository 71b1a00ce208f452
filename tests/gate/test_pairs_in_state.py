"""Which interleaved pairs the loop keeps, and how partners come to stand side by side."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_nsight.gate.absorbing import absorb
from pytest_nsight.gate.loop import place_partners_together
from pytest_nsight.gate.state import GateState, PlannedProcess, SessionPlan
from pytest_nsight.model.shapes import Shape, ShapeUse
from pytest_nsight.model.values import RunSummary, Subject
from pytest_nsight.protocol.job import Assignment
from pytest_nsight.protocol.manifest import Manifest
from pytest_nsight.protocol.manifest_events import CaseFault, PairedRounds
from pytest_nsight.trace.process_record import MeasuredProcess

STATE = GateState(SessionPlan((), 1), pending=(PlannedProcess(1, Assignment(("f", "u"))),))
PAIR = PairedRounds("f", "u", "own", "partner")


def manifest(**more: object) -> Manifest:
    return Manifest("run", "session", "", "", 1, "", "", {}, ("f", "u"), ("f", "u"), (), (), (), 0, **more)  # type: ignore[arg-type]


def summary(case: str, *kernels: str) -> RunSummary:
    uses = tuple(ShapeUse(Shape("kernel", name), 1, 1000) for name in kernels)
    return RunSummary(Subject(case), "run", "session", "GPU-1", {"kernel": (1, 2)}, uses)


def absorb_pair(*rounds: RunSummary) -> GateState:
    alone = (summary("f", "fused"), summary("u", "pow", "mean"))
    return absorb(STATE, [MeasuredProcess(manifest(pairs=(PAIR,)), (*alone, *rounds))])


def test_a_pair_counts_if_both_launch_what_they_launch_alone() -> None:
    state = absorb_pair(summary("own", "fused"), summary("partner", "mean", "pow"))

    assert [len(pairs) for pairs in state.pairs.values()] == [1]
    assert list(state.pairs) == ["f"]


def test_a_pair_that_launches_other_kernels_is_no_evidence_and_a_note_says_so() -> None:
    state = absorb_pair(summary("own", "pow", "mean"), summary("partner", "pow", "mean"))

    assert not state.pairs
    assert any("launch other kernels" in note for note in state.notes)


def test_a_pair_that_broke_off_is_a_note() -> None:
    faults = (CaseFault("f", "ValueError: I/O operation on closed file"),)

    state = absorb(STATE, [MeasuredProcess(manifest(pair_faults=faults))])

    assert (
        "f and its partner were not measured in interleaved pairs: ValueError: I/O operation on closed file"
        in state.notes
    )


def test_partners_stand_beside_the_case_that_they_share() -> None:
    order = place_partners_together(["a", "x", "b", "u", "c"], {"a": "u", "b": "u", "c": "u"})

    assert order == ["a", "u", "b", "c", "x"]


@given(
    st.lists(st.sampled_from("abcdefgh"), unique=True, min_size=1),
    st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from("abcdefghz")),
)
def test_the_order_keeps_every_case_and_lone_ones_their_places(order: list[str], partners: dict[str, str]) -> None:
    moved = place_partners_together(order, partners)

    assert sorted(moved) == sorted(order)
    assert place_partners_together(order, {}) == order
    claims = [(case, partner) for case, partner in partners.items() if {case, partner} <= set(order)]
    if len(claims) == 1 and claims[0][0] != claims[0][1]:
        first, second = (moved.index(case) for case in claims[0])
        assert abs(first - second) == 1
