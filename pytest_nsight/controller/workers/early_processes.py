"""The processes of an identity pass that start before pytest collects the tests, as they import what it imports."""

from __future__ import annotations

import os

from pytest_nsight.controller.workers.identity_shares import count_early
from pytest_nsight.controller.workers.identity_starter import IdentityStarter
from pytest_nsight.controller.workers.spare_workers import SpareWorkers
from pytest_nsight.controller.workers.worker_starter import LiveSession


class EarlyProcesses:
    """Starts processes without cases, and hands them over to the identity pass; whoever makes it closes it.

    They start with what is known of the session before its tests are collected. Their cases reach them later; where
    the collection shows that they would store other names and values with their runs, they are dismissed.
    """

    def __init__(self, session: LiveSession) -> None:
        """Starts none yet.

        Args:
            session: what all workers have in common, as far as it is known.
        """
        self._starter = IdentityStarter(session)
        self._spare = SpareWorkers(self._starter.start, session.collector)
        self._session = session

    def start(self, *, is_narrowed: bool) -> None:
        """Starts as many on each tree as an identity pass will probably need; one that fails is the last.

        Args:
            is_narrowed: whether few cases are likely.
        """
        number = count_early(len(os.sched_getaffinity(0)), is_narrowed=is_narrowed)
        self._spare.start_early(list(self._session.trees), number)

    def dismiss_outdated(self, session: LiveSession) -> None:
        """Has them end if they would store other names and values with their runs than this session does.

        Args:
            session: what all workers have in common, now that the tests are collected.
        """
        if session.environment != self._session.environment:
            self._spare.dismiss_early()

    def hand_over(self, session: LiveSession) -> SpareWorkers:
        """The processes for an identity pass, which starts further ones if it needs them.

        Args:
            session: what all workers have in common, now that the cases are known.
        """
        self._starter.use(session)
        return self._spare

    def close(self) -> None:
        """Ends those that the identity pass has not taken."""
        self._spare.close()
