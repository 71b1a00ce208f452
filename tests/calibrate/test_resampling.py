"""Resamples: who may be stored beside whom."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

from pytest_nsight.calibrate.pool import list_processes
from pytest_nsight.calibrate.replayed_gate import replay
from pytest_nsight.calibrate.resampling import STORED_BOARDS, Resample, Situation, draw_resamples
from tests.calibrate.pools import Sessions, make_pool

PROCESSES = list_processes(make_pool(Sessions(boards=2, sessions=2, runs=12, subjects=2)).summaries)


def draw(situation: Situation, number: int = 50, seed: int = 1, processes: object = PROCESSES) -> list:
    resamples = draw_resamples(processes, situation, np.random.default_rng(seed))  # type: ignore[arg-type]
    return list(itertools.islice(resamples, number))


SIX_BOARDS = list_processes(make_pool(Sessions(boards=6, sessions=2, runs=9, subjects=2)).summaries)


@pytest.mark.parametrize("situation", list(Situation))
def test_no_run_is_on_both_sides_or_twice_on_one(situation: Situation) -> None:
    for resample in draw(situation, processes=SIX_BOARDS):
        runs = [process.run for process in (*resample.stored, *resample.new)]
        assert len(set(runs)) == len(runs)


def test_stored_and_new_runs_are_of_two_sessions_of_one_board() -> None:
    for resample in draw(Situation.SAME_BOARD):
        before, now = resample.sessions
        assert before != now
        assert {process.board for process in (*resample.stored, *resample.new)} == {resample.stored[0].board}
        assert {process.session for process in resample.stored} == {before}
        assert (len(resample.stored), len(resample.new)) == (5, 9)


def test_stored_and_new_runs_are_of_two_boards() -> None:
    for resample in draw(Situation.OTHER_BOARD):
        assert {process.board for process in resample.stored}.isdisjoint(
            {process.board for process in resample.new}
        )


def test_several_boards_are_stored_with_a_session_of_each_and_none_is_the_new_one() -> None:
    for resample in draw(Situation.SEVERAL_BOARDS, processes=SIX_BOARDS):
        stored = Counter((process.board, process.session) for process in resample.stored)
        assert len({board for board, _ in stored}) == STORED_BOARDS
        assert set(stored.values()) == {5}
        assert resample.new[0].board not in {board for board, _ in stored}
    assert draw(Situation.SEVERAL_BOARDS) == []


def test_alternating_runs_neighbour_each_other_and_neither_side_is_always_first() -> None:
    order = {process.run: index for index, process in enumerate(PROCESSES)}
    for resample in draw(Situation.SAME_SESSION):
        steps = [
            order[now.run] - order[before.run] for before, now in zip(resample.stored, resample.new, strict=True)
        ]
        assert set(steps) == {-1, 1}
        assert len(resample.new) == 6
        assert len(resample.sessions) == 1


def test_a_paired_resample_begins_with_two_pairs_and_has_as_many_stored_as_new_runs() -> None:
    resample, beside_stored = draw(Situation.SAME_SESSION, 1)[0], draw(Situation.SAME_BOARD, 1)[0]

    assert (resample.first_look, beside_stored.first_look) == (2, 1)
    assert [runs_compared(resample, fixed) for fixed in (3, 5)] == [(3, 3), (5, 5)]
    assert [runs_compared(beside_stored, fixed) for fixed in (3, 5)] == [(5, 3), (5, 5)]


def runs_compared(resample: Resample, fixed: int) -> tuple[int, int]:
    """Stored and new runs that a comparison after `fixed` new runs rests on."""
    comparison = replay(resample, {}, fixed=fixed).verdicts[0].comparison
    return comparison.baseline_runs, comparison.new_runs


def test_every_pair_of_sessions_comes_up() -> None:
    assert len({resample.sessions for resample in draw(Situation.OTHER_BOARD, 200)}) == 8
    assert len({resample.sessions for resample in draw(Situation.SAME_BOARD, 200)}) == 4


def test_a_seed_settles_the_resamples() -> None:
    assert draw(Situation.SAME_BOARD, 5, seed=3) == draw(Situation.SAME_BOARD, 5, seed=3)
    assert draw(Situation.SAME_BOARD, 5, seed=3) != draw(Situation.SAME_BOARD, 5, seed=4)


@pytest.mark.parametrize("situation", [Situation.SAME_BOARD, Situation.OTHER_BOARD])
def test_a_single_session_yields_none(situation: Situation) -> None:
    assert draw(situation, processes=PROCESSES[:12]) == []
