"""Which of the collected tests run: those of the assignment and, in an identity pass, of those that follow it."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from pytest_nsight.protocol.job import Assignment
from pytest_nsight.protocol.journal import Journal
from pytest_nsight.protocol.parent_pipe import PipeFromParent
from pytest_nsight.worker.late_imports import import_early


class AssignedCases:
    """The items of a pytest session that its controller wants, which may become more while they run."""

    def __init__(self, journal: Journal, parent_pipe: PipeFromParent) -> None:
        self._journal = journal
        self._parent_pipe = parent_pipe
        self._collected: list[pytest.Item] = []
        self._continues = False

    def wait(self, session: pytest.Session) -> Assignment | None:
        """Waits for the assignment, and leaves its cases in the session, in its order.

        Returns:
            The first assignment; None, with all items left, if the result is no longer wanted.
        """
        assignment = self._receive()
        if assignment is None:
            return None
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
