"""The identity of what a body launches, from one process without nsys.

    python -m benchmarks.cupti.identify

Prints the identity of every case (two processes must print the same), then whether each mutation is seen.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import torch

from benchmarks.cupti.cases import CASES, Body
from benchmarks.cupti.launch_capture import LaunchCapture, ObservedLaunch
from benchmarks.cupti.launch_identity import (
    Difference,
    LaunchIdentity,
    compare,
    describe_arguments,
    digest,
    number_streams,
)
from benchmarks.cupti.machine_code import CubinError, KernelCode, read_kernels
from benchmarks.cupti.mutations import MUTATIONS
from pytest_nsight.collectors.cupti.activity import Activity, ActivityRecorder
from pytest_nsight.collectors.cupti.library import Cupti

_WARMUP = 3
_ROUNDS = 2


@dataclass(frozen=True, slots=True)
class BodyIdentity:
    """What a body launches in a round.

    Attributes:
        launches: those of the first round.
        differences: in what the second round differs.
    """

    launches: tuple[LaunchIdentity, ...]
    differences: tuple[Difference, ...]


class Identifier:
    """Identifies bodies, one after the other.

    Attributes:
        counts: how often the code or the arguments of a launch were found, and how.
        capture: the callbacks.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._cupti = Cupti()
        self._recorder = ActivityRecorder(self._cupti)
        self.capture = LaunchCapture(self._cupti)
        self._codes: dict[str, list[KernelCode]] = {}
        self._cubins_read = 0

    def identify(self, build: Callable[[], Body]) -> BodyIdentity:
        """Builds a body, runs it, and says what a round of it launches."""
        self._recorder.start()
        body = build()
        for _ in range(_WARMUP):
            body()
            torch.cuda.synchronize()
            self._learn_layouts()
        edges_ns = [self._cupti.now_ns()]
        for _ in range(_ROUNDS):
            body()
            torch.cuda.synchronize()
            edges_ns.append(self._cupti.now_ns())
        activities = [one for one in self._recorder.stop() if one.is_on_device]
        rounds = [
            self._identities([one for one in activities if begin <= one.start_ns < end])
            for begin, end in pairwise(edges_ns)
        ]
        self.capture.launches.clear()
        return BodyIdentity(tuple(rounds[0]), tuple(compare(rounds[0], rounds[1])))

    def _learn_layouts(self) -> None:
        """Takes the layout of what the runtime launches from the machine code: the calls do not say it."""
        for launch in self.capture.launches.values():
            if launch.symbol and launch.symbol not in self.capture.layouts:
                for code in self._find_codes(launch.symbol):
                    layout = [(one.offset, one.size) for one in code.parameters]
                    self.capture.layouts[launch.symbol] = layout

    def _identities(self, activities: Sequence[Activity]) -> list[LaunchIdentity]:
        ordered = sorted(activities, key=lambda one: (one.correlation, one.graph_node, one.start_ns))
        streams = number_streams([one.stream for one in ordered])
        return [replace(self._identity(one), stream=stream) for one, stream in zip(ordered, streams, strict=True)]

    def _identity(self, activity: Activity) -> LaunchIdentity:
        if activity.kind != "kernel":
            return LaunchIdentity(activity.kind, activity.name, arguments=(f"{activity.bytes_moved} bytes",))
        launch = None if activity.graph_node else self.capture.launches.get(activity.correlation)
        code = self._choose_code(activity)
        return LaunchIdentity(
            kind="graph node" if activity.graph_node else "kernel",
            name=activity.name,
            code=code.digest if code else "",
            grid=activity.grid,
            block=activity.block,
            cluster=activity.cluster,
            shared_bytes=activity.shared_bytes,
            arguments=self._arguments(launch, code),
        )

    def _arguments(self, launch: ObservedLaunch | None, code: KernelCode | None) -> tuple[str, ...]:
        if launch is None:
            self.counts["no call seen"] += 1
            return ()
        if code is None:
            return ()
        if launch.function and list(self.capture.layout_of(launch.function)) != [
            (one.offset, one.size) for one in code.parameters
        ]:
            self.counts["layouts of driver and cubin differ"] += 1
        if len(launch.arguments) != len(code.parameters):
            self.counts["arguments missing"] += 1
            return ()
        self.counts["arguments of the driver's call" if launch.function else "arguments of the runtime's call"] += 1
        return describe_arguments(launch.arguments, code.parameters, self.capture.find_allocation)

    def _choose_code(self, activity: Activity) -> KernelCode | None:
        """The code of a kernel by name; registers decide between modules that have the same name."""
        codes = {code.digest: code for code in self._find_codes(activity.name)}
        if len(codes) > 1:
            self.counts["several codes of one name"] += 1
            codes = {key: code for key, code in codes.items() if code.registers == activity.registers} or codes
        if not codes:
            self.counts["code not seen"] += 1
            return None
        self.counts["code found" if len(codes) == 1 else "code ambiguous, newest taken"] += 1
        return list(codes.values())[-1]

    def _find_codes(self, name: str) -> list[KernelCode]:
        if self._cubins_read < len(self.capture.cubins):
            self._cubins_read = len(self.capture.cubins)
            self._codes.clear()
        if name not in self._codes:
            self._codes[name] = []
            for cubin in self.capture.cubins:
                if name.encode() in cubin:
                    try:
                        self._codes[name] += read_kernels(cubin, {name}).values()
                    except CubinError as error:
                        self.counts[f"cubin not understood: {error}"] += 1
        return self._codes[name]


