"""Processes of an identity pass that start before they are needed.

Some start while pytest still collects the tests, others while cases run that will be identified again.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

from pytest_nsight.collectors.base import Collector
from pytest_nsight.controller.workers.prewarmed import PrewarmedWorker, call_off_all
from pytest_nsight.model.errors import CollectorError

_MOST_FOR_TREE = 3
"""Two retries of a tree run at once; the third process is ready for what is left."""


class SpareWorkers:
    """Processes without an assignment."""

    def __init__(self, start: Callable[[str], PrewarmedWorker], collector: Collector) -> None:
        """Starts none yet.

        Args:
            start: starts a worker on a tree.
            collector: what tidies up after one that is not wanted.
        """
        self._start = start
        self._collector = collector
        self._tried: Counter[str] = Counter()
        self._waiting: list[PrewarmedWorker] = []
        self._early: list[PrewarmedWorker] = []
        self._dismissed: list[PrewarmedWorker] = []

    def start_early(self, trees: Sequence[str], number: int) -> None:
        """Starts processes before it is known how many are needed; none after one that cannot be started.

        Args:
            trees: of each of these, in turn.
            number: how many of each.
        """
        with contextlib.suppress(CollectorError):
            for _ in range(number):
                for tree in trees:
                    self._early.append(self._start(tree))

    def dismiss_early(self) -> None:
        """Has those of them end that have not been taken."""
        for worker in self._early:
            worker.pipe.close()
        self._dismissed += self._early
        self._early = []

    def get_ready(self, wanted: Mapping[str, int], modules: Collection[str]) -> None:
        """Starts those that are missing, each one once, and has all import these modules while they wait.

        At most three of each tree are started.

        Args:
            wanted: how many of each tree, with those that were started before.
            modules: that their cases need.
        """
        missing = [
            tree
            for tree, number in sorted(wanted.items())
            for _ in range(min(number, _MOST_FOR_TREE) - self._tried[tree])
        ]
        self._tried.update(missing)
        # One that cannot be started is started when it is wanted, and then says what is wrong.
        with contextlib.suppress(CollectorError):
            for tree in missing:
                self._waiting.append(self._start(tree))
        for worker in self._waiting:
            worker.import_early(modules)

    def take(self, tree: str) -> PrewarmedWorker:
        """A worker of the tree that still waits if there is one, else a new one.

        Raises:
            CollectorError: it cannot be started.
        """
        for ready in (self._early, self._waiting):
            for worker in ready:
                if worker.tree == tree and worker.process.poll() is None:
                    ready.remove(worker)
                    return worker
        return self._start(tree)

    def close(self) -> None:
        """Ends those that nobody has taken; others may be started after that."""
        self.dismiss_early()
        ended = [*self._waiting, *self._dismissed]
        self._waiting, self._dismissed = [], []
        self._tried.clear()
        call_off_all(ended, self._collector)
