"""One process that measures all cases with one collector; prints one JSON line.

    python -m benchmarks.cupti.measure --with cupti [--rounds 50] [--only tiny,chain]

A round is as the plugin's: flush of the cache, synchronise, body, synchronise. Records belong to the round in whose
time they begin. `none` measures wall time alone, which shows what a collector costs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from benchmarks.context.direct import middle_half
from benchmarks.cupti.cases import CASES, Body, CollectorCase
from pytest_nsight.recorders.cupti.activity import ActivityRecorder, list_activities
from pytest_nsight.recorders.cupti.library import Cupti
from pytest_nsight.recorders.cupti.record_layouts import DRIVER, RUNTIME

COLLECTORS = ("cupti", "cupti-api", "torch", "none")
_WARMUP = 5


@dataclass(frozen=True, slots=True)
class DeviceWork:
    """A kernel, copy or set: when it began and how long it took, on its recorder's clock."""

    start_ns: int
    duration_ns: int


class Recorder(Protocol):
    """What records the device's work of one case."""

    def now_ns(self) -> int:
        """The time on the clock of the records."""

    def start(self) -> None:
        """Begins."""

    def stop(self) -> list[DeviceWork]:
        """Ends, and gives all work in the order of its start."""


class CuptiRecorder:
    """CUPTI's activity records."""

    def __init__(self, *, with_calls: bool = False) -> None:
        """Prepares; `with_calls` records the host's API calls, too, as nsys does."""
        self._cupti = Cupti()
        self._recorder = ActivityRecorder(self._cupti)
        self._more = (RUNTIME, DRIVER) if with_calls else ()

    @property
    def dropped(self) -> int:
        """Records that CUPTI says it lost."""
        return self._recorder.dropped

    def now_ns(self) -> int:
        """CUPTI's clock."""
        return self._cupti.now_ns()

    def start(self) -> None:
        """Begins to record."""
        self._recorder.start((10, 1, 2, *self._more))

    def stop(self) -> list[DeviceWork]:
        """Ends, and gives the device's work."""
        own = [one for one in list_activities(self._recorder.collect()) if one.is_on_device]
        self._recorder.disable()
        own.sort(key=lambda one: one.start_ns)
        return [DeviceWork(one.start_ns, one.end_ns - one.start_ns) for one in own]


class TorchRecorder:
    """torch.profiler's records."""

    dropped = 0

    def __init__(self) -> None:
        self._profile: Any = None

    def now_ns(self) -> int:
        """Time since the epoch."""
        return time.time_ns()

    def start(self) -> None:
        """Begins to record."""
        self._profile = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA])
        self._profile.__enter__()

    def stop(self) -> list[DeviceWork]:
        """Ends, and gives the device's work."""
        self._profile.__exit__(None, None, None)
        device = torch.autograd.DeviceType.CUDA
        events = [e for e in self._profile.profiler.kineto_results.events() if e.device_type() == device]
        return sorted((DeviceWork(e.start_ns(), e.duration_ns()) for e in events), key=lambda one: one.start_ns)


class NoRecorder:
    """Records nothing."""

    dropped = 0

    def now_ns(self) -> int:
        """Time since the epoch."""
        return time.time_ns()

    def start(self) -> None:
        """Does nothing."""

    def stop(self) -> list[DeviceWork]:
        """Gives nothing."""
        return []


@dataclass(slots=True)
class Rounds:
    """The rounds of one case.

    Attributes:
        begins_ns: on the recorder's clock.
        ends_ns: likewise.
        walls_ns: on the host's clock.
    """

    begins_ns: list[int] = field(default_factory=list)
    ends_ns: list[int] = field(default_factory=list)
    walls_ns: list[int] = field(default_factory=list)


