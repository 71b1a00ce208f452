"""The difference between stored and new runs in what a round launches.

It is compared before any time: launches are deterministic, so one run shows them. A launch is identified by kind,
normalised name, grid and block. Registers and shared memory are not compared, because every new compiler changes
them without changing what the kernel does; the sentence on time mentions them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from pytest_nsight.model.values import RunSummary, Shape, ShapeSpread
from pytest_nsight.model.verdicts import ShapeChange

LAUNCH_KINDS = ("kernel", "graph", "operator")
"""The kinds that count as launches in a claim; copies and sets are structure, too, but no launches."""


@dataclass(frozen=True, slots=True)
class StructureFinding:
    """How the launches of the new runs compare with those of the stored ones.

    Attributes:
        changes: shapes whose count changed, in order of first launch, baseline first; empty if either varies.
        before: launches of a round in the baseline, without copies and sets.
        now: the same now.
        is_retiled: whether every kernel family is launched as often as before, only in other shapes or
            variants, as when an autotuner chose anew.
        retuned: the kernels that differ, if an autotuner is known to have made all the difference: it chose another
            one of the same configurations, for the same source and arguments.
        is_varying: whether the new launches differ from round to round or from run to run.
        was_varying: whether the stored ones do.
        varying: what differs, if the new launches do: between rounds where any did, else between runs.
        differs_by_round: whether it is rounds that differ, and not only runs.
        resources: phrases about changed registers and shared memory.
    """

    changes: tuple[ShapeChange, ...] = ()
    before: int = 0
    now: int = 0
    is_retiled: bool = False
    retuned: tuple[str, ...] = ()
    is_varying: bool = False
    was_varying: bool = False
    varying: tuple[ShapeSpread, ...] = ()
    differs_by_round: bool = False
    resources: tuple[str, ...] = ()


@lru_cache(maxsize=2**14)
def identify(shape: Shape) -> Shape:
    """Return the shape with only what is compared; remembered, since every run has the same."""
    return replace(shape, full_name="", registers=0, shared_bytes=0)


def count_shapes(run: RunSummary) -> Counter[Shape]:
    """Return how often a round of the run launches each identified shape, in order of first launch."""
    counts: Counter[Shape] = Counter()
    for use in run.shapes:
        if use.count > 0:
            counts[identify(use.shape)] += use.count
    return counts


def count_launches(run: RunSummary) -> int:
    """Return the launches of a round, without copies and sets."""
    return sum(use.count for use in run.shapes if use.shape.kind in LAUNCH_KINDS)


def launch_the_same(runs: Sequence[RunSummary]) -> bool:
    """Whether every round of every one of these runs launched the same multiset of shapes."""
    return all(run.is_stable for run in runs) and all(
        count_shapes(run) == count_shapes(runs[0]) for run in runs[1:]
    )


def compare_structure(
    baseline: Sequence[RunSummary], new: Sequence[RunSummary], family: Callable[[str], str]
) -> StructureFinding:
    """Compare the launches of the new runs with those of the stored runs.

    Args:
        baseline: stored runs, at least one.
        new: new runs, at least one.
        family: maps a normalised kernel name to the name that all tiles and variants of it share.
    """
    is_varying, was_varying = not launch_the_same(new), not launch_the_same(baseline)
    retuned = _find_retuned([baseline[-1], *new])
    if is_varying or was_varying:
        varying = _find_varying(new) if is_varying else ()
        differs_by_round = not all(run.is_stable for run in new)
        return StructureFinding(
            retuned=() if differs_by_round else _keep_retuned(retuned, varying),
            is_varying=is_varying,
            was_varying=was_varying,
            varying=varying,
            differs_by_round=differs_by_round,
        )
    before, now = count_shapes(baseline[-1]), count_shapes(new[-1])
    if before == now:
        return StructureFinding(resources=_compare_resources(baseline[-1], new[-1]))
    changes = tuple(
        ShapeChange(shape, before[shape], now[shape])
        for shape in dict.fromkeys((*before, *now))
        if before[shape] != now[shape]
    )
    is_retiled = _fold(before, family) == _fold(now, family)
    return StructureFinding(
        changes,
        before=count_launches(baseline[-1]),
        now=count_launches(new[-1]),
        is_retiled=is_retiled,
        retuned=_keep_retuned(retuned, changes) if is_retiled else (),
    )


def _find_retuned(runs: Sequence[RunSummary]) -> frozenset[str]:
    """Names of the kernels that got the same problems in all runs, and not the same configurations."""
    names = {kernel.name for run in runs for kernel in run.tuned}
    return frozenset(
        name
        for name in names
        if _count_different([[k.problem for k in run.tuned if k.name == name] for run in runs]) == 1
        and _count_different([[k.config for k in run.tuned if k.name == name] for run in runs]) > 1
    )


def _keep_retuned(retuned: frozenset[str], found: Sequence[ShapeChange | ShapeSpread]) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(one.shape.name for one in found))
    return names if retuned.issuperset(names) else ()


def _count_different(collections: Iterable[Iterable[str]]) -> int:
    return len({frozenset(one) for one in collections})


def _find_varying(runs: Sequence[RunSummary]) -> tuple[ShapeSpread, ...]:
    by_round = next((run.varying for run in runs if not run.is_stable), None)
    if by_round is not None:
        return by_round
    counts = [count_shapes(run) for run in runs]
    shapes = dict.fromkeys(shape for count in counts for shape in count)
    spreads = (ShapeSpread(shape, min(c[shape] for c in counts), max(c[shape] for c in counts)) for shape in shapes)
    return tuple(spread for spread in spreads if spread.least < spread.most)


def _fold(counts: Counter[Shape], family: Callable[[str], str]) -> Counter[tuple[str, str]]:
    folded: Counter[tuple[str, str]] = Counter()
    for shape, count in counts.items():
        folded[shape.kind, family(shape.name)] += count
    return folded


def _compare_resources(before: RunSummary, now: RunSummary) -> tuple[str, ...]:
    phrases: list[str] = []
    for what in ("registers", "shared_bytes"):
        old, new = _resources(before, what), _resources(now, what)
        for shape in old:
            if old[shape] != new[shape]:
                was, is_now = ("/".join(map(str, sorted(counts[shape]))) for counts in (old, new))
                phrases.append(f"{what.replace('_', ' ')} of {shape.name} {was} -> {is_now}")
    return tuple(phrases)


def _resources(run: RunSummary, what: str) -> dict[Shape, set[int]]:
    found: dict[Shape, set[int]] = {}
    for use in run.shapes:
        if use.count > 0:
            found.setdefault(identify(use.shape), set()).add(getattr(use.shape, what))
    return found
