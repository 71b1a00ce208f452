"""A report of another package: the case that takes longest, in one line."""

from __future__ import annotations

from pytest_nsight.model.verdicts import SessionResult

suffix = ".txt"


def render(result: SessionResult) -> str:
    """The case with the longest time."""
    times = {verdict.subject.label: verdict.now_ns or 0.0 for verdict in result.verdicts}
    case = max(times, key=lambda label: times[label])
    return f"{case} takes {times[case]:.0f} ns\n"
