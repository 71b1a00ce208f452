"""The table of the parts of replayed CUDA graphs."""

from __future__ import annotations

import numpy as np

from pytest_nsight.analysis.display_names import fold_names
from pytest_nsight.model.trace import Trace
from pytest_nsight.model.units import count
from pytest_nsight.show.layout import Section, column, time


def tabulate_captured(trace: Trace, top: int) -> Section | None:
    """Parts of replayed CUDA graphs by the ranges of their capture, those with the most kernel time first.

    Args:
        trace: the trace.
        top: how many rows there are.

    Returns:
        None if no graph was captured in a range and replayed outside of it, or the recording has no nodes.

    Raises:
        TraceError: the ranges nest too deep.
    """
    if not len(trace.nodes):
        return None
    # It imports pandas, which takes as long as everything else that a small recording needs.
    from pytest_nsight.trace.graph_captures import measure_captured  # noqa: PLC0415

    parts = measure_captured(trace, None).parts
    if parts.empty:
        return None
    folded = fold_names(parts["name"])
    parts = parts.assign(label=[folded[name] for name in parts["name"]])
    # One replay runs the parts of all ranges with one name: each layer has its own.
    replays = parts.groupby(["label", "process", "called_ns"])[["kernel_ns", "launches", "copy_ns"]].sum()
    by_label = replays.groupby("label")
    totals = by_label["kernel_ns"].sum().sort_values(ascending=False, kind="stable")
    labels = totals.index[:top].tolist()
    medians = by_label.median().loc[labels]
    counts = by_label.size().loc[labels]
    return Section(
        f"Parts of replayed CUDA graphs: {count(len(totals), 'range')} that were open during capture",
        column("range of the capture", labels, is_number=False),
        [
            [
                column("replays", [f"{number:,}" for number in counts]),
                column("total", [time(ns) for ns in totals.loc[labels]]),
                column("launches", [f"{np.round(number, 1):g}" for number in medians["launches"]]),
                column("kernel", [time(ns) for ns in medians["kernel_ns"]]),
                column("copy", [time(ns) for ns in medians["copy_ns"]]),
            ]
        ],
        "total: kernel time of all replays; behind it: medians over the replays",
    )