def report_cases(identifier: Identifier) -> None:
    """Prints the identity of every case."""
    for case in CASES:
        began_s = time.perf_counter()
        found = identifier.identify(partial(case.build, "cuda"))
        line = {
            "finding": "identity",
            "case": case.name,
            "digest": digest(found.launches),
            "launches": len(found.launches),
            "without_code": sum(one.kind not in ("copy", "set") and not one.code for one in found.launches),
            "rounds_differ_in": [f"{one.what}: {one.before} -> {one.after}"[:120] for one in found.differences[:3]],
            "seconds": round(time.perf_counter() - began_s, 3),
        }
        print(json.dumps(line), flush=True)


def report_mutations(identifier: Identifier) -> None:
    """Prints for every mutation whether it is seen, and whether that is right."""
    wrong = 0
    for mutation in MUTATIONS:
        line: dict[str, Any]
        try:
            before = identifier.identify(mutation.before)
            after = identifier.identify(mutation.after)
        except Exception as error:  # One that this machine cannot run must not hide the others.
            line = {
                "finding": "mutation",
                "name": mutation.name,
                "failed": f"{type(error).__name__}: {error}"[:300],
            }
            print(json.dumps(line), flush=True)
            wrong += 1
            continue
        found = compare(before.launches, after.launches)
        is_right = bool(found) == mutation.changes_work
        wrong += not is_right
        seen = [f"{one.what}: {one.before} -> {one.after}"[:100] for one in found[:2]]
        line = {"finding": "mutation", "name": mutation.name, "right": is_right, "seen": seen}
        print(json.dumps(line), flush=True)
    print(json.dumps({"finding": "mutations", "tried": len(MUTATIONS), "wrong": wrong}), flush=True)


def main() -> int:
    if not torch.cuda.is_available():
        print("identify: torch sees no CUDA device; run this on a machine with one", file=sys.stderr)
        return 1
    torch.cuda.init()
    began_s = time.perf_counter()
    identifier = Identifier()
    identifier.capture.start()
    report_cases(identifier)
    report_mutations(identifier)
    identifier.capture.stop()
    cubins = identifier.capture.cubins
    line = {
        "finding": "identification",
        "counts": dict(identifier.counts),
        "problems": identifier.capture.problems[:5],
        "driver_calls_within_runtime_calls": identifier.capture.nested,
        "cubins": len(cubins),
        "cubin_bytes": sum(map(len, cubins)),
        "seconds": round(time.perf_counter() - began_s, 2),
    }
    print(json.dumps(line), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
