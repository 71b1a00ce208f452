"""How tests came out by their own reports, in one process and in a whole session, whatever was recorded."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_nsight.gate.state import GateState, SerialisedReport, is_strict_xpass
from pytest_nsight.protocol.manifest import Manifest
from pytest_nsight.protocol.phase_reports import EXPECTS_EXCEPTION, FAILED_FIXTURE, first_line_of, last_attempt


def list_failed(state: GateState) -> frozenset[str]:
    """The cases whose own failure counts."""
    return frozenset(case for case, reports in state.reports.items() if _any_failed(reports))


def find_own_failures(state: GateState) -> dict[str, str]:
    """Case -> why it failed without any verdict: its test failed, or there was nothing to judge."""
    found = {}
    for case in state.plan.case_ids:
        failed = [report for report in state.reports.get(case, ()) if report["outcome"] == "failed"]
        if case in state.problems:
            found[case] = state.problems[case]
        elif failed and not state.has_passed(case):
            found[case] = first_line_of(failed[0].get("longrepr")) or "its test failed"
        elif case not in state.reports:
            found[case] = "no worker process came to this test"
    return found


def expects_failure(state: GateState, case: str) -> bool:
    """Whether the test is marked xfail, so that a failing verdict is what was expected."""
    reports = [one for one in state.reports.get(case, ()) if EXPECTS_EXCEPTION not in one]
    return any("wasxfail" in report or is_strict_xpass(report.get("longrepr")) for report in reports)


def has_failed(manifest: Manifest, case: str) -> bool:
    """Whether the last attempt of a case failed in one of its phases."""
    return _any_failed(_list_reports(manifest, case))


def has_only_passed(manifest: Manifest, case: str) -> bool:
    """Whether the last attempt of a case passed in all its phases, as far as they were reported."""
    return all(report["outcome"] == "passed" for report in last_attempt(_list_reports(manifest, case)))


def has_failed_fixture(manifest: Manifest, case: str) -> bool:
    """Whether a fixture that several tests share failed in the teardown of a case."""
    return any(FAILED_FIXTURE in report for report in last_attempt(_list_reports(manifest, case)))


def find_message(manifest: Manifest, case: str) -> str:
    """The first line of why a case failed that has failed in this process."""
    failed = [one for one in last_attempt(_list_reports(manifest, case)) if one["outcome"] == "failed"]
    return first_line_of(failed[0].get("longrepr")) or "no message"


def _any_failed(reports: Sequence[SerialisedReport]) -> bool:
    return any(report["outcome"] == "failed" for report in last_attempt(reports))


def _list_reports(manifest: Manifest, case: str) -> list[SerialisedReport]:
    return [one.report for one in manifest.reports if one.case == case]
