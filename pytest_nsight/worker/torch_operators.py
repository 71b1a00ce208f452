"""What torch does in a round in which cuDNN chooses algorithms by their times (`torch.backends.cudnn.benchmark`).

cuDNN does not say what it chose, or for what. But torch tells an observer every operator that it calls, on every
thread, with its arguments. Two rounds with the same operators can launch other kernels of cuDNN only because it
chose otherwise (decision 42).
"""

from __future__ import annotations

import gc
import hashlib
import json
import logging
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_nsight.model.identity import CUDNN, TunedKernel

_log = logging.getLogger(__name__)

_DIGITS = 16

_CONVOLUTIONS = ("aten::_convolution", "aten::convolution_backward")
"""Every convolution calls one of them, forward and backward."""

_AFTER_IDS = 2
"""Where a tensor's offset and size begin in what the observer writes: numbers of tensor and storage precede."""


@dataclass(slots=True)
class OperatorNotes:
    """What torch called in the round that was watched.

    Attributes:
        tuned: the convolutions, as work for which cuDNN chooses; empty where it does not choose by time.
    """

    tuned: tuple[TunedKernel, ...] = field(default=())

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Notes the operators of one round, if cuDNN is asked to choose by time."""
        torch = sys.modules.get("torch")
        is_choosing = torch is not None and torch.cuda.is_initialized() and torch.backends.cudnn.benchmark
        if torch is None or not is_choosing or _is_observed(torch.profiler.ExecutionTraceObserver):
            yield
            return
        with tempfile.TemporaryDirectory(prefix="nsight-") as folder:
            path = Path(folder, "operators.json")
            observer = torch.profiler.ExecutionTraceObserver().register_callback(str(path))
            observer.start()
            try:
                yield
            finally:
                observer.stop()
                observer.unregister_callback()
            try:
                self.tuned = describe_convolutions(json.loads(path.read_bytes())["nodes"])
            except (OSError, ValueError, LookupError, TypeError) as error:
                _log.debug("the operators of torch cannot be read, so launches are compared as they are: %r", error)


def _is_observed(kind: type) -> bool:
    """Whether the program has an observer of its own: torch knows only one, and a second one takes its place."""
    return any(issubclass(type(one), kind) and one.is_registered for one in gc.get_objects())


def describe_convolutions(nodes: Iterable[Mapping[str, Any]]) -> tuple[TunedKernel, ...]:
    """The work among which cuDNN chooses, with all that torch does beside it; empty without a convolution.

    Args:
        nodes: what `torch.profiler.ExecutionTraceObserver` wrote, one for each operator. Those of several threads
            come in any order.

    Raises:
        LookupError: a version of torch that writes no strides. Without them a tensor of another layout looks alike.
    """
    operators = [node for node in nodes if _is_operator(node)]
    convolutions = sum(node["name"] in _CONVOLUTIONS for node in operators)
    if not convolutions:
        return ()
    texts = Counter(_describe(node) for node in operators)
    digest = hashlib.sha256("\0".join(f"{times} {text}" for text, times in sorted(texts.items())).encode())
    return (TunedKernel(CUDNN, digest.hexdigest()[:_DIGITS], "", convolutions),)


def _is_operator(node: Mapping[str, Any]) -> bool:
    """Whether a node is no label of a region or of a thread."""
    return any(attribute["name"] == "op_schema" and attribute["value"] for attribute in node["attrs"])


def _describe(node: Mapping[str, Any]) -> str:
    inputs = node["inputs"]
    values = [
        # Of lists of tensors the shapes, strides and types say all but the place.
        value[_AFTER_IDS:] if kind.startswith("Tensor") else None if "Tensor" in kind else value
        for value, kind in zip(inputs["values"], inputs["types"], strict=True)
    ]
    return json.dumps([node["name"], values, inputs["shapes"], inputs["strides"], inputs["types"]])
