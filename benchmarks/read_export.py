"""Times reading and measuring an export, and compares with other tools that attribute kernels to ranges.

``python benchmarks/read_export.py 1000000`` generates an export once (kept where --keep says, else in a temporary
folder; generating is not timed) and times reading, attributing and measuring it. The wall time means something
only on an idle machine; the processor time does always.

``python benchmarks/read_export.py 20000 --compare [--nsys-ai PROGRAM]`` gives the same export to this project,
to `nsys stats` (report nvtxgpuproj of versions up to 2023.3, nvtx_gpu_proj_trace of later ones) and to nsys-ai
(skill nvtx_layer_breakdown), each in a process of its own, start-up included. What is not installed is named
and left out.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pytest_nsight.collect.nsys.read import read
from pytest_nsight.trace.measures import measure
from tests.synthetic_export import write_synthetic_export

ROOT = Path(__file__).resolve().parents[1]
RENAMED = (2023, 4)
"""From this version on the reports of `nsys stats` have their present names."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", type=int, nargs="?", default=1_000_000)
    parser.add_argument("--ranges", type=int, default=None, help="default: a tenth of the kernels")
    parser.add_argument("--keep", type=Path, default=None, help="folder that keeps the generated export")
    parser.add_argument("--compare", action="store_true", help="time other tools on the same export")
    parser.add_argument("--nsys-ai", default="nsys-ai", help="program of the package nsys-ai")
    parser.add_argument("--limit", type=float, default=600, help="seconds that another tool may take")
    arguments = parser.parse_args()
    ranges = arguments.ranges or max(arguments.kernels // 10, 1)
    with tempfile.TemporaryDirectory() as temporary:
        path = (arguments.keep or Path(temporary)).absolute() / f"synthetic_{arguments.kernels}_{ranges}.sqlite"
        if not path.exists():
            write_synthetic_export(path, kernels=arguments.kernels, ranges=ranges)
        print(f"{arguments.kernels} kernels, {ranges} ranges, {path.stat().st_size / 1e6:.0f} MB")
        print(f"load of the machine over the last minute: {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores")
        if arguments.compare:
            compare(path, arguments.nsys_ai, arguments.limit)
        else:
            time_phases(path, arguments.kernels)


def time_phases(path: Path, kernels: int) -> None:
    """Reads and measures in this process; fails if a kernel was lost."""
    walls, processors = [time.perf_counter()], [time.process_time()]
    trace = read(path)
    walls.append(time.perf_counter())
    processors.append(time.process_time())
    measured = measure(trace)
    walls.append(time.perf_counter())
    processors.append(time.process_time())
    found = int(measured.ranges["launches"].sum())
    if found != kernels:
        sys.exit(f"{found} of {kernels} kernels were attributed")
    for name, first, last in (("read", 0, 1), ("attribute and measure", 1, 2), ("in all", 0, 2)):
        wall_s, processor_s = walls[last] - walls[first], processors[last] - processors[first]
        print(f"{name:22} {wall_s:6.2f} s, {processor_s:6.2f} s of processor time")
    print(f"{'peak memory':22} {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:6.0f} MB")


def compare(path: Path, nsys_ai: str, limit_s: float) -> None:
    """Times each tool on the same export."""
    mine = f"from pathlib import Path; from benchmarks.read_export import *; measure(read(Path({str(path)!r})))"
    run("this project", [sys.executable, "-c", mine], path, limit_s)
    nsys = shutil.which("nsys")
    if nsys is None:
        print("nsys stats: no nsys on PATH")
    else:
        report = "nvtx_gpu_proj_trace" if version_of(nsys) >= RENAMED else "nvtxgpuproj"
        name = f"nsys {'.'.join(map(str, version_of(nsys)))} stats"
        run(name, [nsys, "stats", "--report", report, "--format", "csv", "{export}"], path, limit_s)
    program = shutil.which(nsys_ai)
    if program is None:
        print(f"nsys-ai: there is no program {nsys_ai}; pip install nsys-ai into an environment of its own")
    else:
        skill = [program, "skill", "run", "nvtx_layer_breakdown", "{export}", "--format", "json"]
        run("nsys-ai nvtx_layer_breakdown", skill, path, limit_s)


def version_of(nsys: str) -> tuple[int, ...]:
    told = subprocess.run([nsys, "--version"], capture_output=True, text=True, check=True).stdout
    word = next(word for word in told.split() if word[:4].isdecimal() and "." in word)
    return tuple(int(part) for part in word.partition("-")[0].split(".")[:2])


def run(name: str, command: Sequence[str], path: Path, limit_s: float) -> None:
    """Runs a tool on a copy of the export, since some write beside it, in a folder without any report for nsys."""
    with tempfile.TemporaryDirectory() as folder:
        export = Path(folder, "exports", "export.sqlite")
        export.parent.mkdir()
        shutil.copyfile(path, export)
        place = Path(folder, "empty")
        place.mkdir()
        words = [word.replace("{export}", str(export)) for word in command]
        environ = {**os.environ, "PYTHONPATH": str(ROOT)}
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        try:
            done = subprocess.run(
                words, cwd=place, env=environ, capture_output=True, text=True, timeout=limit_s, check=False
            )
        except subprocess.TimeoutExpired:
            print(f"{name:28} not done after {limit_s:.0f} s")
            return
        wall_s, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        print(f"{name:28} failed with code {done.returncode}: {(done.stderr or done.stdout).strip()[-200:]}")
        return
    processor_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    remark = (
        " (without DuckDB, whose extension it could not load)" if "falling back to sqlite3" in done.stderr else ""
    )
    print(f"{name:28} {wall_s:7.2f} s, {processor_s:7.2f} s of processor time{remark}")


if __name__ == "__main__":
    main()
