"""What observing launches costs the host, and which kernel Inductor's tuner therefore chooses.

    python -m benchmarks.cupti.trials

Starts a process for each way, with empty caches: without an identity recorder, with one that observes every launch,
and with one that pauses while a tuner times its trials. Prints a JSON line for each: microseconds a launch takes
the host, as a trial would find it, and those that the chosen matrix product takes the device.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch

from pytest_nsight.collectors.cupti.identity_recorder import make_identity_recorder
from pytest_nsight.worker.patched_imports import patch_imports
from pytest_nsight.worker.tuner_trials import list_trial_patches

WAYS = ("unobserved", "observed", "paused")
_LAUNCHES = 500
_CALLS = 20
"""In one graph, so that the device does not wait for the host."""
_REPLAYS = 50


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


def measure_kernel_us(call: Callable[[], Any]) -> float:
    """Microseconds of the device for one call: the median of some replays of a graph, inputs in the cache."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(_CALLS):
            call()
    times = []
    for _ in range(_REPLAYS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(float(begin.elapsed_time(end)) * 1e3 / _CALLS)
    return round(statistics.median(times), 2)


def run(way: str) -> None:
    """Measures in this process, which has not used the device yet."""
    recorder = None if way == "unobserved" else make_identity_recorder()
    if recorder is not None:
        patch_imports(list_trial_patches(recorder.pause if way == "paused" else nullcontext))
    x = torch.zeros(4096, device="cuda")
    with recorder.pause() if recorder is not None and way == "paused" else nullcontext():
        line: dict[str, Any] = {"way": way, "launch_us": measure_launch_us(lambda: x.add_(1))}
    torch.manual_seed(0)
    a, b = (torch.randn(*shape, device="cuda", dtype=torch.bfloat16) for shape in ((2048, 1024), (1024, 1024)))
    fused = torch.compile(lambda a, b: torch.relu(a @ b), mode="max-autotune-no-cudagraphs")
    fused(a, b)
    with recorder.pause() if recorder is not None else nullcontext():
        line["chosen_us"] = measure_kernel_us(lambda: fused(a, b))
    print(json.dumps(line), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cupti.trials")
    parser.add_argument("--way", choices=WAYS, help="measure in this process")
    way = parser.parse_args().way
    if not torch.cuda.is_available():
        print("trials: torch sees no CUDA device; run this on a machine with one", file=sys.stderr)
        return 1
    if way is not None:
        run(way)
        return 0
    for each in WAYS:
        with tempfile.TemporaryDirectory() as folder:
            caches = {"TRITON_CACHE_DIR": f"{folder}/triton", "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor"}
            command = [sys.executable, "-m", "benchmarks.cupti.trials", "--way", each]
            subprocess.run(command, env={**os.environ, **caches}, check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
