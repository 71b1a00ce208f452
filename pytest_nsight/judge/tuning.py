"""Kernels that were chosen by time: in another configuration by an autotuner, or among others by a library.

An autotuner's work has a digest, and so have a graph of Inductor and a program of XLA. cuDNN reports only its
settings.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from pytest_nsight.model.identity import CHOOSERS, CUDNN, INDUCTOR, XLA
from pytest_nsight.model.values import RunSummary, Shape, ShapeUse

_BETWEEN_SETTINGS = re.compile(r", (?=\w+: )")

_CONVOLUTION = (
    r"cudnn|^(?:void )?(?:sm\d+|volta|turing|ampere|hopper)_(?:\w*_)?(?:fprop|dgrad|wgrad|g?cgemm)_"
    r"|^void (?:(?:ex|im)plicit_convolve_sgemm|[dw]grad\w*_engine|im2col4d_kernel|fft2d_[cr]2[cr]_\w+"
    r"|flip_filter|compute_gemm_pointers|DSE::\w+)\b"
)
"""cuDNN's kernels for convolutions, some by Fourier transforms; not all of them contain "cudnn".

Other matrix products are left out: cuBLAS has kernels of the same names, which change with the program's settings.
"""

_PRODUCT = (
    r"^nvjet_|^(?:void )?cutlass|^(?:void )?(?:sm\d+|volta|turing|ampere|hopper|blackwell)_\w*gemm"
    r"|^void (?:cublasLt::splitK\w*|gemm\w*|gemv\w*|cublas\w*::\w+)\b|internal::gemvx::"
)
"""cuBLAS's kernels; it takes some from CUTLASS."""

_CHOSEN_BY = {
    CUDNN: re.compile(_CONVOLUTION),
    INDUCTOR: re.compile(r"^triton_[a-z]+_fused"),
    XLA: re.compile(rf"fusion|^wrapped_|^triton_(?:gemm|softmax)|{_PRODUCT}|{_CONVOLUTION}"),
}
"""Full names of what a library chooses. The two compilers also generate other work beside a product.

A template of Inductor's, or of XLA's, takes in what is launched on its own beside cuBLAS's kernel.
"""

_BESIDE_TEMPLATES = re.compile(f"{_PRODUCT}|{_CONVOLUTION}")
"""What Inductor may choose in place of a template."""

_TEMPLATE = "triton_tem_"

_NOT_BY_TIME = re.compile(r"sdpa|attention|fmha|batch_?norm|\bbn_|rnn", re.IGNORECASE)
"""Other work of cuDNN, for which it chooses kernels by rules, not by time."""


@dataclass(frozen=True, slots=True)
class RetunedKernel:
    """A kernel that solved the same problems, each as often, in all runs, but with other configurations.

    Attributes:
        name: normalised, or one of CHOOSERS.
        before: configurations only in stored runs, such as "BLOCK: 64", sorted; of CHOOSERS names of kernels.
        now: the same, only in new runs.
        is_new: whether new runs have a choice that no stored run had. Stored times cover every other choice.
        has_templates: whether Inductor had a template to choose, so that a library's kernel may stand for it.
    """

    name: str
    before: tuple[str, ...]
    now: tuple[str, ...]
    is_new: bool
    has_templates: bool = False

    def launches(self, shape: Shape) -> bool:
        """Whether a shape, with its full name, follows from the choice."""
        if self.name not in CHOOSERS:
            return shape.name == self.name
        # Some of the kernels need a cleared workspace.
        return shape.kind == "memset" or is_chosen(self.name, shape, has_templates=self.has_templates)

    @property
    def change(self) -> str:
        """What differs between the configurations, in words."""
        before, now = ", ".join(self.before), ", ".join(self.now)
        if before and now:
            return f"{before} -> {now}"
        return f"also {now}" if now else f"no longer {before}" if before else "of several sizes"


