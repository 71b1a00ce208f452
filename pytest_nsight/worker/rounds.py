"""The rounds of one case: warm up; then, for each, rest, flush the cache, synchronise, measure, record."""

from __future__ import annotations

import gc
import itertools
import statistics
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext

# Bound here, because tests replace time.sleep and its clocks.
from time import perf_counter_ns, sleep, time_ns
from typing import Any, TypeVar, cast

from pytest_nsight.collectors.base import Recorder
from pytest_nsight.protocol.conditions import Conditions
from pytest_nsight.protocol.journal import Journal
from pytest_nsight.protocol.manifest_events import Round, TunedCase
from pytest_nsight.protocol.ranks import no_barrier
from pytest_nsight.worker.autotuners import WATCHED_ROUNDS, TuningNotes
from pytest_nsight.worker.device import Device
from pytest_nsight.worker.fixture import prepare
from pytest_nsight.worker.jax_programs import JaxPrograms
from pytest_nsight.worker.measured_body import MeasuredBody, RoundPlan
from pytest_nsight.worker.pacing import Pacer, higher_mhz, is_over, is_slowed, relative_error

T = TypeVar("T")

SETTLING_NS = 10_000_000
MOST_SETTLING_NS = 200_000_000
_OVERHEAD_SAMPLES = 15


