"""pytest-benchmark's `benchmark` fixture, measured by kernel time: its tests run unchanged under --nsight."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from pytest_nsight.worker.fixture import Measurement

T = TypeVar("T")


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
        """Measures with every argument given explicitly.

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
