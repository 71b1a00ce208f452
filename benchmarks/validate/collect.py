"""Collects the validation study's data on one board, in one go, and keeps what it has whatever ends it.

    python -m benchmarks.validate.collect FOLDER --minutes 8 --sound 40 --sessions 2
    python -m benchmarks.validate.collect FOLDER --minutes 8 --sound 9 --sessions 1 --confirming 72
    python -m benchmarks.validate.collect FOLDER --minutes 9 --inject 54
    python -m benchmarks.validate.collect FOLDER --minutes 8 --live 20
    python -m benchmarks.validate.collect FOLDER --minutes 8 --live 20 --forced
    python -m benchmarks.validate.collect FOLDER --minutes 8 --against HEAD --live 5
    python -m benchmarks.validate.collect FOLDER --minutes 8 --control hot idle no-warmup reversed co-running

Steps are done in this order: sound pools (each a session of its own, with its confirming runs), the pool of
injected slowdowns, live checks (which compare with a git revision, or with the baselines of --baselines, or with
those that they save first), negative controls. FOLDER/collection.json records what was done; analyse.py reads it.
What follows `--` is pytest's.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SUITE = "benchmarks/validation_suite"
LOG = "collection.json"
IN_SUITE_CONTROLS = ("hot", "idle", "no-warmup", "reversed")
CONTROLS = (*IN_SUITE_CONTROLS, "co-running")
FAILING = ("REGRESSION", "STRUCTURE", "CLAIM")
_MARGIN_S = 15
_GRACE_S = 30


@dataclass
class Collection:
    """What is collected, and the time that is left for it."""

    folder: Path
    deadline_s: float
    arguments: Sequence[str]
    pools: list[dict[str, Any]] = field(default_factory=list)
    live: list[dict[str, Any]] = field(default_factory=list)

    @property
    def left_s(self) -> float:
        """Seconds left."""
        return self.deadline_s - time.monotonic()

    def write(self) -> None:
        """Writes the log whole."""
        draft = self.folder / f".{LOG}"
        text = json.dumps({"collection": 1, "pools": self.pools, "live": self.live}, indent=1)
        draft.write_text(text + "\n", encoding="utf-8")
        draft.replace(self.folder / LOG)

    def pytest(self, arguments: Sequence[str], variables: Mapping[str, str]) -> tuple[int, float]:
        """Runs pytest on the suite; interrupts it when the time is over. Returns exit code and seconds."""
        command = [sys.executable, "-m", "pytest", "--nsight", *arguments, *self.arguments, SUITE]
        began_s = time.monotonic()
        process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, **variables}, start_new_session=True)
        for patience_s, signal_number in ((max(self.left_s, 1), signal.SIGINT), (_GRACE_S, signal.SIGKILL)):
            try:
                process.wait(patience_s)
                break
            except subprocess.TimeoutExpired:
                process.send_signal(signal_number)
        return process.wait(), time.monotonic() - began_s

    def _asked_bands(self) -> list[float]:
        """The band on the command line, as a ratio: all that is known of a check without a result."""
        option = "--nsight-band="
        asked = [argument.removeprefix(option) for argument in self.arguments if argument.startswith(option)]
        return [float(asked[-1].removesuffix("%")) / 100] if asked else []

    def fill(self, name: str, runs: int, *, confirming: int = 0, inject: str = "", control: str = "") -> None:
        """Fills one pool, if there is time."""
        if self.left_s < 2 * _MARGIN_S:
            print(f"no time left for {name}", flush=True)
            return
        path = self._unused(name)
        minutes = (self.left_s - _MARGIN_S) / 60
        arguments = [f"--nsight-pool={path}", f"--nsight-runs={runs}", f"--nsight-pool-minutes={minutes:.2f}", "-q"]
        if confirming:
            arguments.append(f"--nsight-pool-confirming={confirming}")
        if control == "reversed":
            # With a limit on failures every run takes the cases in their order.
            arguments.append("--maxfail=1000000")
        variables = {"NSIGHT_INJECT": inject}
        variables["NSIGHT_CONTROL"] = control if control in IN_SUITE_CONTROLS else ""
        code, seconds = self.pytest(arguments, variables)
        if path.exists():
            self.pools.append(
                {
                    "file": path.name,
                    "inject": inject,
                    "control": control,
                    "exit": code,
                    "seconds": round(seconds, 1),
                }
            )
        print(f"{name}: exit code {code}, {seconds:.0f} s, {self.left_s:.0f} s left", flush=True)
        self.write()

    def _unused(self, name: str) -> Path:
        paths = (self.folder / f"{name}-{number}.json.gz" for number in range(1, 100))
        return next(path.absolute() for path in paths if not path.exists())

    def check(self, baselines: Path, checks: int, *, is_forced: bool = False) -> None:
        """Saves baselines where there are none, then checks against them as a user would."""
        options = [f"--nsight-baselines={baselines.absolute()}", "-q"]
        if not any(baselines.glob("*/*.json")) and self.left_s > 2 * _MARGIN_S:
            code, seconds = self.pytest(["--nsight-save", *options], {})
            print(f"save: exit code {code}, {seconds:.0f} s, {self.left_s:.0f} s left", flush=True)
            if code:
                return
        if is_forced:
            # What is proven to be unchanged would not be timed.
            options += ["-p", "benchmarks.validate.forced_checks", "--nsight-no-identity"]
        self._repeat_check(options, checks, is_forced=is_forced)

    def compare(self, revision: str, checks: int) -> None:
        """Compares the working tree with a revision whose suite is the same, as a user would."""
        self._repeat_check([f"--nsight-against={revision}", "-q"], checks, against=revision)

    def _repeat_check(
        self, options: Sequence[str], checks: int, against: str = "", *, is_forced: bool = False
    ) -> None:
        longest_s = 0.0
        for number in range(1, checks + 1):
            if self.left_s < longest_s + _MARGIN_S:
                print(f"no time left for check {number}", flush=True)
                break
            with tempfile.TemporaryDirectory() as scratch:
                result = Path(scratch, "result.json")
                code, seconds = self.pytest([f"--nsight-json={result}", *options], {})
                judged = read_verdicts(result) or {"verdicts": {}, "failures": [], "bands": self._asked_bands()}
            longest_s = max(longest_s, seconds)
            kind = {"against": against, "forced": is_forced}
            self.live.append({**kind, "exit": code, "seconds": round(seconds, 1), **judged})
            print(f"check {number}: exit code {code}, {seconds:.0f} s, {judged['verdicts']}", flush=True)
            self.write()


def read_verdicts(path: Path) -> dict[str, Any]:
    """What a result says: how many of each verdict, the sentences of those that fail, the bands; {} without one."""
    if not path.exists():
        return {}
    result = json.loads(path.read_text(encoding="utf-8"))
    measured = [entry["extra_info"]["nsight"] for entry in result["benchmarks"]]
    judged = measured + result["nsight"]["unmeasured"]
    return {
        "verdicts": dict(Counter(str(entry["verdict"]) for entry in judged)),
        "failures": [str(entry["sentence"]) for entry in judged if entry["verdict"] in FAILING],
        "bands": sorted({entry["comparison"]["band"] for entry in measured if entry["comparison"]}),
    }


@contextmanager
def co_running(*, wanted: bool) -> Any:
    """Another process that keeps the GPU busy."""
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.validate.burn"], cwd=ROOT) if wanted else None
    try:
        yield
    finally:
        if process is not None:
            process.kill()
            process.wait()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float, default=8.0, help="stop cleanly before this is over")
    parser.add_argument("--sound", type=int, default=0, metavar="N", help="runs of unchanged code, in all sessions")
    parser.add_argument("--sessions", type=int, default=2, help="sessions that these are spread over")
    text = "processes of three cases each, after the runs of every one of these sessions"
    parser.add_argument("--confirming", type=int, default=0, metavar="N", help=text)
    parser.add_argument(
        "--inject", type=int, default=0, metavar="N", help="runs with rotating slowdowns, 54 or more"
    )
    parser.add_argument("--live", type=int, default=0, metavar="N", help="whole checks")
    text = "three random cases of each live check go through all looks"
    parser.add_argument("--forced", action="store_true", help=text)
    compared = parser.add_mutually_exclusive_group()
    compared.add_argument("--baselines", type=Path, help="of the checks (default: FOLDER/baselines)")
    compared.add_argument("--against", default="", metavar="REF", help="compare with this git revision instead")
    parser.add_argument("--control", nargs="*", default=[], choices=CONTROLS)
    parser.add_argument("--control-runs", type=int, default=10, metavar="N")
    given = list(sys.argv[1:] if arguments is None else arguments)
    cut = given.index("--") if "--" in given else len(given)
    options = parser.parse_args(given[:cut])
    if options.forced and options.against:
        parser.error("--forced checks against baselines; leave out --against")
    options.folder.mkdir(parents=True, exist_ok=True)
    collection = Collection(options.folder, time.monotonic() + 60 * options.minutes, given[cut + 1 :])
    log = options.folder / LOG
    if log.exists():
        before = json.loads(log.read_text(encoding="utf-8"))
        collection.pools, collection.live = before["pools"], before["live"]
    for session in range(options.sessions if options.sound else 0):
        share = options.sound // options.sessions + (session < options.sound % options.sessions)
        collection.fill("sound", share, confirming=options.confirming)
    if options.inject:
        collection.fill("inject", options.inject, inject="rotate")
    if options.live and options.against:
        collection.compare(options.against, options.live)
    elif options.live:
        collection.check(options.baselines or options.folder / "baselines", options.live, is_forced=options.forced)
    for control in options.control:
        with co_running(wanted=control == "co-running"):
            collection.fill(control, options.control_runs, control=control)
    collection.write()
    return 0 if collection.pools or collection.live else 1


if __name__ == "__main__":
    sys.exit(main())
