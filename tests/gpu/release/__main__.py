"""What a release must show on GPUs, on a machine with two boards of one model, or four, or one.

    python -m tests.gpu.release FOLDER identity,answers,foreign --seconds 560
    python -m tests.gpu.release FOLDER identity,foreign study,forced --seconds 560
    python -m tests.gpu.release FOLDER identity,foreign --alone --seconds 560
    RELEASE_BASELINES=STORED python -m tests.gpu.release FOLDER elsewhere --alone --seconds 560
    python -m tests.gpu.release FOLDER --seconds 300

All but the last one start plans in a process of its own and wait; each list is for a pair of boards, or for the
only one, which does both halves of each plan. `elsewhere` checks by FOLDER/results/baselines-0 of another machine.
The last command waits on. All end after so many seconds at most, or when all is done, and print what has ended.
FOLDER/results has the log and the result of each step as soon as it has ended, so whatever ends the machine loses
one step of each board.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from tests.gpu.release.lane import Lane
from tests.gpu.release.plans import PLANS, PROJECT

_DONE = "done"
_MOST_PAIRS = 2


def run(folder: Path, pairs: Sequence[Sequence[str]], *, is_alone: bool) -> None:
    """Runs the plans of each pair of boards one after the other, on each board for itself."""
    ended, lock = set[str](), threading.Lock()
    lanes = [
        Lane(number, is_alone, folder / f"lane-{number}", folder / "results", ended, lock)
        for number in range(1 if is_alone else 2 * len(pairs))
    ]
    for lane in lanes:
        lane.prepare(PROJECT)

    def follow(lane: Lane) -> None:
        try:
            for name in pairs[lane.number // 2]:
                PLANS[name](lane)
        finally:
            lane.finish()

    threads = [threading.Thread(target=follow, args=(lane,)) for lane in lanes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def wait(folder: Path, seconds: float) -> str:
    """Waits for the end; a line for each step that has ended."""
    deadline_s = time.monotonic() + seconds
    while time.monotonic() < deadline_s and not (folder / _DONE).exists():
        time.sleep(0.5)
    steps = folder / "results/steps.jsonl"
    lines = [] if (folder / _DONE).exists() else ["not all has ended"]
    for step in map(json.loads, steps.read_text().splitlines() if steps.exists() else ()):
        verdicts = ", ".join(f"{count} {verdict}" for verdict, count in step["verdicts"].items())
        ending = verdicts or step["last"].strip("= ")
        lines.append(f"{step['step']}: exit code {step['code']}, {step['seconds']} s, {ending}")
    return "\n".join(lines)


def main() -> int:
    """Starts what is asked for, and waits."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.release")
    parser.add_argument("folder", type=Path, help="of lanes and results; plans begin in an empty one")
    parser.add_argument("plans", nargs="*", metavar="PLAN,...", help=f"for each pair of boards: {', '.join(PLANS)}")
    parser.add_argument("--seconds", type=float, default=560, help="to wait at most (default: 560)")
    parser.add_argument("--alone", action="store_true", help="the machine has one board")
    parser.add_argument("--here", action="store_true", help="run the plans in this process")
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    pairs = [names.split(",") for names in arguments.plans]
    if unknown := {name for names in pairs for name in names} - set(PLANS):
        parser.error(f"there is no plan {', '.join(sorted(unknown))}")
    if arguments.alone and len(pairs) > 1:
        parser.error("one board does one list: write its plans with commas")
    if len(pairs) > _MOST_PAIRS:
        parser.error(f"{len(pairs)} lists are for {2 * len(pairs)} boards: write the plans of a pair with commas")
    if arguments.here:
        run(folder, pairs, is_alone=arguments.alone)
        (folder / _DONE).touch()
        return 0
    if arguments.plans:
        (folder / "results").mkdir(parents=True)
        with (folder / "results/release.log").open("wb") as log:
            options = ["--here", *(["--alone"] if arguments.alone else [])]
            command = [sys.executable, "-m", "tests.gpu.release", str(folder), *arguments.plans, *options]
            subprocess.Popen(command, cwd=PROJECT, stdout=log, stderr=log, start_new_session=True)
    print(wait(folder, arguments.seconds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
