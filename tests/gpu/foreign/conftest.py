"""What the foreign programs share: the device, what is missing, and how long the last kernel of a round waits."""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NoReturn

import pytest

# Compiling in processes of its own would only add processes to each worker.
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

import torch

from tests.gpu.foreign import more_work
from tests.gpu.foreign.programs import PROGRAMS, Program

REQUIRED, TRY_ON_CPU = "PYTEST_NSIGHT_REQUIRE_FOREIGN", "FOREIGN_TRY_CPU"
_CALIBRATION_CYCLES = 4_000_000


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "foreign: runs programs of other projects; see tests/gpu/foreign/README.md")


@pytest.fixture
def program(request: pytest.FixtureRequest) -> Program:
    """The program of a case; skipped where a package is missing, failed where it is required."""
    chosen = PROGRAMS[request.param]
    missing = chosen.missing()
    if missing:
        lack(f"{chosen.name} needs {', '.join(missing)}, not installed here (see tests/gpu/foreign/wheels.txt)")
    return chosen


@pytest.fixture
def foreign_device(program: Program) -> str:
    if torch.cuda.is_available():
        return "cuda"
    if os.environ.get(TRY_ON_CPU) != "1":
        lack("torch sees no CUDA device")
    if program.needs_gpu:
        pytest.skip(f"{program.name} needs a GPU")
    return "cpu"


def lack(what: str) -> NoReturn:
    """Ends a test that lacks something: it is skipped, or fails where foreign programs are required."""
    if os.environ.get(REQUIRED) == "1":
        pytest.fail(f"{REQUIRED}=1, but {what}")
    pytest.skip(what)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Undoes after the test what a program changes."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture(scope="session")
def clock_ghz() -> float:
    """Cycles per ns while one kernel waits."""
    if not torch.cuda.is_available():
        return 1.0
    found_ms = []
    for _ in range(7):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        torch.cuda._sleep(_CALIBRATION_CYCLES)
        end.record()
        end.synchronize()
        found_ms.append(begin.elapsed_time(end))
    return _CALIBRATION_CYCLES / (1e6 * statistics.median(found_ms))


@pytest.fixture
def waiting_cycles(program: Program, clock_ghz: float) -> int:
    share = more_work.read_share(os.environ.get(more_work.VARIABLE, ""))
    if not share:
        return 0
    path = os.environ.get(more_work.TIMES)
    if not path:
        pytest.fail(f"{more_work.VARIABLE} needs {more_work.TIMES}, the --nsight-json of an unchanged session")
    times_ns = more_work.read_times(Path(path))
    gated = [name for name, each in PROGRAMS.items() if each.metric == "kernel" and not each.varies]
    return more_work.cycles_for(program.name, share, more_work.choose(gated), times_ns, clock_ghz)
