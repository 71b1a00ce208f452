"""Which kernels explain a slowdown."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from pytest_nsight.judge.structure import LAUNCH_KINDS, identify
from pytest_nsight.model import RunSummary, Shape

_EXPLAINING_SHARE = 0.1


def find_slower_kernels(
    baseline: Sequence[RunSummary], new: Sequence[RunSummary]
) -> tuple[tuple[str, float, float], ...]:
    """Return (name, baseline ns, now ns) of the launches that got slower, worst first.

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
    return tuple((shape.name, before.get(shape, 0.0), now[shape]) for shape in slower)


def _median_times(runs: Sequence[RunSummary]) -> dict[Shape, float]:
    times: dict[Shape, list[int]] = {}
    for run in runs:
        totals: dict[Shape, int] = {}
        for use in run.shapes:
            if use.shape.kind in LAUNCH_KINDS:
                shape = identify(use.shape)
                totals[shape] = totals.get(shape, 0) + use.median_ns
        for shape, total in totals.items():
            times.setdefault(shape, []).append(total)
    return {shape: float(statistics.median(values)) for shape, values in times.items()}
