"""Rounds beside those of the user's cases: interleaved pairs of cases, and the canaries between cases.

The rounds of a case and of the one that it claims to beat are interleaved, so that drift affects both alike.
Pytest runs one test after the other, so the body of the first is kept until the second has been measured. A kept
body keeps its tensors alive, which is why there is a limit to what may be kept. A canary that fails never harms a
test.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace

from pytest_nsight.protocol.journal import Journal
from pytest_nsight.protocol.manifest_events import PairedRounds
from pytest_nsight.worker.canaries import Canary, choose_places, due
from pytest_nsight.worker.measured_body import MeasuredBody, RoundPlan
from pytest_nsight.worker.rounds import RoundRunner

PAIRS = 30
"""Most pairs. There are fewer where one of both cases may end after fewer rounds."""

WARMUP = 3
"""Warm-up rounds of each body before the pairs; few are enough, because both bodies have been measured already.

What torch.compile had compiled of the kept one is forgotten: it compiles, captures its graph, and replays it.
"""


class PairSchedule:
    """Keeps bodies from one case to the next, and interleaves the rounds of those that belong together."""

    def __init__(self, cases: Sequence[str], partners: Mapping[str, str], *, measures: bool = True) -> None:
        """Prepares.

        Args:
            cases: the run's, in order.
            partners: case -> the case that it claims to beat.
            measures: whether rounds are interleaved. Claims are judged in one of two trees, but both keep bodies,
                so that a case finds the same memory in both.
        """
        self._measures = measures
        self._next = dict(itertools.pairwise(cases))
        self._partners = partners
        self._kept: list[MeasuredBody[object]] = []
        self._count = 0

    def enter(self, own: MeasuredBody[object], runner: RoundRunner, journal: Journal) -> None:
        """Interleaves a case, just measured, with the cases kept for it; keeps it if a later case needs it.

        Alternating bodies evict one another from the cache, so cases that ask for a warm one are left out.
        """
        if not own.plan.cold_cache:
            return
        for kept in self._kept if self._measures else ():
            if self._partners.get(own.case) == kept.case:
                self._interleave(own, kept, runner, journal)
            if self._partners.get(kept.case) == own.case:
                self._interleave(kept, own, runner, journal)
        if self._belong_together(own.case, self._next.get(own.case)) and runner.device.has_room_to_keep():
            self._kept.append(own)

    def leave(self, case: str, runner: RoundRunner) -> None:
        """Releases, after a case, all bodies that do not belong with the next one."""
        kept = [body for body in self._kept if self._belong_together(body.case, self._next.get(case))]
        has_dropped = len(kept) < len(self._kept)
        self._kept = kept
        if has_dropped:
            runner.device.release()

    def _belong_together(self, case: str, other: str | None) -> bool:
        return other is not None and (self._partners.get(case) == other or self._partners.get(other) == case)

    def _interleave(
        self, own: MeasuredBody[object], partner: MeasuredBody[object], runner: RoundRunner, journal: Journal
    ) -> None:
        self._count += 1
        ids = tuple(f"nsight_pairs::{self._count}/{role}" for role in ("own", "partner"))
        pairs = min(PAIRS, *(one.plan.rounds or one.plan.rule.fewest for one in (own, partner)))
        bodies = [
            replace(one, case=id_, label=id_, plan=replace(one.plan, warmup=min(one.plan.warmup, WARMUP)))
            for id_, one in zip(ids, (own, partner), strict=True)
        ]
        try:
            runner.measure_alternately(bodies, pairs)
        except Exception as error:
            # The kept body may need something that its test has torn down. The claim is then judged from the runs.
            journal.write_fault("pair_fault", own.case, error)
            return
        journal.write("pair", **asdict(PairedRounds(own.case, partner.case, *ids)))


class CanarySchedule:
    """The canaries of one run, each measured once at its place."""

    def __init__(self, cases: int, seed: int) -> None:
        """Draws the places, see `choose_places`."""
        self._places = choose_places(cases, seed)
        self._measured: set[str] = set()

    def measure(self, runner: RoundRunner, journal: Journal, done: int, rounds: int | None) -> None:
        """Measures those that are due after `done` cases."""
        known = {canary.name: canary for canary in runner.device.canaries}
        for name in due(self._places, done, self._measured):
            self._measured.add(name)
            if name in known:
                _measure(known[name], runner, journal, rounds)


def _measure(canary: Canary, runner: RoundRunner, journal: Journal, rounds: int | None) -> None:
    journal.write("case", case=canary.case)
    try:
        try:
            _prepare_and_measure(canary, runner, journal, rounds)
        finally:
            runner.device.release()
    except Exception as error:
        journal.write_fault("canary_fault", canary.case, error)
        return
    journal.write("case_end", case=canary.case)


def _prepare_and_measure(canary: Canary, runner: RoundRunner, journal: Journal, rounds: int | None) -> None:
    """A function of its own, so that its tensors are free when it returns."""
    prepared = canary.prepare()
    if prepared.work is not None:
        journal.write_work(canary.case, prepared.work)
    plan = RoundPlan(rounds=rounds, cold_cache=canary.cold_cache)
    runner.measure(MeasuredBody(canary.case, f"canary {canary.name}", prepared.body, plan=plan))