def run_rounds(body: Body, rounds: int, flush: Body, wait: Body, now_ns: Callable[[], int]) -> Rounds:
    """Runs the rounds of one case, warm-up first."""
    done = Rounds()
    for index in range(_WARMUP + rounds):
        flush()
        wait()
        began_ns, start_ns = now_ns(), time.perf_counter_ns()
        body()
        wait()
        wall_ns, ended_ns = time.perf_counter_ns() - start_ns, now_ns()
        if index >= _WARMUP:
            done.begins_ns.append(began_ns)
            done.ends_ns.append(ended_ns)
            done.walls_ns.append(wall_ns)
    return done


def assign(work: Sequence[DeviceWork], rounds: Rounds) -> list[list[int]]:
    """The durations of each round's work, by where its start lies; work between rounds is left out."""
    found: list[list[int]] = [[] for _ in rounds.begins_ns]
    for one in work:
        index = bisect_right(rounds.begins_ns, one.start_ns) - 1
        if index >= 0 and one.start_ns < rounds.ends_ns[index]:
            found[index].append(one.duration_ns)
    return found


def summarize(case: CollectorCase, work: Sequence[DeviceWork], rounds: Rounds) -> dict[str, Any]:
    """What is kept of a case: times in ns, launches per round, and rounds with another number than is right."""
    per_round = assign(work, rounds)
    counts = [len(durations) for durations in per_round]
    expected = case.launches if case.launches is not None else statistics.mode(counts or [0])
    sums = [sum(durations) for durations in per_round]
    return {
        "case": case.name,
        "mean_ns": round(statistics.fmean(middle_half(sums)), 1),
        "wall_ns": round(statistics.fmean(middle_half(rounds.walls_ns))),
        "launches": expected,
        "wrong_rounds": sum(count != expected for count in counts),
        "missing_launches": sum(max(0, expected - count) for count in counts),
        "records": len(work),
    }


@contextmanager
def timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    """Adds the time of what it encloses under a name."""
    began_s = time.perf_counter()
    yield
    seconds[name] = round(seconds.get(name, 0.0) + time.perf_counter() - began_s, 4)


def make_recorder(name: str) -> CuptiRecorder | TorchRecorder | NoRecorder:
    """A recorder by name."""
    if name == "torch":
        return TorchRecorder()
    return NoRecorder() if name == "none" else CuptiRecorder(with_calls=name == "cupti-api")


def measure_all(name: str, rounds: int, only: Sequence[str]) -> dict[str, Any]:
    """Measures every case.

    Raises:
        CuptiError: CUPTI refuses.
    """
    device = "cuda" if torch.cuda.is_available() else "cpu"
    wait: Body = torch.cuda.synchronize if device == "cuda" else lambda: None
    spill_bytes = 2 * torch.cuda.get_device_properties(0).L2_cache_size if device == "cuda" else 1 << 16
    spill = torch.empty(spill_bytes, dtype=torch.uint8, device=device)
    wait()
    seconds: dict[str, float] = {}
    with timed(seconds, "prepare"):
        recorder = make_recorder(name)
    results = []
    for case in CASES:
        if (only and case.name not in only) or (case.needs_gpu and device == "cpu"):
            continue
        with timed(seconds, "start"):
            recorder.start()
        # While recording, as in a process that nsys watches: of graphs made before, some profilers see no nodes.
        body = case.build(device)
        with timed(seconds, "rounds"):
            done = run_rounds(body, rounds, spill.zero_, wait, recorder.now_ns)
        with timed(seconds, "stop and read"):
            work = recorder.stop()
        results.append(summarize(case, work, done))
    return {"collector": name, "dropped": recorder.dropped, "seconds": seconds, "cases": results}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--with", dest="collector", choices=COLLECTORS, default="cupti")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--only", default="", help="names of cases, with commas between")
    options = parser.parse_args(arguments)
    only = [name for name in options.only.split(",") if name]
    began_s = time.perf_counter()
    result = measure_all(options.collector, options.rounds, only)
    result["seconds"]["all"] = round(time.perf_counter() - began_s, 2)
    print(json.dumps({"finding": "process", **result}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
