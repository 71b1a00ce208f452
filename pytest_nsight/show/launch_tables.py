"""The tables of what ran on the device: kernels, copies, launches in no range."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from pytest_nsight.model.trace import COMPUTE_KINDS, COPY_KINDS, Ints
from pytest_nsight.model.units import amount, count, duration
from pytest_nsight.model.values import Shape
from pytest_nsight.report.table import Column
from pytest_nsight.show.layout import Cells, Section, bandwidth, printable, rank
from pytest_nsight.show.view import View


def tabulate_kernels(view: View, top: int) -> Section | None:
    """Kernels (or graphs, or operators) by name and configuration, those with the most time first.

    Args:
        view: what to show.
        top: how many rows there are beside that of the others.

    Returns:
        None if nothing of that kind was launched.
    """
    rows = _select(view, COMPUTE_KINDS)
    if not len(rows):
        return None
    launches, shapes = view.trace.launches, view.trace.shapes
    time_ns = _durations(view, rows)
    ranking = rank([_describe(shape) for shape in shapes], launches.shape[rows], time_ns, top)
    grouped = pd.Series(time_ns).groupby(ranking.row)
    whole_ns = int(time_ns.sum())
    is_host = {shapes[number].kind for number in np.unique(launches.shape[rows])} == {"operator"}
    names, *configuration = zip(*ranking.cells, strict=True)
    shares = [f"{100 * ns / whole_ns:.1f} %" if whole_ns else "-" for ns in grouped.sum()]
    times = [*_sums(grouped.size(), grouped.sum()), Column("share", shares), _column("median", grouped.median())]
    titled = zip(("grid", "block", "regs", "shared"), configuration, strict=True)
    return Section(
        f"{'Operators' if is_host else 'Kernels'}{_place(view)}: {_launches(len(rows))}, {duration(whole_ns)}",
        Column("operator" if is_host else "kernel", names, is_number=False),
        [times] if is_host else [times, [Column(title, cells) for title, cells in titled]],
    )


def tabulate_copies(view: View, top: int) -> Section | None:
    """Memory copies and sets by direction and place of memory, those with the most time first.

    Args:
        view: what to show.
        top: how many rows there are beside that of the others.

    Returns:
        None if there are none.
    """
    rows = _select(view, COPY_KINDS)
    if not len(rows):
        return None
    launches = view.trace.launches
    time_ns, moved = _durations(view, rows), launches.bytes_moved[rows]
    keys = [(printable(shape.full_name),) for shape in view.trace.shapes]
    ranking = rank(keys, launches.shape[rows], time_ns, top)
    grouped, bytes_moved = pd.Series(time_ns).groupby(ranking.row), pd.Series(moved).groupby(ranking.row).sum()
    rates = [bandwidth(size, ns) for size, ns in zip(bytes_moved, grouped.sum(), strict=True)]
    columns = [
        *_sums(grouped.size(), grouped.sum()),
        _column("median", grouped.median()),
        Column("bytes", [amount(size, "B") for size in bytes_moved]),
        Column("GB/s", rates),
    ]
    return Section(
        f"Memory copies and sets{_place(view)}: {amount(int(moved.sum()), 'B')} in {duration(int(time_ns.sum()))}",
        Column("kind", [name for (name,) in ranking.cells], is_number=False),
        [columns],
    )


def tabulate_unattributed(view: View, top: int) -> Section | None:
    """Launches that belong to no range at all, by name, those with the most time first.

    Args:
        view: what to show.
        top: how many rows there are beside that of the others.

    Returns:
        None if there are none, or where only some ranges were looked at.
    """
    unattributed = view.measured.unattributed
    if not unattributed or view.is_chosen:
        return None
    frame = pd.DataFrame(
        {"count": [each.count for each in unattributed], "total": [each.total_ns for each in unattributed]}
    )
    keys = [(printable(each.name), each.reason.value) for each in unattributed]
    ranking = rank(keys, np.arange(len(unattributed)), frame["total"].to_numpy(np.int64), top)
    sums = frame.groupby(ranking.row).sum()
    names, reasons = zip(*ranking.cells, strict=True)
    return Section(
        f"Launches in no range: {_launches(int(sums['count'].sum()))}, {duration(int(sums['total'].sum()))}",
        Column("name", names, is_number=False),
        [[*_sums(sums["count"], sums["total"]), Column("why", reasons, is_number=False)]],
    )


def _select(view: View, kinds: Sequence[str]) -> Ints:
    """Rows of the launches that count and are of these kinds."""
    fits = np.array([shape.kind in kinds for shape in view.trace.shapes], np.bool_)
    if not len(fits):
        return np.empty(0, np.int64)
    return np.flatnonzero(fits[view.trace.launches.shape] & view.is_shown)


def _durations(view: View, rows: Ints) -> Ints:
    launches = view.trace.launches
    time_ns: Ints = np.maximum(launches.end_ns[rows] - launches.start_ns[rows], 0)
    return time_ns


def _describe(shape: Shape) -> Cells:
    registers, shared = str(shape.registers or "-"), _binary_size(shape.shared_bytes)
    return printable(shape.name), _triple(shape.grid), _triple(shape.block), registers, shared


def _triple(sizes: tuple[int, int, int]) -> str:
    """Sizes in x, y, z, without ones at the end; "-" where the kind has none."""
    if not any(sizes):
        return "-"
    used = 3 if sizes[2] != 1 else 2 if sizes[1] != 1 else 1
    return "x".join(map(str, sizes[:used]))


def _binary_size(number: int) -> str:
    """Bytes of shared memory, of which boards have a power of two; "-" for none."""
    if number >= 1024:
        return f"{number / 1024:.3g} KiB"
    return f"{number} B" if number else "-"


def _place(view: View) -> str:
    return " in the chosen ranges" if view.is_chosen else ""


def _launches(number: int) -> str:
    return count(number, "launch", "launches")


def _sums(counts: pd.Series, total_ns: pd.Series) -> tuple[Column, Column]:
    return Column("count", [f"{number:,}" for number in counts]), _column("total", total_ns)


def _column(header: str, times_ns: pd.Series) -> Column:
    return Column(header, [duration(ns) for ns in times_ns])
