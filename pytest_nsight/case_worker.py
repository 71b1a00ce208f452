"""What stands behind the nsight fixture while a worker runs one case."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from pytest_nsight.mark import read_mark
from pytest_nsight.measure.races import Racer
from pytest_nsight.measure.rounds import WARMUP, Plan
from pytest_nsight.measure.stopping import FEWEST
from pytest_nsight.model import Subject, Work
from pytest_nsight.summarise.ranks import is_rank_part

if TYPE_CHECKING:
    from pytest_nsight.worker import Worker

T = TypeVar("T")


class CaseMeasurement:
    """Measures one case, at most once."""

    def __init__(self, worker: Worker, item: pytest.Item) -> None:
        self._worker = worker
        self._item = item
        self._mark = read_mark(item)
        self.has_measured = False
        self._is_whole = False
        if self._mark.work is not None:
            self.declare(self._mark.work)

    def measure(
        self, body: Callable[..., T], setup: Callable[[], Any] | None, rounds: int | None, warmup: int | None
    ) -> T:
        """Measures the body; once in a test, for a test has one baseline."""
        if self.has_measured:
            raise RuntimeError(
                "this test has been measured already: call nsight(...) once in a test, and name parts of "
                'what it measures with nsight.range("...")'
            )
        self.has_measured = True
        # Ranks must agree on the number of rounds beforehand: none may stop early.
        least = FEWEST if self._worker.job.ranks > 1 else None
        plan = Plan(
            rounds=rounds or self._mark.rounds or self._worker.job.rounds or least,
            warmup=next((n for n in (warmup, self._mark.warmup) if n is not None), WARMUP),
            rest_ns=self._mark.rest_ns,
            cold_cache=self._mark.cold_cache,
        )
        label = Subject(self._item.nodeid).label[:200]
        result = self._worker.stopwatch.measure(self._item.nodeid, label, body, setup, plan)
        if setup is None and not self._is_whole:
            self._worker.race(Racer(self._item.nodeid, body, plan))
        return result

    def measure_whole(self, body: Callable[[], T]) -> T:
        """Measures a whole test, which cannot run again once its fixtures are torn down."""
        self._is_whole = True
        return self.measure(body, None, None, None)

    def range(self, name: str) -> AbstractContextManager[None]:
        """Names a part of the round."""
        if self._worker.job.ranks > 1 and is_rank_part(name):
            raise ValueError(f"nsight.range({name!r}): a test with ranks has rows of that name; choose another")
        return self._worker.stopwatch.part(name)

    def declare(self, work: Work) -> None:
        """Tells what a round has to do; what is told last counts."""
        self._worker.tell_work(self._item.nodeid, work)
