"""The reports of a test's phases as pytest serialises them: how a test came out, and why.

A test has three phases: setup, call and teardown. A manifest holds a report of each, and one of each subtest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

EXPECTS_EXCEPTION = "nsight_expects_exception"
"""Of a report whose test is marked xfail for certain exceptions: a verdict is none of them."""
FAILED_FIXTURE = "nsight_failed_fixture"
"""Of a report whose teardown failed: the fixture of several tests that did, which the test itself need not use."""

_LONGEST_S = 1e9
_LATEST_S = 1e12


@dataclass(frozen=True, slots=True)
class PhaseReport:
    """What pytest reported of one phase of a test: its setup, its call or its teardown.

    Attributes:
        case: node id.
        report: pytest's own serialisation.
    """

    case: str
    report: dict[str, object]

    @property
    def outcome(self) -> str:
        """`passed`, `failed` or `skipped`; other plugins add words of their own."""
        return str(self.report["outcome"])

    @property
    def duration_s(self) -> float:
        """How long the phase took; 0 where that is not recorded."""
        duration_s = self.report.get("duration", 0)
        # Bounded before it is converted: an integer may be larger than any float.
        return float(min(max(0, duration_s), _LONGEST_S)) if isinstance(duration_s, (int, float)) else 0.0

    @property
    def stop_s(self) -> float:
        """When the phase ended, in seconds of the Unix epoch; 0 in older recordings."""
        stop_s = self.report.get("stop", 0)
        return float(min(max(0, stop_s), _LATEST_S)) if isinstance(stop_s, (int, float)) else 0.0


_OUTCOMES = frozenset({"passed", "failed", "skipped"})


def was_given_up(outcome: object) -> bool:
    """Whether a phase with this outcome ended an attempt at a test that another one follows.

    pytest-rerunfailures reports the failed phase of such an attempt as "rerun", pytest-retry as "retried".
    """
    return outcome not in _OUTCOMES


def is_subtest(report: Mapping[str, Any]) -> bool:
    """Whether a report is that of a subtest, and not of a phase of the test around it.

    Args:
        report: in pytest's own serialisation, of pytest 9's `subtests` fixture or of pytest-subtests.
    """
    return report.get("_report_type") == "SubTestReport"


def last_attempt(reports: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """The reports that decide whether a test passed: the phases of its last attempt, and failed subtests.

    A subtest that is skipped, or fails as expected, leaves the test itself passed.

    Args:
        reports: of all attempts, in order, in pytest's own serialisation.
    """
    ends = [at for at, report in enumerate(reports, 1) if was_given_up(report["outcome"])]
    last = reports[ends[-1] :] if ends else reports
    return [report for report in last if not is_subtest(report) or report["outcome"] == "failed"]


_ERROR = "E   "
"""How pytest begins the lines of an error, as below the source of a test that asks for an unknown fixture."""

_STACK = '  File "'
"""How the stack of an error begins, as Python's module traceback writes it."""


def first_line_of(longrepr: object) -> str:
    """The first line of why a phase did not pass, "" for none.

    Args:
        longrepr: as pytest serialises it: a traceback, of a skip the file, the line and the reason, or a text.
            Of a script it is a text; what older versions kept begins with the stack, whose lines are indented.
    """
    if isinstance(longrepr, Mapping):
        longrepr = (longrepr.get("reprcrash") or {}).get("message")
    elif isinstance(longrepr, (list, tuple)):
        longrepr = longrepr[-1] if longrepr else ""
    lines = str(longrepr or "").strip("\n").splitlines()
    if errors := [line.removeprefix(_ERROR) for line in lines if line.startswith(_ERROR)]:
        return errors[0].strip()
    if lines and lines[0].startswith(_STACK):
        lines = [line for line in lines if not line.startswith(" ")] or lines
    return next((line.strip() for line in lines if line.strip()), "")
