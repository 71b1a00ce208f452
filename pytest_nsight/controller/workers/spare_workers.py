"""Processes of an identity pass that get ready for cases which will be identified again, while others still run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable

from pytest_nsight.collectors.base import Collector
from pytest_nsight.controller.workers.prewarmed import PrewarmedWorker
from pytest_nsight.model.errors import CollectorError


class SpareWorkers:
    """At most one for each tree."""

    def __init__(self, trees: Iterable[str], start: Callable[[str], PrewarmedWorker], collector: Collector) -> None:
        """Starts none yet.

        Args:
            trees: to have one for.
            start: starts a worker on a tree.
            collector: what tidies up after one that is not wanted.
        """
        self._missing = set(trees)
        self._start = start
        self._collector = collector
        self._waiting: dict[str, PrewarmedWorker] = {}

    def get_ready(self, modules: Collection[str]) -> None:
        """Starts those that are missing, once, and has them import these modules while they wait."""
        missing, self._missing = self._missing, set()
        # One that cannot be started is started when it is wanted, and then says what is wrong.
        with contextlib.suppress(CollectorError):
            for tree in sorted(missing):
                self._waiting[tree] = self._start(tree)
        for worker in self._waiting.values():
            worker.import_early(modules)

    def take(self, tree: str) -> PrewarmedWorker:
        """The tree's worker if there is one that still waits, else a new one.

        Raises:
            CollectorError: it cannot be started.
        """
        worker = self._waiting.get(tree)
        if worker is None or worker.process.poll() is not None:
            return self._start(tree)
        return self._waiting.pop(tree)

    def close(self) -> None:
        """Ends those that nobody has taken."""
        waiting, self._waiting = self._waiting, {}
        with contextlib.ExitStack() as stack:
            for worker in waiting.values():
                # All at once, so that they end side by side. Each one is called off, even if an earlier one raises.
                worker.pipe.close()
                stack.callback(worker.call_off, self._collector)
