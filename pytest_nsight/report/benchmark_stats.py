"""The statistics that pytest-benchmark stores of a benchmark, under its names and by its definitions.

Source of the names and definitions: `pytest_benchmark.stats.Stats` of version 5.3.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence


def benchmark_stats(seconds: Sequence[float]) -> dict[str, object]:
    """The field "stats" of a benchmark.

    Args:
        seconds: one duration per round, in seconds, in order of execution; at least one.
    """
    ordered = sorted(seconds)
    mean = statistics.mean(ordered)
    stddev = statistics.stdev(ordered) if len(ordered) > 1 else 0.0
    q1, q3 = _quantile(ordered, 0.25), _quantile(ordered, 0.75)
    iqr = q3 - q1
    low, high = q1 - 1.5 * iqr, q3 + 1.5 * iqr
    # Rounding may put a fence beyond the very quartile that it was computed from.
    inside = [value for value in ordered if low <= value <= high] or ordered
    stddev_outliers = _outliers(ordered, mean - stddev, mean + stddev)
    iqr_outliers = _outliers(ordered, low, high)
    total = sum(ordered)
    return {
        "min": ordered[0],
        "max": ordered[-1],
        "mean": mean,
        "stddev": stddev,
        "rounds": len(ordered),
        "median": statistics.median(ordered),
        "iqr": iqr,
        "q1": q1,
        "q3": q3,
        "iqr_outliers": iqr_outliers,
        "stddev_outliers": stddev_outliers,
        "outliers": f"{stddev_outliers};{iqr_outliers}",
        "ld15iqr": inside[0],
        "hd15iqr": inside[-1],
        "ops": len(ordered) / total if total else 0.0,
        "total": total,
        "data": list(seconds),
        "iterations": 1,
    }


def _quantile(ordered: Sequence[float], share: float) -> float:
    # Hazen's rule: its quartiles are the medians of both halves, whatever the number of values.
    position = min(max(len(ordered) * share - 0.5, 0.0), len(ordered) - 1.0)
    below = int(position)
    weight = position - below
    return ordered[below] if not weight else (1 - weight) * ordered[below] + weight * ordered[below + 1]


def _outliers(values: Sequence[float], low: float, high: float) -> int:
    return sum(not low <= value <= high for value in values)
