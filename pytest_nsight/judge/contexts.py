"""The noise of contexts: what else a run's process measured changes how long short launches take.

A check measures the suite once, and then its suspects in processes that measure only these. docs/decisions/0020 has
the measurements.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from scipy import special

from pytest_nsight.judge.location import Location
from pytest_nsight.judge.noise import CONTEXT_DF, Component, Place, Prior, Spread, group_by_session, pool_within
from pytest_nsight.judge.structure import LAUNCH_KINDS
from pytest_nsight.model.values import RunSummary

CONTEXT_NS = 40.0
"""Standard deviation, over contexts, of how much the earlier cases change the time of one launch.

On H200s 8 subjects of 1 to 23 us shift by 33 ns (root mean square) in processes whose order of cases is reversed,
and those of 1 to 5 us differ by 40 ns from run to run of random order. The launches of one kernel shift together,
those of different kernels do not.
"""


_KERNEL_METRICS = ("kernel", "busy", "span")
"""Metrics that contain the time of every kernel."""

_ALIKE = 1.25
"""Processes whose numbers of cases differ by less than this ratio are of one context."""

_SURE = 0.99
"""The quantile of F beyond which stored runs vary more than those of one context."""


def expected_context(run: RunSummary, metric: str, duration_ns: float) -> float:
    """The expected standard deviation of log time between processes that measure different sets of cases.

    It is `CONTEXT_NS` for each launch, shared by the launches of one kernel: a round deviates by the root of the
    sum over its kernels of the squared launches. Metrics without kernels deviate as one launch does: nothing is
    known of their parts. On a CPU no such deviation was found, and this is 0.

    Args:
        run: of the subject; its launches count.
        metric: the duration that is compared.
        duration_ns: of the subject.
    """
    if not run.ran_on_gpu:
        return 0.0
    launches: Counter[str] = Counter()
    for use in run.shapes if metric in _KERNEL_METRICS else ():
        if use.shape.kind in LAUNCH_KINDS:
            launches[use.shape.name] += use.count
    return math.log1p(CONTEXT_NS * max(1.0, math.hypot(*launches.values())) / duration_ns)


def measure_context_shift(baseline: Sequence[Location], new: Sequence[Location]) -> float:
    """The share of the runs whose context the others lack: 0 for equal contexts, 1 for none in common.

    The context of a run is the number of cases that its process measured, to a quarter: it says whether the process
    measured the suite, or only the few cases that a look asks for. A run of unknown context counts as one of the
    largest context among the new runs, because to save is to measure all that is selected.
    """
    contexts = _number_contexts(baseline, new)
    before, now = (Counter(contexts[location.cases] for location in locations) for locations in (baseline, new))
    shared = sum(min(before[context] / len(baseline), count / len(new)) for context, count in now.items())
    return max(0.0, 1 - shared)


def _number_contexts(baseline: Sequence[Location], new: Sequence[Location]) -> dict[int, int]:
    """Number of cases -> its context; a context reaches from its largest number down."""
    largest = max((location.cases for location in new), default=0)
    contexts: dict[int, int] = {}
    top, context = math.inf, -1
    for cases in sorted({location.cases or largest for location in (*baseline, *new)}, reverse=True):
        if top >= _ALIKE * cases:
            top, context = cases, context + 1
        contexts[cases] = context
    # Runs of unknown context.
    contexts[0] = contexts.get(largest, 0)
    return contexts


def estimate_contexts(
    stored: Sequence[Location], new: Sequence[Location], prior: Prior, spread: Spread, expected: float
) -> Component:
    """The variance among contexts: by how much more the stored runs vary than new ones of one context do.

    Each stored process took the cases in another order, so the stored runs sample contexts. Runs that a look asks
    for share one: however well they agree, they are one sample of it. The stored runs widen what is expected only
    where they vary more beyond doubt (F test at 1 %): noise alone would widen half of all cases. They never narrow
    it: on one level in their context, they do not show the others'.

    Args:
        stored: runs of all boards.
        new: new runs.
        prior: of the run variance.
        spread: expected standard deviations of the levels.
        expected: that of contexts; 0 for a subject that has none.
    """
    contexts = _number_contexts(stored, new)
    groups = [[run.log_ns for run in session] for session in group_by_session(stored)]
    alike: dict[tuple[Place, int], list[float]] = {}
    for run in new:
        alike.setdefault((run.place, contexts[run.cases]), []).append(run.log_ns)
    (stored_squares, stored_df), (squares, df) = pool_within(groups), pool_within(list(alike.values()))
    if not expected or not stored_df or not df:
        return Component(expected**2, CONTEXT_DF)
    within_df = prior.degrees_of_freedom + df
    within = (prior.degrees_of_freedom * prior.scale * spread.run**2 + squares) / within_df
    stored_variance = stored_squares / stored_df
    if stored_variance <= within * float(special.fdtri(stored_df, within_df, _SURE)):
        return Component(expected**2, CONTEXT_DF)
    own = stored_variance - within
    drawn = (CONTEXT_DF * expected**2 + stored_df * own) / (CONTEXT_DF + stored_df)
    return Component(max(drawn, expected**2), CONTEXT_DF)
