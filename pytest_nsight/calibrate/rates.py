"""Rates with their uncertainty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

CONFIDENCE = 0.95
_RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Rate:
    """How often something happened.

    Attributes:
        hits: how often.
        trials: of how many.
    """

    hits: int
    trials: int

    @property
    def value(self) -> float:
        """Hits per trial; NaN without trials."""
        return self.hits / self.trials if self.trials else float("nan")

    @property
    def interval(self) -> tuple[float, float]:
        """Exact 95 % interval for independent trials (Clopper and Pearson 1934)."""
        if not self.trials:
            return 0.0, 1.0
        found = stats.binomtest(self.hits, self.trials).proportion_ci(CONFIDENCE, "exact")
        return float(found.low), float(found.high)

    def write(self) -> str:
        """The rate and its interval in percent."""
        if not self.trials:
            return "-"
        low, high = self.interval
        return f"{100 * self.value:.2f} % [{100 * low:.2f}, {100 * high:.2f}]"


def bootstrap_sessions(
    hits: Sequence[bool], sessions: Sequence[tuple[str, ...]], rng: np.random.Generator
) -> tuple[float, float] | None:
    """The 95 % interval of a rate over splits, by resampling the sessions that the splits were drawn from.

    Splits of one pool share runs and sessions, so they are no independent trials: sessions are. Each resample
    draws sessions with replacement and weighs a split by how often its sessions were drawn, the product for
    different ones (the pigeonhole bootstrap, Owen 2007, doi 10.1214/07-AOAS122).

    Args:
        hits: whether it happened, for each split.
        sessions: of the stored and of the new runs of each split, each once.
        rng: resamples.

    Returns:
        The interval; None with fewer than 3 sessions, and where every split agrees, for then there is nothing
        to resample and the interval would wrongly be a point.
    """
    names = sorted({name for own in sessions for name in own})
    values = np.asarray(hits, dtype=np.float64)
    if len(names) < 3 or values.min() == values.max():
        return None
    position = {name: index for index, name in enumerate(names)}
    # A session that every resample draws once, for splits that have fewer sessions than others.
    none = len(names)
    most = max(map(len, sessions))
    columns = ([position[own[k]] if k < len(own) else none for own in sessions] for k in range(most))
    drawn = rng.multinomial(len(names), np.full(len(names), 1 / len(names)), size=_RESAMPLES)
    drawn = np.column_stack([drawn, np.ones(_RESAMPLES, dtype=drawn.dtype)])
    weights = np.ones((_RESAMPLES, len(sessions)))
    for column in columns:
        weights *= drawn[:, column]
    totals = weights.sum(axis=1)
    found = (weights @ values)[totals > 0] / totals[totals > 0]
    low, high = np.quantile(found, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)
