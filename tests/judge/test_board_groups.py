"""Kinds of boards, by the times that canaries took on real H200s."""

from __future__ import annotations

import pytest

from pytest_nsight.judge.board_groups import STREAMS, find_board_groups
from pytest_nsight.judge.subject_runs import SubjectRuns
from pytest_nsight.model.values import CANARIES, Policy, Subject
from tests.judge.runs import make_runs

# Medians of copy and triad in us, one line a board (docs/decisions/0010).
LARGER = [(503.75, 370.03), (503.02, 369.85), (503.18, 369.79), (503.90, 369.99), (503.63, 370.03)]
SMALLER = [(506.01, 368.46), (506.09, 368.53), (505.95, 368.52), (505.96, 368.50)]


def streams(boards: dict[str, tuple[float, float]]) -> list[SubjectRuns]:
    return [
        SubjectRuns(
            subject := Subject(f"{CANARIES}::{name}"),
            Policy(),
            tuple(
                run
                for board, times in boards.items()
                for run in make_runs([1000 * times[index]] * 3, board, subject=subject, board=board)
            ),
            (),
        )
        for index, name in enumerate(STREAMS)
    ]


@pytest.mark.parametrize("order", [1, -1])
def test_the_two_kinds_of_h200_are_told_apart(order: int) -> None:
    boards = {f"GPU-{index}": times for index, times in enumerate([*LARGER, *SMALLER][::order])}

    kinds = find_board_groups(streams(boards))

    by_time = {
        times in LARGER: {kinds[board] for board, own in boards.items() if (own in LARGER) == (times in LARGER)}
        for times in boards.values()
    }
    assert [len(found) for found in by_time.values()] == [1, 1]
    assert by_time[True].isdisjoint(by_time[False])


def test_the_ratio_tells_what_neither_stream_tells_alone() -> None:
    copy, triad = LARGER[0]
    shifted = {"GPU-a": (copy, triad), "GPU-b": (1.003 * copy, 0.997 * triad)}

    assert len(set(find_board_groups(streams(shifted)).values())) == 2


@pytest.mark.parametrize("shift", [0.997, 1.003])
def test_a_shift_of_both_streams_makes_no_other_kind(shift: float) -> None:
    copy, triad = LARGER[0]
    boards = {"GPU-a": (copy, triad), "GPU-b": (shift * copy, shift * triad)}

    assert len(set(find_board_groups(streams(boards)).values())) == 1


def test_of_a_board_without_a_stream_nothing_is_known() -> None:
    assert find_board_groups(streams({"GPU-a": LARGER[0]})[:1]) == {}
