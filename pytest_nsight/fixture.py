"""The `nsight` fixture: what a test calls. Who is behind it decides whether anything is measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Measurement(Protocol):
    """What stands behind the fixture in one test."""

    def measure(
        self, body: Callable[..., T], setup: Callable[[], Any] | None, rounds: int | None, warmup: int | None
    ) -> T:
        """Measures `body` in rounds and returns its last result."""

    def range(self, name: str) -> AbstractContextManager[None]:
        """Names a part of the round."""


class PlainMeasurement:
    """Without --nsight a test runs once, as a plain test."""

    def measure(
        self,
        body: Callable[..., T],
        setup: Callable[[], Any] | None,
        rounds: int | None,  # noqa: ARG002 - the protocol's
        warmup: int | None,  # noqa: ARG002
    ) -> T:
        """Calls `body` once."""
        args, kwargs = prepare(setup)
        return body(*args, **kwargs)

    def range(self, name: str) -> AbstractContextManager[None]:  # noqa: ARG002
        """Measures nothing."""
        return nullcontext()


class Nsight:
    """The fixture's value. Call it with what is to be measured; it returns that call's result."""

    def __init__(self, measurement: Measurement) -> None:
        self._measurement = measurement

    def __call__(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        """Measures `function(*args, **kwargs)` and returns its result.

        Under --nsight the call is repeated, in warm-up and rounds; the result is the last round's.
        """
        return self._measurement.measure(lambda: function(*args, **kwargs), None, None, None)

    def pedantic(
        self,
        function: Callable[..., T],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        setup: Callable[[], Any] | None = None,
        rounds: int | None = None,
        warmup: int | None = None,
    ) -> T:
        """Measures with everything spelled out.

        Args:
            function: what is measured.
            args: its positional arguments.
            kwargs: its keyword arguments.
            setup: called before each round, outside of the measurement; what it returns, unless None, is
                the (args, kwargs) of that round.
            rounds: measured rounds; beats mark and settings.
            warmup: unmeasured rounds before them.

        Returns:
            The result of the last round.
        """
        if setup is None:
            return self._measurement.measure(lambda: function(*args, **(kwargs or {})), None, rounds, warmup)
        if args or kwargs:
            raise TypeError("pedantic(setup=...) and args=/kwargs= exclude each other: return them from setup")
        return self._measurement.measure(function, setup, rounds, warmup)

    def range(self, name: str) -> AbstractContextManager[None]:
        """Names a part of the measured body; it gets a row and a verdict of its own."""
        if not isinstance(name, str) or not name or len(name) > 200:
            raise ValueError(f"nsight.range() takes a name of 1 to 200 characters, got {name!r}")
        return self._measurement.range(name)


def prepare(setup: Callable[[], Any] | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Calls a setup function and reads the (args, kwargs) that it returns, if any."""
    prepared = setup() if setup is not None else None
    if prepared is None:
        return (), {}
    args, kwargs = prepared
    return tuple(args), dict(kwargs)
