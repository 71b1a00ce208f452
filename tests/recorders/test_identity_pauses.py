"""What CUPTI still does for an identity recorder while a tuner times its trials."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from threading import Barrier, Thread
from typing import Any

import pytest

from pytest_nsight.recorders.cupti.library import CuptiError
from pytest_nsight.recorders.launch_identity.identity_recorder import IdentityRecorder
from pytest_nsight.recorders.launch_identity.launch_capture import LaunchCapture

DRIVER_DOMAIN, RUNTIME_DOMAIN, RESOURCE_DOMAIN = 1, 2, 3
MODULE_LOADED = 6


class Cupti:
    """Knows which callbacks and which records are on, and may refuse to change them."""

    def __init__(self) -> None:
        self._clock = count()
        self.callbacks: set[tuple[int, int]] = set()
        self.records: set[int] = set()
        self.refuses = False

    def call(self, name: str, *arguments: Any) -> None:
        if self.refuses:
            raise CuptiError(f"{name} failed")
        if name == "cuptiEnableCallback":
            callback = (arguments[2], arguments[3].value)
            (self.callbacks.add if arguments[0].value else self.callbacks.discard)(callback)
        elif name == "cuptiActivityEnable":
            self.records.add(arguments[0].value)
        elif name == "cuptiActivityDisable":
            self.records.discard(arguments[0].value)

    def now_ns(self) -> int:
        return next(self._clock)


@pytest.fixture
def cupti() -> Cupti:
    return Cupti()


@pytest.fixture
def capture(cupti: Cupti) -> LaunchCapture:
    return LaunchCapture(cupti, object())  # type: ignore[arg-type]


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], None]]:
    """What is to run at the end of the process."""
    found: list[Callable[[], None]] = []
    monkeypatch.setattr("atexit.register", found.append)
    return found


@pytest.fixture
def recorder(cupti: Cupti, capture: LaunchCapture, ends: list[Callable[[], None]]) -> IdentityRecorder:
    return IdentityRecorder(cupti, capture)  # type: ignore[arg-type]


def test_a_pause_delays_no_launch_of_the_process_and_misses_no_module(
    cupti: Cupti, recorder: IdentityRecorder
) -> None:
    before = (set(cupti.callbacks), set(cupti.records))

    with recorder.pause(), recorder.pause():
        paused = (set(cupti.callbacks), set(cupti.records))
    assert (cupti.callbacks, cupti.records) == before

    launches = {(RUNTIME_DOMAIN, 211), (RUNTIME_DOMAIN, 430), (DRIVER_DOMAIN, 307), (DRIVER_DOMAIN, 652)}
    modules = {(RESOURCE_DOMAIN, MODULE_LOADED), (DRIVER_DOMAIN, 19), (DRIVER_DOMAIN, 22)}
    assert launches | modules <= before[0]
    assert not paused[0] & launches
    assert modules <= paused[0]
    assert before[1]
    assert not paused[1]


def test_the_last_of_several_threads_ends_the_pause(cupti: Cupti, recorder: IdentityRecorder) -> None:
    both, first_has_left = Barrier(2), Barrier(2)
    seen: list[set[int]] = []

    def leave_first() -> None:
        with recorder.pause():
            both.wait()
        first_has_left.wait()

    thread = Thread(target=leave_first)
    thread.start()
    with recorder.pause():
        both.wait()
        first_has_left.wait()
        seen.append(set(cupti.records))
    thread.join()

    assert seen == [set()]
    assert cupti.records


def test_a_pause_that_outlasts_the_recorder_ends_quietly(
    cupti: Cupti, recorder: IdentityRecorder, ends: list[Callable[[], None]]
) -> None:
    with recorder.pause():
        for end in ends:
            end()
        left = (set(cupti.callbacks), set(cupti.records))

    assert (cupti.callbacks, cupti.records) == left


def test_a_pause_that_cupti_refuses_costs_the_case_its_identity_and_the_tuner_nothing(
    cupti: Cupti, capture: LaunchCapture, recorder: IdentityRecorder
) -> None:
    cupti.refuses = True

    with recorder.pause():
        pass

    assert set(capture.problems) == {
        "cuptiEnableCallback failed", "cuptiActivityDisable failed", "cuptiActivityEnable failed",
    }  # fmt: skip


def run_round(recorder: IdentityRecorder, *steps: Callable[[], object]) -> None:
    recorder.push("round", 1)
    for step in steps:
        step()
    recorder.pop()


def identify(recorder: IdentityRecorder) -> str:
    """Why the case whose rounds were run has no identity."""
    recorder.keep("case", "round")
    return recorder.identify()["case"].why_none


def test_a_round_in_which_trials_are_timed_has_no_identity(recorder: IdentityRecorder) -> None:
    def time_trials() -> None:
        with recorder.pause():
            pass

    run_round(recorder)
    run_round(recorder, time_trials)

    assert identify(recorder) == "a tuner times its trials in a round, and they are not observed"


def test_a_round_that_begins_within_trials_has_no_identity(recorder: IdentityRecorder) -> None:
    run_round(recorder)
    with recorder.pause():
        run_round(recorder)

    assert identify(recorder) == "a tuner times its trials in a round, and they are not observed"


def test_trials_of_the_warm_up_cost_no_identity(recorder: IdentityRecorder) -> None:
    with recorder.pause():
        run_round(recorder)
    run_round(recorder)
    run_round(recorder)

    assert identify(recorder) == "its rounds launch nothing on a GPU"
