"""Kernels that were chosen by time: in another configuration by an autotuner, or among others by a library.

An autotuner's work has a digest, and so have a graph of Inductor and a program of XLA. cuDNN reports only its
settings.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from pytest_nsight.judge.library_choices import is_chosen, is_product
from pytest_nsight.model.identity import CHOOSERS, CUDNN
from pytest_nsight.model.shapes import Shape, ShapeUse
from pytest_nsight.model.values import RunSummary

_BETWEEN_SETTINGS = re.compile(r", (?=\w+: )")


@dataclass(frozen=True, slots=True)
class RetunedKernel:
    """A kernel that solved the same problems, each as often, in all runs, but with other configurations.

    Attributes:
        name: normalised, or one of CHOOSERS.
        before: configurations only in stored runs, such as "BLOCK: 64", sorted; of CHOOSERS names of kernels.
        now: the same, only in new runs.
        is_new: whether new runs have a choice that no stored run had. Stored times cover every other choice.
    """

    name: str
    before: tuple[str, ...]
    now: tuple[str, ...]
    is_new: bool

    def launches(self, shape: Shape) -> bool:
        """Whether a shape, with its full name, follows from the choice."""
        if self.name not in CHOOSERS:
            return shape.name == self.name
        # Some of the kernels need a cleared workspace.
        return shape.kind == "memset" or is_chosen(self.name, shape)


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
        choices = _Choices(name)
        known = {choices.of(run) for run in stored}
        if len(known | {choices.of(run) for run in new}) > 1:
            before, now = choices.settings(stored), choices.settings(new)
            is_new = any(not choices.of(run) <= frozenset().union(*known) for run in new)
            found.append(RetunedKernel(name, *_differing_settings(before, now), is_new))
    return tuple(found)


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

    def of(self, run: RunSummary) -> frozenset[tuple[str, str]]:
        """The choices of a run: of a kernel its configurations, of a library what it launched and how often.

        Two tiles of a compiler's template may have the same launch shape, but not the same registers and memory.
        """
        if self.name not in CHOOSERS:
            return frozenset((kernel.problem, kernel.config) for kernel in run.tuned if kernel.name == self.name)
        launches: Counter[str] = Counter()
        for use in self._list_uses(run):
            shape = use.shape
            resources = () if self.name == CUDNN else (shape.registers, shape.shared_bytes)
            launches[f"{shape.name} {shape.grid} {shape.block} {resources}"] += use.count
        return frozenset((shape, str(times)) for shape, times in launches.items())

    def settings(self, runs: Iterable[RunSummary]) -> set[str]:
        """The values that were chosen in these runs, each on its own; of a library the names of its kernels."""
        if self.name in CHOOSERS:
            return {use.shape.name for run in runs for use in self._list_uses(run)}
        configs = {kernel.config for run in runs for kernel in run.tuned if kernel.name == self.name}
        return {setting for config in configs for setting in _BETWEEN_SETTINGS.split(config)}

    def _list_uses(self, run: RunSummary) -> list[ShapeUse]:
        is_one = is_chosen if self.name == CUDNN else is_product
        return [use for use in run.shapes if use.count and is_one(self.name, use.shape)]


def _differing_settings(before: Collection[str], now: Collection[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tuple(sorted(set(before) - set(now))), tuple(sorted(set(now) - set(before)))
