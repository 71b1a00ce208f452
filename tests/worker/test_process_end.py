"""What happens to processes that the tests of a worker have left running, and to threads that a script has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import multiprocessing, signal, sys, threading, time
from pathlib import Path
from pytest_nsight.worker.process_end import end_children

def run():
    {child}
    Path(sys.argv[1]).touch()

multiprocessing.get_context("fork").Process(target=run).start()
# As a test may leave it: no thread can be started then.
threading.excepthook = sys.excepthook = None
end_children({after_s})
"""


@pytest.mark.parametrize(
    ("child", "after_s", "comes_to_its_end"),
    [
        ("time.sleep(0.5)", 60, True),
        ("time.sleep(1000)", 0.2, False),
        ("signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(1000)", 0.2, False),
    ],
)
def test_a_process_that_was_left_lives_for_a_limited_time(
    tmp_path: Path, child: str, after_s: float, *, comes_to_its_end: bool
) -> None:
    program = PROGRAM.format(child=child, after_s=after_s)

    subprocess.run([sys.executable, "-c", program, str(tmp_path / "end")], check=True, timeout=100)

    assert (tmp_path / "end").exists() is comes_to_its_end


@pytest.mark.parametrize("hooks", ["", "threading.excepthook = sys.excepthook = None"])
def test_a_thread_that_a_script_has_left_does_not_hold_up_the_end_of_its_process(hooks: str) -> None:
    program = f"""
import sys, threading, time
from pytest_nsight.worker.process_end import limit_waits

threading.Thread(target=time.sleep, args=(1000,)).start()
{hooks}
limit_waits()
"""

    subprocess.run([sys.executable, "-c", program], check=True, timeout=100)
