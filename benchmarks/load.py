"""What large suites, many sessions, long pools and much output cost the controller, in time and memory.

    python -m benchmarks.load [cases] [sessions] [pool] [output]

Each figure comes from a process of its own, with what it waits for in other processes left out. The collector of
tests/examples/clock_collector measures: it needs neither a GPU nor a profiler, and its records are small.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COLLECTOR = ROOT / "tests/examples/clock_collector"

CASES, MODULES = 2000, 20
SESSIONS = 10_000
RUNS, POOL_CASES = 500, 20
OUTPUT_BYTES = 1 << 30

# Says at its end what the process itself has used, a worker's process excepted.
PROBE = """
import atexit, json, os, resource

def pytest_configure(config):
    if config.pluginmanager.hasplugin("nsight-worker"):
        return
    own = os.getpid()

    def report():
        if os.getpid() == own:
            used = resource.getrusage(resource.RUSAGE_SELF)
            with open("used.json", "w") as file:
                json.dump([used.ru_utime + used.ru_stime, used.ru_maxrss / 1024], file)

    atexit.register(report)
"""
MODULE = """
import pytest

@pytest.mark.nsight(rest="0s", warmup=1)
@pytest.mark.parametrize("number", range({count}))
def test_case(nsight, number):
    nsight(sum, range(1000))
"""
PRINTS = """
import os
import pytest

LINE = b"x" * 99 + bytes([10])

@pytest.mark.nsight(rest="0s", warmup=1)
def test_prints(nsight):
    nsight(sum, range(1000))
    for _ in range({count} // 1_000_000):
        os.write(1, LINE * 10_000)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("which", nargs="*", metavar="LOAD", default=list(LOADS))
    for name in parser.parse_args().which:
        with tempfile.TemporaryDirectory(prefix="load-") as folder:
            LOADS[name](Path(folder))


def run(folder: Path, *arguments: str) -> tuple[float, float, str]:
    """CPU seconds and peak MB of the controller, and its output."""
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (folder / "load_probe.py").write_text(PROBE, encoding="utf-8")
    path = os.pathsep.join(filter(None, (str(folder), str(COLLECTOR), os.environ.get("PYTHONPATH"))))
    command = [
        *(sys.executable, "-m", "pytest", "-p", "load_probe", "-p", "no:cacheprovider", "-q", "--nsight"),
        *arguments,
    ]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(done.stdout[-3000:] + done.stderr[-3000:])
    seconds, megabytes = json.loads((folder / "used.json").read_text(encoding="utf-8"))
    return seconds, megabytes, done.stdout


LIVE = ("--nsight-collector=clock", "--nsight-no-canaries", "--nsight-rounds=10")


def write_cases(folder: Path, cases: int, modules: int) -> None:
    for number in range(modules):
        text = MODULE.format(count=cases // modules)
        (folder / f"test_module_{number}.py").write_text(text, encoding="utf-8")


def load_cases(folder: Path) -> None:
    """A session of many cases: all of it, then its judging alone, which a replay is."""
    write_cases(folder, CASES, MODULES)
    seconds, megabytes, _ = run(folder, *LIVE, "--nsight-runs=1", "--nsight-keep")
    print(f"{CASES} cases, one run, live: {seconds:.1f} s of the controller, {megabytes:.0f} MB")
    (session,) = (folder / ".nsight").glob("2*")
    seconds, megabytes, _ = run(folder, f"--nsight-replay={session}")
    print(f"{CASES} cases, one run, collected and judged (replay): {seconds:.1f} s, {megabytes:.0f} MB")


def load_sessions(folder: Path) -> None:
    """One small session beside many old ones, half of them kept."""
    write_cases(folder, 1, 1)
    before, _, _ = run(folder, *LIVE, "--nsight-runs=1")
    for number in range(SESSIONS):
        old = folder / f".nsight/2025{number // 28 % 12 + 1:02}{number % 28 + 1:02}-120000-{number:04x}"
        (old / "run-001").mkdir(parents=True)
        names = ("run-001/manifest.jsonl", "result.json", "session.json", *(("kept",) if number % 2 else ()))
        for name in names:
            (old / name).touch()
            os.utime(old / name, (1e9, 1e9))
        for place in (old / "run-001", old):
            os.utime(place, (1e9, 1e9))
    first, _, _ = run(folder, *LIVE, "--nsight-runs=1")
    then, megabytes, _ = run(folder, *LIVE, "--nsight-runs=1")
    print(
        f"a session of one case: {before:.2f} s alone; {first:.2f} s beside {SESSIONS} sessions, half "
        f"removed; {then:.2f} s beside the other half; {megabytes:.0f} MB"
    )


def load_pool(folder: Path) -> None:
    """The report on a long pool, and its size."""
    sys.path.insert(0, str(ROOT))
    from pytest_nsight.calibrate.pool import write_pool  # noqa: PLC0415
    from tests.calibrate.pools import Sessions, make_pool  # noqa: PLC0415

    path = folder / "pool.json.gz"
    write_pool(path, make_pool(Sessions(runs=RUNS, subjects=POOL_CASES, rounds=30)))
    code = f"""
import resource
from pathlib import Path
from pytest_nsight.calibrate.command import calibrate
calibrate([Path({str(path)!r})], stored=5, resamples=200, seed=1)
used = resource.getrusage(resource.RUSAGE_SELF)
print(f"{{used.ru_utime + used.ru_stime:.1f}} s, {{used.ru_maxrss / 1024:.0f}} MB")
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    size = path.stat().st_size / 1e6
    print(f"pool of {POOL_CASES} cases, {RUNS} runs each ({size:.1f} MB): {done.stdout.strip()}")


def load_output(folder: Path) -> None:
    """A test that writes a gigabyte to stdout."""
    (folder / "test_prints.py").write_text(PRINTS.format(count=OUTPUT_BYTES), encoding="utf-8")
    seconds, megabytes, _ = run(folder, *LIVE, "--nsight-runs=1", "-s")
    logs = sum(path.stat().st_size for path in folder.rglob("worker.log")) / 1e6
    print(
        f"{OUTPUT_BYTES / 1e9:.1f} GB of output: {seconds:.1f} s, {megabytes:.0f} MB of memory, "
        f"{logs:.0f} MB of log stay"
    )


LOADS: dict[str, Callable[[Path], None]] = {
    "cases": load_cases,
    "sessions": load_sessions,
    "pool": load_pool,
    "output": load_output,
}

if __name__ == "__main__":
    main()
