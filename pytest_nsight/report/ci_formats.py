"""Failing verdicts as workflow commands, which GitHub Actions shows beside the test's file.

Source of the escapes: the toolkit's `packages/core/src/command.ts` (`escapeData`, `escapeProperty`).

MERGED: A verdict as properties of its test, which pytest writes into the JUnit XML.
"""

from __future__ import annotations

from pytest_nsight.model.verdicts import SessionResult, Verdict
from pytest_nsight.report import rows as wording


def workflow_annotations(result: SessionResult) -> str:
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


def properties(verdict: Verdict) -> list[tuple[str, str]]:
    """Names and values for `item.user_properties`; plain numbers, times in ns, changes in percent.

    A named range inside the case has its name behind a dot: "nsight_now_ns.forward".
    """
    found = [("nsight_verdict", verdict.kind.value), ("nsight_sentence", verdict.sentence)]
    compared = verdict.comparison
    if compared is not None:
        found += [
            ("nsight_metric", compared.metric),
            ("nsight_baseline_ns", f"{compared.baseline_ns:.0f}"),
            ("nsight_now_ns", f"{compared.now_ns:.0f}"),
            ("nsight_change_percent", f"{100 * (compared.ratio - 1):.2f}"),
            ("nsight_low_percent", f"{100 * (compared.low - 1):.2f}"),
            ("nsight_high_percent", f"{100 * (compared.high - 1):.2f}"),
            ("nsight_mde_percent", f"{100 * compared.mde:.2f}"),
            ("nsight_p", f"{compared.p_slower:.3g}"),
            ("nsight_runs", f"{compared.baseline_runs}+{compared.new_runs}"),
        ]
    elif verdict.now_ns is not None:
        found.append(("nsight_now_ns", f"{verdict.now_ns:.0f}"))
    part = f".{verdict.subject.part}" if verdict.subject.part else ""
    return [(f"{name}{part}", value) for name, value in found]
