"""Kernels for which an autotuner has chosen another configuration, for the very same work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from pytest_nsight.model.values import RunSummary


@dataclass(frozen=True, slots=True)
class RetunedKernel:
    """A kernel that got the same problems, as often each, in all runs, and not the same configurations.

    Attributes:
        name: normalised.
        before: what of its configurations only stored runs had, such as "BLOCK: 64", sorted.
        now: what of them only the new runs have.
    """

    name: str
    before: tuple[str, ...]
    now: tuple[str, ...]


def find_retuned(baseline: Sequence[RunSummary], new: Sequence[RunSummary]) -> tuple[RetunedKernel, ...]:
    """The kernels for which an autotuner chose anew, by name.

    Args:
        baseline: stored runs.
        new: new runs.
    """
    runs = (*baseline, *new)
    names = sorted({kernel.name for run in runs for kernel in run.tuned})
    return tuple(
        RetunedKernel(name, *_differing_settings(_list_settings(baseline, name), _list_settings(new, name)))
        for name in names
        if len({_list_problems(run, name) for run in runs}) == 1
        and len({_list_choices(run, name) for run in runs}) > 1
    )


def _list_problems(run: RunSummary, name: str) -> frozenset[tuple[str, int]]:
    launches: Counter[str] = Counter()
    for kernel in run.tuned:
        if kernel.name == name:
            launches[kernel.problem] += kernel.launches
    return frozenset(launches.items())


def _list_choices(run: RunSummary, name: str) -> frozenset[tuple[str, str]]:
    return frozenset((kernel.problem, kernel.config) for kernel in run.tuned if kernel.name == name)


def _list_settings(runs: Iterable[RunSummary], name: str) -> set[str]:
    configs = {kernel.config for run in runs for kernel in run.tuned if kernel.name == name}
    return {setting for config in configs for setting in config.split(", ")}


def _differing_settings(before: Collection[str], now: Collection[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tuple(sorted(set(before) - set(now))), tuple(sorted(set(now) - set(before)))
