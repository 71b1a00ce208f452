"""Failing verdicts as workflow commands, which GitHub Actions shows beside the test's file.

Source of the escapes: the toolkit's `packages/core/src/command.ts` (`escapeData`, `escapeProperty`).
"""

from pytest_nsight.report import wording
from pytest_nsight.result import SessionResult, Verdict


def annotations(result: SessionResult) -> str:
    """One `::error` line for each failing verdict, the worst first; "" if none fails."""
    failing = [v for v in wording.worst_first(result.verdicts) if wording.fails(v, strict=result.strict)]
    return "".join(f"{_annotation(verdict)}\n" for verdict in failing)


def _annotation(verdict: Verdict) -> str:
    file = verdict.subject.case.split("::", 1)[0]
    title = f"{verdict.kind.value} {verdict.subject.label}"
    message = "\n".join([wording.sentence(verdict), *wording.detail_lines(verdict)])
    return f"::error file={_escape_property(file)},title={_escape_property(title)}::{_escape_data(message)}"


def _escape_data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape_data(text).replace(":", "%3A").replace(",", "%2C")
