"""A recording on one page, from what holds everything to what lies beside it.

MERGED: The first lines: what recorded what, where and for how long.
"""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import pandas as pd

from pytest_nsight.collectors.open_recording import load_trace
from pytest_nsight.model.trace import Trace
from pytest_nsight.model.units import count, duration
from pytest_nsight.show.idle_table import tabulate_gaps
from pytest_nsight.show.launch_tables import tabulate_copies, tabulate_kernels, tabulate_unattributed
from pytest_nsight.show.layout import NARROWEST, WIDEST, printable, wrap
from pytest_nsight.show.range_table import label_ranges, tabulate_captured, tabulate_ranges
from pytest_nsight.show.view import View, choose

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
    return render(load_trace(path), width, name=name, domain=domain, top=top)


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
        tabulate_unattributed(view, top),
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


def describe(trace: Trace, width: int) -> str:
    """The tool, the time, the devices and how much was recorded.

    Args:
        trace: the whole recording.
        width: the most characters that a line may have.
    """
    sizes = [
        count(len(trace.launches), "launch", "launches"),
        count(len(trace.ranges), "range"),
        count(len(trace.calls), "CUDA call"),
    ]
    processes = np.unique(np.concatenate([trace.launches.process, trace.ranges.process, trace.calls.process]))
    length = f" over {duration(span)}" if (span := _measure_span(trace)) else ""
    lines = [
        f"{printable(trace.tool) or 'Nsight Systems, version unknown'}{_tell_date(trace)}",
        *_tell_devices(trace),
        f"{', '.join(sizes)}; {count(len(processes), 'process', 'processes')}{length}",
    ]
    return "\n".join(part for line in lines for part in wrap(line, width))


def _tell_date(trace: Trace) -> str:
    if trace.epoch_ns is None:
        return ""
    try:
        moment = datetime.fromtimestamp(trace.epoch_ns // 10**9, timezone.utc)
    except (OverflowError, OSError, ValueError):
        # The number comes from the file, and the calendar ends.
        return ""
    return f", recorded {moment:%Y-%m-%d %H:%M:%S} UTC"


def _tell_devices(trace: Trace) -> list[str]:
    """One line a board that was used, or, where nothing ran, that was there."""
    launches = trace.launches
    if all(shape.kind == "operator" for shape in trace.shapes):
        used = [(device.process or 0, device.ordinal) for device in trace.devices if device.name]
    else:
        places = pd.DataFrame({"process": launches.process, "device": launches.device}).drop_duplicates()
        used = sorted(places.itertuples(index=False, name=None))
    lines = []
    for process, ordinal in used:
        board = trace.find_device(process, ordinal)
        name = " ".join(filter(None, (board.name, board.uuid))) if board else ""
        lines.append(f"device {ordinal}: {printable(name) or 'a board that the recording does not name'}")
    return list(dict.fromkeys(lines))


def _measure_span(trace: Trace) -> int:
    tables = [table for table in (trace.ranges, trace.calls, trace.launches) if len(table)]
    if not tables:
        return 0
    return int(max(table.end_ns.max() for table in tables)) - int(min(table.start_ns.min() for table in tables))
