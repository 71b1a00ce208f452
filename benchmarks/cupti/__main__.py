"""The experiment on CUPTI in the process, beside nsys and torch.profiler, on one GPU; 5 minutes at most.

    python -m benchmarks.cupti FOLDER --minutes 5

Prints a JSON line per finding: every process, a comparison of collectors per case (mean, SD between processes, bias
against nsys), what a second subscriber does, the identities of two processes, and which mutations are seen.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.context.direct import middle_half
from pytest_nsight.calibrate.pool import read_pool

ROOT = Path(__file__).parents[2]
SUITE = "benchmarks/cupti/suite"
REFEREE = "nsys"
_PROCESS_LIMIT_S = 60
_POOL = "nsys.pool.gz"
Line = dict[str, Any]


class Budget:
    """What is left of the time, and the file that keeps all lines."""

    def __init__(self, folder: Path, minutes: float) -> None:
        self._end_s = time.monotonic() + 60 * minutes
        self._log = folder / "findings.jsonl"
        self._log.write_text("", encoding="utf-8")

    def left_s(self) -> float:
        """Seconds left."""
        return self._end_s - time.monotonic()

    def say(self, line: Line) -> None:
        """Prints a finding and keeps it."""
        text = json.dumps(line, separators=(",", ":"))
        print(text, flush=True)
        with self._log.open("a", encoding="utf-8") as file:
            file.write(text + "\n")

    def run(self, arguments: Sequence[str], limit_s: float = _PROCESS_LIMIT_S) -> list[Line]:
        """Runs Python; gives the findings that it printed. One that fails is a finding itself."""
        limit_s = max(1.0, min(limit_s, self.left_s()))
        began_s = time.monotonic()
        try:
            done = subprocess.run(
                [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=limit_s, check=False
            )
            code, output, errors = str(done.returncode), done.stdout, done.stdout + done.stderr
        except subprocess.TimeoutExpired as error:
            raw = error.stdout or b""
            output = raw.decode() if isinstance(raw, bytes) else raw
            code, errors = f"over {limit_s:.0f} s", output
        lines = [json.loads(text) for text in output.splitlines() if text.startswith('{"finding"')]
        if code != "0":
            self.say(
                {"finding": "failed", "command": " ".join(arguments)[-200:], "exit": code, "says": errors[-1200:]}
            )
        seconds = round(time.monotonic() - began_s, 1)
        return [line | {"process_seconds": seconds} if line["finding"] == "process" else line for line in lines]


def measure_by_plugin(budget: Budget, folder: Path, runs: int, rounds: int) -> dict[str, list[float]]:
    """Case -> mean per run, in ns, by nsys through the plugin."""
    began_s = time.monotonic()
    arguments = ["-m", "pytest", "--nsight", "--nsight-no-canaries", "-q", "-p", "no:cacheprovider"]
    arguments += [f"--nsight-pool={folder / _POOL}", f"--nsight-runs={runs}", f"--nsight-rounds={rounds}"]
    budget.run([*arguments, SUITE], limit_s=120)
    means: dict[str, list[float]] = {}
    if (folder / _POOL).exists():
        pool = read_pool(folder / _POOL)
        for summary in pool.summaries:
            case = summary.subject.case.rpartition("[")[2].rstrip("]")
            durations = summary.rounds[pool.policies[summary.subject.case].metric]
            means.setdefault(case, []).append(statistics.fmean(middle_half(durations)))
    budget.say({"finding": "session", "collector": REFEREE, "seconds": round(time.monotonic() - began_s, 1)})
    return means


def measure_by_process(budget: Budget, collector: str, runs: int, rounds: int) -> list[Line]:
    """Processes that measure all cases by one collector, one line each."""
    found: list[Line] = []
    for _ in range(runs):
        if budget.left_s() < 10:
            budget.say({"finding": "skipped", "what": f"a process with {collector}", "why": "no time left"})
            break
        lines = budget.run(["-m", "benchmarks.cupti.measure", f"--with={collector}", f"--rounds={rounds}"])
        for line in lines:
            shown = {key: value for key, value in line.items() if key != "cases"}
            shown["wrong_rounds"] = {
                one["case"]: one["wrong_rounds"] for one in line["cases"] if one["wrong_rounds"]
            }
            budget.say(shown)
        found += lines
    return found


def compare_collectors(case: str, means: Mapping[str, Sequence[float]]) -> list[Line]:
    """For each collector mean and SD between processes, and its bias against nsys with its standard error."""
    lines: list[Line] = []
    referee = means.get(REFEREE, ())
    for collector, values in means.items():
        line: Line = {"finding": "collector", "case": case, "collector": collector, "processes": len(values)}
        line["mean_ns"] = round(statistics.fmean(values), 1)
        if len(values) > 1:
            line["sd_percent"] = (
                round(100 * statistics.stdev(values) / line["mean_ns"], 3) if line["mean_ns"] else None
            )
        if collector != REFEREE and len(referee) > 1 and len(values) > 1:
            base = statistics.fmean(referee)
            error = math.sqrt(sum(statistics.variance(v) / len(v) for v in (referee, values)))
            line["bias_percent"] = round(100 * (statistics.fmean(values) / base - 1), 3)
            line["bias_error_percent"] = round(100 * error / base, 3)
        lines.append(line)
    return lines


def compare_walls(lines: Sequence[Line]) -> list[Line]:
    """Host time of a round under each collector, by case, in us."""
    walls: dict[str, dict[str, list[float]]] = {}
    for line in lines:
        for one in line["cases"]:
            walls.setdefault(one["case"], {}).setdefault(line["collector"], []).append(one["wall_ns"] / 1000)
    return [
        {"finding": "wall", "case": case, "us": {name: round(statistics.fmean(v), 1) for name, v in found.items()}}
        for case, found in walls.items()
    ]


def identify_twice(budget: Budget) -> None:
    """Two processes must print the same identities."""
    first, second = (budget.run(["-m", "benchmarks.cupti.identify"], limit_s=90) for _ in range(2))
    digests = [
        {line["case"]: line["digest"] for line in lines if line["finding"] == "identity"}
        for lines in (first, second)
    ]
    for line in first:
        if line["finding"] != "mutation" or not line.get("right"):
            budget.say(line)
    for case, digest in digests[0].items():
        budget.say({"finding": "identity of two processes", "case": case, "same": digests[1].get(case) == digest})
    for line in second:
        if line["finding"] == "identification":
            budget.say(line)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=50)
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    budget = Budget(options.folder, options.minutes)
    means: dict[str, dict[str, list[float]]] = {}
    for case, values in measure_by_plugin(budget, options.folder.resolve(), options.runs, options.rounds).items():
        means.setdefault(case, {})[REFEREE] = values
    lines: list[Line] = []
    identify_twice(budget)
    for collector, runs in (("cupti", options.runs), ("torch", options.runs), ("cupti-api", 2), ("none", 2)):
        lines += measure_by_process(budget, collector, runs, options.rounds)
    for line in lines:
        for one in line["cases"]:
            if line["collector"] != "none":
                means.setdefault(one["case"], {}).setdefault(line["collector"], []).append(one["mean_ns"])
    for case, found in means.items():
        for line in compare_collectors(case, found):
            budget.say(line)
    for line in compare_walls(lines):
        budget.say(line)
    for line in budget.run(["-m", "benchmarks.cupti.subscribers", str(options.folder)], limit_s=120):
        budget.say(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
