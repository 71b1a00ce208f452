"""The fixture as a test sees it where nothing is measured: it calls what it is given, once."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from pytest_nsight.model.errors import UsageError
from pytest_nsight.worker.fixture import Nsight, PlainMeasurement


def test_it_calls_the_function_and_returns_its_result() -> None:
    nsight = Nsight(PlainMeasurement())

    assert not nsight.is_used
    assert nsight(max, 2, 3) == 3
    assert nsight.is_used


@pytest.mark.parametrize("value", [3, "text", None, [len]])
def test_the_result_of_a_call_in_place_of_a_function_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match=r"pass the function and its arguments apart, as in nsight\(f, x\)"):
        Nsight(PlainMeasurement())(value)  # type: ignore[arg-type]


class Service:
    async def __call__(self) -> None: ...

    async def work(self) -> None: ...


@pytest.mark.parametrize("function", [Service(), Service().work, functools.partial(Service().work)])
def test_a_coroutine_function_is_refused_with_what_to_measure_instead(function: Callable[[], object]) -> None:
    said = r"is a coroutine function, whose call runs nothing: .* as in nsight\(lambda: asyncio\.run\(f\(x\)\)\)"

    with pytest.raises(TypeError, match=said):
        Nsight(PlainMeasurement())(function)
    with pytest.raises(TypeError, match=said):
        Nsight(PlainMeasurement()).pedantic(function)


class Numbers:
    def __call__(self) -> Iterator[int]:
        yield 1

    def numbers(self) -> Iterator[int]:
        yield 1


@pytest.mark.parametrize("function", [Numbers(), Numbers().numbers, functools.partial(Numbers().numbers)])
def test_a_generator_function_is_refused_with_what_to_measure_instead(function: Callable[[], object]) -> None:
    said = r"is a generator function, whose call runs nothing: .* as in nsight\(lambda: list\(f\(x\)\)\)"

    with pytest.raises(TypeError, match=said):
        Nsight(PlainMeasurement())(function)
    with pytest.raises(TypeError, match=said):
        Nsight(PlainMeasurement()).pedantic(function)


class Events:
    async def __call__(self) -> AsyncIterator[int]:
        yield 1

    async def events(self) -> AsyncIterator[int]:
        yield 1

    def counted(self, start: int) -> AsyncIterator[Callable[[], int]]:
        first = start

        async def count(step: int) -> AsyncIterator[Callable[[], int]]:
            yield lambda: first + step

        return count(1)


@pytest.mark.parametrize("function", [Events(), Events().events, functools.partial(Events().events)])
def test_an_asynchronous_generator_function_is_refused_with_what_to_measure_instead(
    function: Callable[[], object],
) -> None:
    said = r"is an asynchronous generator function, whose call runs nothing: .* as in nsight\(lambda: asyncio\.run"

    with pytest.raises(TypeError, match=said):
        Nsight(PlainMeasurement())(function)
    with pytest.raises(TypeError, match=said):
        Nsight(PlainMeasurement()).pedantic(function)


@pytest.mark.parametrize(
    ("function", "kind", "instead"),
    [
        (lambda: Service().work(), "coroutine", r"asyncio\.run\(f\(x\)\)"),
        (lambda: Numbers().numbers(), "generator", r"list\(f\(x\)\)"),
        (lambda: Events().events(), "asynchronous generator", r"asyncio\.run\(consume\(f\(x\)\)\)"),
        # With cells of its own and of the function around it.
        (lambda: Events().counted(1), "asynchronous generator", r"asyncio\.run\(consume\(f\(x\)\)\)"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_a_returned_coroutine_or_generator_that_has_not_begun_is_refused(
    function: Callable[[], object], kind: str, instead: str
) -> None:
    said = rf"its call returned an? {kind} that has not begun: .* as in nsight\(lambda: {instead}\)"

    with pytest.raises(TypeError, match=said):
        Nsight(PlainMeasurement())(function)
    with pytest.raises(TypeError, match=said):
        Nsight(PlainMeasurement()).pedantic(function)
    with pytest.raises(TypeError, match=said):
        Nsight(PlainMeasurement()).pedantic(function, setup=lambda: None)


@pytest.mark.parametrize(
    "wrong", [{"rounds": 0}, {"rounds": -1}, {"rounds": 2.5}, {"warmup": -1}, {"warmup": True}]
)
def test_a_number_of_rounds_that_is_none_is_refused(wrong: dict[str, Any]) -> None:
    (name,) = wrong

    with pytest.raises(UsageError, match=rf"nsight.pedantic\({name}=\) is .*; give a whole number of at least"):
        Nsight(PlainMeasurement()).pedantic(lambda: None, **wrong)


def test_a_generator_that_has_begun_is_a_result_like_others() -> None:
    def begin() -> Iterator[int]:
        numbers = Numbers().numbers()
        next(numbers)
        return numbers

    assert list(Nsight(PlainMeasurement())(begin)) == []


def test_an_asynchronous_generator_that_has_begun_is_a_result_like_others() -> None:
    async def begin() -> AsyncIterator[int]:
        events = Events().events()
        await anext(events)
        return events

    assert inspect.isasyncgen(Nsight(PlainMeasurement())(lambda: asyncio.run(begin())))


def test_a_class_and_what_runs_a_coroutine_are_measured() -> None:
    nsight = Nsight(PlainMeasurement())

    service = nsight(Service)
    assert nsight(lambda: asyncio.run(service.work())) is None
