"""The first pass of a script: runs it once, without a profiler, to learn which calls it makes."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path

from pytest_nsight.collectors.child_process import last_lines, start
from pytest_nsight.controller.worker_failure import prepare
from pytest_nsight.model.errors import UsageError, unwritable
from pytest_nsight.model.units import duration
from pytest_nsight.protocol.job import WORKER_LOG, Job
from pytest_nsight.protocol.script import FirstPass, Script
from pytest_nsight.protocol.worker_start import start_command

_LOG_LINES = 8

MEASURED = (
    "triton.testing.do_bench and perf_report, torch.utils.benchmark.Timer, flashinfer.testing.bench_gpu_time, or "
    "tilelang's do_bench"
)


def run_first_pass(job: Job, folder: Path, where: Path, variables: Mapping[str, str], limit_s: float) -> FirstPass:
    """Runs the script, with its output in the folder's worker.log.

    Args:
        job: names the script.
        folder: of the first pass; made here.
        where: folder to run the script in.
        variables: environment variables that it gets beside those of this process.
        limit_s: how long it may take.

    Returns:
        The calls that it made, at least one.

    Raises:
        UsageError: it fails, takes too long, or makes no call that can be measured.
        CollectorError: the folder cannot be written.
    """
    assert job.script is not None
    prepare(folder)
    try:
        job.write(folder)
    except OSError as error:
        raise unwritable(folder, error) from None
    environ = {**os.environ, "PYTHONUNBUFFERED": "1", **variables}
    log = folder / WORKER_LOG
    with start(start_command("pytest_nsight.worker.script_process", folder), log, where, environ) as process:
        code = process.wait(limit_s)
    if code != 0:
        raise UsageError(_describe_failure(job.script, code, log, limit_s))
    found = FirstPass.read(folder)
    if not found.calls:
        others = "".join(f"; {sentence}" for sentence in found.unmeasured)
        raise UsageError(
            f"{job.script.file} called nothing that can be measured{others}: it has to call {MEASURED}, in its own "
            f"process; its output is in {log}"
        )
    return found


def _describe_failure(script: Script, code: int | None, log: Path, limit_s: float) -> str:
    if code is None:
        return (
            f"{script.file} took longer than {duration(1e9 * limit_s)} in its first pass and was ended; its "
            f"output is in {log}; give it more time with --nsight-timeout, or less to do"
        )
    ended = f"failed with exit code {code}" if code > 0 else f"died with {signal.Signals(-code).name}"
    output = last_lines(log, _LOG_LINES) or "(nothing)"
    return (
        f"{script.file} {ended} in its first pass, in which nothing is measured: mend it, it must end with exit "
        f"code 0; its output ({log}) ends with:\n{output}"
    )
