"""A case that takes too long is ended with its process, and fails alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pytest_nsight.controller.workers.manifest_tail import Progress
from pytest_nsight.controller.workers.time_limits import CaseClock, Overdue, TimeLimits, end_overdue, read_overdue
from pytest_nsight.model.errors import CollectorError, UsageError
from pytest_nsight.protocol.mark_values import parse_rest, parse_timeout


class Clock:
    """Seconds that only the test moves on."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_a_case_is_overdue_after_its_own_limit_and_the_next_one_begins_anew() -> None:
    clock = Clock()
    watch = CaseClock(TimeLimits(10.0, {"t.py::slow": 100.0}), clock)
    steps = [
        (0, Progress("r", "", 0, 2), None),
        (9, Progress("r", "", 0, 2), None),
        (12, Progress("r", "t.py::slow", 0, 2), None),
        (111, Progress("r", "t.py::slow", 0, 2), None),
        (113, Progress("r", "t.py::slow", 0, 2), Overdue("t.py::slow", 100.0)),
        (120, Progress("r", "", 1, 2), None),
        (129, Progress("r", "", 1, 2), None),
        (201, Progress("r", "t.py::fast", 1, 2), None),
        (212, Progress("r", "t.py::fast", 1, 2), Overdue("t.py::fast", 10.0, 1)),
    ]

    for now_s, progress, expected in steps:
        clock.now_s = now_s
        assert watch.find_overdue(progress) == expected


def test_a_worker_that_begins_no_case_is_overdue_but_not_before_it_is_started() -> None:
    clock = Clock()
    watch = CaseClock(TimeLimits(10.0), clock)

    clock.now_s = 50
    assert watch.find_overdue(Progress("r", "", 0, 1), has_begun=False) is None
    clock.now_s = 59
    assert watch.find_overdue(Progress("r", "", 0, 1)) is None
    clock.now_s = 61
    assert watch.find_overdue(Progress("r", "", 0, 1)) == Overdue("", 10.0)


def test_a_worker_that_does_not_end_is_overdue_but_not_the_profiler_after_it() -> None:
    clock = Clock()
    watch = CaseClock(TimeLimits(10.0), clock)
    done = Progress("r", "", 2, 2)
    assert watch.find_overdue(done) is None

    clock.now_s = 500
    assert watch.find_overdue(done, has_ended=True) is None
    clock.now_s = 509
    assert watch.find_overdue(done) is None
    clock.now_s = 511
    overdue = watch.find_overdue(done)

    assert overdue == Overdue("", 10.0, 2)
    assert "did not go on within 10.0 s after 2 tests" in overdue.describe(Path("log"))


def test_why_a_worker_was_ended_is_read_back(tmp_path: Path) -> None:
    assert read_overdue(tmp_path) is None

    end_overdue(tmp_path, None, Overdue("t.py::a", 90.0))

    found = read_overdue(tmp_path)
    assert found == Overdue("t.py::a", 90.0)
    assert "t.py::a took longer than 90.0 s" in found.describe(tmp_path / "worker.log")


def test_a_worker_is_ended_although_its_record_cannot_be_written(tmp_path: Path) -> None:
    worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])

    with pytest.raises(CollectorError, match=r"gone cannot be written \(No such file .*make that writable"):
        end_overdue(tmp_path / "gone", worker.pid, Overdue("t.py::a", 90.0))

    # It has no exit code any more: `end_overdue` has waited for it.
    assert worker.poll() is not None


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90.0), ("10min", 600.0), (" 2 h ", 7200.0), ("1.5s", 1.5)])
def test_a_time_limit_is_read_with_its_unit(text: str, seconds: float) -> None:
    assert parse_timeout("timeout", text) == seconds


@pytest.mark.parametrize("text", ["0s", "0.1s", "10", "1e9s", "9" * 400 + "s", "-1s", "²s", "2d", "300h", 90, None])
def test_what_is_no_time_limit_is_refused(text: object) -> None:
    with pytest.raises(UsageError, match="give a time such as"):
        parse_timeout("timeout", text)


@pytest.mark.parametrize("text", ["100000000s", "61s", "9" * 400 + "s", "inf s"])
def test_a_pause_that_never_ends_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="give a"):
        parse_rest("rest", text)
