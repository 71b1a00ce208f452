"""Declared work in the reports: rates, the share of the board's limit, and what bounds it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytest_nsight.judge.structure import count_launches
from pytest_nsight.model.roofline import MEMORY, Limits, Reach, measure_reach
from pytest_nsight.model.units import amount, duration, number
from pytest_nsight.model.verdicts import SessionResult, Verdict
from pytest_nsight.report.verdict_text import gated_metric, shown_ns


@dataclass(frozen=True, slots=True)
class WorkCells:
    """A row's cells of declared work, as text; "" where there is nothing to say.

    Attributes:
        share: share of the limit, and what bounds the case: "98 % mem".
        gigabytes_per_s: a plain number, three significant digits or all before the point.
        teraflops_per_s: likewise.
    """

    share: str = ""
    gigabytes_per_s: str = ""
    teraflops_per_s: str = ""


def reach_of(verdict: Verdict, result: SessionResult) -> Reach | None:
    """How near the verdict's subject comes to its limit; None where no work is declared.

    Its duration is the one that the other tables show for the case; rates and share follow from that.
    """
    reach = measure_reach(result.runs_by_subject.get(verdict.subject, ()), gated_metric(verdict), result.limits)
    ns = shown_ns(verdict)
    if reach is None or not ns or reach.metric != gated_metric(verdict):
        return reach
    factor = reach.duration_ns / ns
    bytes_per_s, flops_per_s, share = (
        None if value is None else factor * value for value in (reach.bytes_per_s, reach.flops_per_s, reach.share)
    )
    return replace(reach, duration_ns=ns, bytes_per_s=bytes_per_s, flops_per_s=flops_per_s, share=share)


def work_cells(reach: Reach | None) -> WorkCells:
    """The cells of one row."""
    if reach is None:
        return WorkCells()
    resource = "" if reach.bound is None else "mem" if reach.bound.resource == MEMORY else "comp"
    return WorkCells(
        share="" if reach.share is None else f"{100 * reach.share:.0f} % {resource}",
        gigabytes_per_s="" if reach.bytes_per_s is None else number(reach.bytes_per_s / 1e9),
        teraflops_per_s="" if reach.flops_per_s is None else number(reach.flops_per_s / 1e12),
    )


def reach_sentence(reach: Reach) -> str:
    """Work, rates and share in one sentence."""
    work = [amount(reach.work.bytes_moved, "B")] if reach.work.bytes_moved else []
    work += [amount(reach.work.flops, "FLOP")] if reach.work.flops else []
    rates = [amount(reach.bytes_per_s, "B/s")] if reach.bytes_per_s is not None else []
    rates += [amount(reach.flops_per_s, "FLOP/s")] if reach.flops_per_s is not None else []
    if not rates:
        return f"no work in {duration(reach.duration_ns)} of {reach.metric} time"
    text = f"{' and '.join(work)} in {duration(reach.duration_ns)} of {reach.metric} time: {', '.join(rates)}"
    if reach.bound is None or reach.share is None:
        return f"{text}; the board's limit is not known"
    return f"{text}; {100 * reach.share:.1f} % of {reach.bound.text}, bound by {reach.bound.resource}"


def limits_lines(result: SessionResult) -> list[str]:
    """One line for each board: what its canaries reached, with the datasheet beside it."""
    several = len(result.limits) > 1
    return [
        f"limits of {board if several else 'the board'}: {', '.join(_limit_texts(limits, result))}"
        for board, limits in sorted(result.limits.items())
    ]


def _limit_texts(limits: Limits, result: SessionResult) -> list[str]:
    sheet = result.datasheet
    resources = [
        ("copy", limits.bytes_per_s, sheet.bytes_per_s if sheet else None, "B/s"),
        ("bf16 matmul", limits.flops_per_s, sheet.flops_per_s if sheet else None, "FLOP/s"),
    ]
    return [
        f"{name} {amount(measured, unit)}" + (f" (datasheet {amount(promised, unit)})" if promised else "")
        for name, measured, promised, unit in resources
        if measured is not None
    ]


_HEADERS = ("case", "time", "launches", "GB/s", "TFLOP/s", "of limit", "speed-up")


def work_rows(result: SessionResult) -> list[tuple[str, ...]]:
    """The table of all subjects with declared work, headers first, each above the one that it claims to beat.

    The last column is the time of the beaten case over that of the row's. Columns without a value are left out.
    There are no rows where no work is declared.
    """
    reaches = {verdict.subject: reach_of(verdict, result) for verdict in result.verdicts}
    verdicts = [verdict for verdict in _paired(result) if reaches[verdict.subject] is not None]
    by_case = {verdict.subject.case: reaches[verdict.subject] for verdict in verdicts}
    rows = []
    for verdict in verdicts:
        reach = by_case[verdict.subject.case]
        assert reach is not None
        partner = by_case.get(result.partners.get(verdict.subject.case, ""))
        cells = work_cells(reach)
        rows.append(
            (
                verdict.subject.label,
                duration(reach.duration_ns),
                str(launches(verdict, result)),
                cells.gigabytes_per_s,
                cells.teraflops_per_s,
                ""
                if reach.share is None or reach.bound is None
                else f"{100 * reach.share:.1f} % {reach.bound.resource}",
                "" if partner is None else f"{number(partner.duration_ns / reach.duration_ns)} x",
            )
        )
    kept = [index for index in range(len(_HEADERS)) if any(row[index] for row in rows)]
    return [tuple(row[index] for index in kept) for row in (_HEADERS, *rows)] if rows else []


def launches(verdict: Verdict, result: SessionResult) -> int:
    """Launches of a round in the last run, without copies and sets."""
    runs = result.runs_by_subject.get(verdict.subject, ())
    return count_launches(runs[-1]) if runs else 0


def _paired(result: SessionResult) -> Sequence[Verdict]:
    """The verdicts on whole cases as collected, but a beaten case right below the one that claims to beat it."""
    whole = {verdict.subject.case: verdict for verdict in result.verdicts if not verdict.subject.part}
    beaten = {partner for case, partner in result.partners.items() if case in whole}
    ordered: dict[str, Verdict] = {}
    for case, verdict in whole.items():
        if case not in beaten:
            ordered[case] = verdict
            partner = result.partners.get(case, "")
            if partner in whole:
                ordered.setdefault(partner, whole[partner])
    # Two cases that claim to beat each other have no place yet.
    return list({**ordered, **whole}.values())
