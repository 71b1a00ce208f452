"""Verdicts in the forms that CI systems read: annotations on a pull request's files, properties in JUnit's XML.

Source of the escapes: GitHub's toolkit, `packages/core/src/command.ts` (`escapeData`, `escapeProperty`).
"""

from __future__ import annotations

from pathlib import PurePosixPath

from pytest_nsight.model.verdicts import SessionResult, Verdict
from pytest_nsight.report.escapes import visible
from pytest_nsight.report.verdict_text import detail_lines, fails, sentence, worst_first


def workflow_annotations(result: SessionResult, folder: str = "") -> str:
    """One `::error` line of GitHub Actions for each failing verdict, the worst first; "" if none fails.

    Args:
        result: the finished session.
        folder: pytest's root folder relative to the repository's, "" where they are the same.
    """
    failing = [verdict for verdict in worst_first(result.verdicts) if fails(verdict, strict=result.strict)]
    return "".join(
        f"{_annotation(verdict, result.lines.get(verdict.subject.case), folder)}\n" for verdict in failing
    )


def _annotation(verdict: Verdict, line: int | None, folder: str) -> str:
    file = str(PurePosixPath(folder, visible(verdict.subject.case.split("::", 1)[0])))
    place = f"file={_escape_property(file)}" + ("" if line is None else f",line={line}")
    title = f"{verdict.kind.value} {visible(verdict.subject.label)}"
    message = "\n".join([sentence(verdict), *detail_lines(verdict)])
    return f"::error {place},title={_escape_property(title)}::{_escape_data(message)}"


def _escape_data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape_data(text).replace(":", "%3A").replace(",", "%2C")


def properties(verdict: Verdict) -> list[tuple[str, str]]:
    """Names and values for `item.user_properties`; plain numbers, times in ns, changes in percent.

    A named range inside the case has its name behind a dot: "nsight_now_ns.forward".
    """
    found = [("nsight_verdict", verdict.kind.value), ("nsight_sentence", visible(verdict.sentence))]
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
    part = f".{visible(verdict.subject.part)}" if verdict.subject.part else ""
    return [(f"{name}{part}", value) for name, value in found]
