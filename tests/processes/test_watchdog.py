"""What a process has started ends with it, whatever both are doing: killed for real, and looked for in /proc."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.collectors.real import environment
from tests.processes.marked_processes import VARIABLE, carriers, wait_until

pytestmark = pytest.mark.slow

# Holds the interpreter's lock: no thread of this process gets its turn.
HOLDS_LOCK = "import ctypes; ctypes.PyDLL(None).sleep(600)"
STARTS = """
import os, subprocess, sys, time
from pathlib import Path
from pytest_nsight.processes.child_process import start

folder = Path(sys.argv[1])
kept = [start((sys.executable, "-c", code), folder / f"log-{number}", folder, os.environ)
        for number, code in enumerate(sys.argv[2:])]
"""
SAYS = "from pathlib import Path; import os; Path(f'here-{os.getpid()}').touch(); "


def begin(folder: Path, token: str, code: str, *arguments: str) -> subprocess.Popen[bytes]:
    environ = environment(**{VARIABLE: token})
    return subprocess.Popen([sys.executable, "-c", code, str(folder), *arguments], env=environ, cwd=folder)


def count_here(folder: Path) -> int:
    return len(list(folder.glob("here-*")))


def test_a_program_inside_a_long_c_call_ends_with_its_killed_owner(tmp_path: Path, token: str) -> None:
    owner = begin(tmp_path, token, STARTS + "time.sleep(600)", SAYS + HOLDS_LOCK, SAYS + HOLDS_LOCK)
    wait_until(lambda: count_here(tmp_path) == 2)

    owner.kill()
    owner.wait()

    wait_until(lambda: carriers(token) == [])


def test_what_a_program_has_left_behind_in_another_session_ends_too(tmp_path: Path, token: str) -> None:
    inner = SAYS + HOLDS_LOCK
    detaches = (
        f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {inner!r}], start_new_session=True)"
    )
    owner = begin(tmp_path, token, STARTS + "time.sleep(600)", detaches)
    wait_until(lambda: count_here(tmp_path) == 1)

    owner.kill()
    owner.wait()

    wait_until(lambda: carriers(token) == [])


def test_a_fork_of_the_owner_keeps_nothing_alive(tmp_path: Path, token: str) -> None:
    """A pool of multiprocessing, say: it holds all that the owner had open, and lives on."""
    forks = "\nif not os.fork():\n    Path('fork').touch(); time.sleep(600)\ntime.sleep(600)"
    owner = begin(tmp_path, token, STARTS + forks, SAYS + HOLDS_LOCK)
    wait_until(lambda: count_here(tmp_path) == 1 and (tmp_path / "fork").exists())
    (fork,) = [child for child in psutil.Process(owner.pid).children() if child.cmdline()[:3] == owner.args[:3]]

    owner.kill()
    owner.wait()

    wait_until(lambda: carriers(token) == [fork])


def test_an_owner_that_ends_as_it_should_waits_for_no_fork_of_it(tmp_path: Path, token: str) -> None:
    forks = "\nif not os.fork():\n    Path('fork').touch(); time.sleep(600)\n"
    owner = begin(tmp_path, token, STARTS + forks, SAYS + HOLDS_LOCK)

    assert owner.wait(60) == 0
    wait_until(lambda: (tmp_path / "fork").exists() and len(carriers(token)) == 1)


def test_an_owner_inside_another_ends_what_it_has_started(tmp_path: Path, token: str) -> None:
    """As pytest does below `pytest-nsight calibrate`: the outer watchdog spares the inner one."""
    code = (
        STARTS.replace("sys.argv[1]", "'.'").replace("sys.argv[2:]", repr([SAYS + HOLDS_LOCK])) + "time.sleep(600)"
    )
    owner = begin(tmp_path, token, STARTS + "time.sleep(600)", code)
    wait_until(lambda: count_here(tmp_path) == 1)
    assert len(carriers(token)) == 5

    owner.kill()
    owner.wait()

    wait_until(lambda: carriers(token) == [])


def test_a_watchdog_that_was_killed_is_replaced(tmp_path: Path, token: str) -> None:
    again = """
import psutil
(dog,) = [one for one in psutil.Process().children() if "pytest_nsight.processes.watchdog" in str(one.cmdline())]
dog.kill()
dog.wait()
kept.append(start((sys.executable, "-c", sys.argv[2]), folder / "log", folder, os.environ))
time.sleep(600)
"""
    owner = begin(tmp_path, token, STARTS + again, SAYS + HOLDS_LOCK)
    wait_until(lambda: count_here(tmp_path) == 2)

    owner.kill()
    owner.wait()

    wait_until(lambda: carriers(token) == [])


def test_without_a_watchdog_nothing_is_started(tmp_path: Path, token: str) -> None:
    code = """
import sys
real, sys.executable = sys.executable, "/no/python"
from pytest_nsight.processes.child_process import start
from pytest_nsight.model.errors import CollectorError
try:
    start((real, "-c", "open('started', 'w')"), Path("log"), Path("."), os.environ)
except CollectorError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", "import os; from pathlib import Path" + code],
        cwd=tmp_path,
        env=environment(**{VARIABLE: token}),
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.startswith("Cannot start /no/python: No such file or directory; check")
    assert not (tmp_path / "started").exists()


def test_the_interrupt_of_a_terminal_does_not_reach_the_watchdog(tmp_path: Path, token: str) -> None:
    ignores = "import signal; signal.signal(signal.SIGINT, lambda *_: Path('interrupted').touch())\n"
    owner = subprocess.Popen(
        [sys.executable, "-c", STARTS + ignores + "while True: time.sleep(1)", str(tmp_path), SAYS + HOLDS_LOCK],
        env=environment(**{VARIABLE: token}),
        cwd=tmp_path,
        start_new_session=True,
    )
    wait_until(lambda: count_here(tmp_path) == 1)
    os.killpg(owner.pid, signal.SIGINT)
    wait_until((tmp_path / "interrupted").exists)
    assert len(carriers(token)) == 3

    os.killpg(owner.pid, signal.SIGKILL)
    owner.wait()

    wait_until(lambda: carriers(token) == [])
