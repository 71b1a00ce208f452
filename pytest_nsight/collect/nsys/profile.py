"""Starts a worker under Nsight Systems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_nsight.collect.nsys.command import profile_command
from pytest_nsight.collect.nsys.find import Installation
from pytest_nsight.collect.nsys.space import NEEDED_BYTES, check_space, temporary_folder
from pytest_nsight.collect.process import Process, start
from pytest_nsight.errors import NsysError


def prepare(
    installation: Installation,
    report: Path,
    target: Sequence[str],
    environ: Mapping[str, str],
    needed_bytes: int = NEEDED_BYTES,
) -> tuple[str, ...]:
    """Makes sure that a run can be recorded, and gives the command that does so.

    Args:
        installation: which nsys.
        report: the `.nsys-rep` file to write; an old one is removed, lest it be taken for the new one.
        target: the worker's program and arguments.
        environ: the worker's environment variables.
        needed_bytes: free space wanted in the report's and the temporary folder.

    Raises:
        NsysError: a folder cannot be used.
        UsageError: nsys would write the report somewhere else.
    """
    command = profile_command(installation, report, target)
    try:
        report.parent.mkdir(parents=True, exist_ok=True)
        report.unlink(missing_ok=True)
    except OSError as error:
        raise NsysError(
            f"Cannot make way for the report {report}: {error.strerror}; choose another folder."
        ) from error
    check_space(report.parent, needed_bytes)
    check_space(temporary_folder(environ), needed_bytes)
    return command


def profile(
    installation: Installation,
    report: Path,
    target: Sequence[str],
    *,
    log: Path,
    cwd: Path,
    environ: Mapping[str, str],
) -> Process:
    """Starts a worker under Nsight Systems and returns at once.

    Args:
        installation: which nsys.
        report: the `.nsys-rep` file to write, an absolute path.
        target: the worker's program and arguments.
        log: file for the output of nsys and the worker.
        cwd: folder to run in.
        environ: environment variables.

    Returns:
        The running nsys; its return code is the worker's.

    Raises:
        NsysError: a folder cannot be used.
        CollectorError: nsys cannot be started.
        UsageError: nsys would write the report somewhere else.
    """
    command = prepare(installation, report, target, environ)
    return start(command, log, cwd, environ, shell_codes=True)
