"""What reports say of declared work: rates, the share of the board's limit, and what bounds it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_nsight.model.roofline import MEMORY, Limits, Reach, measure_reach
from pytest_nsight.model.units import amount, duration, number
from pytest_nsight.model.verdicts import SessionResult, Verdict
from pytest_nsight.report import rows as wording

_COPIES = ("memcpy", "memset")


@dataclass(frozen=True, slots=True)
class WorkCells:
    """What a row of the table says of work, as text; "" where there is nothing to say.

    Attributes:
        share: share of the limit, and its side: "98 % mem".
        gigabytes_per_s: a plain number, three significant digits or all before the point.
        teraflops_per_s: likewise.
    """

    share: str = ""
    gigabytes_per_s: str = ""
    teraflops_per_s: str = ""


def reach_of(verdict: Verdict, result: SessionResult) -> Reach | None:
    """How near the verdict's subject comes to its limit; None where no work is declared."""
    return measure_reach(wording.runs_of(verdict, result), wording.gated_metric(verdict), result.limits)


def work_cells(reach: Reach | None) -> WorkCells:
    """The cells of one row."""
    if reach is None:
        return WorkCells()
    side = "" if reach.bound is None else "mem" if reach.bound.side == MEMORY else "comp"
    return WorkCells(
        share="" if reach.share is None else f"{100 * reach.share:.0f} % {side}",
        gigabytes_per_s="" if reach.bytes_per_s is None else number(reach.bytes_per_s / 1e9),
        teraflops_per_s="" if reach.flops_per_s is None else number(reach.flops_per_s / 1e12),
    )


def reach_sentence(reach: Reach) -> str:
    """Work, rates and share in words."""
    work = [amount(reach.work.bytes_moved, "B")] if reach.work.bytes_moved else []
    work += [amount(reach.work.flops, "FLOP")] if reach.work.flops else []
    rates = [amount(reach.bytes_per_s, "B/s")] if reach.bytes_per_s is not None else []
    rates += [amount(reach.flops_per_s, "FLOP/s")] if reach.flops_per_s is not None else []
    if not rates:
        return f"no work in {duration(reach.duration_ns)} of {reach.metric} time"
    told = f"{' and '.join(work)} in {duration(reach.duration_ns)} of {reach.metric} time: {', '.join(rates)}"
    if reach.bound is None or reach.share is None:
        return f"{told}; the board's limit is not known"
    return f"{told}; {100 * reach.share:.1f} % of {reach.bound.text}, bound by {reach.bound.side}"


def limits_lines(result: SessionResult) -> list[str]:
    """One line for each board: what its canaries reached, with the datasheet beside it."""
    several = len(result.limits) > 1
    return [
        f"limits of {board if several else 'the board'}: {', '.join(_told(limits, result))}"
        for board, limits in sorted(result.limits.items())
    ]


def _told(limits: Limits, result: SessionResult) -> list[str]:
    sheet = result.datasheet
    sides = [
        ("copy", limits.bytes_per_s, sheet.bytes_per_s if sheet else None, "B/s"),
        ("bf16 matmul", limits.flops_per_s, sheet.flops_per_s if sheet else None, "FLOP/s"),
    ]
    return [
        f"{name} {amount(measured, unit)}" + (f" (datasheet {amount(promised, unit)})" if promised else "")
        for name, measured, promised, unit in sides
        if measured is not None
    ]


_HEADERS = ("case", "time", "launches", "moved", "GB/s", "TFLOP/s", "of limit", "bound by", "speed-up")


def work_rows(result: SessionResult) -> list[tuple[str, ...]]:
    """The table of all subjects with declared work, headers first, each above the one that it claims to beat.

    The last column is the other's time over its own. Columns without a value are left out; no rows where no work is
    declared.
    """
    reaches = {verdict.subject: reach_of(verdict, result) for verdict in result.verdicts}
    verdicts = [verdict for verdict in _paired(result) if reaches[verdict.subject] is not None]
    by_case = {verdict.subject.case: reaches[verdict.subject] for verdict in verdicts}
    rows = []
    for verdict in verdicts:
        reach = by_case[verdict.subject.case]
        assert reach is not None
        other = by_case.get(result.partners.get(verdict.subject.case, ""))
        cells = work_cells(reach)
        rows.append(
            (
                verdict.subject.label,
                duration(reach.duration_ns),
                str(launches(verdict, result)),
                amount(reach.work.bytes_moved, "B") if reach.work.bytes_moved else "",
                cells.gigabytes_per_s,
                cells.teraflops_per_s,
                "" if reach.share is None else f"{100 * reach.share:.1f} %",
                "" if reach.bound is None else reach.bound.side,
                "" if other is None else f"{number(other.duration_ns / reach.duration_ns)} x",
            )
        )
    kept = [index for index in range(len(_HEADERS)) if any(row[index] for row in rows)]
    return [tuple(row[index] for index in kept) for row in (_HEADERS, *rows)] if rows else []


def launches(verdict: Verdict, result: SessionResult) -> int:
    """Launches of a round in the last run, copies not counted."""
    runs = wording.runs_of(verdict, result)
    return sum(use.count for use in runs[-1].shapes if use.shape.kind not in _COPIES) if runs else 0


def _paired(result: SessionResult) -> Sequence[Verdict]:
    """In the order of collection, but what another case claims to beat comes right below that case."""
    whole = {verdict.subject.case: verdict for verdict in result.verdicts if not verdict.subject.part}
    beaten = {partner for case, partner in result.partners.items() if case in whole}
    ordered: dict[str, Verdict] = {}
    for case, verdict in whole.items():
        if case not in beaten:
            ordered[case] = verdict
            partner = result.partners.get(case, "")
            if partner in whole:
                ordered.setdefault(partner, whole[partner])
    # Cases that claim to beat each other are above nobody.
    return list({**ordered, **whole}.values())
