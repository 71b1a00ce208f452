"""Nsight Compute around one worker: the counters of some kernels in the measured rounds, from its own output."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_nsight.collectors.ncu.raw_page import METRICS, base_name, parse_raw_page
from pytest_nsight.model.errors import CollectorError
from pytest_nsight.model.kernel_counters import KernelCounters
from pytest_nsight.model.trace import OWN_DOMAIN, Trace
from pytest_nsight.processes.child_process import ChildProcess, start
from pytest_nsight.processes.log_files import read_tail
from pytest_nsight.protocol.job import WORKER_LOG

CHOICE = "PYTEST_NSIGHT_NCU"
"""Environment variable that names the program."""

_OUTPUT = "ncu.csv"
_MOST_LAUNCHES = 12
"""Launches that are profiled: each is replayed several times."""
_PLACES = ("usr/local/cuda*/bin/ncu", "opt/nvidia/nsight-compute/*/ncu")


def find_ncu(environ: Mapping[str, str], root: Path = Path("/")) -> Path:
    """The program.

    Args:
        environ: environment variables.
        root: where the usual folders are looked for.

    Raises:
        CollectorError: there is none.
    """
    if chosen := environ.get(CHOICE):
        if not os.access(chosen, os.X_OK):
            raise CollectorError(f"{CHOICE} is {chosen!r}, which cannot be run; name Nsight Compute's program ncu")
        return Path(chosen)
    found = shutil.which("ncu", path=environ.get("PATH", ""))
    places = [path for pattern in _PLACES for path in sorted(root.glob(pattern), reverse=True)]
    usable = [path for path in ([Path(found)] if found else []) + places if os.access(path, os.X_OK)]
    if not usable:
        raise CollectorError(
            "there is no Nsight Compute here (ncu); install it, for example with the CUDA toolkit, or name it in "
            f"{CHOICE}"
        )
    return usable[0]


def ncu_command(program: Path, output: Path, kernels: Sequence[str], target: Sequence[str]) -> tuple[str, ...]:
    """The command that profiles some kernels of the measured rounds.

    Args:
        program: ncu.
        output: file for ncu's own output.
        kernels: names of their functions.
        target: the worker's program and arguments.
    """
    names = "|".join(sorted({re.escape(base_name(kernel)) for kernel in kernels}))
    return (
        str(program),
        # The worker is started by a shell or a launcher.
        "--target-processes=all",
        # Rounds only: set-up and warm-up stand outside of their ranges. Autograd launches from its own threads.
        "--nvtx",
        f"--nvtx-include=regex:{OWN_DOMAIN}@.*/",
        "--nvtx-push-pop-scope=process",
        # As the gate measured them: a locked base clock would show another balance of memory and arithmetic.
        "--clock-control=none",
        f"--kernel-name=regex:^({names})",
        f"--launch-count={_MOST_LAUNCHES}",
        f"--metrics={','.join(METRICS)}",
        "--csv",
        "--page=raw",
        "--print-units=base",
        # The worker's own output would stand between the rows.
        f"--log-file={output}",
        *target,
    )


class NcuCollector:
    """Profiles the kernels of workers that measure one case; gives no times."""

    # The worker marks its rounds for ncu as it does for nsys.
    name = "nsys"
    is_shared = True
    times_cpu = False

    def __init__(self, program: Path, kernels: Sequence[str]) -> None:
        self._program = program
        self._kernels = tuple(kernels)
        self.title = f"Nsight Compute ({program})"
        self.environment: Mapping[str, str] = {}
        self.counters: tuple[KernelCounters, ...] = ()

    def start(self, worker: Sequence[str], folder: Path, cwd: Path, environ: Mapping[str, str]) -> ChildProcess:
        """Starts the worker under ncu."""
        command = ncu_command(self._program, folder / _OUTPUT, self._kernels, worker)
        return start(command, folder / WORKER_LOG, cwd, environ)

    def collect(self, folder: Path) -> Trace:
        """Reads the counters; the trace is empty, because ncu's replays distort every time.

        Raises:
            CollectorError: nothing was profiled; says why.
        """
        output = folder / _OUTPUT
        text = output.read_text(encoding="utf-8", errors="replace") if output.exists() else ""
        self.counters = parse_raw_page(text)
        if not self.counters:
            raise CollectorError(explain_nothing(f"{text}\n{read_tail(folder / WORKER_LOG)}", self._kernels))
        return Trace()

    def explain_log(self, log: Path) -> str:  # noqa: ARG002 - `collect` explains what ncu wrote
        """Nothing: the output is the worker's own."""
        return ""

    def tidy(self, folder: Path, *, keep: bool) -> None:
        """Removes ncu's output, unless it is to stay."""
        if not keep:
            (folder / _OUTPUT).unlink(missing_ok=True)


def explain_nothing(said: str, kernels: Sequence[str]) -> str:
    """Why ncu profiled no kernel, and what to do, from its output and the worker's.

    Args:
        said: the output.
        kernels: those that were looked for.
    """
    errors = [line.strip() for line in said.splitlines() if line.startswith(("==ERROR==", "==WARNING=="))]
    quoted = f' (ncu says "{errors[0].split("==", 2)[2].strip()[:200]}")' if errors else ""
    if "ERR_NVGPUCTRPERM" in said:
        return (
            f"this user may not read the GPU's counters{quoted}; allow it with the driver's option "
            "NVreg_RestrictProfilingToAdminUsers=0, or in a container with --cap-add=SYS_ADMIN"
        )
    if "No kernels were profiled" in said:
        return (
            f"no launch of {', '.join(map(base_name, kernels))} was found in a measured round{quoted}: the case "
            "may launch it from a process that Nsight Compute cannot follow, or only in some rounds"
        )
    if "driver resource was unavailable" in said:
        return f"another tool reads the GPU's counters{quoted}; end it (dcgm, nsys, another ncu)"
    return f"Nsight Compute profiled nothing{quoted or ' and says nothing'}; --nsight-keep keeps its output"
