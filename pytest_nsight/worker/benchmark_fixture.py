"""pytest-benchmark's `benchmark` fixture, measured by kernel time: its tests run unchanged under --nsight."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from pytest_benchmark.utils import NameWrapper

from pytest_nsight.worker.measured_case import CaseMeasurement

T = TypeVar("T")


class Benchmark(BenchmarkFixture):  # type: ignore[misc]
    """pytest-benchmark's fixture, whose timing loops are replaced by the rounds of the measurement.

    All else is the base's own: `extra_info`, `enabled`, `_timer`, `weave`, the refusal of a second use. `stats`
    holds the host's durations of the rounds, in seconds: kernel times are read only after the process has ended.
    """

    def __init__(self, measurement: CaseMeasurement, **options: Any) -> None:
        super().__init__(**options)
        self._measurement = measurement

    def _raw(self, function_to_benchmark: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        return self._measure(lambda: function_to_benchmark(*args, **kwargs), None, 1)

    def _raw_pedantic(  # noqa: PLR0913, PLR0917 - the base's signature
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

        `rounds` and `warmup_rounds` are minima for wall-clock timing and do not bind the gate, whose own numbers
        apply. `iterations` repeats the call inside a round. `teardown` runs after each round, outside of it.
        """
        _check_number("iterations", iterations)
        _check_number("rounds", rounds)
        _check_number("warmup_rounds", warmup_rounds, least=0)
        if iterations > 1 and setup is not None:
            raise ValueError("Can't use more than 1 `iterations` with a `setup` function.")
        if setup is not None and (args or kwargs):
            raise TypeError("Can't use `args` or `kwargs` if `setup` returns the arguments.")
        pending: list[tuple[Sequence[Any], Mapping[str, Any]]] = []

        def tear_down() -> None:
            while pending and teardown is not None:
                given, named = pending.pop()
                teardown(*given, **named)

        def prepare() -> tuple[tuple[Any, ...], dict[str, Any]]:
            tear_down()
            given, named = (setup() if setup is not None else None) or (args, kwargs or {})
            pending.append((given, named))
            return tuple(given), dict(named)

        def body(*given: Any, **named: Any) -> T:
            for _ in range(iterations):
                result = target(*given, **named)
            return result

        if setup is None and teardown is None:
            return self._measure(lambda: body(*args, **(kwargs or {})), None, iterations)
        try:
            return self._measure(body, prepare, iterations)
        finally:
            tear_down()

    def _measure(self, body: Callable[..., T], setup: Callable[[], Any] | None, iterations: int) -> T:
        result = self._measurement.measure(body, setup, None, None)
        if self.enabled:
            stats = self._make_stats(iterations)
            for wall_ns in self._measurement.walls_ns:
                stats.update(wall_ns / 1e9)
        return result


def _check_number(name: str, number: object, least: int = 1) -> None:
    """Refuses an argument in the words of pytest-benchmark."""
    if not isinstance(number, int) or number < least:
        raise ValueError(f"Must have positive int for `{name}`.")


class BenchmarkPlugin:
    """Puts the fixture in front of pytest-benchmark's own; registered in workers only."""

    def __init__(self, measurement: Callable[[pytest.Item], CaseMeasurement]) -> None:
        self._measurement = measurement

    @pytest.fixture
    def benchmark(self, request: pytest.FixtureRequest) -> Iterator[BenchmarkFixture]:
        """Measures what the test benchmarks, by kernel time."""
        node, session = request.node, request.config._benchmarksession  # type: ignore[attr-defined] # noqa: SLF001
        mark = node.get_closest_marker("benchmark")
        options: dict[str, Any] = {**session.options, **(mark.kwargs if mark else {})}
        if mark and "timer" in mark.kwargs:
            options["timer"] = NameWrapper(mark.kwargs["timer"])
        fixture = Benchmark(
            self._measurement(node),
            node=node,
            # The session's own list is not used: its report and files hold wall-clock times.
            add_stats=lambda _: None,
            logger=session.logger,
            warner=node.warn,
            disabled=session.disabled,
            **options,
        )
        yield fixture
        fixture._cleanup()  # noqa: SLF001 - as pytest-benchmark's own fixture ends
