"""The `nsight` fixture: what a test calls. The measurement behind it decides whether anything is measured.

Its frames are hidden in tracebacks: a wrong call is shown at the user's line.
"""

from __future__ import annotations

import dis
import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import AsyncGeneratorType
from typing import Any, Protocol, TypeVar, cast

from pytest_nsight.model.roofline import read_work
from pytest_nsight.model.values import Work
from pytest_nsight.protocol.mark_values import parse_count

T = TypeVar("T")

LONGEST_LABEL = 200
"""Most characters of a range's name; longer labels of cases are cut."""


class Measurement(Protocol):
    """What stands behind the fixture in one test."""

    def measure(
        self, body: Callable[..., T], setup: Callable[[], Any] | None, rounds: int | None, warmup: int | None
    ) -> T:
        """Measures `body` in rounds and returns its last result."""

    def range(self, name: str) -> AbstractContextManager[None]:
        """Names a part of the round."""

    def declare(self, work: Work) -> None:
        """Declares what a round has to do."""


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
        __tracebackhide__ = True
        args, kwargs = prepare(setup)
        return body(*args, **kwargs)

    def range(self, name: str) -> AbstractContextManager[None]:  # noqa: ARG002
        """Measures nothing."""
        return nullcontext()

    def declare(self, work: Work) -> None:
        """Ignores it."""


