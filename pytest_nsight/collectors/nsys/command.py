"""Spells the command lines of Nsight Systems; starts nothing.

MERGED: Starts a worker under Nsight Systems.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_nsight.collectors.child_process import ChildProcess, start
from pytest_nsight.collectors.nsys.find import Installation
from pytest_nsight.collectors.nsys.space import NEEDED_BYTES, check_space, temporary_folder
from pytest_nsight.model.errors import NsysError, UsageError

_DISCARDS_ENVIRONMENT = (2025, 6)
"""First version for which the User Guide lists --discard-environment; 2025.1 refuses it."""


def profile_command(installation: Installation, report: Path, target: Sequence[str]) -> tuple[str, ...]:
    """The command that runs a program under Nsight Systems.

    Args:
        installation: which nsys.
        report: the report to write, ending in `.nsys-rep`; an absolute path.
        target: the program and its arguments.

    Raises:
        UsageError: nsys would write the report somewhere else.
    """
    _check_path(report, ".nsys-rep")
    return (
        str(installation.path),
        "profile",
        # Kernels, copies and CUDA calls, and our ranges; the default adds operating system calls and OpenGL.
        "--trace=cuda,nvtx",
        # Stack sampling needs kernel permissions that containers lack, and disturbs what is measured.
        "--sample=none",
        # Without sampling this one would turn itself on, with the same needs.
        "--cpuctxsw=none",
        # The default records a replayed CUDA graph as one row, or (before 2024) as none.
        "--cuda-graph-trace=node",
        # The default also waits for daemons that the worker leaves behind: a run would never end.
        "--wait=primary",
        # The worker ends by itself; being killed would change its exit code.
        "--kill=none",
        # The export is a step of its own, written beside its final name.
        "--export=none",
        # An existing report would otherwise send the new one to the temporary folder, without an error.
        "--force-overwrite=true",
        # A report holds the environment with all its secrets unless told not to.
        *(("--discard-environment=true",) if installation.version >= _DISCARDS_ENVIRONMENT else ()),
        # No --nvtx-domain-include: the user's own ranges and those of libraries belong into the trace.
        f"--output={report.with_suffix('')}",
        *target,
    )


def export_command(installation: Installation, report: Path, sqlite: Path) -> tuple[str, ...]:
    """The command that turns a report into an SQLite database.

    Args:
        installation: which nsys: the one that wrote the report, because older ones cannot read it.
        report: an existing `.nsys-rep` file.
        sqlite: the database to write.

    Raises:
        UsageError: nsys would write the database somewhere else.
    """
    _check_path(sqlite, ".sqlite")
    return (
        str(installation.path),
        "export",
        # The only format that all versions write and Python reads.
        "--type=sqlite",
        # What is left of an export that was cut short must not stop this one.
        "--force-overwrite=true",
        # No progress bar in the log.
        "--quiet=true",
        f"--output={sqlite}",
        str(report),
    )


def _check_path(path: Path, suffix: str) -> None:
    if "%" in str(path):
        raise UsageError(
            f"The path {path} holds a '%', which Nsight Systems would expand in its output name; choose a "
            "folder without it."
        )
    if path.suffix != suffix or not path.is_absolute():
        raise UsageError(f"The output {path} of Nsight Systems must be absolute and end in {suffix}.")


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
) -> ChildProcess:
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
