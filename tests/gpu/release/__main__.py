"""What a release must show on GPUs, on a machine with boards of one model.

    python -m tests.gpu.release FOLDER identity,foreign,forced --boards 2 --device-time 1600 --wait 560
    python -m tests.gpu.release FOLDER --wait 560
    RELEASE_BASELINES=RESULTS python -m tests.gpu.release FOLDER elsewhere

The first command starts a process of its own that runs steps: each board takes the next one of the list, as long
as the device time allows it. The second waits on. Both end after so many seconds at most, or when all is done, and
print what has ended. FOLDER/results has the log and the result of each step as soon as it has ended, so whatever
ends the machine loses one step of each board.
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
from tests.gpu.release.queue import StepQueue
from tests.gpu.release.steps import PLANS, STEPS

_PROJECT = Path(__file__).resolve().parents[3]
_DONE = "done"


def run(folder: Path, names: Sequence[str], boards: int, device_time_s: float) -> None:
    """Runs steps, until all have ended or none fits into the device time that is left."""
    deadline_s, lock = time.monotonic() + device_time_s, threading.Lock()
    lanes = [Lane(board, folder / f"lane-{board}", folder / "results", deadline_s, lock) for board in range(boards)]
    for lane in lanes:
        lane.prepare(_PROJECT)
    queue = StepQueue({name: STEPS[name] for name in names}, boards)

    def follow(lane: Lane) -> None:
        while name := queue.take(lane.number, lambda: lane.left_s):
            try:
                lane.attempt(name, STEPS[name].do)
            finally:
                queue.end(lane.number)

    threads = [threading.Thread(target=follow, args=(lane,)) for lane in lanes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def wait(folder: Path, seconds: float) -> str:
    """Waits for the end; a line for each command that has ended."""
    deadline_s = time.monotonic() + seconds
    while time.monotonic() < deadline_s and not (folder / _DONE).exists():
        time.sleep(0.5)
    ended = folder / "results/steps.jsonl"
    lines = [] if (folder / _DONE).exists() else ["not all has ended"]
    for step in map(json.loads, ended.read_text().splitlines() if ended.exists() else ()):
        verdicts = ", ".join(f"{count} {verdict}" for verdict, count in step["verdicts"].items())
        ending = verdicts or step["last"].strip("= ")
        lines.append(f"{step['step']}: exit code {step['code']}, {step['seconds']} s, {ending}")
    return "\n".join(lines)


def main() -> int:
    """Starts what is asked for, and waits."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.release")
    parser.add_argument("folder", type=Path, help="of lanes and results; steps begin in an empty one")
    plans = f"in this order; a plan is {', '.join(PLANS)}, or a step of steps.py"
    parser.add_argument("plans", nargs="?", metavar="PLAN,...", help=plans)
    parser.add_argument("--boards", type=int, default=1, help="how many the machine has (default: 1)")
    parser.add_argument("--device-time", type=float, default=3600, help="seconds until it ends (default: 3600)")
    parser.add_argument("--wait", type=float, default=560, help="seconds to wait at most (default: 560)")
    parser.add_argument("--here", action="store_true", help="run the steps in this process")
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    asked = arguments.plans.split(",") if arguments.plans else []
    names = [name for plan in asked for name in PLANS.get(plan, [plan])]
    if unknown := sorted(set(names) - set(STEPS)):
        parser.error(f"there is no plan and no step {', '.join(unknown)}; the steps are {', '.join(STEPS)}")
    if arguments.here:
        run(folder, names, arguments.boards, arguments.device_time)
        (folder / _DONE).touch()
        return 0
    if names:
        (folder / "results").mkdir(parents=True)
        with (folder / "results/release.log").open("wb") as log:
            options = [f"--boards={arguments.boards}", f"--device-time={arguments.device_time}", "--here"]
            command = [sys.executable, "-m", "tests.gpu.release", str(folder), ",".join(names), *options]
            subprocess.Popen(command, cwd=_PROJECT, stdout=log, stderr=log, start_new_session=True)
    print(wait(folder, arguments.wait))
    return 0


if __name__ == "__main__":
    sys.exit(main())
