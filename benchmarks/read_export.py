"""Times reading and measuring exports, and compares with other tools that attribute kernels to ranges.

``python benchmarks/read_export.py 1000000 3000000 10000000`` generates an export of each size (kept where --keep
says, else in a temporary folder; generating is not timed) and times reading, attributing and measuring it in a
process of its own. The wall time means something only on an idle machine; the CPU time nearly always.

``python benchmarks/read_export.py 100000 --compare [--nsys-ai PROGRAM]`` gives the same export, one after the
other, to this project, to both reports of `nsys stats` that tie kernels to ranges (nvtxkernsum and nvtxgpuproj of
versions up to 2023.3, nvtx_kern_sum and nvtx_gpu_proj_sum of later ones) and to nsys-ai (nvtx_layer_breakdown
and nvtx_kernel_map), each in a separate process, start-up included. Beside them it shows the time that SQLite alone
takes to find the largest of every value that is read. No reader that uses SQLite can be faster. The cheapest of
--repeat runs counts. A tool that is not installed is named and skipped. A tool that is not done after --limit
seconds is ended, and its time is a lower bound.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pytest_nsight.collectors.nsys import call_tables as read_calls
from pytest_nsight.collectors.nsys import device_tables as read_launches
from pytest_nsight.collectors.nsys import nvtx_table as read_ranges
from pytest_nsight.collectors.nsys.open_export import open_export
from pytest_nsight.collectors.nsys.read import read
from pytest_nsight.trace.measures import measure
from tests.collectors.synthetic_export import write_synthetic_export

ROOT = Path(__file__).resolve().parents[1]
RENAMED = (2023, 4)
"""From this version on the reports of `nsys stats` have their present names."""

SCAN = """
import sqlite3, sys
from concurrent.futures import ThreadPoolExecutor

def look(statement):
    sqlite3.connect("file:{export}?immutable=1", uri=True).execute(statement).fetchone()

with ThreadPoolExecutor() as pool:
    list(pool.map(look, sys.argv[1:]))
"""


class Cost(NamedTuple):
    """What one process took, its children included."""

    wall_s: float
    cpu_s: float
    peak_mb: float
    is_done: bool
    remark: str = ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", type=int, nargs="*", default=[1_000_000])
    parser.add_argument("--ranges", type=int, default=None, help="default: a tenth of the kernels")
    parser.add_argument("--keep", type=Path, default=None, help="folder that keeps the generated exports")
    parser.add_argument("--compare", action="store_true", help="time other tools on the same exports")
    parser.add_argument("--repeat", type=int, default=3, help="times that a tool is run where it takes under 10 s")
    parser.add_argument("--nsys-ai", default="nsys-ai", help="program of the package nsys-ai")
    parser.add_argument("--limit", type=float, default=600, help="seconds that another tool may take")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        for kernels in arguments.kernels:
            ranges = arguments.ranges or max(kernels // 10, 1)
            path = (arguments.keep or Path(temporary)).absolute() / f"synthetic_{kernels}_{ranges}.sqlite"
            if not path.exists():
                write_synthetic_export(path, kernels=kernels, ranges=ranges)
            print(f"{kernels} kernels, {ranges} ranges, {path.stat().st_size / 1e6:.0f} MB")
            print(f"load of the machine over the last minute: {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores")
            if arguments.compare:
                compare(path, arguments.nsys_ai, arguments.limit, arguments.repeat)
            else:
                # A process of its own: the peak of memory of one size would hide that of the next.
                call = f"from benchmarks.read_export import *; time_phases(Path({str(path)!r}), {kernels})"
                environ = {**os.environ, "PYTHONPATH": str(ROOT)}
                subprocess.run([sys.executable, "-c", call], env=environ, cwd=ROOT, check=True)


def time_phases(path: Path, kernels: int) -> None:
    """Reads and measures in this process; fails if a kernel was lost."""
    walls, cpu_times = [time.perf_counter()], [time.process_time()]
    trace = read(path)
    walls.append(time.perf_counter())
    cpu_times.append(time.process_time())
    measured = measure(trace)
    walls.append(time.perf_counter())
    cpu_times.append(time.process_time())
    found = int(measured.ranges["launches"].sum())
    if found != kernels:
        sys.exit(f"{found} of {kernels} kernels were attributed")
    for name, first, last in (("read", 0, 1), ("attribute and measure", 1, 2), ("in all", 0, 2)):
        wall_s, cpu_s = walls[last] - walls[first], cpu_times[last] - cpu_times[first]
        print(f"{name:22} {wall_s:6.2f} s, {cpu_s:6.2f} s of CPU time")
    print(f"{'peak memory':22} {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:6.0f} MB")


def compare(path: Path, nsys_ai: str, limit_s: float, repeat: int) -> None:
    """Times each tool on the same export and prints how many times this project's time it takes."""
    mine = f"from pathlib import Path; from benchmarks.read_export import *; measure(read(Path({str(path)!r})))"
    own = cheapest([sys.executable, "-c", mine], path, limit_s, repeat)
    show("this project", own, own)
    show("SQLite alone", cheapest([sys.executable, "-c", SCAN, *scans(path)], path, limit_s, repeat), own)
    nsys = shutil.which("nsys")
    if nsys is None:
        print("nsys stats: no nsys on PATH")
    else:
        is_old = version_of(nsys) < RENAMED
        for report in ("nvtxkernsum", "nvtxgpuproj") if is_old else ("nvtx_kern_sum", "nvtx_gpu_proj_sum"):
            command = [nsys, "stats", "--report", report, "--format", "csv", "{export}"]
            name = f"nsys {'.'.join(map(str, version_of(nsys)))} {report}"
            show(name, cheapest(command, path, limit_s, repeat), own)
    program = shutil.which(nsys_ai)
    if program is None:
        print(f"nsys-ai: there is no program {nsys_ai}; pip install nsys-ai into an environment of its own")
    else:
        for skill in ("nvtx_layer_breakdown", "nvtx_kernel_map"):
            command = [program, "skill", "run", skill, "{export}", "--format", "json"]
            show(f"nsys-ai {skill}", cheapest(command, path, limit_s, repeat), own)


