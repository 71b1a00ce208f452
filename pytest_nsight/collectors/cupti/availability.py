"""Whether CUPTI can record here: each library that is found is tried in a process of its own.

What it does to a process lasts as long as the process, and a CUPTI that is too new for the driver refuses only when
it is asked to record.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest_nsight
from pytest_nsight.recorders.cupti.library import VARIABLE, Cupti, CuptiError, candidates
from pytest_nsight.recorders.cupti.record_layouts import CONCURRENT_KERNEL

_TRIAL_S = 60.0
_OLDEST = 18
"""CUPTI's version in CUDA 12.0: records of older ones lack fields."""

_TRIAL = (
    # Without the current folder, whose modules may have the names of Python's own.
    "import sys; sys.path[:] = [entry for entry in sys.path if entry]\n"
    "from pytest_nsight.collectors.cupti.availability import try_library\n"
    "print(try_library(sys.argv[1]), flush=True)\n"
)
_REMEDY = "install the one of your CUDA's major version (pip install nvidia-cuda-cupti-cu12 has CUDA 12's)"


@dataclass(frozen=True, slots=True)
class CuptiInstallation:
    """A CUPTI that works here.

    Attributes:
        path: of its library, or its name for the system's loader.
        version: as CUPTI counts, such as 130000, and 28 for CUDA 12.9's.
    """

    path: str
    version: int


def find_working() -> CuptiInstallation:
    """The first CUPTI that records on this machine.

    Raises:
        CuptiError: there is none; the text says of each that was found why it does not.
    """
    reasons: list[str] = []
    for path in dict.fromkeys(candidates()):
        found = _try_apart(path)
        if isinstance(found, CuptiInstallation):
            return found
        reasons.append(f"{path}: {found}")
        if path == os.environ.get(VARIABLE):
            break
    raise CuptiError(f"no CUPTI can record here ({'; '.join(reasons)}); {_REMEDY}, or set {VARIABLE} to its path")


def variables_of(installation: CuptiInstallation) -> dict[str, str]:
    """Environment variables of a worker that records with an installation."""
    # After its own use torch.profiler would otherwise take CUPTI out of the process, for the next cases, too.
    return {VARIABLE: installation.path, "TEARDOWN_CUPTI": "0"}


def try_library(path: str) -> str:
    """Lets a library record for a moment in this process.

    Args:
        path: of the library.

    Returns:
        JSON: its version, or the reason why it cannot record.
    """
    try:
        cupti = Cupti(ctypes.CDLL(path))
        version = cupti.version()
        if version < _OLDEST:
            return json.dumps(f"its version is {version}, and the oldest that will do is {_OLDEST} (CUDA 12.0)")
        ctypes.CDLL("libcuda.so.1").cuInit(0)
        cupti.call("cuptiActivityEnable", CONCURRENT_KERNEL)
    except (OSError, AttributeError, CuptiError) as error:
        return json.dumps(str(error))
    return json.dumps(version)


def _try_apart(path: str) -> CuptiInstallation | str:
    """The library, or why it does not work."""
    package = str(Path(pytest_nsight.__file__).parent.parent)
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))}
    try:
        done = subprocess.run(
            (sys.executable, "-c", _TRIAL, path),
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TRIAL_S,
            check=False,
        )
        said = json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        return f"it did not start within {_TRIAL_S:.0f} s"
    except (OSError, ValueError, IndexError):
        return "the process that tried it ended early"
    return CuptiInstallation(path, said) if isinstance(said, int) else str(said)
