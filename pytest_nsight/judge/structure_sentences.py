"""Sentences of verdicts on structure: which launches changed, and what an autotuner may have to do with it."""

from __future__ import annotations

import math

from pytest_nsight.judge.structure import LAUNCH_KINDS, StructureFinding
from pytest_nsight.judge.subject_runs import MINIMUM_NEW_RUNS
from pytest_nsight.judge.wording import (
    unless_paired,
    write_change,
    write_choice,
    write_diff,
    write_remedy,
    write_shapes,
    write_spreads,
    write_times,
)
from pytest_nsight.model.comparison import Comparison
from pytest_nsight.model.units import count, percent


def _time_beside(comparison: Comparison | None) -> str:
    return f"; {write_times(comparison)} ({write_change(comparison)})" if comparison is not None else ""


def structure(finding: StructureFinding, comparison: Comparison | None) -> str:
    """Other launches than the baseline's."""
    return f"{_headline(finding)}{listing(finding)}{_time_beside(comparison)}{_choice_beside(finding)}"


def _choice_beside(finding: StructureFinding) -> str:
    return f"; besides, {write_choice(finding.also_retuned)}" if finding.also_retuned else ""


def listing(finding: StructureFinding) -> str:
    """The list of changes within the sentences about them, a colon before it."""
    return f": {(write_shapes if finding.is_retiled else write_diff)(finding.changes)}"


def _headline(finding: StructureFinding) -> str:
    """The kind of the change, as far as numbers of launches show it."""
    launched = [change for change in finding.changes if change.shape.kind in LAUNCH_KINDS]
    lost = sum(max(0, change.before - change.now) for change in launched)
    gained = sum(max(0, change.now - change.before) for change in launched)
    if not launched:
        return f"copies changed, launches did not ({finding.now} per round)"
    numbers = f"{finding.before} -> {finding.now} per round"
    if not gained:
        return f"launches lost, {numbers}"
    if not lost:
        return f"launches gained, {numbers}"
    if gained == lost:
        return f"launches changed, {numbers}, to other kernels"
    likeness = "as when a fusion is lost" if gained > lost else "as when kernels are fused"
    return f"launches changed, {numbers}, {likeness}"


def retiled(finding: StructureFinding, comparison: Comparison | None) -> str:
    """The same kernels in other shapes."""
    return (
        f"same kernels, other launch shapes (another tile, an autotuner's choice or another size)"
        f"{listing(finding)}{_time_beside(comparison)}{_choice_beside(finding)}"
        f"{unless_paired(comparison, '; if intended, save it with --nsight-save')}"
    )


def retiled_once(finding: StructureFinding, runs: int) -> str:
    """The same kernels in other shapes, in too few runs: an autotuner may have chosen them by chance."""
    return (
        f"same kernels, other launch shapes in {count(runs, 'run')}{listing(finding)}; "
        f"an autotuner may choose so by chance: {MINIMUM_NEW_RUNS} runs settle it "
        f"(--nsight-runs {MINIMUM_NEW_RUNS})"
    )


def unsettled_by_choice(finding: StructureFinding, comparison: Comparison, others: float) -> str:
    """An autotuner chose anew, and the time does not say what the code does; `others`: growth of all else, or 0."""
    growth = percent(math.expm1(others), signed=False)
    beside = f"; other kernels take longer, by {growth} of it, and" if others else ", but"
    return (
        f"{write_times(comparison)} ({write_change(comparison)}){beside} {write_choice(finding.retuned)}, "
        f"{write_remedy(finding.retuned)}"
        f"{unless_paired(comparison, ', or save this choice with --nsight-save')}"
    )


def varying_launches(finding: StructureFinding, comparison: Comparison) -> str:
    """Launches that changed within the new runs and never did in the baseline."""
    by_run = "let no other test change what it launches, for runs take them in other orders, or "
    remedy = f"{'' if finding.differs_by_round else by_run}fix its shapes and seeds"
    return (
        f"{variation(finding)}, as they did not in the baseline; "
        f"{write_times(comparison)} ({write_change(comparison)}); "
        f"{remedy}{unless_paired(comparison, ', or save it so with --nsight-save')}"
    )


def variation(finding: StructureFinding) -> str:
    """What varies from round to round, or from run to run, and by how much."""
    places = "round to round" if finding.differs_by_round else "run to run"
    return f"launches differ from {places}{f' ({write_spreads(finding.varying)})' if finding.varying else ''}"
