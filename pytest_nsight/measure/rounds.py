"""The rounds of one case: warm up, then rest, empty the cache, synchronise, measure, and note."""

from __future__ import annotations

import gc
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from pytest_nsight.fixture import prepare
from pytest_nsight.manifest import Journal, Round
from pytest_nsight.measure.device import Device
from pytest_nsight.measure.pacing import rest_ns
from pytest_nsight.measure.recorder import Recorder

T = TypeVar("T")

ROUNDS = 40
WARMUP = 5
LEAST_ROUNDS = 10
PATIENCE_NS = 4_000_000_000
"""A case that has taken this long stops after LEAST_ROUNDS rounds, unless a number was asked for."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How one case is measured.

    Attributes:
        rounds: measured rounds; None for ROUNDS, fewer for a case that takes long.
        warmup: unmeasured rounds before them.
        rest_ns: pause before each round; None to derive it from the length of a round.
        cold_cache: whether the cache is flushed before each round.
    """

    rounds: int | None = None
    warmup: int = WARMUP
    rest_ns: int | None = None
    cold_cache: bool = True


class Stopwatch:
    """Measures the cases of one worker process, one after the other, and journals their rounds."""

    def __init__(self, device: Device, recorder: Recorder, journal: Journal) -> None:
        self.device = self._device = device
        self._recorder = recorder
        self._journal = journal
        self._payloads = itertools.count(1)
        self._parts: list[tuple[int, str]] | None = None
        self._thread = threading.get_ident()

    def measure(
        self, case: str, label: str, body: Callable[..., T], setup: Callable[[], Any] | None, plan: Plan
    ) -> T:
        """Runs warm-up and rounds of one case.

        Args:
            case: node id, for the journal.
            label: readable name of the range.
            body: what is measured.
            setup: called before each round, returns the body's (args, kwargs) or None.
            plan: how often, and with which pauses.

        Returns:
            The result of the last round.
        """
        self._recorder.start()
        try:
            round_ns = self._warm_up(body, setup, plan.warmup)
            pause_ns = self._pause_ns(round_ns, plan)
            began_ns = time.perf_counter_ns()
            result = cast("T", None)
            for index in range(plan.rounds or ROUNDS):
                is_late = time.perf_counter_ns() - began_ns > PATIENCE_NS
                if plan.rounds is None and index >= LEAST_ROUNDS and is_late:
                    break
                # Let go of the last result first, so that every round finds the same free memory.
                result = cast("T", None)
                result = self._round(case, label, body, setup, pause_ns, cold_cache=plan.cold_cache)
        finally:
            self._recorder.stop()
        return result

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Names a part of the running round; on another thread it does nothing.

        Outside of a round it is no part of any, but a CUDA graph may be captured in it, which rounds replay.
        """
        if threading.get_ident() != self._thread:
            yield
            return
        payload = next(self._payloads)
        if self._parts is not None:
            self._parts.append((payload, name))
        self._recorder.push(name, payload)
        try:
            yield
        finally:
            self._recorder.pop()

    def _pause_ns(self, round_ns: int, plan: Plan) -> int:
        if plan.rest_ns is not None:
            return plan.rest_ns
        return rest_ns(round_ns) if self._device.needs_rest else 0

    def _warm_up(self, body: Callable[..., Any], setup: Callable[[], Any] | None, warmup: int) -> int:
        """Compiles, tunes and loads whatever the body needs; returns the length of the last round in ns."""
        length_ns = 0
        for _ in range(warmup):
            args, kwargs = prepare(setup)
            self._device.synchronize()
            start_ns = time.perf_counter_ns()
            body(*args, **kwargs)
            self._device.synchronize()
            length_ns = time.perf_counter_ns() - start_ns
        return length_ns

    def _round(
        self,
        case: str,
        label: str,
        body: Callable[..., T],
        setup: Callable[[], Any] | None,
        pause_ns: int,
        *,
        cold_cache: bool,
    ) -> T:
        args, kwargs = prepare(setup)
        self._device.synchronize()
        time.sleep(pause_ns / 1e9)
        if cold_cache:
            self._device.flush()
        self._device.synchronize()
        payload = next(self._payloads)
        parts: list[tuple[int, str]] = []
        self._parts = parts
        collecting = gc.isenabled()
        gc.disable()
        try:
            epoch_ns = time.time_ns()
            start_ns = time.perf_counter_ns()
            self._recorder.push(label, payload)
            try:
                result = body(*args, **kwargs)
                # Inside the range: what a round launches also ends in it, whatever comes after.
                self._device.synchronize()
            finally:
                self._recorder.pop()
            wall_ns = time.perf_counter_ns() - start_ns
        finally:
            self._parts = None
            if collecting:
                gc.enable()
        reading = self._device.read()
        self._journal.write_round(
            Round(payload, case, tuple(parts), epoch_ns, wall_ns, pause_ns, cold_cache, reading)
        )
        return result
