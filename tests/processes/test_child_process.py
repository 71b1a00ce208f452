"""Plain processes: what the handle promises holds without nsys, too."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest

from pytest_nsight.model.errors import CollectorError
from pytest_nsight.processes.child_process import Wrapper, start
from pytest_nsight.processes.log_files import last_lines, shorten

# Two sessions of nsys 2022.4 that start at one moment can end each other.
pytestmark = pytest.mark.xdist_group("nsys")

# Says through a pipe with a name that it runs, then sleeps for longer than any test.
STAYS = """
import os, signal, sys, time
# Whoever starts the tests in the background of a shell has them ignore the interrupt from the first.
signal.signal(signal.SIGINT, signal.SIG_IGN if "stubborn" in sys.argv else signal.default_int_handler)
with open(sys.argv[1], "w") as pipe: print(os.getpid(), file=pipe)
time.sleep(600)
"""
# Starts a grandchild in a session of its own, with another environment, and ends.
DETACHES = """
import os, subprocess, sys
code = sys.argv[2]
environ = {} if "bare" in sys.argv else None
subprocess.Popen([sys.executable, "-c", code, sys.argv[1], "stubborn"], start_new_session=True, env=environ)
if "wait" in sys.argv:
    import signal
    signal.pause()
"""


@pytest.fixture
def pipe(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


@pytest.fixture
def launch(tmp_path):
    def launch(code, *arguments, **keywords):
        argv = (sys.executable, "-c", code, *map(str, arguments))
        return start(argv, tmp_path / "log", tmp_path, os.environ, Wrapper(**keywords))

    return launch


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


@pytest.mark.parametrize("code", [0, 1, 5, 77])
def test_the_exit_code_is_the_programs(code, launch):
    with launch(f"raise SystemExit({code})") as process:
        assert process.wait(60) == code
        assert process.returncode == process.poll() == code


def test_death_by_a_signal_is_its_number_below_zero(launch):
    with launch("import os; os.abort()") as process:
        assert process.wait(60) == -signal.SIGABRT


@pytest.mark.parametrize(("code", "expected"), [(139, -signal.SIGSEGV), (143, -signal.SIGTERM), (128, 128), (3, 3)])
def test_shell_codes_become_signals(code, expected, launch):
    with launch(f"import os; os._exit({code})", shell_codes=True) as process:
        assert process.wait(60) == expected


def test_a_plain_program_may_exit_with_any_code(launch):
    """143 of a program that was not killed stays 143."""
    with launch("raise SystemExit(143)") as process:
        assert process.wait(60) == 143


def test_both_streams_are_in_the_log_and_stdin_is_empty(launch, tmp_path):
    code = "import sys; print('out', flush=True); print('err', file=sys.stderr); print(repr(sys.stdin.read()))"
    with launch(code) as process:
        process.wait(60)

    assert process.log == tmp_path / "log"
    assert process.log.read_text().split() == ["out", "err", "''"]


def test_the_process_runs_in_a_session_of_its_own_while_we_go_on(launch, pipe):
    """So Ctrl-C at the terminal does not reach it, and the caller is not blocked."""
    with launch(STAYS, pipe) as process:
        assert int(pipe.read_text()) == process.pid
        assert os.getsid(process.pid) == process.pid != os.getsid(0)
        assert process.poll() is None
        assert process.wait(0) is None
        assert process.returncode is None


def test_interrupt_is_sigint_at_first(launch, pipe):
    """Python turns it into KeyboardInterrupt, and so ends by itself."""
    with launch(STAYS, pipe) as process:
        pipe.read_text()

        assert process.interrupt() == ()
        assert process.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in process.log.read_text()


def test_a_process_that_ignores_the_interrupt_is_killed(launch, pipe):
    with launch(STAYS, pipe, "stubborn") as process:
        pipe.read_text()

        assert process.interrupt(grace_s=0) == ()
        assert process.returncode == -signal.SIGKILL


def test_interrupt_ends_a_stubborn_grandchild_in_another_session(launch, pipe):
    with launch(DETACHES, pipe, STAYS, "wait") as process:
        grandchild = int(pipe.read_text())
        assert set(process.find_running()) == {process.pid, grandchild}

        assert process.interrupt(grace_s=0) == ()
    assert not is_running(grandchild)


def test_a_grandchild_that_hides_its_environment_is_found_by_its_parent(launch, pipe):
    """As under a library that overwrites the environment to set a process's title."""
    with launch(DETACHES, pipe, STAYS, "wait", "bare") as process:
        grandchild = int(pipe.read_text())
        process.interrupt(grace_s=0)
    assert not is_running(grandchild)


