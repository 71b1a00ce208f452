"""The table of sampled GPU counters, and how they are written for people."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_nsight.analysis.metric_use import MetricUse
from pytest_nsight.model.gpu_samples import FEWEST_SAMPLES
from pytest_nsight.model.units import count, duration, number
from pytest_nsight.show.layout import Section, column, share

_MISSING = "-"


def tabulate_metrics(metrics: Sequence[MetricUse], top: int) -> Section | None:
    """Counters by part: the whole, ranges, kernels; None where nothing was sampled.

    Args:
        metrics: of all boards.
        top: how many ranges and how many kernels have a row.
    """
    if not metrics:
        return None
    several = len({one.device for one in metrics}) > 1
    rows = [
        one
        for device in dict.fromkeys(one.device for one in metrics)
        for part, most in (("device", 1), ("range", top), ("kernel", top))
        for one in [one for one in metrics if _is_row(one, part, device)][:most]
    ]
    names = [_name(one, several=several) for one in rows]
    period_ns = max(one.means.period_ns for one in rows)
    means = [one.means for one in rows]
    bandwidths = [one.bytes_per_s for one in means]
    unseen = sum(not one.means.samples for one in metrics if one.part != "device")
    note = f"; {count(unseen, 'part')} that no sample lies in left out" if unseen else ""
    return Section(
        f"GPU metrics: one sample each {duration(period_ns) if period_ns else 'unknown time'}",
        column("part", names, is_number=False),
        [
            [
                column("samples", [f"{one.samples:,}" for one in means]),
                column("SM active", [_share(one.sm_active) for one in means]),
                column("tensor", [_share(one.tensor_active) for one in means]),
            ],
            [
                column("DRAM read", [_share(one.dram_read) for one in means]),
                column("GB/s", [_rate(one.dram_read, most) for one, most in zip(means, bandwidths, strict=True)]),
                column("DRAM write", [_share(one.dram_write) for one in means]),
                column("GB/s", [_rate(one.dram_write, most) for one, most in zip(means, bandwidths, strict=True)]),
                column("clock", [f"{one.clock_mhz:.0f} MHz" if one.clock_mhz else _MISSING for one in means]),
            ],
        ],
        "shares of what the board can do; a sample counts where at least 90 % of its time lies in the range or in "
        f"launches of the kernel; -: fewer than {FEWEST_SAMPLES} samples{note}",
    )


def _is_row(one: MetricUse, part: str, device: int) -> bool:
    return (one.part, one.device) == (part, device) and (part == "device" or one.means.samples > 0)


def _name(one: MetricUse, *, several: bool) -> str:
    board = f"device {one.device}: " if several else ""
    return board + {"device": "all", "range": f"range {one.name}", "kernel": f"  {one.name}"}[one.part]


def _share(ratio: float | None) -> str:
    return _MISSING if ratio is None else share(ratio)


def _rate(ratio: float | None, bytes_per_s: float | None) -> str:
    """GB/s from a share of the bandwidth."""
    return _MISSING if ratio is None or bytes_per_s is None else number(ratio * bytes_per_s / 1e9)
