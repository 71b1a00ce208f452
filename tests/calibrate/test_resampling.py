"""Splits: who may be stored beside whom."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

from pytest_nsight.calibrate.pool import list_processes
from pytest_nsight.calibrate.resampling import STORED_BOARDS, Situation, draw_splits
from tests.calibrate.pools import Sessions, make_pool

PROCESSES = list_processes(make_pool(Sessions(boards=2, sessions=2, runs=12, subjects=2)).summaries)


def draw(situation: Situation, number: int = 50, seed: int = 1, processes: object = PROCESSES) -> list:
    splits = draw_splits(processes, situation, np.random.default_rng(seed))  # type: ignore[arg-type]
    return list(itertools.islice(splits, number))


FLEET = list_processes(make_pool(Sessions(boards=6, sessions=2, runs=9, subjects=2)).summaries)


@pytest.mark.parametrize("situation", list(Situation))
def test_no_run_is_on_both_sides_or_twice_on_one(situation: Situation) -> None:
    for split in draw(situation, processes=FLEET):
        runs = [process.run for process in (*split.stored, *split.new)]
        assert len(set(runs)) == len(runs)


def test_stored_and_new_runs_are_of_two_sessions_of_one_board() -> None:
    for split in draw(Situation.SAME_BOARD):
        before, now = split.sessions
        assert before != now
        assert {process.board for process in (*split.stored, *split.new)} == {split.stored[0].board}
        assert {process.session for process in split.stored} == {before}
        assert (len(split.stored), len(split.new)) == (5, 9)


def test_stored_and_new_runs_are_of_two_boards() -> None:
    for split in draw(Situation.OTHER_BOARD):
        assert {process.board for process in split.stored}.isdisjoint({process.board for process in split.new})


def test_several_boards_are_stored_with_a_session_of_each_and_none_is_the_new_one() -> None:
    for split in draw(Situation.SEVERAL_BOARDS, processes=FLEET):
        stored = Counter((process.board, process.session) for process in split.stored)
        assert len({board for board, _ in stored}) == STORED_BOARDS
        assert set(stored.values()) == {5}
        assert split.new[0].board not in {board for board, _ in stored}
    assert draw(Situation.SEVERAL_BOARDS) == []


def test_alternating_runs_neighbour_each_other_and_neither_side_is_always_first() -> None:
    order = {process.run: index for index, process in enumerate(PROCESSES)}
    for split in draw(Situation.SAME_SESSION):
        steps = [order[now.run] - order[before.run] for before, now in zip(split.stored, split.new, strict=True)]
        assert set(steps) == {-1, 1}
        assert len(split.new) == 6
        assert len(split.sessions) == 1


def test_a_paired_split_begins_with_three_pairs_and_has_as_many_stored_as_new_runs() -> None:
    split, beside_stored = draw(Situation.SAME_SESSION, 1)[0], draw(Situation.SAME_BOARD, 1)[0]

    assert (split.first_look, beside_stored.first_look) == (3, 1)
    assert [len(split.stored_at(new)) for new in (3, 5)] == [3, 5]
    assert [len(beside_stored.stored_at(new)) for new in (1, 9)] == [5, 5]


def test_every_pair_of_sessions_comes_up() -> None:
    assert len({split.sessions for split in draw(Situation.OTHER_BOARD, 200)}) == 8
    assert len({split.sessions for split in draw(Situation.SAME_BOARD, 200)}) == 4


def test_a_seed_settles_the_splits() -> None:
    assert draw(Situation.SAME_BOARD, 5, seed=3) == draw(Situation.SAME_BOARD, 5, seed=3)
    assert draw(Situation.SAME_BOARD, 5, seed=3) != draw(Situation.SAME_BOARD, 5, seed=4)


@pytest.mark.parametrize("situation", [Situation.SAME_BOARD, Situation.OTHER_BOARD])
def test_a_single_session_yields_none(situation: Situation) -> None:
    assert draw(situation, processes=PROCESSES[:12]) == []
