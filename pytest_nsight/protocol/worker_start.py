"""How a worker process starts: its command line, environment variables, and those that no profiler must see.

A profiler records the environment of what it starts. So the controller writes what may be secret to a file and
names the file in the worker's environment; the worker reads it before anything else, and removes it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "PYTEST_NSIGHT_STATE"
"""Environment variable that names the file."""


@dataclass(frozen=True, slots=True)
class ProcessState:
    """What the worker adds to the environment that it is started with.

    Attributes:
        environ: names and values of the variables.
    """

    environ: Mapping[str, str]

    def write(self, path: Path) -> dict[str, str]:
        """Writes a file that its owner alone can read.

        Returns:
            What to add to the environment that the worker is started with.

        Raises:
            OSError: it cannot be written.
        """
        # Values may hold any bytes, as surrogates; JSON escapes those.
        text = json.dumps(dict(self.environ))
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.write(text)
        return {VARIABLE: str(path)}


def restore() -> None:
    """Completes the environment of this process, once; does nothing where all of it came with the start.

    Raises:
        OSError: the file cannot be read.
    """
    name = os.environ.pop(VARIABLE, "")
    if not name:
        return
    path = Path(name)
    text = path.read_text(encoding="ascii")
    path.unlink(missing_ok=True)
    os.environ.update(json.loads(text))


_HOME = Path(__file__).parents[2]
_HIDING = ("-E", "-I", "-S")
_START = """import sys
sys.path[:] = [*(entry for entry in sys.path if entry), sys.argv[1]]
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
spec = PathFinder.find_spec("pytest_nsight", sys.argv[1:2])
sys.modules["pytest_nsight"] = module_from_spec(spec)
spec.loader.exec_module(sys.modules["pytest_nsight"])
from pytest_nsight.protocol.worker_start import restore
restore()
from pathlib import Path
from importlib import import_module
sys.exit(import_module(sys.argv[2]).main(Path(sys.argv[3])))"""


def start_command(module: str, folder: Path) -> tuple[str, ...]:
    """The command line of a module whose `main` takes the folder of a run.

    The new process imports the same plugin as this one, and Python's own modules, whatever is called like them in
    its working directory or beside the plugin. It has the options of this interpreter, such as -O, -W and -X, as
    processes of multiprocessing have. Not those that hide variables or packages: a worker is started with variables
    of its own.
    """
    options = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # noqa: SLF001 - its only name
    kept = (option for option in options if option not in _HIDING)
    return (sys.executable, *kept, "-c", _START, str(_HOME), module, str(folder))


_FIX_ADDRESSES = """import ctypes, os, sys
library = ctypes.CDLL(None)
personality = library.personality(ctypes.c_ulong(0xFFFFFFFF))
if personality != -1:
    library.personality(ctypes.c_ulong(personality | 0x0040000))
os.execv(sys.argv[1], sys.argv[1:])"""
"""ADDR_NO_RANDOMIZE of personality(2). Where a container forbids it the addresses are random as before."""


def fix_addresses(command: Sequence[str]) -> tuple[str, ...]:
    """The command line that runs a program whose memory lies where it lies in every process, as debuggers do.

    Addresses of the host decide what a process launches. Allocators of device memory choose among free blocks by
    their addresses, which the driver takes from the process's own, and libraries pass stale addresses to kernels.

    Args:
        command: path of the program, and its arguments. The process is that of the program itself.
    """
    if sys.platform != "linux":
        return tuple(command)
    return (sys.executable, "-I", "-S", "-c", _FIX_ADDRESSES, *command)


_COVERAGE_VARIABLES = ("COVERAGE_PROCESS_", "COV_CORE_")


def drop_coverage(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a program that coverage.py does not trace, whatever asks it to trace subprocesses.

    A traced round takes several times as long on the host.

    Args:
        environ: of the program.
    """
    return {name: value for name, value in environ.items() if not name.startswith(_COVERAGE_VARIABLES)}


_ALLOCATOR_VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
"""Settings of torch's allocator; since torch 2.9 the first one counts, if there is one."""

_EXPANDABLE = "expandable_segments"


def fix_allocator(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a program in which torch's allocator takes each segment from the driver by itself.

    The pieces of an expandable segment have one size, whatever tensors they hold, and lie at addresses so small
    that two numbers beside one another look like one. Other settings of these variables stay; what a program
    sets only where they are not set, it does not set.

    Args:
        environ: of the program.
    """
    newer, older = _ALLOCATOR_VARIABLES
    given = {newer: environ.get(newer) or environ.get(older, ""), older: environ.get(older, "")}
    fixed = {}
    for name, value in given.items():
        options = [option for option in value.split(",") if option.strip() and _EXPANDABLE not in option]
        fixed[name] = ",".join([*options, f"{_EXPANDABLE}:False"])
    return {**environ, **fixed}