def scans(path: Path) -> list[str]:
    """A statement for each table that makes SQLite look at every value that is read of it."""
    export = open_export(path)
    statements = []
    for table, columns in {**read_ranges.COLUMNS, **read_calls.COLUMNS, **read_launches.COLUMNS}.items():
        values = [f"max({column.source})" for column in columns if export.has(table, column.source)]
        statements += [f"SELECT {', '.join(values)} FROM {table}"] if values else []
    return statements


def show(name: str, cost: Cost, own: Cost) -> None:
    bound = "" if cost.is_done else "> "
    print(
        f"{name:30} {bound}{cost.wall_s:7.2f} s, {bound}{cost.cpu_s:7.2f} s of CPU time, "
        f"{cost.peak_mb:6.0f} MB; {bound}{cost.wall_s / own.wall_s:.1f}x wall, "
        f"{bound}{cost.cpu_s / own.cpu_s:.1f}x CPU{cost.remark}"
    )


def cheapest(command: Sequence[str], path: Path, limit_s: float, repeat: int) -> Cost:
    """The run with the least CPU time; what takes long is run once."""
    costs = [run(command, path, limit_s)]
    while len(costs) < repeat and costs[-1].wall_s < 10:
        costs.append(run(command, path, limit_s))
    return min(costs, key=lambda cost: cost.cpu_s)


def version_of(nsys: str) -> tuple[int, ...]:
    version = subprocess.run([nsys, "--version"], capture_output=True, text=True, check=True).stdout
    word = next(word for word in version.split() if word[:4].isdecimal() and "." in word)
    return tuple(int(part) for part in word.partition("-")[0].split(".")[:2])


def run(command: Sequence[str], path: Path, limit_s: float) -> Cost:
    """Runs a tool on a copy of the export, since some write beside it, in a folder without any report for nsys."""
    with tempfile.TemporaryDirectory() as folder:
        export = Path(folder, "exports", "export.sqlite")
        export.parent.mkdir()
        shutil.copyfile(path, export)
        place = Path(folder, "empty")
        place.mkdir()
        words = [word.replace("{export}", str(export)) for word in command]
        environ = {**os.environ, "PYTHONPATH": str(ROOT)}
        with Path(folder, "said").open("w+") as said:
            start = time.perf_counter()
            process = subprocess.Popen(
                words, cwd=place, env=environ, stdout=subprocess.DEVNULL, stderr=said, start_new_session=True
            )
            is_done = True
            while True:
                number, status, used = os.wait4(process.pid, os.WNOHANG)
                if number:
                    break
                if is_done and time.perf_counter() - start > limit_s:
                    is_done = False
                    os.killpg(process.pid, signal.SIGKILL)
                time.sleep(0.01)
            wall_s = time.perf_counter() - start
            process.returncode = os.waitstatus_to_exitcode(status)
            said.seek(0)
            text = said.read()
    if is_done and process.returncode:
        sys.exit(f"{' '.join(words)} failed with code {process.returncode}: {text.strip()[-500:]}")
    is_slower = "falling back to sqlite3" in text
    remark = " (without DuckDB, whose extension it could not load)" if is_slower else ""
    return Cost(wall_s, used.ru_utime + used.ru_stime, used.ru_maxrss / 1e3, is_done, remark)


if __name__ == "__main__":
    main()
