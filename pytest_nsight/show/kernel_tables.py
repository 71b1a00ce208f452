"""The tables of what ran: kernels, categories, copies, parts of graphs, small kernels, launches in no range."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pytest_nsight.analysis.display_names import fold_names
from pytest_nsight.analysis.kernel_use import CategoryTime, CopyTime, KernelTime, ShapeTime
from pytest_nsight.analysis.small_kernels import KernelSequence
from pytest_nsight.model.trace import Trace
from pytest_nsight.model.units import amount, count, duration
from pytest_nsight.show.layout import Section, bandwidth, column, limit, share, time
from pytest_nsight.trace.graph_captures import measure_captured
from pytest_nsight.trace.unattributed import UnattributedLaunches

_SHAPES = 3
"""Shapes that are listed beneath a kernel."""
_PINNED = {True: "yes", False: "no", None: "-"}


def tabulate_kernels(kernels: Sequence[KernelTime], top: int, *, full_names: bool) -> Section | None:
    """Kernels, graphs or operators by name, each with its shapes beneath where it has several.

    Args:
        kernels: the longest in total first.
        top: how many kernels have a row of their own.
        full_names: whether names are as the profiler gave them.
    """
    if not kernels:
        return None
    whole_ns = sum(one.total_ns for one in kernels)
    calls = sum(one.calls for one in kernels)
    rows: list[list[str]] = []
    for one in kernels[:top]:
        name = one.full_name if full_names else one.name
        shapes = one.shapes
        rows.append([name, one.category, *_sums(one.calls, one.total_ns, whole_ns), time(one.median_ns)])
        rows[-1] += _configure(shapes[0]) if len(shapes) == 1 else [f"{len(shapes)} shapes", "", "", "", ""]
        if len(shapes) > 1:
            rows += [_describe_shape(shape, whole_ns) for shape in shapes[:_SHAPES]]
            if left_out := shapes[_SHAPES:]:
                total_ns = sum(shape.total_ns for shape in left_out)
                sums = _sums(sum(shape.calls for shape in left_out), total_ns, whole_ns)
                rows.append([f"  {count(len(left_out), 'other shape')}", "", *sums, *[""] * 6])
    if left_out_kernels := kernels[top:]:
        total_ns = sum(one.total_ns for one in left_out_kernels)
        sums = _sums(sum(one.calls for one in left_out_kernels), total_ns, whole_ns)
        rows.append([count(len(left_out_kernels), "other"), "", *sums, *[""] * 6])
    is_host = all(one.kind == "operator" for one in kernels)
    heading = "Operators" if is_host else "Kernels"
    headers = ("category", "count", "total", "share", "median", "grid", "block", "regs", "shared", "occupancy")
    cells = list(zip(*rows, strict=True))
    columns = [
        column(header, values, is_number=header != "category")
        for header, values in zip(headers, cells[1:], strict=True)
    ]
    return Section(
        f"{heading}: {count(calls, 'launch', 'launches')}, {duration(whole_ns)}",
        column("operator" if is_host else "kernel", cells[0], is_number=False),
        [columns[:5]] if is_host else [columns[:5], columns[5:]],
        ""
        if is_host
        else "occupancy: theoretical, of the launch configuration; -: the recording lacks what limits it",
        keeps_names=full_names,
    )


def tabulate_categories(categories: Sequence[CategoryTime]) -> Section | None:
    """Kernel time by category."""
    if not categories:
        return None
    return Section(
        "Kernel time by category",
        column("category", [one.category for one in categories], is_number=False),
        [
            [
                column("count", [f"{one.calls:,}" for one in categories]),
                column("total", [time(one.total_ns) for one in categories]),
                column("share", [share(one.share) for one in categories]),
            ]
        ],
    )


def tabulate_copies(copies: Sequence[CopyTime]) -> Section | None:
    """Copies and sets by kind and direction."""
    if not copies:
        return None
    moved, total_ns = sum(one.bytes_moved for one in copies), sum(one.total_ns for one in copies)
    names = [f"{one.name} ({one.memory})" if one.memory else one.name for one in copies]
    return Section(
        f"Memory copies and sets: {amount(moved, 'B')} in {duration(total_ns)}",
        column("kind", names, is_number=False),
        [
            [
                column("count", [f"{one.count:,}" for one in copies]),
                column("total", [time(one.total_ns) for one in copies]),
                column("median", [time(one.median_ns) for one in copies]),
                column("bytes", [amount(one.bytes_moved, "B") for one in copies]),
            ],
            [
                column("GB/s", [bandwidth(one.bytes_moved, one.total_ns) for one in copies]),
                column("pinned", [_PINNED[one.is_pinned] if one.memory else "" for one in copies]),
                column("overlapped", [share(one.overlapped_ns / max(one.total_ns, 1)) for one in copies]),
            ],
        ],
        "overlapped: share of the time during which a kernel runs on the same device",
    )


def tabulate_sequences(sequences: Sequence[KernelSequence], top: int) -> Section | None:
    """Sequences of small kernels with the time at stake."""
    if not sequences:
        return None
    shown = sequences[:top]
    names = [" -> ".join(dict.fromkeys((one.names[0], one.names[-1]))) for one in shown]
    return Section(
        "Small kernels in sequence: candidates for fusion or a CUDA graph",
        column("first -> last", names, is_number=False),
        [
            [
                column("kernels", [str(len(one.names)) for one in shown]),
                column("times", [f"{one.count:,}" for one in shown]),
                column("kernel time", [time(one.kernel_ns) for one in shown]),
                column("gaps", [time(one.gap_ns) for one in shown]),
                column("try", ["fusion" if one.is_fusible else "CUDA graph" for one in shown], is_number=False),
            ]
        ],
        "at stake: the gaps with a CUDA graph; with fusion, part of the kernel time as well",
    )


def tabulate_unattributed(launches: Sequence[UnattributedLaunches], top: int) -> Section | None:
    """Launches that belong to no range, by name."""
    if not launches:
        return None
    calls, total_ns = sum(one.count for one in launches), sum(one.total_ns for one in launches)

    def join(left_out: Sequence[UnattributedLaunches], name: str) -> UnattributedLaunches:
        sums = sum(one.count for one in left_out), sum(one.total_ns for one in left_out)
        return UnattributedLaunches(name, left_out[0].reason, *sums)

    rows = limit(launches, top, join)
    reasons = [one.reason.value if number < top else "" for number, one in enumerate(rows)]
    return Section(
        f"Launches in no range: {count(calls, 'launch', 'launches')}, {duration(total_ns)}",
        column("name", [one.name for one in rows], is_number=False),
        [
            [
                column("count", [f"{one.count:,}" for one in rows]),
                column("total", [time(one.total_ns) for one in rows]),
                column("why", reasons, is_number=False),
            ]
        ],
    )


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
    captured = measure_captured(trace, None)
    if not len(captured):
        return None
    parts = captured.parts
    folded = fold_names(parts["name"].tolist())
    labels = sorted(set(folded.values()))
    label = np.searchsorted(labels, [folded[name] for name in parts["name"]])
    # One replay runs the parts of all ranges with one name: each layer has its own.
    replays, replay = np.unique([label, parts["process"], parts["called_ns"]], axis=1, return_inverse=True)
    sums = {name: np.zeros(replays.shape[1], np.int64) for name in ("kernel_ns", "launches", "copy_ns")}
    for name, column_of_parts in sums.items():
        np.add.at(column_of_parts, replay.reshape(-1), parts[name])
    rows = {number: np.flatnonzero(replays[0] == number) for number in range(len(labels))}
    totals = {number: int(sums["kernel_ns"][own].sum()) for number, own in rows.items()}
    shown = sorted(rows, key=lambda number: -totals[number])[:top]
    medians = {name: [float(np.median(column[rows[number]])) for number in shown] for name, column in sums.items()}
    return Section(
        f"Parts of replayed CUDA graphs: {count(len(labels), 'range')} that were open during capture",
        column("range of the capture", [labels[number] for number in shown], is_number=False),
        [
            [
                column("replays", [f"{len(rows[number]):,}" for number in shown]),
                column("total", [time(totals[number]) for number in shown]),
                column("launches", [f"{np.round(number, 1):g}" for number in medians["launches"]]),
                column("kernel", [time(ns) for ns in medians["kernel_ns"]]),
                column("copy", [time(ns) for ns in medians["copy_ns"]]),
            ]
        ],
        "total: kernel time of all replays; behind it: medians over the replays",
    )


def _sums(calls: int, total_ns: int, whole_ns: int) -> list[str]:
    return [f"{calls:,}", time(total_ns), share(total_ns / whole_ns) if whole_ns else "-"]


def _describe_shape(one: ShapeTime, whole_ns: int) -> list[str]:
    grid = f"  grid {_triple(one.shape.grid)}"
    return [grid, "", *_sums(one.calls, one.total_ns, whole_ns), time(one.median_ns), *_configure(one)]


def _configure(one: ShapeTime) -> list[str]:
    shape = one.shape
    registers, shared = str(one.registers or "-"), _binary_size(one.shared_bytes or 0)
    return [_triple(shape.grid), _triple(shape.block), registers, shared, _describe_occupancy(one)]


def _describe_occupancy(one: ShapeTime) -> str:
    """The occupancy, or the lowest and the highest where boards differ; "-" where it is not known."""
    percents = list(dict.fromkeys(f"{100 * occupancy.ratio:.0f}" for occupancy in one.occupancies))
    if not percents:
        return "-"
    return f"{percents[0]} %" if len(percents) == 1 else f"{percents[0]} to {percents[-1]} %"


def _triple(sizes: tuple[int, int, int]) -> str:
    """Sizes in x, y, z, without ones at the end; "-" where the kind has none."""
    if not any(sizes):
        return "-"
    used = 3 if sizes[2] != 1 else 2 if sizes[1] != 1 else 1
    return "x".join(map(str, sizes[:used]))


def _binary_size(number: int) -> str:
    """Bytes of shared memory, which devices have in powers of two; "-" for none."""
    if number >= 1024:
        return f"{number / 1024:.3g} KiB"
    return f"{number} B" if number else "-"
