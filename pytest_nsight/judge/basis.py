"""The numbers behind a verdict on time, so that a reader of the JSON can work it out again.

The kernels that explain a slowdown are among them.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace

from pytest_nsight.judge.contrast import Contrast, contrast
from pytest_nsight.judge.location import Location
from pytest_nsight.judge.looks import may_differ
from pytest_nsight.judge.noise import Prior
from pytest_nsight.judge.prepared import PreparedSubject
from pytest_nsight.judge.structure import LAUNCH_KINDS, comparable_shape
from pytest_nsight.judge.subject_runs import LOOKS
from pytest_nsight.judge.thresholds import equality_margin
from pytest_nsight.model.comparison import Basis, Look, NoiseLevel, RunLevel, SlowerKernel
from pytest_nsight.model.shapes import Shape
from pytest_nsight.model.values import RunSummary


def collect_basis(subject: PreparedSubject, found: Contrast, prior: Prior, compared: int) -> Basis:
    """The numbers behind the comparison of one subject.

    Args:
        subject: what was compared.
        found: its contrast.
        prior: of the run variance, learned from the suite.
        compared: number of subjects that the p-values were adjusted over.
    """
    shift, noise = found.shift, found.noise
    levels = (
        ("run", noise.run),
        ("session", noise.session),
        ("board group", noise.board_group),
        ("board", noise.board),
        ("context", noise.context),
    )
    used = {id(item) for item in (*subject.compared, *subject.new)}
    stored = (*subject.stored, *subject.stored_aside)
    new = (*subject.new, *subject.new_aside)
    return Basis(
        difference=found.difference,
        median_difference=found.median_difference,
        material=found.material,
        margin=equality_margin(found.material),
        floor_ns=found.floor_ns,
        compared_subjects=compared,
        prior_scale=prior.scale,
        prior_degrees_of_freedom=prior.degrees_of_freedom,
        levels=tuple(NoiseLevel(name, math.sqrt(part.variance), part.degrees_of_freedom) for name, part in levels),
        level_error=math.sqrt(found.level_variance),
        level_degrees_of_freedom=found.level_df,
        canary_shift=shift.log_change if shift else None,
        canary_error=math.sqrt(shift.error_variance) if shift else None,
        canary_scatter=math.sqrt(shift.scatter_variance) if shift else None,
        canary_degrees_of_freedom=shift.scatter_df if shift else None,
        canaries=shift.canaries if shift else (),
        context_shift=found.context_shift,
        in_pairs=found.in_pairs,
        looks=_retrace_looks(found),
        runs=tuple(
            _run_level(item, is_new=is_new, is_compared=id(item) in used)
            for is_new, items in ((False, stored), (True, new))
            for item in items
        ),
    )


def _retrace_looks(found: Contrast) -> tuple[Look, ...]:
    """The comparison at every look that the subject took."""
    looks = []
    for runs in LOOKS[1:] if found.is_paired else LOOKS:
        if runs >= found.new_runs:
            break
        # A revision's runs are made along with the new ones.
        compared = found.compared[:runs] if found.is_paired else found.compared
        then = contrast(compared, found.new[:runs], found.noise, found.shift, in_pairs=found.in_pairs)
        looks.append(_look(replace(then, material=found.material, is_paired=found.is_paired)))
    return (*looks, _look(found))


def _look(found: Contrast) -> Look:
    return Look(
        runs=found.new_runs,
        difference=found.difference,
        standard_error=found.standard_error,
        degrees_of_freedom=found.degrees_of_freedom,
        may_regress=may_differ(found, slower=True),
        may_improve=may_differ(found, slower=False),
    )


def _run_level(location: Location, *, is_new: bool, is_compared: bool) -> RunLevel:
    modes = location.modes
    return RunLevel(
        is_new=is_new,
        run=location.run,
        session=location.session,
        board=location.board,
        log_ns=location.log_ns,
        within_error=location.within_error,
        drift=location.drift,
        mode_gap=modes.gap if modes else None,
        mode_share=modes.share if modes else None,
        is_clock_mode=modes.is_clock if modes else None,
        cases=location.cases,
        is_compared=is_compared,
    )


_EXPLAINING_SHARE = 0.1


def find_slower_kernels(baseline: Sequence[RunSummary], new: Sequence[RunSummary]) -> tuple[SlowerKernel, ...]:
    """The launches that got slower, worst first.

    Times are medians over runs of the shape's total in a round. Left out is what makes up less than a tenth
    of the sum of all growth.
    """
    before, now = _median_times(baseline), _median_times(new)
    growth = {shape: now[shape] - before.get(shape, 0.0) for shape in now}
    total = sum(change for change in growth.values() if change > 0)
    slower = sorted(
        (shape for shape, change in growth.items() if change > 0 and change >= _EXPLAINING_SHARE * total),
        key=lambda shape: (-growth[shape], shape),
    )
    return tuple(SlowerKernel(shape.name, before.get(shape, 0.0), now[shape]) for shape in slower)


def change_of_others(
    baseline: Sequence[RunSummary],
    new: Sequence[RunSummary],
    is_chosen: Callable[[Shape], bool],
    *,
    with_copies: bool,
) -> float:
    """The change of a round's device time if the chosen shapes had kept theirs, as a log ratio.

    Args:
        baseline: stored runs, at least one.
        new: new runs, at least one.
        is_chosen: says of a shape, with its full name, whether it follows from a choice.
        with_copies: whether copies and memory sets count.
    """
    was, is_now = (
        statistics.median(_total(run, is_chosen, with_copies=with_copies) for run in runs)
        for runs in (baseline, new)
    )
    total = statistics.median(_total(run, lambda _: False, with_copies=with_copies) for run in baseline)
    return math.log1p((is_now - was) / total) if total else 0.0


def _total(run: RunSummary, is_left_out: Callable[[Shape], bool], *, with_copies: bool) -> int:
    return sum(
        use.median_ns
        for use in run.shapes
        if (with_copies or use.shape.kind in LAUNCH_KINDS) and not is_left_out(use.shape)
    )


def _median_times(runs: Sequence[RunSummary]) -> dict[Shape, float]:
    times: dict[Shape, list[int]] = {}
    for run in runs:
        totals: dict[Shape, int] = {}
        for use in run.shapes:
            if use.shape.kind in LAUNCH_KINDS:
                shape = comparable_shape(use.shape)
                totals[shape] = totals.get(shape, 0) + use.median_ns
        for shape, total in totals.items():
            times.setdefault(shape, []).append(total)
    return {shape: float(statistics.median(values)) for shape, values in times.items()}
