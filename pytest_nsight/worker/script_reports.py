"""What a script's process reports of its cases, in the form in which pytest serialises the reports of tests."""

from __future__ import annotations

import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from pytest_nsight.protocol.journal import Journal
from pytest_nsight.protocol.script import Script

_PACKAGE = str(Path(__file__).parents[1])
_MOST_NAMES = 3
_RUNNERS = ("<frozen runpy>", "runpy.py")


def write_reports(journal: Journal, case: str, text: str, began_s: float) -> None:
    """Records a case: its call, with an empty set-up and teardown, because a script has neither.

    Args:
        journal: of the process.
        case: node id.
        text: why it failed, "" if it passed.
        began_s: when it began, in seconds since 1970.
    """
    now_s = time.time()
    phases = (("setup", "", began_s, began_s), ("call", text, began_s, now_s), ("teardown", "", now_s, now_s))
    for when, failure, start_s, stop_s in phases:
        journal.write("report", case=case, report=_serialise(case, when, failure, start_s, stop_s))


def _serialise(case: str, when: str, failure: str, start_s: float, stop_s: float) -> dict[str, object]:
    file, _, name = case.partition("::")
    return {
        "$report_type": "TestReport",
        "nodeid": case,
        "location": [file, None, name],
        "keywords": {},
        "outcome": "failed" if failure else "passed",
        "longrepr": failure or None,
        "when": when,
        "user_properties": [],
        "sections": [],
        "duration": stop_s - start_s,
        "start": start_s,
        "stop": stop_s,
    }


def describe_error(error: BaseException) -> str:
    """An exception and then its stack, as the summary of newer versions of pytest begins with the first line."""
    stack, said = _read_error(error)
    return f"{said}\n{stack}".rstrip("\n")


def write_traceback(error: BaseException) -> str:
    """An exception and its stack as Python writes them, for a log whose last lines are quoted."""
    stack, said = _read_error(error)
    return f"Traceback (most recent call last):\n{stack}{said}"


def _read_error(error: BaseException) -> tuple[str, str]:
    """The stack of an exception, without the frames that ran the script and the rounds, and what it says."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(_PACKAGE) and not frame.filename.endswith(_RUNNERS)
    ]
    stack = "".join(traceback.format_list(frames))
    return stack, "".join(traceback.format_exception_only(type(error), error)).rstrip("\n")


def describe_missing(script: Script, failure: BaseException | None, unlisted: Sequence[str], log: Path) -> str:
    """Why a case of the script's first pass was not measured in this pass.

    Args:
        script: which one.
        failure: what ended this pass before the case, None if the script came to its end.
        unlisted: calls that the first pass does not have.
        log: output of this pass.
    """
    if failure is not None:
        return (
            f"{script.file} failed in a later pass, before this call, and not in its first one; see {log}\n"
            f"{describe_error(failure)}"
        )
    others = f" (it made others: {', '.join(unlisted[:_MOST_NAMES])})" if unlisted else ""
    return (
        f"{script.file} did not make this call in a later pass{others}: a script is run several times and must "
        "make the same calls each time; look for random numbers, time limits and files that it leaves behind; "
        f"see {log}"
    )
