"""Measures the canaries between the user's cases; whatever becomes of them, it never harms a test."""

from __future__ import annotations

from pytest_nsight.manifest import Journal
from pytest_nsight.measure.canaries import Canary, choose_places, due
from pytest_nsight.measure.rounds import Plan, Stopwatch


class CanaryRota:
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
    plan = Plan(rounds=rounds, cold_cache=canary.cold_cache)
    stopwatch.measure(canary.case, f"canary {canary.name}", prepared.body, None, plan)
