"""The tables of memory: what was held on each device, and which ranges take more of it."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_nsight.analysis.memory_use import MemoryUse, RangeMemory
from pytest_nsight.model.trace_devices import TraceDevice
from pytest_nsight.model.units import amount
from pytest_nsight.show.layout import Section, column, time
from pytest_nsight.show.time_tables import name_devices

_LEAST_BYTES = 1 << 20
"""Kinds of memory with less are in JSON and CSV only, unless all have less."""


def tabulate_memory(uses: Sequence[MemoryUse]) -> Section | None:
    """What was held on each device; None where allocations were not recorded.

    Args:
        uses: by device and kind of memory.
    """
    if not uses:
        return None
    uses = [one for one in uses if one.peak_bytes >= _LEAST_BYTES] or uses
    names = _name_rows([one.device for one in uses], [one.kind.value for one in uses])
    return Section(
        "Memory that CUDA handed out",
        column("memory", names, is_number=False),
        [
            [
                column("most", [_size(one.peak_bytes) for one in uses]),
                column("at the end", [_size(one.end_bytes) for one in uses]),
                column("most at", [time(one.peak_ns) for one in uses]),
                column("in range", [one.peak_range or "outside of every range" for one in uses], is_number=False),
            ],
            [
                column("allocated", [_size(one.allocated_bytes) for one in uses]),
                column("times", [_number(one.allocations) for one in uses]),
                column("freed", [_size(one.freed_bytes) for one in uses]),
                column("times", [_number(one.frees) for one in uses]),
            ],
        ],
        "what a caching allocator such as PyTorch's has reserved counts as held, whether tensors use it or not; "
        "without CUDA's own contexts and kernels; most at: since the start of the recording",
    )


def tabulate_range_memory(ranges: Sequence[RangeMemory], top: int) -> Section | None:
    """Which ranges take and give back memory of devices; None where none does.

    Args:
        ranges: those that take or give back the most first.
        top: how many have a row.
    """
    if not ranges:
        return None
    shown = ranges[:top]
    names = _name_rows([one.device for one in ranges], [one.label for one in ranges])
    return Section(
        "Device memory of ranges",
        column("range", names[:top], is_number=False),
        [
            [
                column("n", [_number(one.count) for one in shown]),
                column("growth", [_size(one.growth_bytes) for one in shown]),
                column("in", [_number(one.growing) for one in shown]),
                column("most held", [_size(one.peak_bytes) for one in shown]),
            ],
            [
                column("allocated", [_size(one.allocated_bytes) for one in shown]),
                column("times", [_number(one.allocations) for one in shown]),
                column("in", [_number(one.allocating) for one in shown]),
            ],
        ],
        "growth: allocated less freed; in: how many of the n ranges grow, and allocate",
    )


def _name_rows(devices: Sequence[TraceDevice], names: Sequence[str]) -> list[str]:
    """The names of rows, each with its device before it where there are several."""
    if len(set(devices)) < 2:
        return list(names)
    return [f"{device}: {name}" for device, name in zip(name_devices(devices), names, strict=True)]


def _size(size_bytes: int) -> str:
    return amount(size_bytes, "B") if size_bytes else "-"


def _number(how_many: int) -> str:
    return f"{how_many:,}" if how_many else "-"