class Nsight:
    """The fixture's value. Call it with what is to be measured; it returns that call's result.

    Example:
        def test_softmax(nsight):
            x = torch.randn(4096, 4096, device="cuda")
            out = nsight(torch.softmax, x, -1)

    Attributes:
        is_used: whether the test has done anything with it.
    """

    def __init__(self, measurement: Measurement) -> None:
        self._measurement = measurement
        self._work: Work | None = None
        self.is_used = False

    def __call__(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        """Measures `function(*args, **kwargs)` and returns its result.

        Under --nsight the call is repeated, in warm-up and rounds; the result is the last round's.

        Raises:
            TypeError: `function` cannot be called, is a coroutine or generator function, or returns a coroutine
                or generator that has not begun.
        """
        __tracebackhide__ = True
        _check_function(function)
        self.is_used = True
        return _check_result(self._measurement.measure(lambda: function(*args, **kwargs), None, None, None))

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
        """Measures with every argument given explicitly.

        Args:
            function: what is measured.
            args: its positional arguments.
            kwargs: its keyword arguments.
            setup: called before each round, outside of the measurement; what it returns, unless None, is
                the (args, kwargs) of that round.
            rounds: measured rounds; overrides mark and settings.
            warmup: unmeasured rounds before them.

        Returns:
            The result of the last round.

        Raises:
            TypeError: both `setup` and arguments are given, `setup` returns something else, or `function` is
                nothing to measure.
            UsageError: `rounds` is no whole number above 0, or `warmup` none of at least 0.
        """
        __tracebackhide__ = True
        _check_function(function)
        if rounds is not None:
            parse_count(1)("nsight.pedantic(rounds=)", rounds)
        if warmup is not None:
            parse_count(0)("nsight.pedantic(warmup=)", warmup)
        if setup is None:
            result = self._measurement.measure(lambda: function(*args, **(kwargs or {})), None, rounds, warmup)
            return _check_result(result)
        if args or kwargs:
            raise TypeError("pedantic(setup=...) and args=/kwargs= exclude each other: return them from setup")
        return _check_result(self._measurement.measure(function, setup, rounds, warmup))

    @property
    def rank(self) -> int:
        """Which rank this process is of a test marked with ranks=; 0 where there is only one."""
        return int(os.environ.get("RANK", "0"))

    @property
    def ranks(self) -> int:
        """How many ranks run this test together: what ranks= asks for, and 1 without --nsight."""
        return int(os.environ.get("WORLD_SIZE", "1"))

    def range(self, name: str) -> AbstractContextManager[None]:
        """Names a part of the measured body; it gets a row and a verdict of its own.

        Args:
            name: of the part, 1 to 200 printable characters.

        Returns:
            A context manager for the part.

        Raises:
            ValueError: the name is something else.
        """
        __tracebackhide__ = True
        if not isinstance(name, str) or not 1 <= len(name) <= LONGEST_LABEL or not name.isprintable():
            raise ValueError(
                f"nsight.range() takes a name of 1 to {LONGEST_LABEL} printable characters, got {name!r}"
            )
        self.is_used = True
        return self._measurement.range(name)

    def work(self, *, bytes: float | None = None, flops: float | None = None) -> None:  # noqa: A002 - as users say
        """Declares what a round has to do at least, so that its time can be held against the board's limits.

        It overrides the mark's `bytes` and `flops`, and may stand before or after the measured call.

        Args:
            bytes: bytes that must be read from and written to the device's memory, each tensor counted once.
            flops: floating-point operations, a multiply-add counted as two.

        Raises:
            ValueError: no number of at least 0, nothing at all, or other work than declared before.
        """
        __tracebackhide__ = True
        self.is_used = True
        declared = read_work("nsight.work", bytes, flops)
        if self._work is None:
            self._work = declared
            self._measurement.declare(declared)
        # A test without nsight(...) is measured as a whole and comes here in every round.
        elif declared != self._work:
            raise ValueError(
                f"nsight.work() says {declared} after {self._work}: a test has one amount of work; give each call "
                "the same bytes= and flops=, or make a test of each amount with pytest.mark.parametrize"
            )


@dataclass(frozen=True, slots=True)
class _Deferred:
    """What a call may return in place of running its body.

    Attributes:
        kind: its name, with its article.
        is_function: whether a function returns such a thing.
        has_not_begun: whether a value is such a thing, and nothing of its body has run.
        remedy: what to measure instead.
    """

    kind: str
    is_function: Callable[[object], bool]
    has_not_begun: Callable[[object], bool]
    remedy: str


def _has_not_begun(generator: AsyncGeneratorType[Any, Any]) -> bool:
    """Whether nothing of an asynchronous generator's body has run."""
    if sys.version_info >= (3, 12):
        return inspect.getasyncgenstate(generator) == inspect.AGEN_CREATED
    frame, code = generator.ag_frame, generator.ag_code
    # Before its body it makes cells for its variables, takes those of functions around it, and makes itself.
    beginnings = (one.offset for one in dis.get_instructions(code) if one.opname in ("GEN_START", "RESUME"))
    return frame is not None and frame.f_lasti < next(beginnings, 0)


_DEFERRED = (
    _Deferred(
        "a coroutine",
        inspect.iscoroutinefunction,
        lambda value: inspect.iscoroutine(value) and inspect.getcoroutinestate(value) == inspect.CORO_CREATED,
        "in an ordinary test measure an ordinary function that runs it, as in nsight(lambda: asyncio.run(f(x)))",
    ),
    _Deferred(
        "a generator",
        inspect.isgeneratorfunction,
        lambda value: inspect.isgenerator(value) and inspect.getgeneratorstate(value) == inspect.GEN_CREATED,
        "measure an ordinary function that runs it to its end, as in nsight(lambda: list(f(x)))",
    ),
    _Deferred(
        "an asynchronous generator",
        inspect.isasyncgenfunction,
        lambda value: inspect.isasyncgen(value) and _has_not_begun(value),
        "measure an ordinary function that runs a coroutine with its loop over it, as in "
        "nsight(lambda: asyncio.run(consume(f(x))))",
    ),
)


def explain_deferred(function: Callable[..., object]) -> str:
    """Why a coroutine or generator function cannot be measured, "" if it is none: its call runs nothing."""
    name = getattr(function, "__name__", type(function).__name__)
    for one in _DEFERRED:
        if any(map(one.is_function, (function, type(function).__call__))):
            return f"{name} is {one.kind} function, whose call runs nothing: {one.remedy}"
    return ""


def _check_result(result: T) -> T:
    """Refuses the result of a call whose work is still to be done.

    Raises:
        TypeError: it is a coroutine or a generator that has not begun.
    """
    __tracebackhide__ = True
    for one in _DEFERRED:
        if one.has_not_begun(result):
            if not inspect.isasyncgen(result):
                # Python would warn that it was never awaited, beside this error.
                cast("Any", result).close()
            raise TypeError(
                f"nsight(...) cannot measure what it was given: its call returned {one.kind} that has not begun: "
                f"{one.remedy}"
            )
    return result


def _check_function(function: object) -> None:
    """Refuses what is nothing to measure, with or without --nsight.

    Raises:
        TypeError: it cannot be called, or is a coroutine or generator function.
    """
    __tracebackhide__ = True
    if not callable(function):
        raise TypeError(
            f"nsight(...) was given a {type(function).__name__} instead of a function: pass the function and "
            "its arguments apart, as in nsight(f, x), and not the result of a call, nsight(f(x))"
        )
    if why := explain_deferred(function):
        raise TypeError(f"nsight(...) cannot measure what it was given: {why}")


def prepare(setup: Callable[[], Any] | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Calls a setup function and reads the (args, kwargs) that it returns, if any."""
    __tracebackhide__ = True
    prepared = setup() if setup is not None else None
    if prepared is None:
        return (), {}
    match prepared:
        case (tuple() | list()) as args, dict() as kwargs:
            return tuple(args), kwargs
    raise TypeError(
        f"pedantic(setup=...) returns (args, kwargs), such as ((x,), {{}}), or None; got {type(prepared).__name__}"
    )
