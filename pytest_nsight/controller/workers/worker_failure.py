"""Sentences on workers that did not do what they were started for."""

from __future__ import annotations

import re
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path

from pytest_nsight.controller.trees.third_checkout import describe_other_checkout
from pytest_nsight.controller.workers.time_limits import read_overdue
from pytest_nsight.model.units import name_some, short_commit
from pytest_nsight.processes.log_files import last_lines
from pytest_nsight.protocol.job import OTHER_TREE
from pytest_nsight.protocol.manifest import Manifest
from pytest_nsight.protocol.manifest_events import WrongImport

FULL_BYTES = 100_000
_LOG_TAIL_LINES = 8
# Modules made by nanobind, such as Triton's, list at the end of Python what they have leaked.
_SAID_AT_EXIT = ("nanobind: ", " - leaked ", " - ... skipped ", "See https://nanobind.")
# What Python writes last of an exception that nothing caught: the end of its stack, and it.
_UNCAUGHT = re.compile(r'^  File ".*(?:\n .*)*\n([A-Za-z_][\w.]*(?:: .*)?)\Z', re.MULTILINE)
_LONGEST_QUOTE = 200
_MOST_IMPORTS = 3

_INTERRUPTED = 2
_USAGE_ERROR = 4
_NO_TEST = 5
# Exit codes with which pytest says that it could not run the tests it was given.
_PYTEST_REFUSALS = {
    _INTERRUPTED: "was interrupted",
    3: "hit an internal error",
    _USAGE_ERROR: "ended with a usage error",
    _NO_TEST: "found no test",
}

_RUNS_TWICE = (
    " (conftest.py runs there, too, while this pytest holds what it has locked; there "
    "`config.pluginmanager.hasplugin('nsight-worker')` is true)"
)


def describe_failed_start(code: int, log: Path, explanation: str = "") -> str:
    """A sentence on a worker that ended before it wrote anything.

    Args:
        code: its exit code.
        log: its output.
        explanation: of what a profiler around it wrote there, "" where there is none.
    """
    overdue = read_overdue(log.parent)
    if overdue is not None:
        return overdue.describe(log)
    ended = f"the worker process ended with exit code {code} before it began"
    output = last_lines(log, _LOG_TAIL_LINES, _SAID_AT_EXIT) or "(nothing)"
    return "\n".join(filter(None, (f"{ended}; its output ({log}) ends with:", output, explanation)))


def describe_removal(journal: Path) -> str:
    """A sentence on a worker whose record was removed."""
    return (
        f"{journal} was there and is gone: a test, or another process, removed it while the worker ran; "
        f"let nothing remove what is in {journal.parents[2]}"
    )


def describe_refusal(manifest: Manifest, log: Path) -> str:
    """Why pytest in the worker ran none of its tests, or other ones; "" if it ran them."""
    if manifest.wrong_imports:
        return describe_wrong_imports(manifest.commit, manifest.wrong_imports)
    if manifest.tree == OTHER_TREE and manifest.exit_code == _NO_TEST:
        # All cases are new in the user's tree.
        return ""
    if manifest.exit_code not in _PYTEST_REFUSALS or manifest.process_failure is not None:
        return ""
    is_usage = manifest.exit_code == _USAGE_ERROR
    detail = "\n".join(manifest.faults) or (last_lines(log, _LOG_TAIL_LINES, _SAID_AT_EXIT) or "(nothing)")
    return (
        f"pytest in the worker process {_PYTEST_REFUSALS[manifest.exit_code]}{_RUNS_TWICE * is_usage}; its output "
        f"({log}):\n{detail}"
    )


def describe_crash(manifest: Manifest, code: int, log: Path) -> str:
    """How a worker that did not complete ended, which case ran, and the exception that its log ends with."""
    overdue = read_overdue(log.parent)
    if overdue is not None:
        return overdue.describe(log)
    reason = ""
    try:
        cause = f"died with {signal.Signals(-code).name}"
    except ValueError:
        cause = f"ended with exit code {code} before its time"
        if code == _INTERRUPTED:
            cause = "was ended by KeyboardInterrupt"
        elif uncaught := _UNCAUGHT.search(last_lines(log, _LOG_TAIL_LINES, _SAID_AT_EXIT)):
            reason = f": {uncaught[1][:_LONGEST_QUOTE]}"
    running = [case for case in manifest.started if case not in manifest.ended]
    where = f" while {running[-1]} ran" if running else "" if manifest.started else ", before the first test"
    if has_died_after_tests(manifest, code):
        where = " after its last test"
    is_full = shutil.disk_usage(log.parent).free < FULL_BYTES
    full = "; the disk is full" if is_full else ""
    return f"the worker process {cause}{where}{full}{reason}; its output is in {log}"


def has_died_after_tests(manifest: Manifest, code: int | None) -> bool:
    """Whether a signal ended a worker after its pytest: while Python or a library tidied up, say."""
    return manifest.exit_code is not None and code is not None and code < 0


def describe_wrong_imports(commit: str, imports: Sequence[WrongImport]) -> str:
    """A sentence that names what a worker took from the wrong tree."""
    if elsewhere := [one for one in imports if one.checkout]:
        return describe_other_checkout(f"the runs of {short_commit(commit)}", elsewhere)
    named = name_some((f"{one.module} from {one.file}" for one in imports), _MOST_IMPORTS)
    return (
        f"the runs of {short_commit(commit)} imported {named}, which belongs to this tree: both trees would "
        "measure the same code; install the package with pip install --editable, or have nsight_against_build put "
        "the revision's own into $PYTEST_NSIGHT_AGAINST_TARGET"
    )
