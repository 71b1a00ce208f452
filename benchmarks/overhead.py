"""What the plugin itself costs: a run under the collector against the same run without one, and pytest's start.

    python -m benchmarks.overhead [--collector nsys] [tests ...]

A run is timed from the start of the worker process until its trace is read and attributed; the same worker with
the same cases and rounds then runs plainly, and the pauses between rounds are subtracted from both.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pytest_nsight.collectors.base import Collector, RecordingOptions
from pytest_nsight.collectors.lookup import choose
from pytest_nsight.processes.child_process import start
from pytest_nsight.protocol.job import Assignment, Job
from pytest_nsight.protocol.manifest import FILE_NAME, Manifest
from pytest_nsight.protocol.manifest_reader import read_manifest
from pytest_nsight.protocol.parent_pipe import PipeToWorker
from pytest_nsight.protocol.worker_start import start_command
from pytest_nsight.trace.measures import measure
from pytest_nsight.trace.run_summary import summarise


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", nargs="*", default=["perf_tests"])
    parser.add_argument("--collector", choices=("nsys", "torch"), default="nsys")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    collector, _ = choose(options.collector, RecordingOptions(), strict=True)
    cases = collect_cases(options.tests)
    plain_s, recorded_s = [], []
    for _ in range(options.repeats):
        plain_s.append(time_plain_s(cases, options.tests))
        recorded_s.append(time_recorded_s(collector, cases, options.tests))
    plain, recorded = statistics.median(plain_s), statistics.median(recorded_s)
    print(f"{len(cases)} cases, {collector.title}, medians of {options.repeats}, rests subtracted")
    print(f"run, plainly {plain:.2f} s, recorded and read {recorded:.2f} s, ratio {recorded / plain:.2f}")
    without, within = time_start_s("-p", "no:nsight"), time_start_s()
    print(
        f"pytest --version: {1e3 * without:.0f} ms without the plugin, {1e3 * (within - without):+.1f} ms with it"
    )


def collect_cases(tests: list[str]) -> tuple[str, ...]:
    """Node ids of the tests."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *tests]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return tuple(line for line in listing.splitlines() if "::" in line)


def time_plain_s(cases: tuple[str, ...], tests: list[str]) -> float:
    """A worker without any tool: its NVTX ranges reach nobody."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_job(folder, "nsys", cases, tests)
        began_s = time.perf_counter()
        worker = start_command("pytest_nsight.worker.worker_process", folder)
        start(worker, folder / "worker.log", Path.cwd(), dict(os.environ)).wait()
        return time.perf_counter() - began_s - rests_s(read_manifest(folder / FILE_NAME))


def time_recorded_s(collector: Collector, cases: tuple[str, ...], tests: list[str]) -> float:
    """A worker under the collector, its trace read and summarised."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_job(folder, collector.name, cases, tests)
        began_s = time.perf_counter()
        worker = start_command("pytest_nsight.worker.worker_process", folder)
        collector.start(worker, folder, Path.cwd(), dict(os.environ)).wait()
        trace = collector.collect(folder)
        manifest = read_manifest(folder / FILE_NAME)
        summaries, problems = summarise(manifest, measure(trace))
        spent_s = time.perf_counter() - began_s
        assert summaries, problems
        assert not problems
        return spent_s - rests_s(manifest)


def write_job(folder: Path, collector: str, cases: tuple[str, ...], tests: list[str]) -> None:
    """The same job for both."""
    Job(
        run="overhead/001",
        session="overhead",
        recorded="",
        commit="",
        collector=collector,
        rounds=None,
        arguments=(*tests, "-p", "no:cacheprovider"),
        path=tuple(sys.path),
        environment={},
    ).write(folder)
    PipeToWorker(folder).send(Assignment(cases))


def rests_s(manifest: Manifest) -> float:
    """The pauses between rounds."""
    return sum(one.rest_ns for one in manifest.rounds) / 1e9


def time_start_s(*arguments: str) -> float:
    """The fastest of 20 starts of `pytest --version`."""
    command = [sys.executable, "-m", "pytest", *arguments, "--version"]
    times_s = []
    for _ in range(20):
        began_s = time.perf_counter()
        subprocess.run(command, capture_output=True, check=True)
        times_s.append(time.perf_counter() - began_s)
    return min(times_s)


if __name__ == "__main__":
    main()