def find_retuned(baseline: Sequence[RunSummary], new: Sequence[RunSummary]) -> tuple[RetunedKernel, ...]:
    """The kernels for which an autotuner chose anew, by name; after them libraries that chose other kernels.

    Args:
        baseline: stored runs, oldest first. An older session counts only if it had the problems of the newest one.
        new: new runs.
    """
    found: list[RetunedKernel] = []
    names = {kernel.name for run in new for kernel in run.tuned}
    for name in [*sorted(names.difference(CHOOSERS)), *(name for name in CHOOSERS if name in names)]:
        problems = _list_problems(baseline[-1], name)
        newest = [run for run in baseline if run.session == baseline[-1].session]
        stored = [run for run in baseline if _list_problems(run, name) == problems]
        if any(_list_problems(run, name) != problems for run in (*newest, *new)):
            continue
        choices = _Choices(
            name,
            has_templates=name == INDUCTOR and _launch_templates([*stored, *new]),
            # What a kernel's own configuration explains is no other kernel.
            explained=frozenset(one.name for one in found),
        )
        known = {choices.of(run) for run in stored}
        if len(known | {choices.of(run) for run in new}) > 1:
            before, now = choices.settings(stored), choices.settings(new)
            is_new = any(not choices.of(run) <= frozenset().union(*known) for run in new)
            found.append(
                RetunedKernel(name, *_differing_settings(before, now), is_new, has_templates=choices.has_templates)
            )
    return tuple(found)


def is_chosen(by: str, shape: Shape, *, has_templates: bool = False) -> bool:
    """Whether a shape, with its full name, is a kernel that this library chooses.

    Args:
        by: one of CHOOSERS.
        shape: any.
        has_templates: whether Inductor had a template to choose.
    """
    name = shape.full_name
    if shape.kind != "kernel" or (by == CUDNN and _NOT_BY_TIME.search(name)):
        return False
    return bool(_CHOSEN_BY[by].search(name) or (has_templates and _BESIDE_TEMPLATES.search(name)))


def _launch_templates(runs: Iterable[RunSummary]) -> bool:
    return any(use.count and use.shape.name.startswith(_TEMPLATE) for run in runs for use in run.shapes)


def _list_problems(run: RunSummary, name: str) -> frozenset[tuple[str, int]]:
    launches: Counter[str] = Counter()
    for kernel in run.tuned:
        if kernel.name == name:
            launches[kernel.problem] += kernel.launches
    return frozenset(launches.items())


@dataclass(frozen=True, slots=True)
class _Choices:
    """What was chosen under a name."""

    name: str
    has_templates: bool
    explained: frozenset[str]

    def of(self, run: RunSummary) -> frozenset[tuple[str, str]]:
        """The choices of a run: of a kernel its configurations, of a library what it launched and how often."""
        if self.name not in CHOOSERS:
            return frozenset((kernel.problem, kernel.config) for kernel in run.tuned if kernel.name == self.name)
        launches: Counter[str] = Counter()
        for use in self._list_uses(run):
            launches[f"{use.shape.name} {use.shape.grid} {use.shape.block}"] += use.count
        return frozenset((shape, str(times)) for shape, times in launches.items())

    def settings(self, runs: Iterable[RunSummary]) -> set[str]:
        """The values that were chosen in these runs, each on its own; of a library the names of its kernels."""
        if self.name in CHOOSERS:
            return {use.shape.name for run in runs for use in self._list_uses(run)}
        configs = {kernel.config for run in runs for kernel in run.tuned if kernel.name == self.name}
        return {setting for config in configs for setting in _BETWEEN_SETTINGS.split(config)}

    def _list_uses(self, run: RunSummary) -> list[ShapeUse]:
        return [
            use
            for use in run.shapes
            if use.count
            and use.shape.name not in self.explained
            and is_chosen(self.name, use.shape, has_templates=self.has_templates)
        ]


def _differing_settings(before: Collection[str], now: Collection[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tuple(sorted(set(before) - set(now))), tuple(sorted(set(now) - set(before)))
