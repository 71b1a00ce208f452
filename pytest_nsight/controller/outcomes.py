"""The outcome of one case as pytest reports: the worker's reports, with a failing verdict as their outcome."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from warnings import WarningMessage

import pytest

from pytest_nsight.gate.state import is_strict_xpass
from pytest_nsight.model.verdicts import Verdict, VerdictKind
from pytest_nsight.protocol.manifest_events import CaseWarning
from pytest_nsight.protocol.phase_reports import EXPECTS_EXCEPTION, is_subtest, last_attempt
from pytest_nsight.report.ci_formats import properties
from pytest_nsight.report.escapes import log_line
from pytest_nsight.report.table import wrap
from pytest_nsight.report.verdict_text import detail_lines, headline, sentence

_TUPLES = ("longrepr", "location")
_ORDER = list(VerdictKind)


@dataclass(frozen=True, slots=True)
class CaseOutcome:
    """Reports, verdicts and problem of one case.

    Attributes:
        serialised: the worker's reports in pytest's own serialisation.
        verdicts: one per subject of the case.
        problem: why there is nothing to judge, "" if there is.
        is_unrecorded: whether a replayed recording simply does not hold the case.
        next_steps: a line on its baseline, and the commands that accept a failing change and check it again.
        warnings: what it warned of.
    """

    serialised: tuple[dict[str, Any], ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    problem: str = ""
    is_unrecorded: bool = False
    next_steps: tuple[str, ...] = ()
    warnings: tuple[CaseWarning, ...] = ()

    @classmethod
    def missing(cls, folder: str) -> CaseOutcome:
        """The outcome of a case that no worker reached."""
        what = "not measured: no worker process came to this test"
        remedy = "if its id differs from process to process, as with random parameters, give it a fixed one"
        return cls(problem=f"{what}; {remedy}; else see {folder}")

    def reports(self, item: pytest.Item, *, strict: bool) -> list[pytest.TestReport]:
        """The reports to show, the verdict's failure among them."""
        if self.is_unrecorded:
            return [_report(item, "skipped", (str(item.path), 0, "Skipped: not in the replayed session"))]
        reports = [self._deserialise(item, data) for data in self.serialised]
        counting = {id(data) for data in last_attempt(self.serialised) if not is_subtest(data)}
        calls = (report for report, data in zip(reports, self.serialised, strict=True) if id(data) in counting)
        call = next((report for report in calls if report.when == "call"), None)
        if self.problem:
            return self._with_problem(item, reports, call)
        if call is None or not self.verdicts:
            return reports
        worst = min(self.verdicts, key=lambda verdict: _ORDER.index(verdict.kind))
        failing = [v for v in self.verdicts if v.kind.fails_in(strict=strict)]
        for report in reports:
            report.user_properties = [
                *report.user_properties,
                *(p for v in self.verdicts for p in properties(v)),
            ]
        expects_failure = hasattr(call, "wasxfail") or is_strict_xpass(call.longrepr)
        if failing and expects_failure and not hasattr(call, EXPECTS_EXCEPTION):
            call.outcome, call.longrepr = "skipped", None
            call.wasxfail = getattr(call, "wasxfail", failing[0].sentence)
        elif call.passed:
            vars(call)["nsight_verdict"] = worst.kind
            if failing:
                call.outcome = "failed"
                vars(call).pop("wasxfail", None)
                call.longrepr = VerdictText(failing, item, self.next_steps)  # type: ignore[assignment]
        return reports

    def _with_problem(
        self, item: pytest.Item, reports: list[pytest.TestReport], call: pytest.TestReport | None
    ) -> list[pytest.TestReport]:
        if call is None:
            setups = [report for report in reports if report.when == "setup"]
            return [*setups, _report(item, "failed", self.problem)]
        call.outcome, call.longrepr = "failed", self.problem
        return reports

    @staticmethod
    def _deserialise(item: pytest.Item, data: dict[str, Any]) -> pytest.TestReport:
        # JSON has no tuples, but pytest needs one for the place and reason of a skip.
        tuples = {name: tuple(value) for name, value in data.items() if name in _TUPLES and isinstance(value, list)}
        report: pytest.TestReport = item.config.hook.pytest_report_from_serializable(
            config=item.config, data={**data, **tuples}
        )
        return report


@dataclass(frozen=True, slots=True)
class _Crash:
    """What pytest's short summary looks for in a failure."""

    path: str
    lineno: int
    message: str

    def __str__(self) -> str:
        """The line of --tb=line."""
        return f"{self.path}:{self.lineno}: {self.message}"


class VerdictText:
    """A failure's text: one sentence for each failing subject, and what the user may do about it."""

    def __init__(self, verdicts: Sequence[Verdict], item: pytest.Item, next_steps: Sequence[str]) -> None:
        self._sentences = [log_line(sentence(verdict)) for verdict in verdicts]
        self._details = [log_line(line) for verdict in verdicts for line in detail_lines(verdict)]
        self._next_steps = [log_line(line) for line in next_steps]
        self.reprcrash = _Crash(str(item.path), (item.location[1] or 0) + 1, headline(verdicts[0]))

    def __str__(self) -> str:
        return "\n".join([*self._sentences, *self._details, *self._next_steps])

    def toterminal(self, tw: Any) -> None:
        """Writes the sentences as pytest writes a traceback, as wide as the terminal."""
        for text in self._sentences:
            for part in wrap(text, tw.fullwidth):
                tw.line(part, red=True)
        for line in (*self._details, *self._next_steps[:1]):
            for part in wrap(line, tw.fullwidth):
                tw.line(part)
        for line in self._next_steps[1:]:
            # A command that is wrapped cannot be copied.
            tw.line(line)


def restore_warning(given: CaseWarning) -> WarningMessage:
    """A warning for pytest; if this process may lack its class, a new class of the same name replaces it."""
    made = type(given.category, (Warning,), {"__module__": given.module})
    category = getattr(builtins, given.category, made) if given.module == "builtins" else made
    return WarningMessage(category(given.text), category, given.file, given.line)


def _report(item: pytest.Item, outcome: Any, longrepr: Any) -> pytest.TestReport:
    return pytest.TestReport(
        nodeid=item.nodeid,
        location=item.location,
        keywords=dict.fromkeys(item.keywords, 1),
        outcome=outcome,
        longrepr=longrepr,
        when="call",
    )
