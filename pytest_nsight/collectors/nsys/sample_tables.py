"""The tables of GPU metrics sampling: which metric has which number, and its samples by board.

Numbers of metrics differ between versions and products, names begin alike: NVIDIA's own recipes go by the beginning
of a name, and so does this. Versions before 2023.4 write samples as JSON into GENERIC_EVENTS, which is not read.
"""

from __future__ import annotations

import numpy as np

from pytest_nsight.collectors.nsys.columns import Arrays, ExportColumn
from pytest_nsight.collectors.nsys.open_export import Export
from pytest_nsight.collectors.nsys.session_tables import board_uuid
from pytest_nsight.model.gpu_samples import GpuMetric, GpuSamples
from pytest_nsight.model.sorted_keys import distinct
from pytest_nsight.model.trace import Ints
from pytest_nsight.model.trace_devices import TraceDevice

SAMPLES = "GPU_METRICS"
NAMES = "TARGET_INFO_GPU_METRICS"
COLUMNS = {
    SAMPLES: (
        ExportColumn("timestamp", alias="start"),
        ExportColumn("typeId"),
        ExportColumn("metricId"),
        ExportColumn("value"),
    )
}

_GPU_MASK = 0xFF
"""The lowest byte of a type's number is the board's."""

# The first that an export has: Hopper's "SMs Active [Throughput %]" was "SM Active" before 2023.
_BEGINNINGS = {
    GpuMetric.SM_ACTIVE: ("SMs Active", "SM Active"),
    GpuMetric.TENSOR_ACTIVE: ("Tensor Active",),
    GpuMetric.DRAM_READ: ("DRAM Read Bandwidth", "DRAM Read Throughput", "DRAM Read"),
    GpuMetric.DRAM_WRITE: ("DRAM Write Bandwidth", "DRAM Write Throughput", "DRAM Write"),
    GpuMetric.CLOCK_MHZ: ("GPC Clock Frequency",),
}
_HIGHEST_PERCENT = 100
_HZ_PER_MHZ = 1_000_000


def build_samples(
    export: Export, columns: Arrays, devices: tuple[TraceDevice, ...]
) -> tuple[tuple[GpuSamples, ...], tuple[str, ...]]:
    """The samples of each board, and sentences on what could not be read.

    Args:
        export: the file, for the names.
        columns: of SAMPLES, as read.
        devices: the boards of the trace.

    Raises:
        TraceError: the file is damaged.
    """
    if not len(columns["start"]):
        return (), ()
    if not export.has(NAMES, "typeId", "metricId", "metricName"):
        return (), (f"the recording has GPU metrics, but no table {NAMES} that names them; they are left out",)
    names = {
        (kind, metric): str(name)
        for kind, metric, name in export.query(f"SELECT typeId, metricId, metricName FROM {NAMES}")
    }
    if not names:
        empty = (
            f"the recording has GPU metrics, but its table {NAMES}, which names them, is empty; they are left out"
        )
        return (), (empty,)
    found = []
    for kind in distinct(columns["typeId"]).tolist():
        numbers = {metric: name for (other, metric), name in names.items() if other == kind}
        own = columns["typeId"] == kind
        samples = _collect(
            _find_device(export, devices, kind & _GPU_MASK),
            _choose(numbers),
            columns["start"][own].astype(np.int64),
            columns["metricId"][own].astype(np.int64),
            columns["value"][own].astype(np.int64),
        )
        if samples.values:
            found.append(samples)
    unknown = "the recording has GPU metrics under names that are not known: " + ", ".join(
        sorted({*names.values()})[:4]
    )
    return tuple(found), () if found else (unknown,)


def _find_device(export: Export, devices: tuple[TraceDevice, ...], number: int) -> int:
    """Index of the board that the tool numbers so, -1 where it does not say."""
    if not export.has("TARGET_INFO_GPU", "id", "uuid"):
        return -1
    boards = export.query("SELECT id, uuid FROM TARGET_INFO_GPU")
    own = [board_uuid(uuid) for id_, uuid in boards if isinstance(id_, int) and id_ & _GPU_MASK == number]
    fitting = [place for place, device in enumerate(devices) if len(own) == 1 and device.uuid == own[0]]
    return fitting[0] if fitting else -1


def _choose(numbers: dict[int, str]) -> dict[int, GpuMetric]:
    """Number -> metric, of those that are known; of several spellings the first."""
    chosen: dict[int, GpuMetric] = {}
    for metric, beginnings in _BEGINNINGS.items():
        for beginning in beginnings:
            fitting = sorted(number for number, name in numbers.items() if name.startswith(beginning))
            if fitting:
                chosen[fitting[0]] = metric
                break
    return chosen


def _collect(device: int, chosen: dict[int, GpuMetric], time_ns: Ints, number: Ints, value: Ints) -> GpuSamples:
    """One row a sample; a metric that a sample lacks is -1, and so is a share that no board can have."""
    times, place = np.unique(time_ns, return_inverse=True)
    values: dict[GpuMetric, Ints] = {}
    for wanted, metric in chosen.items():
        column = np.full(len(times), -1, np.int64)
        own = number == wanted
        column[place[own]] = value[own]
        if metric is GpuMetric.CLOCK_MHZ:
            column = np.where(column >= 0, column // _HZ_PER_MHZ, -1)
        else:
            column = np.where(column <= _HIGHEST_PERCENT, column, -1)
        if (column >= 0).any():
            values[metric] = column
    return GpuSamples(device, times, values)
