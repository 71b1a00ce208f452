"""A process whose device has failed measures no further case: the next one would fail for a fault of another.

An illegal access, a device assertion or memory that cannot be had leave the CUDA context dead or full. The
controller measures the other cases in fresh processes, and the one during which it happened alone.
"""

from __future__ import annotations

from collections.abc import Generator

import pytest

from pytest_nsight.protocol.manifest_events import Journal
from pytest_nsight.worker.measured_case import MeasuredRun

_TYPES = frozenset(
    (
        "OutOfMemoryError",
        "AcceleratorError",
        "CUDARuntimeError",
        "CUDADriverError",
        "CudaAPIError",
        "XlaRuntimeError",
    )
)
"""Names of the exceptions with which torch, CuPy, Numba and JAX report that a device failed."""

_TEXTS = (
    "CUDA error",
    "CUDA_ERROR_",
    "cudaError",
    "CUBLAS_STATUS_",
    "CUDNN_STATUS_",
    "CUDA out of memory",
    "No CUDA GPUs are available",
    "no CUDA-capable device",
    "Found no NVIDIA driver",
)


def is_device_error(error: BaseException) -> bool:
    """Whether an exception says that the device failed, and not the program on the host."""
    names = {one.__name__ for one in type(error).__mro__}
    return bool(names & _TYPES) or any(text in str(error) for text in _TEXTS)


class DeviceHealthPlugin:
    """Looks after the device between the cases of one process."""

    def __init__(self, journal: Journal, run: MeasuredRun) -> None:
        self._journal = journal
        self._run = run
        self._failure = ""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Notes an exception that reports a device error."""
        if call.excinfo is not None and is_device_error(call.excinfo.value):
            self._failure = _first_line(call.excinfo.value)
        return (yield)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Ends the session after a case that has left the device unusable."""
        self._failure = ""
        result = yield
        failure = self._failure or self._probe()
        if failure:
            self._run.is_device_lost = True
            self._journal.write("device_failure", case=item.nodeid, text=failure)
            item.session.shouldstop = failure
        return result

    def _probe(self) -> str:
        """What a synchronisation of the device reports, "" if it works or none is measured."""
        try:
            self._run.synchronize()
        except Exception as error:
            return _first_line(error)
        return ""


def _first_line(error: BaseException) -> str:
    lines = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"
