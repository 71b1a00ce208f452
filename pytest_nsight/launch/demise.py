"""What to say of a worker that did not do what it was started for. Only words: nothing is decided here."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

from pytest_nsight.against.mirror import explain_leaks
from pytest_nsight.collect.process import last_lines
from pytest_nsight.launch.turn import OTHER_TREE
from pytest_nsight.manifest import Manifest

FULL_BYTES = 100_000
_LOG_TAIL_LINES = 8

_NO_TEST = 5
# Exit codes with which pytest says that it could not run the tests it was given.
_PYTEST_REFUSALS = {
    2: "was interrupted",
    3: "hit an internal error",
    4: "refused its arguments",
    _NO_TEST: "found no test",
}


def describe_silence(code: int, log: Path) -> str:
    """What to say of a worker that ended before it wrote anything."""
    return f"the worker process ended with exit code {code} before it began; its output ({log}) ends with:\n" + (
        last_lines(log, _LOG_TAIL_LINES) or "(nothing)"
    )


def describe_refusal(manifest: Manifest, log: Path) -> str:
    """Why pytest in the worker would not run the tests that it was given, or not those, "" if it did."""
    if manifest.leaks:
        return explain_leaks(manifest.commit, manifest.leaks)
    if manifest.side == OTHER_TREE and manifest.exit_code == _NO_TEST:
        # All cases are new in the user's tree.
        return ""
    if manifest.exit_code not in _PYTEST_REFUSALS:
        return ""
    detail = "\n".join(manifest.faults) or (last_lines(log, _LOG_TAIL_LINES) or "(nothing)")
    return f"pytest in the worker process {_PYTEST_REFUSALS[manifest.exit_code]}; its output ({log}):\n{detail}"


def describe_death(manifest: Manifest, code: int, log: Path) -> str:
    """How a worker that did not come to its own end died, and what it was at."""
    try:
        cause = f"died with {signal.Signals(-code).name}"
    except ValueError:
        cause = f"ended with exit code {code} before its time"
    running = [case for case in manifest.started if case not in manifest.ended]
    where = f" while {running[-1]} ran" if running else ""
    is_full = shutil.disk_usage(log.parent).free < FULL_BYTES
    full = "; the disk is full" if is_full else ""
    return f"the worker process {cause}{where}{full}; its output is in {log}"
