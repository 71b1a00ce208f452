"""Every number behind a verdict on time, so that a reader of the JSON can work it out again."""

from __future__ import annotations

import math
from dataclasses import asdict

from pytest_nsight.judge.contrast import Contrast, contrast
from pytest_nsight.judge.evidence import LOOKS
from pytest_nsight.judge.location import Location
from pytest_nsight.judge.looks import equality_margin, may_differ
from pytest_nsight.judge.noise import Prior
from pytest_nsight.judge.trial import Weighing
from pytest_nsight.result import Basis, Level, Look, RunLevel


def tell_basis(weighing: Weighing, found: Contrast, prior: Prior, compared: int) -> Basis:
    """Return the numbers behind the comparison of one subject.

    Args:
        weighing: of the subject.
        found: its contrast.
        prior: of the run variance, learned from the suite.
        compared: number of subjects that the p-values were adjusted over.
    """
    shift, noise, reference = found.shift, found.noise, weighing.trial.reference
    levels = (("run", noise.run), ("session", noise.session), ("kin", noise.kin), ("board", noise.board))
    used = {id(item.durations_ns) for item in (*reference.compared, *weighing.trial.new)}
    stored = (*reference.locations, *reference.unsteady)
    new = (*weighing.trial.new, *weighing.trial.unsteady)
    return Basis(
        difference=found.difference,
        median_difference=found.median_difference,
        material=weighing.material,
        margin=equality_margin(weighing.material),
        floor_ns=weighing.floor_ns,
        compared_subjects=compared,
        prior_scale=prior.scale,
        prior_degrees_of_freedom=prior.degrees_of_freedom,
        levels=tuple(Level(name, math.sqrt(part.variance), part.degrees_of_freedom) for name, part in levels),
        level_error=math.sqrt(found.level_variance),
        level_degrees_of_freedom=found.level_df,
        canary_shift=shift.log_change if shift else None,
        canary_error=math.sqrt(shift.error_variance) if shift else None,
        canary_scatter=math.sqrt(shift.scatter_variance) if shift else None,
        canary_degrees_of_freedom=shift.scatter_df if shift else None,
        canaries=shift.canaries if shift else (),
        looks=_retrace_looks(weighing, found),
        runs=tuple(
            _tell_run(item, side, is_used=id(item.durations_ns) in used)
            for side, items in (("baseline", stored), ("new", new))
            for item in items
        ),
    )
