"""The tables that say where a trace's time goes, and their columns: the same in JSON, CSV and DataFrames.

Apart from what fills them: the command line lists their names before it reads a recording.
"""

from __future__ import annotations

from collections.abc import Mapping

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "devices": (
        "device",
        "process",
        "name",
        "uuid",
        "wall_ns",
        "kernel_ns",
        "copy_ns",
        "overlap_ns",
        "idle_ns",
        "sync_ns",
        "busy_ns",
        "utilisation",
        "processes",
    ),
    "states": ("state", "total_ns", "share"),
    "idle": ("range", "total_ns", "share", "largest_ns", "cause", "cause_ns"),
    "bottlenecks": ("range", "limit", "share", "evidence", "remedy"),
    "ranges": (
        "path",
        "count",
        "wall_ns",
        "kernel_ns",
        "copy_ns",
        "launches",
        "copies",
        "sync_ns",
        "share",
        "depth",
        "device_ns",
    ),
    "range_categories": ("range", "count", "category", "total_ns", "share"),
    "work": (
        "label",
        "count",
        "amount",
        "unit",
        "latency_ns",
        "latency_95_ns",
        "kernel_ns",
        "per_s",
        "time_share",
        "work_share",
        "kernel_per_s",
    ),
    "kernels": ("name", "full_name", "kind", "category", "calls", "total_ns", "median_ns"),
    "shapes": (
        "kernel",
        "calls",
        "total_ns",
        "median_ns",
        "grid",
        "block",
        "registers",
        "shared_bytes",
        "occupancy",
        "occupancy_limited_by",
    ),
    "categories": ("category", "calls", "total_ns", "share"),
    "copies": ("name", "memory", "count", "total_ns", "bytes_moved", "overlapped_ns", "median_ns"),
    "calls": ("name", "calls", "total_ns", "median_ns", "longest_ns", "waits", "waiting_calls", "waiting_ns"),
    "sequences": ("names", "count", "kernel_ns", "gap_ns", "is_fusible"),
    "critical_path": ("step", "step_ns", "part", "name", "count", "total_ns"),
    "metrics": (
        "part",
        "name",
        "device",
        "samples",
        "period_ns",
        "sm_active",
        "tensor_active",
        "dram_read",
        "dram_write",
        "clock_mhz",
        "bytes_per_s",
    ),
    "unattributed": ("name", "reason", "count", "total_ns"),
}
"""Table -> its columns, also of a table without rows. Names may be added within a format, never changed."""