# Counts its starts in a file, and fails until there have been as many as it should take.
FAILS_AT_FIRST = """
import sys
with open(sys.argv[1], "a") as file: file.write("x")
with open(sys.argv[1]) as file: starts = len(file.read())
print("start", starts)
if starts == int(sys.argv[2]): open(sys.argv[1] + ".begun", "w")
sys.exit(0 if starts == int(sys.argv[2]) else 1)
"""


@pytest.mark.parametrize(
    ("good_start", "code", "starts"), [(1, 0, 1), (2, 0, 2), (3, 0, 3), (4, 1, 3)], ids=["1", "2", "3", "too many"]
)
def test_a_program_that_fails_before_it_has_begun_is_started_again(good_start, code, starts, launch, tmp_path):
    """As nsys 2022.4 fails on a busy machine: "End of file", or sem_open finds no semaphore."""
    counter = tmp_path / "starts"
    with launch(FAILS_AT_FIRST, counter, good_start, has_begun=(tmp_path / "starts.begun").exists) as process:
        assert process.wait(60) == code

    assert len(counter.read_text()) == starts
    assert process.log.read_text().split() == [word for n in range(starts) for word in ("start", str(n + 1))]


def test_a_program_that_fails_after_it_has_begun_is_not_started_again(launch, tmp_path):
    (tmp_path / "starts.begun").touch()
    with launch(FAILS_AT_FIRST, tmp_path / "starts", 2, has_begun=(tmp_path / "starts.begun").exists) as process:
        assert process.wait(60) == 1


def test_a_program_that_a_signal_ended_is_not_started_again(launch):
    with launch("import os; os.abort()", has_begun=lambda: False) as process:
        assert process.wait(60) == -signal.SIGABRT


# Counts its start, then fails as soon as somebody writes into the pipe.
FAILS_WHEN_ENDED = """
import sys
with open(sys.argv[1], "a") as file: file.write("x")
with open(sys.argv[2]) as pipe: sys.exit(len(pipe.read()))
"""


def test_a_program_that_fails_while_it_is_ended_for_its_time_is_not_started_again(launch, pipe, tmp_path):
    """A shell ends with 137 where its child was killed first."""
    started: list[int] = []

    def find_overdue() -> str:
        pipe.write_text("!")
        while is_running(started[0]):
            time.sleep(0.01)
        return "it took too long"

    with launch(
        FAILS_WHEN_ENDED, tmp_path / "starts", pipe, has_begun=lambda: False, overdue=find_overdue
    ) as process:
        started.append(process.pid)
        assert process.wait(60) == 1
        assert process.poll() == 1

    assert process.was_overdue
    assert (tmp_path / "starts").read_text() == "x"


# Starts a grandchild that ends a moment later, and ends.
LINGERS = """
import subprocess, sys
subprocess.Popen([sys.executable, "-c", "import sys, time; time.sleep(0.3); open(sys.argv[1], 'w')", sys.argv[1]])
"""