class RoundRunner:
    """Runs warm-up and rounds of the cases of one worker process, one case after the other, and records them.

    Attributes:
        device: what is measured.
        walls_ns: the host's durations of the rounds of the case that was measured last.
    """

    def __init__(
        self,
        device: Device,
        recorder: Recorder,
        journal: Journal,
        barrier: Callable[[], None] = no_barrier,
        *,
        overhead_ns: int | None = None,
        programs: JaxPrograms | None = None,
    ) -> None:
        """Prepares.

        Args:
            device: where the work is done.
            recorder: marks the rounds in the trace.
            journal: records the rounds.
            barrier: called right before a round opens, lets the ranks of a parallel test begin it together.
            overhead_ns: how long a round takes that does next to nothing; None to measure it.
            programs: what JAX compiles in this process.
        """
        self._barrier = barrier
        self.device = device
        self.walls_ns: tuple[int, ...] = ()
        self._recorder = recorder
        self._journal = journal
        self._payloads = itertools.count(1)
        self._parts: list[tuple[int, str]] | None = None
        self._thread = threading.get_ident()
        self._highest_mhz: int | None = None
        self._overhead_ns = overhead_ns
        self._programs = programs or JaxPrograms()

    def measure(self, body: MeasuredBody[T]) -> T:
        """Runs warm-up and rounds of one case; returns the result of the last round."""
        plan = body.plan
        overhead_ns = self._measure_overhead()
        # Before the warm-up, which may itself drive the board to its limit and its clock down.
        self._highest_mhz = higher_mhz(self.device.read(), self._highest_mhz)
        self._recorder.start()
        tuned = TuningNotes(self._programs)
        try:
            busy_ns = self._warm_up(body, tuned)
            settled_ns = self._settle(plan)
            pacer = self._pacer(busy_ns, plan)
            first_ns, walls_ns = pacer.rest_ns, list[int]()
            before, began_ns = self.device.read_activity(), perf_counter_ns()
            wanted, result = plan.rounds or plan.rule, cast("T", None)
            while not is_over(walls_ns, wanted, overhead_ns, self.device.run_sd, perf_counter_ns() - began_ns):
                # Release the last result first, so that every round finds the same free memory.
                result = cast("T", None)
                result, wall_ns = self._round(body, pacer)
                walls_ns.append(wall_ns)
            elapsed_ns, after = perf_counter_ns() - began_ns, self.device.read_activity()
        finally:
            self._recorder.stop()
        self._highest_mhz = pacer.highest_mhz
        self.walls_ns = tuple(walls_ns)
        self._journal.write_tuned(TunedCase(body.case, tuned.kernels))
        self._journal.write_conditions(
            Conditions(
                case=body.case,
                busy_ns=busy_ns,
                settled_ns=settled_ns,
                rest_ns=first_ns,
                last_rest_ns=pacer.rest_ns,
                error=relative_error(walls_ns, overhead_ns),
                elapsed_ns=elapsed_ns,
                energy_mj=after.energy_since(before),
                foreign_processes=tuple(sorted({*before.foreign_processes, *after.foreign_processes})),
                processor=after.processor.since(before.processor) if after.processor and before.processor else None,
            )
        )
        return result

    def measure_alternately(self, bodies: Sequence[MeasuredBody[object]], pairs: int) -> None:
        """Measures two bodies alternately, in the order ABBA ABBA, so that a drift affects both alike.

        Args:
            bodies: both.
            pairs: rounds of each.
        """
        self._recorder.start()
        try:
            notes = TuningNotes()
            pacers = [self._pacer(self._warm_up(body, notes), body.plan) for body in bodies]
            for index in range(pairs):
                for which in (0, 1) if index % 2 == 0 else (1, 0):
                    self._round(bodies[which], pacers[which])
        finally:
            self._recorder.stop()

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Names a part of the running round; on another thread it does nothing.

        A range outside of a round belongs to no round, but it may capture a CUDA graph that rounds replay.
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

    def _pacer(self, busy_ns: int, plan: RoundPlan) -> Pacer:
        fixed_ns = plan.rest_ns if self.device.needs_rest or plan.rest_ns is not None else 0
        return Pacer(busy_ns, fixed_ns=fixed_ns, limit_w=self.device.power_limit_w, highest_mhz=self._highest_mhz)

    def _settle(self, plan: RoundPlan) -> int:
        """Waits while the board is still slowed by earlier work; returns for how long, in ns."""
        waited_ns = 0
        while plan.rest_ns is None and waited_ns < MOST_SETTLING_NS:
            if plan.cold_cache:
                # Gives the board some work, because an idle board lowers its clock.
                self.device.flush()
                self.device.synchronize()
            reading = self.device.read()
            self._highest_mhz = higher_mhz(reading, self._highest_mhz)
            if not is_slowed(reading, self._highest_mhz):
                break
            sleep(SETTLING_NS / 1e9)
            waited_ns += SETTLING_NS
        return waited_ns

    def _measure_overhead(self) -> int:
        """The duration in ns of a round that does almost nothing; measured once."""
        if self._overhead_ns is None:
            samples = []
            for _ in range(_OVERHEAD_SAMPLES):
                start_ns = perf_counter_ns()
                self.device.launch_little()
                self.device.synchronize()
                samples.append(perf_counter_ns() - start_ns)
            self._overhead_ns = int(statistics.median(samples))
        return self._overhead_ns

    def _warm_up(self, body: MeasuredBody[Any], tuned: TuningNotes) -> int:
        """Compiles, tunes and loads whatever the body needs, and notes what autotuners choose.

        Returns:
            How long the last round and the flush of the cache kept the device busy, in ns.
        """
        busy_ns = 0
        for number in range(body.plan.warmup):
            args, kwargs = prepare(body.setup)
            self.device.synchronize()
            start_ns = perf_counter_ns()
            if body.plan.cold_cache:
                self.device.flush()
            with tuned.watch() if number < WATCHED_ROUNDS else nullcontext():
                body.function(*args, **kwargs)
            self.device.synchronize()
            busy_ns = perf_counter_ns() - start_ns
        return busy_ns

    def _round(self, body: MeasuredBody[T], pacer: Pacer) -> tuple[T, int]:
        """Measures and records one round; returns its result and how long it took on the host, in ns."""
        args, kwargs = prepare(body.setup)
        rest_ns = self._rest(body.plan, pacer)
        payload = next(self._payloads)
        with self._collect_parts() as parts:
            self._barrier()
            epoch_ns = time_ns()
            start_ns = perf_counter_ns()
            self._recorder.push(body.label, payload)
            try:
                result = body.function(*args, **kwargs)
                # Inside the range, so that everything a round launches also ends in it.
                self.device.synchronize()
                # Before the range is closed: a recorder may then collect what it has recorded.
                wall_ns = perf_counter_ns() - start_ns
            finally:
                self._recorder.pop()
        reading = self.device.read()
        self._journal.write_round(
            Round(
                id=payload,
                case=body.case,
                parts=tuple(parts),
                start_ns=epoch_ns,
                wall_ns=wall_ns,
                rest_ns=rest_ns,
                cold_cache=body.plan.cold_cache,
                reading=reading,
                is_slowed=pacer.observe(reading),
            )
        )
        return result, wall_ns

    def _rest(self, plan: RoundPlan, pacer: Pacer) -> int:
        """Lets the device idle, then flushes its cache if that is planned; returns for how long it idled, in ns."""
        self.device.synchronize()
        rest_ns = pacer.rest_ns
        sleep(rest_ns / 1e9)
        if plan.cold_cache:
            self.device.flush()
        self.device.synchronize()
        return rest_ns

    @contextmanager
    def _collect_parts(self) -> Iterator[list[tuple[int, str]]]:
        """Collects the parts of the round that runs, and keeps Python's garbage collector from running in it."""
        parts: list[tuple[int, str]] = []
        self._parts = parts
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            yield parts
        finally:
            self._parts = None
            if was_enabled:
                gc.enable()
