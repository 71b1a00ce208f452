"""The shift of the canaries, the plugin's own cases, from the stored sessions to this one.

Canaries run beside the user's cases in every run that is compared with stored ones. Nothing that the user edits
changes them: the session or the board causes what they all do between two sessions. A user's case counts as one
more member of the population that they are drawn from: a random-effects meta-analysis, and its prediction of one
more study.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pytest_nsight.judge.contrast import Shift
from pytest_nsight.judge.location import Location
from pytest_nsight.judge.noise import Place, shares
from pytest_nsight.judge.round_statistics import Floats
from pytest_nsight.model.comparison import CanaryChange

FEWEST_CANARIES = 4
"""With fewer, one odd canary would decide what is subtracted from every case's time."""

LARGEST_SHIFT = 0.015
"""Log change of the canaries beyond which the machine counts as another one and no time is judged."""

EXPECTED_SCATTER = 0.003
"""Standard deviation of log time among canaries that sets how much less a noisy one weighs."""


@dataclass(frozen=True, slots=True)
class CanaryLevels:
    """One canary.

    Attributes:
        name: of the case.
        run_variance: of one of its runs, of log time.
        means: mean location and number of runs of each session on each board.
    """

    name: str
    run_variance: float
    means: Mapping[Place, tuple[float, int]]

    @property
    def weight(self) -> float:
        """Weight in every mean over canaries, the same in all sessions so that steps add up."""
        return 1 / (EXPECTED_SCATTER**2 + self.run_variance)


def read_canary(name: str, run_variance: float, locations: Sequence[Location]) -> CanaryLevels:
    """A canary with the means of all its stored and new runs."""
    logs: dict[Place, list[float]] = {}
    for location in locations:
        logs.setdefault(location.place, []).append(location.log_ns)
    return CanaryLevels(
        name,
        run_variance,
        {place: (math.fsum(values) / len(values), len(values)) for place, values in logs.items()},
    )


@dataclass(frozen=True, slots=True)
class Levels:
    """The level of the canaries in each of several sessions.

    Attributes:
        canaries: those measured in every one of these sessions.
        weights: of each, summing to 1.
        levels: their weighted mean of log time in each session, against that over the sessions.
    """

    canaries: tuple[CanaryLevels, ...]
    weights: Floats
    levels: Mapping[Place, float]

    def correct(self, locations: Sequence[Location]) -> tuple[Location, ...]:
        """The locations minus the canaries' level in their session; unchanged in a session without a level."""
        levels = self.levels
        return tuple(replace(item, log_ns=item.log_ns - levels.get(item.place, 0.0)) for item in locations)

    def shift(self, before: Sequence[Location], now: Sequence[Location]) -> Shift | None:
        """What `correct` takes off the difference of these means, None if both are of the same sessions."""
        old, new = shares(before), shares(now)
        steps = {place: new.get(place, 0.0) - old.get(place, 0.0) for place in self.levels}
        if not any(steps.values()):
            return None
        moved = np.array([sum(s * c.means[place][0] for place, s in steps.items()) for c in self.canaries])
        sampling = np.array(
            [c.run_variance * sum(s**2 / c.means[place][1] for place, s in steps.items()) for c in self.canaries]
        )
        weights = self.weights
        centre = float(weights @ moved)
        # Moments of DerSimonian and Kacker (2007) for weights that are given.
        excess = float(weights @ (moved - centre) ** 2) - float((weights * (1 - weights)) @ sampling)
        scatter = max(0.0, excess / (1 - float(weights @ weights)))
        return Shift(
            log_change=centre,
            baseline_level=math.fsum(share * self.levels[place] for place, share in old.items()),
            error_variance=float(weights**2 @ (sampling + scatter)),
            scatter_variance=scatter,
            scatter_df=1 / float(weights @ weights) - 1,
            canaries=tuple(
                CanaryChange(c.name, float(change)) for c, change in zip(self.canaries, moved, strict=True)
            ),
        )


class Panel:
    """All canaries of a suite. The users' cases share few sets of sessions, so the levels of each set are kept."""

    def __init__(self, canaries: Sequence[CanaryLevels] = ()) -> None:
        self._canaries = tuple(canaries)
        self._known: dict[frozenset[Place], Levels | None] = {}

    def levels(self, locations: Sequence[Location]) -> Levels | None:
        """The levels of the sessions of these runs; None if fewer than 4 canaries were measured in all."""
        places = frozenset(location.place for location in locations)
        if places not in self._known:
            self._known[places] = self._find_levels(places)
        return self._known[places]

    def _find_levels(self, places: frozenset[Place]) -> Levels | None:
        canaries = tuple(canary for canary in self._canaries if places <= canary.means.keys())
        if len(canaries) < FEWEST_CANARIES:
            return None
        weights = np.array([canary.weight for canary in canaries])
        weights /= weights.sum()
        raw = {place: float(weights @ [canary.means[place][0] for canary in canaries]) for place in sorted(places)}
        middle = math.fsum(raw.values()) / len(raw)
        return Levels(canaries, weights, {place: level - middle for place, level in raw.items()})
