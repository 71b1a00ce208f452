"""Processes of an identity pass that get ready for cases which will be identified again, while others still run."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Collection, Mapping

from pytest_nsight.collectors.base import Collector
from pytest_nsight.controller.workers.prewarmed import PrewarmedWorker, call_off_all
from pytest_nsight.model.errors import CollectorError

_MOST_FOR_TREE = 3
"""Two retries of a tree run at once; the third process is ready for what is left."""


class SpareWorkers:
    """At most three for each tree."""

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

    def get_ready(self, wanted: Mapping[str, int], modules: Collection[str]) -> None:
        """Starts those that are missing, each one once, and has all import these modules while they wait.

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
        there = (one for one in self._waiting if one.tree == tree and one.process.poll() is None)
        if (worker := next(there, None)) is None:
            return self._start(tree)
        self._waiting.remove(worker)
        return worker

    def close(self) -> None:
        """Ends those that nobody has taken."""
        waiting, self._waiting = self._waiting, []
        call_off_all(waiting, self._collector)
