"""Boards take steps in their order; what asks for quiet, time or another board gets it; nobody waits for ever."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

import pytest

from tests.gpu.release.lane import Lane
from tests.gpu.release.queue import Step, StepQueue
from tests.gpu.release.steps import PLANS, STEPS


def nothing(lane: Lane) -> None:
    """Does nothing."""


def follow(
    steps: Mapping[str, Step], boards: int, left_s: Callable[[], float] = lambda: 1000.0
) -> list[tuple[int, str, set[str]]]:
    """Has boards do all they can; for each step its board, its name, and what ran when it began."""
    queue, log, running, lock = StepQueue(steps, boards), [], dict[int, str](), threading.Lock()

    def work(board: int) -> None:
        while name := queue.take(board, left_s):
            with lock:
                log.append((board, name, set(running.values())))
                running[board] = name
            time.sleep(0.002 * (1 + board))
            with lock:
                del running[board]
            queue.end(board)

    threads = [threading.Thread(target=work, args=(board,), daemon=True) for board in range(boards)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive(), "a board waits for ever"
    return log


def names(log: list[tuple[int, str, set[str]]]) -> list[str]:
    return sorted(name for _, name, _ in log)


@pytest.mark.parametrize("boards", [1, 2, 4])
def test_each_step_is_done_once_in_its_order(boards: int) -> None:
    steps = {f"step-{number:02}": Step(nothing, 1) for number in range(20)}
    log = follow(steps, boards)
    assert names(log) == sorted(steps)
    for board in range(boards):
        own = [name for by, name, _ in log if by == board]
        assert own == sorted(own)


@pytest.mark.parametrize("boards", [1, 2, 4])
def test_a_step_on_each_board_is_done_by_all(boards: int) -> None:
    log = follow({"saved": Step(nothing, 1, on_each=True)}, boards)
    assert sorted(board for board, _, _ in log) == list(range(boards))


@pytest.mark.parametrize("boards", [2, 4])
def test_a_quiet_step_runs_while_nothing_else_does(boards: int) -> None:
    steps = {f"step-{number}": Step(nothing, 1, is_quiet=number % 5 == 2) for number in range(15)}
    log = follow(steps, boards)
    assert names(log) == sorted(steps)
    quiet = {name for name, step in steps.items() if step.is_quiet}
    for _, name, running in log:
        assert not running if name in quiet else not running & quiet


@pytest.mark.parametrize("boards", [1, 2, 4])
def test_a_step_begins_after_what_it_needs_on_all_boards(boards: int) -> None:
    steps = {"check": Step(nothing, 1, on_each=True, after="save"), "save": Step(nothing, 1, on_each=True)}
    log = follow(steps, boards)
    assert [name for _, name, _ in log] == ["save"] * boards + ["check"] * boards
    assert all("save" not in running for _, name, running in log if name == "check")


def test_another_board_checks_what_a_board_has_stored() -> None:
    for _ in range(20):
        log = follow({"save": Step(nothing, 1), "cross": Step(nothing, 1, after="save", is_elsewhere=True)}, 2)
        assert names(log) == ["cross", "save"]
        assert log[0][0] != log[1][0]


def test_a_board_alone_has_no_other() -> None:
    steps = {"save": Step(nothing, 1), "cross": Step(nothing, 1, after="save", is_elsewhere=True)}
    assert names(follow(steps, 1)) == ["save"]


def test_what_does_not_fit_into_the_time_does_not_begin_and_holds_nobody_up() -> None:
    steps = {
        "long": Step(nothing, 2000),
        "check": Step(nothing, 1, after="long"),
        "cross": Step(nothing, 1, after="long", is_elsewhere=True),
        "short": Step(nothing, 1),
    }
    for boards in (1, 2, 4):
        assert names(follow(steps, boards)) == ["short"]


def test_a_step_that_was_not_asked_for_holds_nobody_up() -> None:
    assert names(follow({"check": Step(nothing, 1, after="save")}, 2)) == ["check"]


def test_plans_name_steps_and_needs_are_steps_of_the_table() -> None:
    assert {name for plan in PLANS.values() for name in plan} <= set(STEPS)
    assert {step.after for step in STEPS.values()} - {""} <= set(STEPS)
    assert not set(PLANS) & set(STEPS)


@pytest.mark.parametrize("boards", [1, 2, 4])
def test_all_plans_together_come_to_an_end(boards: int) -> None:
    log = follow(STEPS, boards, lambda: 1e6)
    alone = {name for name, step in STEPS.items() if step.is_elsewhere}
    assert {name for _, name, _ in log} == set(STEPS) - (alone if boards == 1 else set())
