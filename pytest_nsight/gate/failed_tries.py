"""Tries that failed: a try is the measurement of one case in one process, and another one may follow it."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class TryFailure(enum.Enum):
    """What happened to a case in its process, so that it is measured again."""

    TEST_FAILED = "test failed"
    """The test failed and was not the first of its process, so an earlier one may be the cause."""
    RECORD_DAMAGED = "record damaged"
    """The test passed, and what the profiler recorded of it is not whole."""
    PROCESS_UNUSABLE = "process unusable"
    """The process could run no further test after it, for example because the device was lost."""
    PROCESS_FAILED = "process failed"
    """The process ended early, and this case or another one may be the cause."""


@dataclass(frozen=True, slots=True)
class FailedTry:
    """The last try of a case that is measured again.

    Attributes:
        failure: what happened.
        reason: the first line of the test's own failure, otherwise a sentence on the record or the process.
        number: tries of the case in a row that failed in this way, with this one.
    """

    failure: TryFailure
    reason: str
    number: int = 1

    @classmethod
    def after(cls, before: FailedTry | None, failure: TryFailure, reason: str) -> FailedTry:
        """A try that failed, counted on from the one before it.

        Args:
            before: the case's try before this one, None if it had none or that did not fail.
            failure: what happened.
            reason: see the attribute.
        """
        number = before.number + 1 if before is not None and before.failure is failure else 1
        return cls(failure, reason, number)

    @property
    def is_own(self) -> bool:
        """Whether the test itself failed."""
        return self.failure is TryFailure.TEST_FAILED

    def describe(self, case: str = "it") -> str:
        """Why the case is measured again, as a sentence.

        Args:
            case: its name in the sentence.
        """
        if not self.is_own:
            return self.reason
        where = "its process" if self.number == 1 else "several processes"
        return f"{case} failed beside other tests of {where}: {self.reason}"
