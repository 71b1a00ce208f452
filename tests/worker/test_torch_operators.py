"""What torch calls in a round, read from its own observer."""

from __future__ import annotations

import re
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

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


@contextmanager
def _observed_by_the_program(path: Path) -> Iterator[None]:
    observer = torch.profiler.ExecutionTraceObserver().register_callback(str(path))
    observer.start()
    yield
    observer.stop()
    observer.unregister_callback()


def test_an_observer_of_the_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    with _observed_by_the_program(path):
        assert note(Step()) == ()
        Step()()

    assert "aten::_convolution" in path.read_text()


def test_an_observer_that_the_round_registers_takes_the_place_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"

    def observed() -> None:
        with _observed_by_the_program(path):
            Step()()

    assert note(observed) == ()
    assert "aten::_convolution" in path.read_text()
    assert note(Step())


def test_an_error_of_the_test_passes_through_and_ends_the_observation() -> None:
    def failing() -> None:
        raise ValueError("of the test")

    with pytest.raises(ValueError, match="of the test"):
        note(failing)

    assert note(Step())


def test_operators_on_another_thread_outlive_the_observation() -> None:
    is_over = threading.Event()

    def add() -> None:
        ones = torch.ones(4)
        while not is_over.is_set():
            ones.add(1)

    thread = threading.Thread(target=add)
    thread.start()
    for _ in range(5):
        note(Step())
    is_over.set()
    thread.join()


@pytest.mark.parametrize("what", ["no folder", "another version", "a stub"])
def test_what_stands_against_an_observation_does_not_reach_the_test(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = Step()
    if what == "no folder":
        monkeypatch.setattr(tempfile, "tempdir", "/nonexistent")
    elif what == "another version":
        monkeypatch.delattr(torch.profiler, "ExecutionTraceObserver")
    else:
        monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))

    assert note(lambda: step.convolution) == ()


def test_a_label_that_torch_writes_as_no_json_gives_no_work() -> None:
    def labelled() -> None:
        with torch.profiler.record_function('a "label"'):
            Step()()

    assert note(labelled) == ()


@pytest.mark.parametrize("setting", ["deterministic", "allow_tf32"])
def test_a_setting_that_the_backward_pass_alone_reads_is_other_work(
    setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def backward() -> Callable[[], object]:
        step = Step()
        return step.convolution(step.images).sum().backward

    (before,) = note(backward())
    body = backward()
    monkeypatch.setattr(torch.backends.cudnn, setting, not getattr(torch.backends.cudnn, setting))
    (now,) = note(body)

    assert before.problem != now.problem


def test_an_optimizers_step_is_the_same_work_whatever_its_number() -> None:
    step = Step()
    optimizer = torch.optim.Adam(step.convolution.parameters())

    def train() -> None:
        optimizer.zero_grad()
        step()
        optimizer.step()

    train()
    works = {note(train) for _ in range(3)}

    assert len(works) == 1


def test_a_version_of_torch_that_writes_no_strides_gives_no_work() -> None:
    attrs = [{"name": "op_schema", "value": "aten::_convolution()"}]
    inputs = {"values": [1], "shapes": [[]], "types": ["Int"]}

    with pytest.raises(LookupError):
        describe_convolutions([{"name": "aten::_convolution", "inputs": inputs, "attrs": attrs}], "")


def test_one_of_the_rounds_that_are_watched_says_what_torch_calls() -> None:
    notes = TuningNotes()
    for with_operators, body in ((False, Step(4)), (True, Step())):
        with notes.watch(with_operators=with_operators):
            body()

    assert notes.kernels == note(Step())
