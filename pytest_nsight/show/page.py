"""A recording on one page, from what holds everything to what lies beside it."""

from __future__ import annotations

from pathlib import Path

from pytest_nsight.show.head import describe
from pytest_nsight.show.idle import tabulate_gaps
from pytest_nsight.show.launches import tabulate_copies, tabulate_kernels, tabulate_strays
from pytest_nsight.show.layout import NARROWEST, WIDEST, printable, wrap
from pytest_nsight.show.load import load
from pytest_nsight.show.ranges import label_ranges, tabulate_captured, tabulate_ranges
from pytest_nsight.show.view import View, choose
from pytest_nsight.trace.model import Trace
from pytest_nsight.units import count

TOP = 15


def show(path: Path, width: int = 120, *, name: str = "", domain: str | None = None, top: int = TOP) -> str:
    """What a recording holds: devices, ranges, kernels, copies, idle times, launches in no range, remarks.

    Args:
        path: an export, packed or not, a report, or the folder of a recorded run.
        width: columns of the terminal; what is below 80 or above 160 is taken as these.
        name: limits everything to ranges with this in their name; "" for all.
        domain: limits everything to ranges of this NVTX domain, "" for the default one; None for all.
        top: how many rows a table has beside that of the others.

    Returns:
        The text, without a newline at its end.

    Raises:
        NsightError: there is nothing that can be read, or nothing with this name and domain.
    """
    return render(load(path), width, name=name, domain=domain, top=top)


def render(trace: Trace, width: int = 120, *, name: str = "", domain: str | None = None, top: int = TOP) -> str:
    """The same of a trace that was read already.

    Raises:
        UsageError: no range has this name and domain.
        TraceError: ranges nest too deep.
    """
    width = min(max(width, NARROWEST), WIDEST)
    view = choose(trace, name, domain)
    labels = label_ranges(view.trace, top)
    sections = [
        tabulate_ranges(view, labels, top),
        tabulate_captured(view, labels, top),
        tabulate_kernels(view, top),
        tabulate_copies(view, top),
        tabulate_gaps(view, labels, top, width),
        tabulate_strays(view, top),
    ]
    remarks = [f"note: {text}" for text in (*trace.notes, *view.measured.notes, *_tell_left_out(view))]
    remarks += [f"{trace.tool or 'the tool'} says: {text}" for text in trace.diagnostics]
    texts = [
        describe(trace, width),
        *(section.render(width) for section in sections if section),
        "\n".join(line for remark in remarks for line in wrap(printable(remark), width)),
    ]
    return "\n\n".join(filter(None, texts))


def _tell_left_out(view: View) -> tuple[str, ...]:
    left_out = int((~view.is_shown).sum())
    launches = count(left_out, "launch lies", "launches lie")
    return (f"{launches} outside the chosen ranges and were left out",) if left_out else ()
