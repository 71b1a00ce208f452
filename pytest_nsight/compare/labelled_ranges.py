"""The ranges of two traces under labels that both share. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pytest_nsight.analysis.display_names import label_names
from pytest_nsight.analysis.host_waits import flag_waits
from pytest_nsight.analysis.range_mix import find_leading_labels
from pytest_nsight.analysis.range_tree import RangeTable, list_names
from pytest_nsight.model.trace import Ints, Trace
from pytest_nsight.trace.launch_table import LaunchDetails


@dataclass(frozen=True, slots=True)
class LabelledRanges:
    """All ranges of a trace that is compared with another one.

    Attributes:
        trace: the trace.
        details: of its launches.
        table: its ranges, with labels that mean the same in the other trace.
        leading: labels that are worth a row of their own, in either trace.
    """

    trace: Trace
    details: LaunchDetails
    table: RangeTable
    leading: frozenset[str]


def label_ranges(*traces: Trace) -> list[LabelledRanges]:
    """The ranges of each trace.

    What the traces show together decides on labels, on which of them are repeated, and on which of them lead. Else
    one more domain in one of them, or one level of ranges more, would make a range come and go.

    Args:
        traces: those that are compared.
    """
    rows = [np.arange(len(trace.ranges)) for trace in traces]
    labels = label_names(*(list_names(trace, own)[0] for trace, own in zip(traces, rows, strict=True)))
    details = [LaunchDetails.of(trace) for trace in traces]
    tables = [
        RangeTable.of(trace, one, flag_waits(trace, one), own, labels)
        for trace, one, own in zip(traces, details, rows, strict=True)
    ]
    counts: Counter[str] = Counter()
    for table in tables:
        for label, number in zip(table.labels, np.bincount(table.label).tolist(), strict=True):
            counts[label] = max(counts[label], number)
    leading = frozenset(
        table.labels[number]
        for table in tables
        for number in np.flatnonzero(find_leading_labels(table, _in_order(counts, table))).tolist()
    )
    return [LabelledRanges(*columns, leading) for columns in zip(traces, details, tables, strict=True)]


def _in_order(counts: Mapping[str, int], table: RangeTable) -> Ints:
    return np.array([counts[label] for label in table.labels], np.int64)
