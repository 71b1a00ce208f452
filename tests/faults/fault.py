"""An entry of the table: what is done to a small project, and what must come of it.

`{folder}` in words, variables, files and sentences stands for the project's folder, `{root}` for the one above,
which also holds `temporary` (its TMPDIR) and `home`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.faults.running import Running

Prepare = Callable[[Path], None]
Step = Callable[["Running"], None]

HEAD = """
import ctypes, os, signal, subprocess, sys, threading, time
import pytest

BEGUN = os.environ["BEGUN"]
IS_WORKER = "pytest_nsight.worker.worker_process" in " ".join(sys.orig_argv)

def begin():
    \'\'\'Notes for the table that the fault's place is reached.\'\'\'
    open(BEGUN, "w").close()

def work(*_):
    \'\'\'What is measured: operators for torch's profiler, else whatever takes time.\'\'\'
    torch = sys.modules.get("torch")
    return sum(range(1000)) if torch is None else torch.exp(torch.ones(100))
"""
"""Begins test_case.py."""

SOUND = """
@pytest.mark.nsight
@pytest.mark.parametrize("number", range(2))
def test_sound(nsight, number):
    nsight(work)
"""


def among_sound(bad: str) -> str:
    """A test among twenty sound ones, half of them before it and half of them after it."""
    sound = SOUND.replace("range(2)", "range(10)")
    return f"{sound}\n{bad}\n{sound.replace('sound', 'later')}"


PYTEST = ("pytest", "-p", "pytest_nsight.plugin", "-p", "no:cacheprovider")
JUDGED = (*PYTEST, "--nsight")
SESSION = (*JUDGED, "--nsight-rounds=3", "--nsight-collector=clock")
"""A session with the collector of the examples, which starts in a second: for all that torch has no part in."""

WITH_TORCH = (*JUDGED, "--nsight-rounds=3", "--nsight-collector=torch")
WITH_NSYS = (*JUDGED, "--nsight-rounds=3", "--nsight-collector=nsys")
COMMAND = ("pytest-nsight",)


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One fault.

    Attributes:
        name: what is done, in words; the test's id.
        code: the exit code that must come of it.
        says: sentences, or parts of them, that its output must hold; blanks and line breaks count as one blank.
        never: what its output must not hold, character for character.
        test: the text of test_case.py after HEAD.
        files: name -> content of the project's other files.
        prepare: what is done to the project's folder before the start.
        command: the words that start it; `pytest` and `pytest-nsight` are those of this environment.
        options: more words.
        environ: environment variables, "" to take one away.
        meanwhile: what is done while it runs, one after the other.
        afterwards: words of a second command, run when the first has ended; what is left is looked for after it.
        later: sentences that the second command's output must hold.
        leaves: patterns of files that may be left, beside what every session leaves; relative to `{root}`.
        has_own_traceback: whether the project's own code prints one.
        needs: names of modules and programs; without one the fault is skipped. `nsys` is the real one, `mount` the
            right to mount a tmpfs.
        is_fast: whether CI runs it with every change.
        limit_s: how long it may take at most: a guard against hangs, not a measurement.
    """

    name: str
    code: int
    says: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    test: str = SOUND
    files: Mapping[str, str | bytes] = field(default_factory=lambda: MappingProxyType({}))
    prepare: tuple[Prepare, ...] = ()
    command: tuple[str, ...] = SESSION
    options: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    meanwhile: tuple[Step, ...] = ()
    afterwards: tuple[str, ...] = ()
    later: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()
    has_own_traceback: bool = False
    needs: tuple[str, ...] = ()
    is_fast: bool = False
    limit_s: float = 240.0
