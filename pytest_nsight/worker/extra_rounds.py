"""Rounds beside those of the user's cases: pairs of cases in turns, and the canaries between cases.

A case and the one that it claims to beat are measured in turns, so that drift strikes both alike. Pytest runs one
test after the other, so the body of the first is kept until the second has been measured. It keeps its tensors alive
for that long, which is why there is a limit to what may be kept. A canary that fails never harms a test.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_nsight.protocol.manifest import Journal
from pytest_nsight.worker.canaries import Canary, choose_places, due
from pytest_nsight.worker.rounds import RoundPlan, Stopwatch

PAIRS = 30
WARMUP = 2
"""Unmeasured rounds of each before a race: both bodies have been measured already."""


@dataclass(frozen=True, slots=True)
class PairBody:
    """A case that can be measured again.

    Attributes:
        case: node id.
        body: what a round runs.
        plan: how the case was measured.
    """

    case: str
    body: Callable[[], object]
    plan: RoundPlan


class PairSchedule:
    """Keeps bodies from one case to the next, and races those that belong together."""

    def __init__(self, cases: Sequence[str], partners: Mapping[str, str]) -> None:
        """Prepares.

        Args:
            cases: the run's, in order.
            partners: case -> the case that it claims to beat.
        """
        self._next = dict(itertools.pairwise(cases))
        self._partners = partners
        self._kept: list[PairBody] = []
        self._races = 0

    def enter(self, racer: PairBody, stopwatch: Stopwatch, journal: Journal) -> None:
        """Races a case that has just been measured against those kept for it, then keeps it if need be.

        A warm cache is not kept warm by assignments, so cases that ask for one are not raced.
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

    def _race(self, own: PairBody, partner: PairBody, stopwatch: Stopwatch, journal: Journal) -> None:
        self._races += 1
        ids = tuple(f"nsight_races::{self._races}/{side}" for side in ("own", "partner"))
        pairs = min(PAIRS, own.plan.rounds or PAIRS, partner.plan.rounds or PAIRS)
        worker_gpus = [
            (id_, racer.body, replace(racer.plan, warmup=min(racer.plan.warmup, WARMUP)))
            for id_, racer in zip(ids, (own, partner), strict=True)
        ]
        try:
            stopwatch.take_turns(worker_gpus, pairs)
        except Exception as error:
            # The kept body may need what its test has since torn down; the claim is then judged from the runs.
            journal.write_fault("race_fault", own.case, error)
            return
        journal.write("race", case=own.case, partner=partner.case, own_rounds=ids[0], partner_rounds=ids[1])


class CanarySchedule:
    """The canaries of one run, each measured once at its place."""

    def __init__(self, cases: int, seed: int) -> None:
        """Draws the places, see `choose_places`."""
        self._places = choose_places(cases, seed)
        self._over: set[str] = set()

    def measure(self, stopwatch: Stopwatch, journal: Journal, done: int, rounds: int | None) -> None:
        """Measures those that are due after `done` cases."""
        known = {canary.name: canary for canary in stopwatch.device.canaries}
        for name in due(self._places, done, self._over):
            self._over.add(name)
            if name in known:
                _measure(known[name], stopwatch, journal, rounds)


def _measure(canary: Canary, stopwatch: Stopwatch, journal: Journal, rounds: int | None) -> None:
    journal.write("case", case=canary.case)
    try:
        try:
            _prepare_and_measure(canary, stopwatch, journal, rounds)
        finally:
            stopwatch.device.release()
    except Exception as error:
        journal.write_fault("canary_fault", canary.case, error)
        return
    journal.write("case_end", case=canary.case)


def _prepare_and_measure(canary: Canary, stopwatch: Stopwatch, journal: Journal, rounds: int | None) -> None:
    """A function of its own, so that its tensors are free when it returns."""
    prepared = canary.prepare()
    if prepared.work is not None:
        journal.write_work(canary.case, prepared.work)
    plan = RoundPlan(rounds=rounds, cold_cache=canary.cold_cache)
    stopwatch.measure(canary.case, f"canary {canary.name}", prepared.body, None, plan)
