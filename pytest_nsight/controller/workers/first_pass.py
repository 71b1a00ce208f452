"""The first pass of a script: runs it once, without a profiler, to learn which calls it makes."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pytest_nsight.controller.collection.raised_calls import RaisedCalls
from pytest_nsight.controller.session_folders import make_run_folder
from pytest_nsight.controller.settings import Settings
from pytest_nsight.model.errors import UsageError, unwritable
from pytest_nsight.model.units import duration
from pytest_nsight.processes.child_process import start
from pytest_nsight.processes.log_files import last_lines
from pytest_nsight.protocol.job import WORKER_LOG, Job
from pytest_nsight.protocol.script import FIRST_PASS, FirstPass, Script
from pytest_nsight.protocol.worker_start import drop_coverage, start_command

_LOG_LINES = 8
_END_OF_INPUT = EOFError.__name__

MEASURED = (
    "triton.testing.do_bench and perf_report, torch.utils.benchmark.Timer, flashinfer.testing.bench_gpu_time, or "
    "tilelang's do_bench"
)


def place_first_pass(script: Script | None, session: Path) -> Script | None:
    """The script with the place of its first pass in a session's folder."""
    return None if script is None else replace(script, first_pass=str(session / FIRST_PASS))


def list_calls(settings: Settings, session: Path, where: Path, variables: Mapping[str, str]) -> FirstPass:
    """The calls of a script: runs its first pass, its output goes to worker.log; a replay reads the recorded pass.

    Args:
        settings: name the script.
        session: the session's folder.
        where: folder to run the script in.
        variables: environment variables that it gets beside those of this process.

    Returns:
        The calls that it made, at least one.

    Raises:
        UsageError: it fails, takes too long, or makes no call that can be measured.
        CollectorError: the folder cannot be written.
        RecordingError: the recorded session is not one of a script.
    """
    if settings.replay is not None:
        return FirstPass.read(settings.replay / FIRST_PASS)
    script = place_first_pass(settings.script, session)
    assert script is not None
    folder = Path(script.first_pass)
    _write_job(script, session, folder)
    environ = {**drop_coverage(os.environ), "PYTHONUNBUFFERED": "1", **variables}
    log, limit_s = folder / WORKER_LOG, settings.timeout_s
    with start(start_command("pytest_nsight.worker.script_process", folder), log, where, environ) as process:
        code = process.wait(limit_s)
    if code != 0:
        raise UsageError(_describe_failure(script, code, log, limit_s))
    if not FirstPass.is_in(folder):
        raise UsageError(
            f"{script.path} left its process with exit code 0 before Python could end it, so nothing noted its "
            "calls; end it with sys.exit, or by its last line, instead of os._exit or os.exec"
        )
    found = FirstPass.read(folder)
    if not found.calls:
        raise UsageError(_describe_nothing(script, found, log))
    return found


def _write_job(script: Script, session: Path, folder: Path) -> None:
    """Makes the folder of the pass with the job in it."""
    make_run_folder(folder)
    job = Job(
        run=FIRST_PASS,
        session=session.name,
        recorded="",
        commit="",
        collector="",
        rounds=None,
        arguments=(),
        path=tuple(sys.path),
        environment={},
        script=script,
    )
    try:
        job.write(folder)
    except OSError as error:
        raise unwritable(folder, error) from None


def _describe_nothing(script: Script, found: FirstPass, log: Path) -> str:
    """Why a script that ended well has nothing to measure."""
    raised = RaisedCalls(script.scope, found.raised).describe()
    sentences = (*found.unmeasured, *raised, _explain_input(script))
    others = "".join(f"; {sentence}" for sentence in sentences if sentence)
    return (
        f"{script.file} called nothing that can be measured{others}: it has to call {MEASURED}, in its own "
        f"process; its output is in {log}"
    )


def _describe_failure(script: Script, code: int | None, log: Path, limit_s: float) -> str:
    if code is None:
        return (
            f"{script.file} took longer than {duration(1e9 * limit_s)} in its first pass and was ended; its "
            f"output is in {log}; give it more time with --nsight-timeout, or less to do"
        )
    ended = f"failed with exit code {code}" if code > 0 else f"died with {signal.Signals(-code).name}"
    output = last_lines(log, _LOG_LINES) or "(nothing)"
    hint = _explain_input(script, output)
    remedy = "correct it so that it ends with exit code 0"
    if hint:
        # Its text may mention the standard input without reading it.
        remedy = hint if _END_OF_INPUT in output else f"{remedy}; {hint}"
    return (
        f"{script.file} {ended} in its first pass, in which nothing is measured: {remedy}; "
        f"its output ({log}) ends with:\n{output}"
    )


def _explain_input(script: Script, output: str = "") -> str:
    """What to do about a script that reads its standard input; "" for one that does not seem to.

    Args:
        script: which one.
        output: how its output ends.
    """
    try:
        text = Path(script.path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    if _END_OF_INPUT not in output and not re.search(r"\bstdin\b|\binput\(", text):
        return ""
    return "if it reads its standard input, that is empty in every pass: give it a file or an argument to read from"
