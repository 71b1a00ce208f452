"""Which collector works here: the best one, and a sentence about why not a better one."""

from __future__ import annotations

import importlib.util

from pytest_nsight.collectors.base import Collector
from pytest_nsight.collectors.machine import gpu_names
from pytest_nsight.collectors.nsys.collector import NsysCollector
from pytest_nsight.collectors.torch.recorder import TorchCollector
from pytest_nsight.model.errors import CollectorError, NsysError


def choose(wanted: str, *, strict: bool) -> tuple[Collector, tuple[str, ...]]:
    """Picks the collector.

    Args:
        wanted: "nsys", "torch", or "auto" for the best that works.
        strict: whether a fallback is refused.

    Returns:
        The collector, and sentences to show the user.

    Raises:
        CollectorError: the wanted one does not work here, none does, or --nsight-strict forbids the one that does.
    """
    if wanted == "nsys":
        return NsysCollector.find(), ()
    if wanted == "torch":
        return _torch(), ()
    if not gpu_names():
        obstacle = "no CUDA device here, so CPU operators are measured instead of kernels"
    else:
        try:
            return NsysCollector.find(), ()
        except NsysError as error:
            obstacle = f"torch.profiler instead of Nsight Systems: {error}"
    if strict:
        raise CollectorError(f"--nsight-strict refuses a fallback collector: {obstacle}")
    return _torch(), (obstacle,)


def _torch() -> TorchCollector:
    if importlib.util.find_spec("torch") is None:
        raise CollectorError("the torch collector needs PyTorch: pip install pytest-nsight[gpu]")
    has_gpu = bool(gpu_names())
    kind = "CUDA kernels" if has_gpu else "CPU operators"
    return TorchCollector(f"torch ({kind} through torch.profiler)", times_processor=not has_gpu)
