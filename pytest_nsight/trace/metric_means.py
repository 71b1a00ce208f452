"""Means of sampled GPU counters over stretches of time: of a case's rounds, of ranges, of kernels. Pure.

A sample covers the time since the one before. It counts where nearly all of that time lies in the stretches: one
that only ends there would mix in what ran before.
"""

from __future__ import annotations

import numpy as np

from pytest_nsight.model.gpu_samples import GpuMetric, GpuSamples, MetricMeans
from pytest_nsight.model.trace import Flags, Ints

_PURE = 0.9
"""Share of a sample's time that must lie inside."""


def choose_samples(samples: GpuSamples, start_ns: Ints, end_ns: Ints) -> Flags:
    """Which samples lie in some stretches of time, shape (samples,).

    Args:
        samples: of one board.
        start_ns: shape (stretches,), sorted.
        end_ns: shape (stretches,), not before the start and not after the next start.
    """
    if not len(start_ns) or not len(samples):
        return np.zeros(len(samples), np.bool_)
    running = np.concatenate([np.zeros(1, np.int64), np.cumsum(end_ns - start_ns)])

    def before(time_ns: Ints) -> Ints:
        at = np.searchsorted(start_ns, time_ns, side="right")
        overshoot = np.where(at > 0, np.maximum(end_ns[at - 1] - time_ns, 0), 0)
        total: Ints = running[at] - overshoot
        return total

    low, high = samples.start_ns, samples.time_ns
    inside: Flags = before(high) - before(low) >= _PURE * np.maximum(high - low, 1)
    return inside


def average(samples: GpuSamples, chosen: Flags, bytes_per_s: float | None) -> MetricMeans:
    """The means of some samples; without means where they are too few.

    Args:
        samples: of one board.
        chosen: shape (samples,).
        bytes_per_s: memory bandwidth of the board.
    """
    means = MetricMeans(int(chosen.sum()), samples.period_ns)
    if not means.is_known:
        return means

    def mean(metric: GpuMetric, unit: float) -> float | None:
        column = samples.values.get(metric)
        known = column[chosen & (column >= 0)] if column is not None else np.empty(0)
        # A counter may start later than the others.
        return float(known.mean()) * unit if 2 * len(known) >= means.samples else None

    return MetricMeans(
        means.samples,
        means.period_ns,
        sm_active=mean(GpuMetric.SM_ACTIVE, 0.01),
        tensor_active=mean(GpuMetric.TENSOR_ACTIVE, 0.01),
        dram_read=mean(GpuMetric.DRAM_READ, 0.01),
        dram_write=mean(GpuMetric.DRAM_WRITE, 0.01),
        clock_mhz=mean(GpuMetric.CLOCK_MHZ, 1.0),
        bytes_per_s=bytes_per_s,
    )
