"""Kernels for which an autotuner chose another configuration for equal work, and kernels that cuDNN chose by time.

An autotuner's work has a digest. cuDNN reports only its settings.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from pytest_nsight.model.identity import CUDNN
from pytest_nsight.model.values import RunSummary, Shape, ShapeUse

_BETWEEN_SETTINGS = re.compile(r", (?=\w+: )")

_OF_CUDNN = re.compile(
    r"cudnn|^(?:void )?(?:sm\d+|volta|turing|ampere|hopper)_(?:\w*_)?(?:fprop|dgrad|wgrad|g?cgemm)_"
    r"|^void (?:(?:ex|im)plicit_convolve_sgemm|[dw]grad\w*_engine|im2col4d_kernel|fft2d_[cr]2[cr]_\w+"
    r"|flip_filter|compute_gemm_pointers|DSE::\w+)\b"
)
"""Full names of cuDNN's convolution kernels, some by Fourier transforms; not all of them contain "cudnn".

Other matrix products are left out: cuBLAS has kernels of the same names, which change with the program's settings.
"""

_NOT_BY_TIME = re.compile(r"sdpa|attention|fmha|batch_?norm|\bbn_|rnn", re.IGNORECASE)
"""Other work of cuDNN, for which it chooses kernels by rules, not by time."""


@dataclass(frozen=True, slots=True)
class RetunedKernel:
    """A kernel that solved the same problems, each as often, in all runs, but with other configurations.

    Attributes:
        name: normalised, or CUDNN.
        before: configurations only in stored runs, such as "BLOCK: 64", sorted; for CUDNN, names of kernels.
        now: the same, only in new runs.
        is_new: whether new runs have a choice that no stored run had. Stored times cover every other choice.
    """

    name: str
    before: tuple[str, ...]
    now: tuple[str, ...]
    is_new: bool

    def launches(self, shape: Shape) -> bool:
        """Whether a shape, with its full name, follows from the choice."""
        if self.name == CUDNN:
            # Some of its kernels need a cleared workspace.
            return shape.kind == "memset" or is_chosen_by_cudnn(shape)
        return shape.name == self.name

    @property
    def change(self) -> str:
        """What differs between the configurations, in words."""
        before, now = ", ".join(self.before), ", ".join(self.now)
        if before and now:
            return f"{before} -> {now}"
        return f"also {now}" if now else f"no longer {before}" if before else "of several sizes"


def find_retuned(baseline: Sequence[RunSummary], new: Sequence[RunSummary]) -> tuple[RetunedKernel, ...]:
    """The kernels for which an autotuner chose anew, by name.

    Args:
        baseline: stored runs, oldest first. An older session counts only if it had the problems of the newest one.
        new: new runs.
    """
    found = []
    for name in sorted({kernel.name for run in new for kernel in run.tuned}):
        problems = _list_problems(baseline[-1], name)
        newest = [run for run in baseline if run.session == baseline[-1].session]
        stored = [run for run in baseline if _list_problems(run, name) == problems]
        if any(_list_problems(run, name) != problems for run in (*newest, *new)):
            continue
        choices = {_list_choices(run, name) for run in stored}
        if len(choices | {_list_choices(run, name) for run in new}) > 1:
            before, now = _list_settings(stored, name), _list_settings(new, name)
            known = frozenset().union(*choices)
            is_new = any(not _list_choices(run, name) <= known for run in new)
            found.append(RetunedKernel(name, *_differing_settings(before, now), is_new))
    return tuple(found)


def is_chosen_by_cudnn(shape: Shape) -> bool:
    """Whether a shape, with its full name, is a kernel for a convolution."""
    name = shape.full_name
    return shape.kind == "kernel" and bool(_OF_CUDNN.search(name)) and not _NOT_BY_TIME.search(name)


def _list_problems(run: RunSummary, name: str) -> frozenset[tuple[str, int]]:
    launches: Counter[str] = Counter()
    for kernel in run.tuned:
        if kernel.name == name:
            launches[kernel.problem] += kernel.launches
    return frozenset(launches.items())


def _list_choices(run: RunSummary, name: str) -> frozenset[tuple[str, str]]:
    if name != CUDNN:
        return frozenset((kernel.problem, kernel.config) for kernel in run.tuned if kernel.name == name)
    launches: Counter[str] = Counter()
    for use in _list_convolutions(run):
        launches[f"{use.shape.name} {use.shape.grid} {use.shape.block}"] += use.count
    return frozenset((shape, str(times)) for shape, times in launches.items())


def _list_settings(runs: Iterable[RunSummary], name: str) -> set[str]:
    if name == CUDNN:
        return {use.shape.name for run in runs for use in _list_convolutions(run)}
    configs = {kernel.config for run in runs for kernel in run.tuned if kernel.name == name}
    return {setting for config in configs for setting in _BETWEEN_SETTINGS.split(config)}


def _list_convolutions(run: RunSummary) -> list[ShapeUse]:
    return [use for use in run.shapes if use.count and is_chosen_by_cudnn(use.shape)]


def _differing_settings(before: Collection[str], now: Collection[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tuple(sorted(set(before) - set(now))), tuple(sorted(set(now) - set(before)))
