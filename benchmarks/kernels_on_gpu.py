"""Check and time every operator at the three configurations, against torch, torch.compile and plain copies.

    python -m benchmarks.kernels_on_gpu --json out.json            # everything, under four minutes on an H200
    python -m benchmarks.kernels_on_gpu --only rms_norm,softmax
    python -m benchmarks.kernels_on_gpu --rms-linear-configs       # sweep the tilings of RMSNorm -> Linear
    python -m benchmarks.kernels_on_gpu --dry-run                  # on a CPU, small: does the script work?

Times are medians of CUDA events around one call with a cold L2, queued while the GPU is still busy, so that
what the host takes to launch is not in them; each call is followed by a rest, so that the board stays below
its power limit. Events include the gaps between launches, so the times of paths with many short launches are
upper bounds of their kernel time. An error is the worst of several calls: one that moves is a race. A failing
entry is reported and the rest goes on.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.workload import Source, Workload
from benchmarks.workloads import MAKERS
from perf_tests.llama import LARGE, MEDIUM, SMALL, Configuration

CONFIGURATIONS = {"b1x128": SMALL, "b8x512": MEDIUM, "b32x2048": LARGE}
DRY_CONFIGURATIONS = {"b1x4": Configuration(1, 4)}
FLUSH_BYTES = 512 * 2**20
# About half a millisecond of writing: longer than the host takes to queue a call of any operator.
FLUSHES = 4
CHECKS = 5
# At least four times as much rest as work keeps the average power far below the limit.
REST_S = 0.008


class Stopwatch:
    """Times one call at a time on the GPU (or, for a dry run, on the CPU).

    Args:
        device: where the calls run.
        rounds: timed calls.
    """

    def __init__(self, device: torch.device, rounds: int) -> None:
        self._rounds = rounds
        self._is_cuda = device.type == "cuda"
        # Writing more than the L2 holds evicts the inputs.
        self._flush = torch.empty(FLUSH_BYTES if self._is_cuda else 0, dtype=torch.uint8, device=device)

    def median_us(self, call: Callable[[], Any]) -> float:
        """Median time of a call after three warm-up calls, in microseconds."""
        for _ in range(3):
            call()
        return statistics.median(self._time_once_us(call) for _ in range(self._rounds))

    def _time_once_us(self, call: Callable[[], Any]) -> float:
        if not self._is_cuda:
            start_s = time.perf_counter()
            call()
            return (time.perf_counter() - start_s) * 1e6
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        for _ in range(FLUSHES):
            self._flush.zero_()
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        elapsed_us = float(start.elapsed_time(end)) * 1e3
        time.sleep(max(REST_S, 4 * elapsed_us * 1e-6))
        return elapsed_us


def measure(name: str, way: str, call: Callable[[], Any], workload: Workload, watch: Stopwatch) -> dict[str, Any]:
    """One line of the table; an exception becomes its `failure`."""
    row: dict[str, Any] = {"case": name, "way": way}
    try:
        if way not in workload.unchecked:
            # Not max(), which loses a nan.
            row["error"] = float(torch.tensor([workload.error(call()) for _ in range(CHECKS)]).max())
        row["us"] = watch.median_us(call)
        row["gb_per_s"] = workload.bytes_moved / row["us"] / 1e3
        row["tflops"] = workload.flops / row["us"] / 1e6
    except Exception as failure:
        row["failure"] = f"{type(failure).__name__}: {str(failure).strip()[-300:]}"
        traceback.print_exc(limit=3)
    show(row)
    return row


def show(row: dict[str, Any]) -> None:
    """Print a line of the table."""
    if "failure" in row:
        print(f"{row['case']:28} {row['way']:44} FAILED {row['failure']}", flush=True)
        return
    error = f"{row['error']:.1e}" if "error" in row else "-"
    print(
        f"{row['case']:28} {row['way']:44} {row['us']:11.1f} us {row['gb_per_s']:8.0f} GB/s "
        f"{row['tflops']:8.1f} TFLOP/s  error {error}",
        flush=True,
    )


def run_operators(
    names: list[str],
    configurations: dict[str, Configuration],
    source: Source,
    watch: Stopwatch,
    passes: tuple[bool, ...],
    deadline_s: float,
) -> list[dict[str, Any]]:
    """All ways of the named operators, and torch.compile's where `passes` is True, until the deadline."""
    rows = []
    for is_compiling in passes:
        for name in names:
            for label, configuration in configurations.items():
                case = f"{name} {label}"
                if time.monotonic() > deadline_s:
                    print(f"{case}: left out, the time is up", flush=True)
                    continue
                rows += _run_one(case, MAKERS[name], configuration, source, watch, is_compiling=is_compiling)
                if source.device.type == "cuda":
                    torch.cuda.empty_cache()
    return rows


def _run_one(
    case: str,
    make: Callable[[Configuration, Source], Workload],
    configuration: Configuration,
    source: Source,
    watch: Stopwatch,
    *,
    is_compiling: bool,
) -> list[dict[str, Any]]:
    try:
        workload = make(configuration, source)
    except Exception as failure:
        row = {"case": case, "way": "inputs", "failure": f"{type(failure).__name__}: {failure}"}
        show(row)
        return [row]
    if not is_compiling:
        return [measure(case, way, call, workload, watch) for way, call in workload.ways.items()]
    if workload.compiled is None:
        return []
    torch.compiler.reset()
    function, arguments = workload.compiled
    compiled = torch.compile(function, dynamic=False)
    return [measure(case, "torch.compile of unfused", lambda: compiled(*arguments), workload, watch)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="operators, separated by commas: " + ", ".join(MAKERS))
    parser.add_argument("--rms-linear-configs", action="store_true", help="sweep tilings of RMSNorm -> Linear")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--rounds", type=int, default=30, help="timed calls of an entry")
    parser.add_argument("--seconds", type=float, default=220, help="start nothing new after this time")
    parser.add_argument("--json", type=Path, help="where to write the rows")
    parser.add_argument("--dry-run", action="store_true", help="tiny sizes, on the CPU if there is no GPU")
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cpu" and not arguments.dry_run:
        parser.error("no CUDA device here; --dry-run tries the script out on the CPU")
    deadline_s = time.monotonic() + arguments.seconds
    torch.manual_seed(time.time_ns() % 2**31)
    source = Source(device, torch.bfloat16 if device.type == "cuda" else torch.float32)
    watch = Stopwatch(device, 3 if arguments.dry_run else arguments.rounds)
    configurations = DRY_CONFIGURATIONS if arguments.dry_run else CONFIGURATIONS
    names = arguments.only.split(",") if arguments.only else list(MAKERS)
    if arguments.rms_linear_configs:
        from benchmarks.rms_norm_linear_sweep import sweep  # noqa: PLC0415 (needs Triton)

        rows = sweep(configurations, source, watch, deadline_s)
    else:
        # Compiling takes seconds an operator, so it comes last, where the time may run out.
        passes = (False,) if arguments.no_compile else (False, True)
        rows = run_operators(names, configurations, source, watch, passes, deadline_s)
    if arguments.json:
        where = torch.cuda.get_device_name() if device.type == "cuda" else "CPU"
        report = {"device": where, "torch": torch.__version__, "rows": rows}
        arguments.json.write_text(json.dumps(report, indent=1))
    failures = sum("failure" in row for row in rows)
    print(f"{len(rows)} entries, {failures} failed")


if __name__ == "__main__":
    main()
