"""The first lines: what recorded what, where and for how long."""

from __future__ import annotations

from datetime import datetime, timezone

import numpy as np
import pandas as pd

from pytest_nsight.show.layout import printable, wrap
from pytest_nsight.trace.model import Trace
from pytest_nsight.units import count, duration


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
