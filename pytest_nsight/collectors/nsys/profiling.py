"""Starts a program under Nsight Systems, and the command lines that this takes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pytest_nsight.collectors.base import RecordingOptions
from pytest_nsight.collectors.nsys.find import Installation
from pytest_nsight.collectors.nsys.metric_sampling import metric_options
from pytest_nsight.collectors.nsys.private_folder import NEEDED_BYTES, check_space
from pytest_nsight.collectors.nsys.session_segment import remove_half_made
from pytest_nsight.model.errors import NsysError, UsageError
from pytest_nsight.model.trace import OWN_DOMAIN
from pytest_nsight.processes.child_process import ChildProcess, Wrapper, start
from pytest_nsight.processes.process_tree import is_running

_ROUNDS_ONLY = RecordingOptions()

START_LIMIT_S = 120.0
"""nsys starts its target within a second, on a busy machine within ten."""

END_LIMIT_S = 900.0
"""nsys has so long to write its report after its target has ended: a million launches take it 20 s."""

_AGENT = "nsys"
"""Program of the agent, which takes its session off the list of all some 10 ms after nsys has ended."""

_LOOK_S = 1.0
_PID_FILE = "target.pid"
# nsys 2022.4 starts its target with umask 0; its own TMPDIR is none of the target's business.
_AS_STARTED = """umask "$1"
if [ -n "$2" ]; then TMPDIR=$3; export TMPDIR; else unset TMPDIR; fi
echo $$ > "$4"
shift 4
exec "$@"
"""

_DISCARDS_ENVIRONMENT = (2025, 6)
"""First version for which the User Guide lists --discard-environment; 2025.1 refuses it."""


def profile_command(
    installation: Installation,
    report: Path,
    target: Sequence[str],
    *,
    recorded: RecordingOptions = _ROUNDS_ONLY,
) -> tuple[str, ...]:
    """The command that runs a program under Nsight Systems.

    Args:
        installation: which nsys.
        report: the report to write, ending in `.nsys-rep`; an absolute path.
        target: the program and its arguments.
        recorded: what is recorded beside the rounds.

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
        # A report holds the environment; what may be secret reaches the worker in another way.
        *(("--discard-environment=true",) if installation.version >= _DISCARDS_ENVIRONMENT else ()),
        # Importers have dropped all that followed a range of a library that they could not read.
        *(() if recorded.user_ranges else (f"--nvtx-domain-include={OWN_DOMAIN}",)),
        *metric_options(is_wanted=recorded.gpu_metrics),
        f"--output={report.with_suffix('')}",
        *target,
    )


def export_command(
    installation: Installation, report: Path, sqlite: Path, options: Sequence[str] = ()
) -> tuple[str, ...]:
    """The command that turns a report into an SQLite database.

    Args:
        installation: which nsys: the one that wrote the report, because older ones cannot read it.
        report: an existing `.nsys-rep` file.
        sqlite: the database to write.
        options: further ones of `nsys export`.

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
        *options,
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
    *,
    recorded: RecordingOptions = _ROUNDS_ONLY,
    needed_bytes: int = NEEDED_BYTES,
) -> tuple[str, ...]:
    """Makes sure that a run can be recorded.

    Args:
        installation: which nsys.
        report: the `.nsys-rep` file to write; an old one is removed, so that it is not taken for the new one.
        target: the worker's program and arguments.
        recorded: what is recorded beside the rounds.
        needed_bytes: free space wanted in the report's folder.

    Returns:
        The command that records it.

    Raises:
        NsysError: a folder cannot be used.
        UsageError: nsys would write the report somewhere else.
    """
    command = profile_command(installation, report, target, recorded=recorded)
    try:
        report.parent.mkdir(parents=True, exist_ok=True)
        report.unlink(missing_ok=True)
        (report.parent / _PID_FILE).unlink(missing_ok=True)
    except OSError as error:
        raise NsysError(
            f"Cannot make way for the report {report}: {error.strerror}; choose another folder."
        ) from error
    check_space(report.parent, needed_bytes)
    remove_half_made()
    return command


def profile(
    installation: Installation,
    report: Path,
    target: Sequence[str],
    *,
    log: Path,
    cwd: Path,
    environ: Mapping[str, str],
    recorded: RecordingOptions = _ROUNDS_ONLY,
) -> ChildProcess:
    """Starts a worker under Nsight Systems and returns at once.

    The worker has this process's umask, and TMPDIR as `environ` has it; nsys uses the report's folder instead.

    Args:
        installation: which nsys.
        report: the `.nsys-rep` file to write, an absolute path.
        target: the worker's program and arguments.
        log: file for the output of nsys and the worker.
        cwd: folder to run in.
        environ: environment variables.
        recorded: what is recorded beside the rounds.

    Returns:
        The running nsys; its return code is the worker's. It is ended, and the log says so, if it does not start
        the worker, or does not end after it.

    Raises:
        NsysError: a folder cannot be used.
        CollectorError: nsys cannot be started.
        UsageError: nsys would write the report somewhere else.
    """
    pid_file = report.parent / _PID_FILE
    temporary = environ.get("TMPDIR")
    has_temporary = "" if temporary is None else "yes"
    arguments = (f"{_umask():03o}", has_temporary, temporary or "", str(pid_file), *target)
    shell = ("/bin/sh", "-c", _AS_STARTED, "sh", *arguments)
    command = prepare(installation, report, shell, recorded=recorded)
    own_environ = {**environ, "TMPDIR": str(report.parent)}
    wrapper = Wrapper(
        shell_codes=True,
        overdue=find_overdue(pid_file, START_LIMIT_S, END_LIMIT_S),
        has_begun=lambda: _read_pid(pid_file) is not None,
        helper=_AGENT,
    )
    return start(command, log, cwd, own_environ, wrapper)


def find_overdue(pid_file: Path, start_limit_s: float, end_limit_s: float) -> Callable[[], str]:
    """A function that says why a running nsys has to be ended, "" while nothing is wrong.

    Args:
        pid_file: where the target writes its process id.
        start_limit_s: how long nsys may take until the target runs.
        end_limit_s: how long nsys may take from the target's end.
    """
    since_s = looked_s = time.monotonic()

    def overdue() -> str:
        nonlocal since_s, looked_s
        now_s = time.monotonic()
        if now_s - looked_s < min(_LOOK_S, start_limit_s, end_limit_s):
            return ""
        looked_s = now_s
        pid = _read_pid(pid_file)
        if pid is not None and is_running(pid):
            since_s = now_s
            return ""
        limit_s, what = (
            (start_limit_s, "did not start the worker")
            if pid is None
            else (end_limit_s, "did not end after the worker")
        )
        return f"Nsight Systems {what} within {limit_s:.0f} s" if now_s - since_s > limit_s else ""

    return overdue


def _read_pid(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _umask() -> int:
    """This process's umask, which can be read only by setting it."""
    umask = os.umask(0o077)
    os.umask(umask)
    return umask
