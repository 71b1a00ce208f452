"""What an identity pass costs a launch, and what a tuner's trial then reads of a short kernel.

    python -m benchmarks.cupti.trials

Prints a JSON line for each state, twice: in a process without a recorder, and in one whose recorder observes, has
its callbacks off, or has its records off, too, as while a tuner times its trials. `runtime_us` and `driver_us`
say what a launch takes the host through the runtime (torch) and the driver (Triton), `inductor_us` and
`do_bench_us` what the tuners' functions read of the latter, and `nothing_us` what Inductor's reads of no launch.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
import triton
import triton.language as tl
from torch._inductor.runtime.benchmarking import benchmarker

from pytest_nsight.recorders.cupti.library import Cupti
from pytest_nsight.recorders.launch_identity.identity_recorder import IdentityRecorder
from pytest_nsight.recorders.launch_identity.launch_capture import LaunchCapture

_LENGTH = 4096
_LAUNCHES = 500
_REPETITIONS = 2


@triton.jit  # type: ignore[untyped-decorator]
def _add_one(x_ptr, LENGTH: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.arange(0, LENGTH)
    tl.store(x_ptr + at, tl.load(x_ptr + at) + 1)


def measure_launch_us(launch: Callable[[], Any]) -> float:
    """Microseconds of the host for one launch: the best of three batches."""
    launch()
    found = []
    for _ in range(3):
        torch.cuda.synchronize()
        began_s = time.perf_counter()
        for _ in range(_LAUNCHES):
            launch()
        found.append((time.perf_counter() - began_s) / _LAUNCHES * 1e6)
        torch.cuda.synchronize()
    return round(min(found), 1)


def measure(state: str) -> None:
    """Prints a line for the state that the process is in."""
    x = torch.zeros(_LENGTH, device="cuda")

    def launch_by_driver() -> None:
        _add_one[(1,)](x, _LENGTH)

    line = {
        "state": state,
        "runtime_us": measure_launch_us(lambda: x.add_(1)),
        "driver_us": measure_launch_us(launch_by_driver),
        "inductor_us": round(benchmarker.benchmark_gpu(launch_by_driver) * 1e3, 2),
        "do_bench_us": round(triton.testing.do_bench(launch_by_driver, return_mode="min") * 1e3, 2),
        "nothing_us": round(benchmarker.benchmark_gpu(lambda: None) * 1e3, 2),
    }
    print(json.dumps(line), flush=True)


def measure_with_recorder() -> None:
    """Prints a line for each state of a recorder; the process has not used the device yet."""
    cupti = Cupti()
    capture = LaunchCapture(cupti)
    recorder = IdentityRecorder(cupti, capture)

    @contextmanager
    def without_callbacks() -> Iterator[None]:
        capture.pause()
        yield
        capture.resume()

    for _ in range(_REPETITIONS):
        states: dict[str, AbstractContextManager[None]] = {
            "observed": nullcontext(),
            "callbacks off": without_callbacks(),
            "paused": recorder.pause(),
        }
        for state, context in states.items():
            with context:
                measure(state)
            recorder.stop()
            recorder.forget()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cupti.trials")
    parser.add_argument("--only", choices=("none", "recorder"), help="measure in this process")
    only = parser.parse_args().only
    if not torch.cuda.is_available():
        print("trials: torch sees no CUDA device; run this on a machine with one", file=sys.stderr)
        return 1
    if only == "recorder":
        measure_with_recorder()
    elif only == "none":
        for _ in range(_REPETITIONS):
            measure("no recorder")
    else:
        for each in ("none", "recorder"):
            subprocess.run([sys.executable, "-m", "benchmarks.cupti.trials", "--only", each], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
