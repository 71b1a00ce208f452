"""The table of ranges, and what they are called in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd

from pytest_nsight.model.trace import Trace
from pytest_nsight.model.units import amount, count, duration
from pytest_nsight.report.table import Column
from pytest_nsight.show.layout import Section, printable, rank
from pytest_nsight.show.view import View, fold_counters
from pytest_nsight.trace.graph_captures import measure_captured

Labels = Mapping[tuple[int, int], str]
"""Domain and name of a range, as indices into ``Trace.strings``, and what it is called."""


def label_ranges(trace: Trace, top: int) -> Labels:
    """Call ranges by their names, behind the domain's where there are several.

    Args:
        trace: its ranges are labelled.
        top: from how many names on those that only count up get a common one.
    """
    unique = set(zip(trace.ranges.domain.tolist(), trace.ranges.name.tolist(), strict=True))
    pairs = sorted(unique, key=lambda pair: [trace.strings[number] for number in pair])
    domains = dict.fromkeys(domain for domain, _ in pairs)
    labels = {}
    for domain in domains:
        names = {number: trace.strings[number] for place, number in pairs if place == domain}
        folded = fold_counters(names.values()) if len(pairs) > top else {}
        prefix = f"{trace.strings[domain]}:" if len(domains) > 1 and trace.strings[domain] else ""
        for number, name in names.items():
            labels[domain, number] = printable(prefix + folded.get(name, name)) or "(no name)"
    return labels


def tabulate_ranges(view: View, labels: Labels, top: int) -> Section | None:
    """Ranges of one name together, those with the most kernel time first.

    Args:
        view: what to show.
        labels: what its ranges are called.
        top: how many rows there are beside that of the others.

    Returns:
        None if there are no ranges.
    """
    table, ranges = view.measured.ranges, view.trace.ranges
    if table.empty:
        return None
    keys = [(label,) for label in labels.values()]
    numbers = {pair: number for number, pair in enumerate(labels)}
    # Measuring keeps the order of starts, the longer one first.
    order = np.lexsort((-ranges.end_ns, ranges.start_ns))
    pairs = zip(ranges.domain[order].tolist(), ranges.name[order].tolist(), strict=True)
    codes = np.array([numbers[pair] for pair in pairs], np.int64)
    weight = "kernel_ns" if table["kernel_ns"].any() else "wall_ns"
    ranking = rank(keys, codes, table[weight].to_numpy(np.int64), top)
    grouped = table.select_dtypes("number").groupby(ranking.row)
    names = [name for (name,) in ranking.cells]
    distinct = len(set(labels.values()))
    footnote = "total: kernel time of all instances; behind it: medians over the instances"
    if distinct < len(labels):
        footnote += "; *: numbers that only count up, which a larger --top tells apart"
    return Section(
        f"Ranges: {count(len(table), 'instance')} of {count(distinct, 'name')}{_domain(view)}",
        Column("range", names, is_number=False),
        [
            _device_columns(grouped.size(), grouped["kernel_ns"].sum(), grouped.median()),
            _host_columns(grouped.median()),
        ],
        footnote,
    )


def tabulate_captured(view: View, labels: Labels, top: int) -> Section | None:
    """Parts of replayed CUDA graphs by the ranges of their capture, those with the most kernel time first.

    Args:
        view: what to show.
        labels: what its ranges are called.
        top: how many rows there are beside that of the others.

    Returns:
        None if no graph was captured in a range and replayed outside of it, or the export does not tell.
    """
    captured = measure_captured(view.trace, None).parts
    if captured.empty:
        return None
    texts = view.trace.strings
    label = {(texts[domain], texts[name]): text for (domain, name), text in labels.items()}
    names = [label[pair] for pair in zip(captured["domain"], captured["name"], strict=True)]
    # What one replay runs of all ranges of one name: a layer's part is captured once for each layer.
    replays = (
        captured.select_dtypes("number").groupby([pd.Series(names, name="label"), "process", "called_ns"]).sum()
    )
    labelled = replays.index.get_level_values("label")
    keys = {name: number for number, name in enumerate(dict.fromkeys(labelled))}
    ranking = rank(
        [(name,) for name in keys],
        np.array([keys[name] for name in labelled], np.int64),
        replays["kernel_ns"].to_numpy(np.int64),
        top,
    )
    grouped = replays.groupby(ranking.row)
    return Section(
        f"Parts of replayed CUDA graphs: {count(len(keys), 'range')} that were open during capture",
        Column("range of the capture", [name for (name,) in ranking.cells], is_number=False),
        [_device_columns(grouped.size(), grouped["kernel_ns"].sum(), grouped.median())],
        "n: replays; total: kernel time of all replays; behind it: medians over the replays",
    )


def _domain(view: View) -> str:
    domains = {view.trace.strings[number] for number in np.unique(view.trace.ranges.domain)}
    return f" in the domain {printable(domains.pop())}" if len(domains) == 1 and "" not in domains else ""


def _device_columns(instances: pd.Series, total_ns: pd.Series, medians: pd.DataFrame) -> Sequence[Column]:
    return (
        Column("n", [f"{number:,}" for number in instances]),
        Column("total", [_unless_zero(ns, duration) for ns in total_ns]),
        _counts(medians, "launches"),
        *(_times(medians, metric) for metric in ("kernel", "busy", "span", "gap")),
    )


def _host_columns(medians: pd.DataFrame) -> Sequence[Column]:
    return (
        _counts(medians, "copies"),
        Column("copied", [amount(size, "B") if size else "-" for size in medians["copied_bytes"]]),
        *(_times(medians, metric) for metric in ("copy", "wall", "sync", "launch")),
    )


def _counts(medians: pd.DataFrame, name: str) -> Column:
    return Column(
        name, [_unless_zero(number, lambda value: f"{value:,.1f}".removesuffix(".0")) for number in medians[name]]
    )


def _times(medians: pd.DataFrame, metric: str) -> Column:
    return Column(metric, [_unless_zero(ns, duration) for ns in medians[f"{metric}_ns"]])


def _unless_zero(value: float, write: Callable[[float], str]) -> str:
    return write(value) if value else "-"
