"""Races: a case and the one that it claims to beat, measured in turns, so that drift strikes both alike.

Pytest runs one test after the other, so the body of the first is kept until the second has been measured. It keeps
its tensors alive for that long, which is why there is a limit to what may be kept.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_nsight.protocol.manifest import Journal
from pytest_nsight.worker.rounds import Plan, Stopwatch

PAIRS = 30
WARMUP = 2
"""Unmeasured rounds of each before a race: both bodies have been measured already."""


@dataclass(frozen=True, slots=True)
class Racer:
    """A case that can be measured again.

    Attributes:
        case: node id.
        body: what a round runs.
        plan: how the case was measured.
    """

    case: str
    body: Callable[[], object]
    plan: Plan


class RaceTrack:
    """Keeps bodies from one case to the next, and races those that belong together."""

    def __init__(self, cases: Sequence[str], partners: Mapping[str, str]) -> None:
        """Prepares.

        Args:
            cases: the run's, in order.
            partners: case -> the case that it claims to beat.
        """
        self._next = dict(itertools.pairwise(cases))
        self._partners = partners
        self._kept: list[Racer] = []
        self._races = 0

    def enter(self, racer: Racer, stopwatch: Stopwatch, journal: Journal) -> None:
        """Races a case that has just been measured against those kept for it, then keeps it if need be.

        A warm cache is not kept warm by turns, so cases that ask for one are not raced.
        """
        if not racer.plan.cold_cache:
            return
        for other in self._kept:
            if self._partners.get(racer.case) == other.case:
                self._race(racer, other, stopwatch, journal)
            if self._partners.get(other.case) == racer.case:
                self._race(other, racer, stopwatch, journal)
        if self._belong_together(racer.case, self._next.get(racer.case)) and stopwatch.device.has_room_to_keep():
            self._kept.append(racer)

    def leave(self, case: str, stopwatch: Stopwatch) -> None:
        """Lets go, after a case, of all bodies that the next one is not to race against."""
        kept = [racer for racer in self._kept if self._belong_together(racer.case, self._next.get(case))]
        has_dropped = len(kept) < len(self._kept)
        self._kept = kept
        if has_dropped:
            stopwatch.device.release()

    def _belong_together(self, case: str, other: str | None) -> bool:
        return other is not None and (self._partners.get(case) == other or self._partners.get(other) == case)

    def _race(self, own: Racer, partner: Racer, stopwatch: Stopwatch, journal: Journal) -> None:
        self._races += 1
        ids = tuple(f"nsight_races::{self._races}/{side}" for side in ("own", "partner"))
        pairs = min(PAIRS, own.plan.rounds or PAIRS, partner.plan.rounds or PAIRS)
        lanes = [
            (id_, racer.body, replace(racer.plan, warmup=min(racer.plan.warmup, WARMUP)))
            for id_, racer in zip(ids, (own, partner), strict=True)
        ]
        try:
            stopwatch.take_turns(lanes, pairs)
        except Exception as error:
            # The kept body may need what its test has since torn down; the claim is then judged from the runs.
            journal.write_fault("race_fault", own.case, error)
            return
        journal.write("race", case=own.case, partner=partner.case, own_rounds=ids[0], partner_rounds=ids[1])
