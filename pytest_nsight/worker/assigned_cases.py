"""Which of the collected tests run: those of the assignment and, in an identity pass, of those that follow it.

A process that gets ready for an assignment that never comes ends as soon as it can: the session waits for its end.
"""

from __future__ import annotations

import importlib.abc
import os
import sys
from collections.abc import Collection, Sequence
from contextlib import suppress
from types import FrameType, ModuleType

import pytest

from pytest_nsight.protocol.job import Assignment
from pytest_nsight.protocol.manifest_events import Journal
from pytest_nsight.protocol.parent_pipe import PipeFromParent
from pytest_nsight.worker.late_imports import import_early


class AssignedCases:
    """The items of a pytest session that its controller wants, which may become more while they run."""

    def __init__(self, journal: Journal, parent_pipe: PipeFromParent) -> None:
        self._journal = journal
        self._parent_pipe = parent_pipe
        self._imports = _UnwantedImports(parent_pipe)
        self._collected: list[pytest.Item] = []
        self._continues = False

    def end_if_unwanted(self) -> None:
        """Ends the process if its result is no longer wanted, and from now on at imports, until it is assigned."""
        if self._parent_pipe.is_closed:
            os._exit(0)
        self._imports.watch()

    def wait(self, session: pytest.Session) -> Assignment | None:
        """Waits for the assignment, and leaves its cases in the session, in its order.

        Returns:
            The first assignment; None, with all items left, if the result is no longer wanted.
        """
        assignment = self._receive()
        if assignment is None:
            return None
        self._imports.stop()
        self._collected = session.items
        self._continues = assignment.continues
        session.items = self._choose(assignment.cases)
        session.testscollected = len(session.items)
        chosen = frozenset(session.items)
        deselected = [item for item in self._collected if item not in chosen]
        if deselected:
            session.config.hook.pytest_deselected(items=deselected)
        self.extend(session, session.items[0] if session.items else None)
        return assignment

    def extend(self, session: pytest.Session, following: pytest.Item | None) -> None:
        """Asks for more cases if at most one is left: pytest must know what follows an item before it runs it.

        Args:
            session: that runs its items in order, until it is to stop.
            following: the item that runs next, None if none is left.
        """
        if not self._continues or session.shouldstop or session.shouldfail:
            return
        at = next((place for place, item in enumerate(session.items) if item is following), len(session.items))
        while self._continues and len(session.items) - at <= 1:
            self._journal.write("wants_cases")
            more = self._receive()
            self._continues = more is not None and more.continues
            session.items += self._choose(more.cases if more is not None else ())
            session.testscollected = len(session.items)

    def _receive(self) -> Assignment | None:
        assignment = self._parent_pipe.wait_for_assignment(import_early)
        if assignment is not None:
            self._journal.write("assignment", seed=assignment.seed, cases=assignment.cases)
        return assignment

    def _choose(self, cases: Collection[str]) -> list[pytest.Item]:
        position = {case: index for index, case in enumerate(cases)}
        chosen = [item for item in self._collected if item.nodeid in position]
        return sorted(chosen, key=lambda item: position[item.nodeid])


class _UnwantedImports(importlib.abc.MetaPathFinder):
    """Ends the process as an import begins, once nobody waits for it; others find the module.

    An import of torch or of Dynamo takes seconds. Only bodies of modules may be under way: a function, such as one
    that compiles an extension, may hold a lock that would outlive the process.
    """

    def __init__(self, parent_pipe: PipeFromParent) -> None:
        self._parent_pipe = parent_pipe

    def watch(self) -> None:
        """Begins; does nothing where it has begun."""
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def stop(self) -> None:
        """Ends."""
        with suppress(ValueError):
            sys.meta_path.remove(self)

    def find_spec(
        self,
        fullname: str,  # noqa: ARG002 - the protocol's
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> None:
        """Finds nothing."""
        if self._parent_pipe.is_closed and _run_only_modules(sys._getframe(1)):  # noqa: SLF001
            os._exit(0)


_IMPORTING = ("importlib", "_frozen_importlib", "_pytest", "pluggy", "pytest", "pytest_nsight", "runpy")
"""Packages whose functions lie between the bodies of modules, and hold no lock that outlives the process."""


def _run_only_modules(frame: FrameType | None) -> bool:
    """Whether this frame and those that called it run bodies of modules, and what imports them."""
    while frame is not None:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if frame.f_code.co_name != "<module>" and package not in _IMPORTING:
            return False
        frame = frame.f_back
    return True
