"""Counters of a whole board, sampled at a fixed period while a program runs; and the fewest samples of a mean."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

FEWEST_SAMPLES = 20
"""A mean of fewer samples says nothing: one of 20 that lies wholly elsewhere moves it by 5 %."""


class GpuMetric(enum.Enum):
    """What is known of a board at each sample; shares are percent of what the board can do."""

    SM_ACTIVE = "SM active"
    """Share of the multiprocessors' time in which they hold at least one warp."""
    TENSOR_ACTIVE = "tensor active"
    """Share of the time in which the tensor cores compute."""
    DRAM_READ = "DRAM read"
    """Share of the memory bandwidth that reads take."""
    DRAM_WRITE = "DRAM write"
    """Share of the memory bandwidth that writes take."""
    CLOCK_MHZ = "SM clock"
    """Clock of the multiprocessors in MHz."""


@dataclass(frozen=True, slots=True)
class MetricMeans:
    """Means over the samples that lie in some stretches of time.

    Attributes:
        samples: how many; below FEWEST_SAMPLES there are no means.
        period_ns: usual distance between samples.
        sm_active: ratio of the multiprocessors' time in which they hold a warp; None where it is not known.
        tensor_active: ratio of the time in which the tensor cores compute.
        dram_read: ratio of the memory bandwidth.
        dram_write: ratio of the memory bandwidth.
        clock_mhz: clock of the multiprocessors.
        bytes_per_s: the board's memory bandwidth, which the ratios are of; None where it is not known.
    """

    samples: int
    period_ns: int
    sm_active: float | None = None
    tensor_active: float | None = None
    dram_read: float | None = None
    dram_write: float | None = None
    clock_mhz: float | None = None
    bytes_per_s: float | None = None

    @property
    def is_known(self) -> bool:
        """Whether there are enough samples to speak of."""
        return self.samples >= FEWEST_SAMPLES

    @property
    def refusal(self) -> str:
        """Why there are no means, "" where there are."""
        if self.is_known:
            return ""
        return (
            f"{self.samples} samples, {FEWEST_SAMPLES} are needed; what is shorter than the sampling period "
            f"({self.period_ns / 1000:g} us) is seen by none"
        )


@dataclass(frozen=True, slots=True)
class GpuSamples:
    """The samples of one board.

    Attributes:
        device: the board, an index into the trace's devices; -1 where the recording does not say which.
        time_ns: shape (samples,), int64, sorted: when each sample ends. It covers the time since the one before.
        values: metric -> shape (samples,), what the tool recorded, as a whole number of its unit; -1 for none.
    """

    device: int
    time_ns: npt.NDArray[np.int64]
    values: Mapping[GpuMetric, npt.NDArray[np.int64]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        lengths = {len(self.time_ns), *(len(column) for column in self.values.values())}
        if len(lengths) > 1:
            raise ValueError(f"columns of samples differ in length: {sorted(lengths)}")

    def __len__(self) -> int:
        return len(self.time_ns)

    @property
    def period_ns(self) -> int:
        """Usual distance between samples, 0 with fewer than two."""
        return int(np.median(np.diff(self.time_ns))) if len(self) > 1 else 0

    @property
    def start_ns(self) -> npt.NDArray[np.int64]:
        """When each sample begins; a gap in the recording belongs to no sample."""
        starts = self.time_ns - self.period_ns
        if len(starts):
            starts[1:] = np.maximum(starts[1:], self.time_ns[:-1])
        return starts
