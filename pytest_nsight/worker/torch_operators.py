"""What torch calls in a round in which cuDNN chooses algorithms by their times (`torch.backends.cudnn.benchmark`).

cuDNN does not say what it chose, or for what. But torch shows an observer every operator that it calls, on every
thread, with its arguments. If two rounds call the same operators under the same settings, kernels of cuDNN that
differ between them were chosen otherwise (decision 42).
"""

from __future__ import annotations

import functools
import gc
import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pytest_nsight.model.identity import CUDNN, TunedKernel

_DIGITS = 16

_CONVOLUTIONS = ("aten::_convolution", "aten::convolution_backward")
"""What torch's functions for convolutions call, forward and backward."""

_AFTER_IDS = 2
"""Where a tensor's offset and size begin in what the observer writes: numbers of tensor and storage precede."""

_MOST_BYTES = 16_000_000
"""Of what the observer wrote, about 10,000 operators; reading more takes seconds."""

_SETTLING_S = 0.1
"""torch frees an observer although an operator on another thread may still report to it, and the process dies."""

_VARIABLES = ("NVIDIA_TF32_OVERRIDE", "CUDNN_")
"""How the names begin of what the environment says to cuDNN."""


class OperatorNotes:
    """What torch called in the round that was watched."""

    def __init__(self) -> None:
        self._settings = ""
        self._written = b""

    @property
    def tuned(self) -> tuple[TunedKernel, ...]:
        """The convolutions, as work for which cuDNN chooses; empty where it does not, and where nobody can say."""
        # An error means another version of torch, or no JSON: a child process wrote there, too, or a label has a
        # quotation mark. Launches are then compared as if cuDNN had not chosen.
        with suppress(Exception):
            return describe_convolutions(json.loads(self._written)["nodes"], self._settings)
        return ()

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Notes the operators of one round, if cuDNN is asked to choose by time."""
        observation = _observe()
        try:
            yield
        finally:
            if observation is not None:
                self._settings, self._written = observation.end()


class _Observation:
    """An observer of ours; torch has one at a time, so it ends as soon as the program wants its own."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._settings = _describe_settings(torch)
        self._kind = torch.profiler.ExecutionTraceObserver
        self._register = self._kind.register_callback
        self._folder = Path(tempfile.mkdtemp(prefix="nsight-"))
        self._written: bytes | None = None
        self._observer = self._kind().register_callback(str(self._folder / "operators.json"))
        self._observer.start()
        self._kind.register_callback = self._giving_way = self._give_way()

    def _give_way(self) -> Callable[..., Any]:
        @functools.wraps(self._register)
        def register(observer: Any, *args: Any, **kwargs: Any) -> Any:
            self.end()
            return self._register(observer, *args, **kwargs)

        return register

    def end(self) -> tuple[str, bytes]:
        """Ends the observation, if it goes on; returns settings before and after it, and what was written."""
        if self._written is None:
            self._written = b""
            with suppress(Exception):
                self._finish()
            shutil.rmtree(self._folder, ignore_errors=True)
        return f"{self._settings} {_describe_settings(self._torch)}", self._written

    def _finish(self) -> None:
        if self._kind.register_callback is self._giving_way:
            self._kind.register_callback = self._register
        self._observer.stop()
        time.sleep(_SETTLING_S)
        self._observer.unregister_callback()
        path = self._folder / "operators.json"
        if path.stat().st_size <= _MOST_BYTES:
            self._written = path.read_bytes()


def _observe() -> _Observation | None:
    """Begins, if cuDNN is asked to choose by time, and nothing speaks against it."""
    # The round is the user's: whatever is wrong here, it runs.
    with suppress(Exception):
        torch = sys.modules.get("torch")
        if torch is None or not (torch.cuda.is_initialized() and torch.backends.cudnn.benchmark):
            return None
        kind = torch.profiler.ExecutionTraceObserver
        # A second observer would take the place of the program's.
        if not any(issubclass(type(one), kind) and one.is_registered for one in gc.get_objects()):
            return _Observation(torch)
    return None


def _describe_settings(torch: Any) -> str:
    """What decides the choice beside operators. The backward pass of a convolution has none of it as argument."""
    cudnn = torch.backends.cudnn
    precision = getattr(getattr(cudnn, "conv", None), "fp32_precision", "")
    known = {name: value for name, value in os.environ.items() if name.startswith(_VARIABLES)}
    return json.dumps(
        [
            cudnn.enabled,
            cudnn.deterministic,
            cudnn.allow_tf32,
            str(precision),
            torch.are_deterministic_algorithms_enabled(),
            sorted(known.items()),
        ]
    )


def describe_convolutions(nodes: Iterable[Mapping[str, Any]], settings: str) -> tuple[TunedKernel, ...]:
    """The work among which cuDNN chooses, with all that torch does beside it; empty without a convolution.

    Args:
        nodes: what `torch.profiler.ExecutionTraceObserver` wrote, one for each operator. Those of several threads
            come in any order.
        settings: what else decides the choice.

    Raises:
        LookupError: a version of torch that writes no strides. Without them a tensor of another layout looks alike.
    """
    operators = [node for node in nodes if _is_operator(node)]
    convolutions = sum(node["name"] in _CONVOLUTIONS for node in operators)
    if not convolutions:
        return ()
    texts = Counter(_describe(node) for node in operators)
    lines = (settings, *(f"{times} {text}" for text, times in sorted(texts.items())))
    digest = hashlib.sha256("\0".join(lines).encode()).hexdigest()[:_DIGITS]
    return (TunedKernel(CUDNN, digest, "", convolutions),)


def _is_operator(node: Mapping[str, Any]) -> bool:
    """Whether a node is no label of a region or of a thread."""
    return any(attribute["name"] == "op_schema" and attribute["value"] for attribute in node["attrs"])


def _describe(node: Mapping[str, Any]) -> str:
    inputs = node["inputs"]
    values = [_describe_value(value, kind) for value, kind in zip(inputs["values"], inputs["types"], strict=True)]
    return json.dumps([node["name"], values, inputs["shapes"], inputs["strides"], inputs["types"]])


def _describe_value(value: Any, kind: str) -> Any:
    if kind.startswith("Tensor"):
        return value[_AFTER_IDS:]
    # Of lists of tensors the shapes, strides and types say all but the place. An optimizer's factors follow the
    # number of its step, and no convolution has a fraction among its arguments.
    return None if "Tensor" in kind or kind == "Double" else value
