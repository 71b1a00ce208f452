"""What torch calls in a round, read from its own observer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from pytest_nsight.model.identity import CUDNN, TunedKernel
from pytest_nsight.worker.autotuners import TuningNotes
from pytest_nsight.worker.torch_operators import OperatorNotes, describe_convolutions

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU, where cuDNN is asked to choose by time."""
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)


def note(body: Callable[[], object]) -> tuple[TunedKernel, ...]:
    notes = OperatorNotes()
    with notes.watch():
        body()
    return notes.tuned


class Step:
    """Forward and backward of a convolution and of what follows it."""

    def __init__(
        self, channels: int = 3, *, kernel: int = 3, stride: int = 1, layout: str = "contiguous_format"
    ) -> None:
        self.convolution = torch.nn.Conv2d(channels, 4, kernel, stride=stride)
        self.images = torch.randn(2, channels, 9, 9).to(memory_format=getattr(torch, layout))

    def __call__(self) -> None:
        self.convolution(self.images).relu().sum().backward()


def test_the_same_round_has_the_same_work_in_every_process_and_counts_convolutions() -> None:
    (first,), (second,) = note(Step()), note(Step())

    assert first == second
    assert (first.name, first.config, first.launches) == (CUDNN, "", 2)
    assert re.fullmatch("[0-9a-f]{16}", first.problem)


@pytest.mark.parametrize(
    "other",
    [
        Step(4),
        Step(kernel=2),
        Step(stride=2),
        Step(layout="channels_last"),
        lambda: Step()() or torch.ones(3, 3).sum(0),
        lambda: Step()() or torch.ones(3, 3).prod(1),
        lambda: Step()() or torch.ones(3, 3, dtype=torch.float16).sum(1),
    ],
    ids=["channels", "kernel", "stride", "layout", "number", "operator", "type"],
)
def test_other_operators_are_other_work(other: Callable[[], object]) -> None:
    works = {note(body)[0].problem for body in (Step(), other, lambda: Step()() or torch.ones(3, 3).sum(1))}

    assert len(works) == 3


def test_a_round_without_convolutions_is_not_noted() -> None:
    assert note(lambda: torch.ones(3, 3).sum(1)) == ()


def test_nothing_is_observed_where_cudnn_does_not_choose_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", False)

    assert note(Step()) == ()


def test_an_observer_of_the_program_is_left_alone(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("own") / "trace.json"
    with _observed_by_the_program(str(path)):
        assert note(Step()) == ()
        Step()()

    assert "aten::_convolution" in path.read_text()


@contextmanager
def _observed_by_the_program(path: str) -> Iterator[None]:
    observer = torch.profiler.ExecutionTraceObserver().register_callback(path)
    observer.start()
    yield
    observer.stop()
    observer.unregister_callback()


def test_an_error_of_the_test_passes_through_and_ends_the_observation() -> None:
    def failing() -> None:
        raise ValueError("of the test")

    with pytest.raises(ValueError, match="of the test"):
        note(failing)

    assert note(Step())


def test_a_version_of_torch_that_writes_no_strides_gives_no_work() -> None:
    attrs = [{"name": "op_schema", "value": "aten::_convolution()"}]
    inputs = {"values": [1], "shapes": [[]], "types": ["Int"]}

    with pytest.raises(LookupError):
        describe_convolutions([{"name": "aten::_convolution", "inputs": inputs, "attrs": attrs}])


def test_only_the_last_round_that_is_watched_says_what_torch_calls() -> None:
    notes = TuningNotes()
    for is_last, body in ((False, Step(4)), (True, Step())):
        with notes.watch(is_last=is_last):
            body()

    assert notes.kernels == note(Step())
