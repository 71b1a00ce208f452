"""What stands behind the nsight fixture while a worker runs one case.

MERGED: pytest-benchmark's `benchmark` fixture, measured by kernel time: its tests run unchanged under --nsight.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from pytest_nsight.model.values import Subject, Work
from pytest_nsight.protocol.mark import read_mark
from pytest_nsight.trace.rank_summary import is_rank_part
from pytest_nsight.worker.pacing import FEWEST
from pytest_nsight.worker.rounds import WARMUP, PairBody, RoundPlan

if TYPE_CHECKING:
    from pytest_nsight.worker.inner_pytest import Worker
from collections.abc import Mapping, Sequence

from pytest_benchmark.fixture import BenchmarkFixture

from pytest_nsight.worker.fixture import Measurement

T = TypeVar("T")


class CaseMeasurement:
    """Measures one case, at most once."""

    def __init__(self, worker: Worker, item: pytest.Item) -> None:
        self._worker = worker
        self._item = item
        self._mark = read_mark(item)
        self.has_measured = False
        self._is_whole = False
        if self._mark.work is not None:
            self.declare(self._mark.work)

    def measure(
        self, body: Callable[..., T], setup: Callable[[], Any] | None, rounds: int | None, warmup: int | None
    ) -> T:
        """Measures the body; once in a test, for a test has one baseline."""
        if self.has_measured:
            raise RuntimeError(
                "this test has been measured already: call nsight(...) once in a test, and name parts of "
                'what it measures with nsight.range("...")'
            )
        self.has_measured = True
        # Ranks must agree on the number of rounds beforehand: none may stop early.
        least = FEWEST if self._worker.job.ranks > 1 else None
        plan = RoundPlan(
            rounds=rounds or self._mark.rounds or self._worker.job.rounds or least,
            warmup=next((n for n in (warmup, self._mark.warmup) if n is not None), WARMUP),
            rest_ns=self._mark.rest_ns,
            cold_cache=self._mark.cold_cache,
        )
        label = Subject(self._item.nodeid).label[:200]
        result = self._worker.stopwatch.measure(self._item.nodeid, label, body, setup, plan)
        if setup is None and not self._is_whole:
            self._worker.race(PairBody(self._item.nodeid, body, plan))
        return result

    def measure_whole(self, body: Callable[[], T]) -> T:
        """Measures a whole test, which cannot run again once its fixtures are torn down."""
        self._is_whole = True
        return self.measure(body, None, None, None)

    def range(self, name: str) -> AbstractContextManager[None]:
        """Names a part of the round."""
        if self._worker.job.ranks > 1 and is_rank_part(name):
            raise ValueError(f"nsight.range({name!r}): a test with ranks has rows of that name; choose another")
        return self._worker.stopwatch.part(name)

    def declare(self, work: Work) -> None:
        """Tells what a round has to do; what is told last counts."""
        self._worker.tell_work(self._item.nodeid, work)


class Benchmark(BenchmarkFixture):  # type: ignore[misc]
    """What tests call of pytest-benchmark's fixture; a subclass, for pytest-benchmark insists on its own type."""

    def __init__(self, name: str, measurement: Measurement) -> None:
        # Not the base's: it sets up the wall-clock timing that the measurement takes the place of.
        self.name = self.fullname = name
        self.group: str | None = None
        self.extra_info: dict[str, Any] = {}
        self.disabled = self.skipped = self.has_error = False
        self.stats = None
        self._mode: str | None = None
        self._measurement = measurement

    def __call__(self, function_to_benchmark: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Measures the call and returns its result."""
        return self._measurement.measure(lambda: function_to_benchmark(*args, **kwargs), None, None, None)

    def pedantic(  # noqa: PLR0913, PLR0917 - pytest-benchmark's signature
        self,
        target: Callable[..., T],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        setup: Callable[[], Any] | None = None,
        teardown: Callable[..., Any] | None = None,
        rounds: int = 1,
        warmup_rounds: int = 0,
        iterations: int = 1,
    ) -> T:
        """Measures with everything spelled out.

        `rounds` and `warmup_rounds` are minima for wall-clock timing and do not bind the gate, whose own
        numbers apply; `iterations` repeats the call inside a round, `teardown` runs once, at the end.
        """
        del rounds, warmup_rounds

        def body(*prepared: Any, **named: Any) -> T:
            for _ in range(iterations):
                result = target(*prepared, **named)
            return result

        if setup is None:
            result = self._measurement.measure(lambda: body(*args, **(kwargs or {})), None, None, None)
        else:
            result = self._measurement.measure(body, setup, None, None)
        if teardown is not None:
            teardown(*args, **(kwargs or {}))
        return result


class BenchmarkPlugin:
    """Puts the fixture in front of pytest-benchmark's own; registered in workers only."""

    def __init__(self, measurement: Callable[[pytest.Item], Measurement]) -> None:
        self._measurement = measurement

    @pytest.fixture
    def benchmark(self, request: pytest.FixtureRequest) -> Benchmark:
        """Measures what the test benchmarks, by kernel time."""
        return Benchmark(request.node.nodeid, self._measurement(request.node))
