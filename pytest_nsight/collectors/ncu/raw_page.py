"""The CSV that `ncu --csv --page raw` prints: which column is which counter, in which unit. Pure.

The first row names the columns, the second gives their units, and each further row is one profiled launch. What the
program and ncu say otherwise stands before and between them.
"""

from __future__ import annotations

import csv
import io
import re
import statistics
from collections.abc import Mapping, Sequence

from pytest_nsight.model.errors import CollectorError
from pytest_nsight.model.kernel_counters import Counter, KernelCounters

_LOCAL = tuple(f"l1tex__t_bytes_pipe_lsu_mem_local_op_{way}.sum" for way in ("ld", "st"))
_SECTORS = tuple(f"l1tex__t_sectors_pipe_lsu_mem_global_op_{way}.sum" for way in ("ld", "st"))
_REQUESTS = tuple(f"l1tex__t_requests_pipe_lsu_mem_global_op_{way}.sum" for way in ("ld", "st"))

_SUMS: Mapping[Counter, tuple[str, ...]] = {
    Counter.SM_THROUGHPUT: ("sm__throughput.avg.pct_of_peak_sustained_elapsed",),
    Counter.MEMORY_THROUGHPUT: ("gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",),
    Counter.OCCUPANCY: ("sm__warps_active.avg.pct_of_peak_sustained_active",),
    Counter.L2_HIT_RATE: ("lts__t_sector_hit_rate.pct",),
    Counter.DRAM_BYTES: ("dram__bytes_read.sum", "dram__bytes_write.sum"),
    Counter.REGISTERS: ("launch__registers_per_thread",),
    Counter.LOCAL_BYTES: _LOCAL,
    Counter.SHARED_BYTES: ("launch__shared_mem_per_block",),
}
METRICS = (*(name for names in _SUMS.values() for name in names), *_SECTORS, *_REQUESTS)
"""What ncu is asked for; all exist from compute capability 7.0 on."""

_NAME = "Kernel Name"
_UNIT = re.compile(r"(K|M|G|T)?byte(/block)?", re.IGNORECASE)
_POWERS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_HEAD = re.compile(r'^"?ID"?,', re.MULTILINE)


def parse_raw_page(text: str) -> tuple[KernelCounters, ...]:
    """The counters of every kernel in ncu's output, in order of name; empty where nothing was profiled.

    Args:
        text: all that ncu wrote.

    Raises:
        CollectorError: there is a table without the column of names or the row of units.
    """
    head = _HEAD.search(text)
    if head is None:
        return ()
    lines = [line for line in text[head.start() :].splitlines() if line.startswith('"') or line[:2] == "ID"]
    names, *rows = csv.reader(io.StringIO("\n".join(lines)))
    if _NAME not in names or not rows:
        raise CollectorError(
            "Nsight Compute wrote a table without kernel names or units; use a version from 2021 on"
        )
    units = dict(zip(names, rows[0], strict=False))
    by_kernel: dict[str, list[Mapping[str, float]]] = {}
    for row in rows[1:]:
        cells = dict(zip(names, row, strict=False))
        if len(row) == len(names):
            by_kernel.setdefault(base_name(cells[_NAME]), []).append(_read_row(cells, units))
    return tuple(
        KernelCounters(kernel, len(launches), _join(launches)) for kernel, launches in sorted(by_kernel.items())
    )


def base_name(kernel: str) -> str:
    """The function's name in a kernel's: without its type, namespaces, template arguments and parameters."""
    plain = re.sub(r"\(anonymous namespace\)::", "", kernel)
    match = re.search(r"([A-Za-z_~$][\w$]*)\s*(?=[<(]|$)", plain.removeprefix("void "))
    return match[1] if match else kernel


def _read_row(cells: Mapping[str, str], units: Mapping[str, str]) -> dict[str, float]:
    """Counter -> value of one launch."""
    found = {
        name: value for name in METRICS if (value := _number(cells.get(name, ""), units.get(name, ""))) is not None
    }
    values = {
        counter.value: sum(found[name] for name in names)
        for counter, names in _SUMS.items()
        if all(name in found for name in names)
    }
    requests = sum(found.get(name, 0.0) for name in _REQUESTS)
    if requests > 0:
        values[Counter.SECTORS_PER_REQUEST.value] = sum(found.get(name, 0.0) for name in _SECTORS) / requests
    return values


def _number(text: str, unit: str) -> float | None:
    """A cell in bytes, percent or as it stands; None for "n/a" and "nan"."""
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None
    match = _UNIT.fullmatch(unit.strip())
    return None if value != value else value * (_POWERS[(match[1] or "").lower()] if match else 1.0)  # noqa: PLR0124


def _join(launches: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The median of each counter over the launches that have it."""
    names = sorted({name for one in launches for name in one})
    return {name: statistics.median(one[name] for one in launches if name in one) for name in names}
