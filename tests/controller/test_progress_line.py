"""Progress: rewritten on a terminal, and in a log one line every ten seconds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pytest_nsight.controller.workers.manifest_tail import Progress
from pytest_nsight.controller.workers.progress_line import ProgressLine, line


class Reporter:
    """What is used of pytest's terminal reporter."""

    def __init__(self, *, isatty: bool, verbosity: int = 0) -> None:
        self.isatty, self.verbosity = isatty, verbosity
        self._tw = SimpleNamespace(fullwidth=80)
        self.lines: list[str] = []
        self.rewritten: list[str] = []

    def write_line(self, text: str) -> None:
        self.lines.append(text)

    def rewrite(self, text: str, **_: Any) -> None:
        self.rewritten.append(text)


def show_for(reporter: Reporter, seconds: int) -> None:
    """One case a second."""
    now = [0.0]
    line = ProgressLine(reporter, clock=lambda: now[0])
    for second in range(seconds):
        now[0] = float(second)
        line.show(Progress("s-1/1", f"a.py::test_{second}", second, seconds))
    line.clear()


def test_a_log_gets_a_line_every_ten_seconds_and_none_before() -> None:
    reporter = Reporter(isatty=False)

    show_for(reporter, 36)

    assert reporter.lines == [
        f"nsight: run 1, case {number + 1}/36: test_{number}, about {36 - number} s left of this run"
        for number in (10, 20, 30)
    ]
    assert reporter.rewritten == []


def test_a_quiet_log_gets_none() -> None:
    reporter = Reporter(isatty=False, verbosity=-1)

    show_for(reporter, 36)

    assert reporter.lines == []


def test_a_terminal_has_one_line_that_is_gone_at_the_end() -> None:
    reporter = Reporter(isatty=True)

    show_for(reporter, 3)

    assert len(reporter.rewritten) == 4
    assert reporter.rewritten[-1] == ""
    assert reporter.lines == []


def test_the_name_of_a_test_is_no_command_to_a_ci_system() -> None:
    reporter = Reporter(isatty=False)
    now = [0.0]
    line = ProgressLine(reporter, clock=lambda: now[0])
    now[0] = 20.0

    line.show(Progress("s-1/1", "a.py::test_x[\n::error::y ##[warning]z]", 1, 2))

    assert len(reporter.lines) == 1
    assert reporter.lines[0].isprintable()
    assert "##[" not in reporter.lines[0]


def test_a_run_whose_cases_are_over_has_no_time_left_to_name() -> None:
    """More runs may follow, and the time to read a record is unknown beforehand."""
    assert line(Progress("s-1/5", "", 2, 2), 30.0) == "nsight: run 5, case 2/2: reading"


def test_the_time_left_of_what_is_repeated_counts_from_its_own_start() -> None:
    reporter = Reporter(isatty=False)
    now = [0.0]
    shown = ProgressLine(reporter, clock=lambda: now[0])
    for at_s, done, total in ((0, 0, 60), (60, 60, 60), (60, 0, 4), (74, 1, 4)):
        now[0] = float(at_s)
        shown.show(Progress("s-1/identity pass", "a.py::test_x", done, total))

    assert reporter.lines[-1] == "nsight: identity pass, case 2/4: test_x, about 42 s left of this run"


def test_the_imports_before_the_first_case_are_no_part_of_the_time_left() -> None:
    reporter = Reporter(isatty=False)
    now = [0.0]
    shown = ProgressLine(reporter, clock=lambda: now[0])
    for at_s, case, done in ((0, "", 0), (9, "a.py::test_x", 0), (12, "a.py::test_y", 3)):
        now[0] = float(at_s)
        shown.show(Progress("s-1/1", case, done, 9))

    assert reporter.lines == ["nsight: run 1, case 4/9: test_y, about 6 s left of this run"]


def test_two_of_the_cases_that_many_processes_are_at_are_named() -> None:
    cases = [f"a.py::test_{number}" for number in range(16)]

    text = line(Progress("s-1/identity pass", cases[0], 0, 156, tuple(cases[1:])), 1.0)

    assert text == "nsight: identity pass, case 1/156: test_0 | test_1 and 14 more"