@pytest.mark.parametrize(("helper", "tidies_up"), [(Path(sys.executable).name[:15], True), ("another", False)])
def test_what_outlives_the_program_may_tidy_up_if_it_is_its_helper(helper, tidies_up, launch, tmp_path):
    with launch(LINGERS, tmp_path / "tidy", helper=helper) as process:
        assert process.wait(60) == 0

    assert process.find_running() == ()
    assert (tmp_path / "tidy").exists() is tidies_up


def test_leaving_the_block_ends_what_outlived_the_process(launch, pipe):
    with launch(DETACHES, pipe, STAYS) as process:
        grandchild = int(pipe.read_text())
        assert process.wait(60) == 0
        assert process.find_running() == (grandchild,)
    assert process.find_running() == ()
    assert not is_running(grandchild)


def test_leaving_the_block_by_an_exception_ends_the_process(launch, pipe):
    process = launch(STAYS, pipe)
    with pytest.raises(ZeroDivisionError), process:
        process.wait(len(pipe.read_text()) // 0)
    assert not is_running(process.pid)


def test_the_targets_group_is_killed_by_the_pid_that_the_caller_knows(launch, pipe):
    """A target without parent and environment: only the caller can know it."""
    with launch(DETACHES, pipe, STAYS, "bare") as process:
        target = int(pipe.read_text())
        process.wait(60)
        assert is_running(target)

        process.interrupt(target, grace_s=0)
    assert not is_running(target)


def test_interrupting_a_process_that_has_ended_does_nothing(launch):
    with launch("pass") as process:
        process.wait(60)
        assert process.interrupt() == ()
        assert process.returncode == 0


def test_our_own_group_is_never_killed(launch):
    """A pid of ours, given by mistake."""
    with launch("pass") as process:
        process.wait(60)
        process.interrupt(os.getpid(), grace_s=0)


def test_a_program_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(CollectorError, match=r"Cannot start /no/program in .* No such file"):
        start(("/no/program",), tmp_path / "log", tmp_path, {})


def test_of_a_long_log_the_end_stays(tmp_path):
    log = tmp_path / "log"
    log.write_bytes(b"a" * 1000 + b"\nlast\n")

    shorten(log, 1006)
    assert log.stat().st_size == 1006
    shorten(log, 6)
    assert log.read_text() == "pytest-nsight left out the first 1,000 bytes of this log.\n\nlast\n"
    assert list(tmp_path.iterdir()) == [log]
    shorten(tmp_path / "missing")


def test_a_long_log_stays_as_it_is_where_there_is_no_room_for_its_end(tmp_path, monkeypatch):
    log = tmp_path / "log"
    log.write_bytes(b"a" * 1000)

    def fill(_source, target):
        target.write(b"a")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfileobj", fill)
    shorten(log, 6)

    assert log.stat().st_size == 1000
    assert list(tmp_path.iterdir()) == [log]


def test_last_lines_show_the_final_state_of_progress_bars(tmp_path):
    log = tmp_path / "log"
    log.write_bytes("first\nsecond\n\n[1/1] 0%\r[1/1] 99%\r[1/1] 100%\n  ünï \xff\n".encode("latin-1"))

    assert last_lines(log, 3).splitlines()[:2] == ["second", "[1/1] 100%"]
    assert last_lines(tmp_path / "missing") == ""


def test_last_lines_leave_out_what_says_nothing_of_the_end(tmp_path):
    log = tmp_path / "log"
    log.write_text('the reason\nnanobind: leaked 1 functions!\n - leaked function "f"\n')

    assert last_lines(log, 1, ("nanobind: ", " - leaked ")) == "the reason"


def test_last_lines_keep_the_indentation_of_a_traceback(tmp_path):
    log = tmp_path / "log"
    log.write_text('Traceback:\n  File "a.py", line 1\n    1 / 0\nZeroDivisionError\n')

    assert last_lines(log, 3) == '  File "a.py", line 1\n    1 / 0\nZeroDivisionError'
    log.write_text("  one\n    two\n")
    assert last_lines(log) == "one\n  two"
