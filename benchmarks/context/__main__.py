"""What a tiny kernel's predecessors in its process do to its time: measures it in several contexts, on one GPU.

    python -m benchmarks.context FOLDER --minutes 6
    python -m benchmarks.context FOLDER --minutes 2 --quick --no-direct

Fills a pool of runs per context (CONTEXT.PROLOGUE.NUMBER.pool.gz), runs the direct experiment (direct.jsonl), and
prints what `analyse.py` finds in both, a JSON line per finding. All files are packed into FOLDER/context.tar.gz
after each step, so that a run that is cut off leaves what it has; unpacked, `analyse.py` reads them again.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.context.analyse import print_findings
from benchmarks.context.steps import Step, plan_steps, share_minutes

ROOT = Path(__file__).parents[2]
_DIRECT_S = 90
_GRACE_S = 45
_LAST_WORDS_S = 20


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float, default=6)
    parser.add_argument("--quick", action="store_true", help="one run of everything")
    parser.add_argument("--no-direct", action="store_true", help="leave the direct experiment out")
    parser.add_argument("--rounds", type=int, default=60, help="rounds of a case in a run")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as kept:
        _run_all(options, Path(kept))
    return 0


def _run_all(options: argparse.Namespace, kept: Path) -> None:
    archive = options.folder / "context.tar.gz"
    deadline_s = time.monotonic() + 60 * options.minutes
    if not options.no_direct:
        _run_direct(kept, options.rounds)
        _pack(kept, archive)
    steps = plan_steps(quick=options.quick)
    for index, step in enumerate(steps):
        left_min = (deadline_s - time.monotonic()) / 60
        if left_min < 0.2:
            print(json.dumps({"finding": "skipped", "step": step.name, "why": "no time left"}), flush=True)
            continue
        _fill(kept, step, share_minutes(steps[index:], left_min), options.rounds)
        _pack(kept, archive)
    print_findings(kept)
    _pack(kept, archive)


def _pack(folder: Path, archive: Path) -> None:
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(folder, arcname="context")


def _run_direct(folder: Path, rounds: int) -> None:
    command = [sys.executable, "-m", "benchmarks.context.direct", "--rounds", str(min(rounds, 30))]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=_DIRECT_S, check=False)
        code, output, errors = str(done.returncode), done.stdout, done.stderr
    except subprocess.TimeoutExpired as error:
        code, output, errors = f"over {_DIRECT_S} s", "", str(error)
    (folder / "direct.jsonl").write_text(output, encoding="utf-8")
    if code != "0":
        print(json.dumps({"finding": "failed", "step": "direct", "exit": code, "says": errors[-2000:]}), flush=True)


def _fill(folder: Path, step: Step, minutes: float, rounds: int) -> None:
    command = [sys.executable, "-m", "pytest", "--nsight", "--nsight-no-canaries", "-q", "-p", "no:cacheprovider"]
    command += [f"--nsight-pool={folder / step.name}.pool.gz", f"--nsight-pool-minutes={minutes:.2f}"]
    command += [f"--nsight-runs={step.runs}", f"--nsight-rounds={rounds}", *step.selection]
    log = (folder / f"{step.name}.places.jsonl").resolve()
    environment = {**os.environ, "CONTEXT_PROLOGUE": step.prologue, "CONTEXT_LOG": str(log)}
    began_s = time.monotonic()
    code, output = _run_limited(command, environment, 60 * minutes + _GRACE_S)
    seconds = round(time.monotonic() - began_s, 1)
    line = {"finding": "step", "step": step.name, "runs": step.runs, "seconds": seconds, "exit": code}
    if code != "0":
        line["says"] = output[-2000:]
    print(json.dumps(line), flush=True)


def _run_limited(command: Sequence[str], environment: Mapping[str, str], limit_s: float) -> tuple[str, str]:
    """Exit code and output; a command beyond its time is interrupted, so that pytest writes what it has."""
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    for patience_s, signal_number in ((limit_s, signal.SIGINT), (_LAST_WORDS_S, signal.SIGKILL)):
        try:
            output, _ = process.communicate(timeout=patience_s)
            return str(process.returncode), output
        except subprocess.TimeoutExpired:  # noqa: PERF203 - twice at most
            process.send_signal(signal_number)
    output, _ = process.communicate()
    return "killed", output


if __name__ == "__main__":
    sys.exit(main())
