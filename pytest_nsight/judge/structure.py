"""The difference between stored and new runs in what a round launches.

It is compared before any time: launches are deterministic, so one run shows them. A launch is identified by kind,
normalised name, grid and block. Registers and shared memory are not compared, because every new compiler changes
them without changing what the kernel does; the sentence on time mentions them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from pytest_nsight.judge.library_choices import differ_by_products, is_chosen
from pytest_nsight.judge.tuning import RetunedKernel, find_retuned
from pytest_nsight.model.identity import CHOOSERS, CUDNN
from pytest_nsight.model.shapes import Shape, ShapeSpread
from pytest_nsight.model.values import RunSummary
from pytest_nsight.model.verdicts import ShapeChange

LAUNCH_KINDS = ("kernel", "graph", "operator")
"""The kinds that count as launches in a claim. Copies and sets belong to the structure, but are no launches."""

WHY_VARYING = (
    "at random, because another test changes what is launched (let it undo that), or because a script makes its "
    "calls in another order (give each a name of its own); then save again"
)
"""Why stored launches differ by run, and what to do about it."""


@dataclass(frozen=True, slots=True)
class StructureFinding:
    """How the launches of the new runs compare with those of the stored ones.

    Attributes:
        changes: shapes whose count changed, in order of first launch, baseline first; empty if either varies.
        before: launches of a round in the baseline, without copies and sets.
        now: the same now.
        is_retiled: whether every kernel family is launched as often as before, only in other shapes or
            variants, for example because an autotuner chose again.
        retuned: kernels for which an autotuner or a library chose anew, if nothing else differs between the
            launches of any runs; then `changes` fail nothing, and neither side counts as varying.
        also_retuned: kernels that were chosen anew where other launches differ, too.
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
    retuned: tuple[RetunedKernel, ...] = ()
    also_retuned: tuple[RetunedKernel, ...] = ()
    is_varying: bool = False
    was_varying: bool = False
    varying: tuple[ShapeSpread, ...] = ()
    differs_by_round: bool = False
    resources: tuple[str, ...] = ()

    @property
    def is_unchanged(self) -> bool:
        """Whether all launches are the same, but for registers and shared memory."""
        return not (self.changes or self.retuned or self.is_varying or self.was_varying)


@lru_cache(maxsize=2**14)
def comparable_shape(shape: Shape) -> Shape:
    """The shape with only what is compared; cached, since every run has the same shapes."""
    return replace(shape, full_name="", registers=0, shared_bytes=0)


def count_shapes(run: RunSummary) -> Counter[Shape]:
    """How often a round of the run launches each identified shape, in order of first launch."""
    counts: Counter[Shape] = Counter()
    for use in run.shapes:
        if use.count > 0:
            counts[comparable_shape(use.shape)] += use.count
    return counts


def count_launches(run: RunSummary) -> int:
    """The launches of a round, without copies and sets."""
    return sum(use.count for use in run.shapes if use.shape.kind in LAUNCH_KINDS)


def launch_the_same(runs: Sequence[RunSummary]) -> bool:
    """Whether every round of every one of these runs launched the same multiset of shapes."""
    return all(run.is_stable for run in runs) and all(
        count_shapes(run) == count_shapes(runs[0]) for run in runs[1:]
    )


def compare_structure(
    baseline: Sequence[RunSummary], new: Sequence[RunSummary], family: Callable[[str], str]
) -> StructureFinding:
    """Compares the launches of the new runs with those of the stored runs.

    Args:
        baseline: stored runs, at least one.
        new: new runs, at least one.
        family: maps a normalised kernel name to the name that all tiles and variants of it share.
    """
    is_varying, was_varying = not launch_the_same(new), not launch_the_same(baseline)
    before, now = count_shapes(baseline[-1]), count_shapes(new[-1])
    changes = tuple(
        ShapeChange(shape, before[shape], now[shape])
        for shape in dict.fromkeys((*before, *now))
        if before[shape] != now[shape]
    )
    retuned = find_retuned(baseline, new)
    if retuned and _differ_by_tuning_only([*baseline, *new], retuned, family):
        return StructureFinding(changes, is_retiled=bool(changes), retuned=retuned)
    if is_varying or was_varying:
        return StructureFinding(
            also_retuned=retuned,
            is_varying=is_varying,
            was_varying=was_varying,
            varying=_find_varying(new) if is_varying else (),
            differs_by_round=not all(run.is_stable for run in new),
        )
    if not changes:
        return StructureFinding(resources=_compare_resources(baseline[-1], new[-1]))
    return StructureFinding(
        changes,
        before=count_launches(baseline[-1]),
        now=count_launches(new[-1]),
        is_retiled=_fold(before, family) == _fold(now, family),
        also_retuned=retuned,
    )


def vary_beyond_choices(runs: Sequence[RunSummary], family: Callable[[str], str]) -> bool:
    """Whether launches differ between these runs or their rounds by more than what a tuner or a library chose."""
    if launch_the_same(runs):
        return False
    return len(runs) < 2 or not compare_structure(runs[:1], runs[1:], family).retuned


def _differ_by_tuning_only(
    runs: Sequence[RunSummary], retuned: Sequence[RetunedKernel], family: Callable[[str], str]
) -> bool:
    """Whether all runs and rounds launch the same, apart from launch shapes and the choices of libraries."""
    names = {kernel.name for kernel in retuned}
    for kernel in retuned:
        if kernel.name in CHOOSERS:
            if not _differ_by_choice(runs, kernel, names):
                return False
            runs = [_without(run, kernel.launches) for run in runs]
    counts = [count_shapes(run) for run in runs]
    others = [{shape: times for shape, times in one.items() if shape.name not in names} for one in counts]
    return (
        all(run.is_stable for run in runs)
        and all(one == others[0] for one in others)
        and all(_fold(one, family) == _fold(counts[0], family) for one in counts)
    )


def _differ_by_choice(runs: Sequence[RunSummary], chosen: RetunedKernel, explained: Collection[str]) -> bool:
    """Whether what a library chose explains the different numbers of what its choice brings along."""
    if chosen.name != CUDNN:
        return all(differ_by_products(runs[0], run, chosen.name, explained) for run in runs[1:])
    # Some of cuDNN's kernels need a cleared workspace.
    cleared = [sum(use.count for use in run.shapes if use.shape.kind == "memset") for run in runs]
    launched = [sum(use.count for use in run.shapes if is_chosen(CUDNN, use.shape)) for run in runs]
    return max(cleared) - min(cleared) <= max(launched)


def _without(run: RunSummary, is_left_out: Callable[[Shape], bool]) -> RunSummary:
    return replace(run, shapes=tuple(use for use in run.shapes if not is_left_out(use.shape)))


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
            found.setdefault(comparable_shape(use.shape), set()).add(getattr(use.shape, what))
    return found
