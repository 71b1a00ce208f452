"""A process that a case has left unusable measures no other case, which would fail without a fault of its own.

An illegal access or a device assertion leaves the CUDA context dead; running out of memory leaves it full. If a
test has closed stdout or stderr, pytest itself can report nothing more. If a hook has ended the session, pytest
runs no other test. The controller measures the other cases in fresh processes, and the case during which it
happened in one of its own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator

import pytest

from pytest_nsight.model.errors import name_error, text_of
from pytest_nsight.protocol.journal import Journal
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
    """Whether an exception reports a failure of the device, not of the program on the host."""
    names = {one.__name__ for one in type(error).__mro__}
    said = text_of(error)
    return bool(names & _TYPES) or any(text in said for text in _TEXTS)


class ProcessHealthPlugin:
    """Looks after the device and the standard streams between the cases of one process.

    Attributes:
        failure: what the last case has left unusable, "" if nothing.
    """

    def __init__(self, journal: Journal, run: MeasuredRun) -> None:
        self._journal = journal
        self._run = run
        self._device_error = ""
        self.failure = ""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Notes an exception that reports a device error."""
        if call.excinfo is not None and is_device_error(call.excinfo.value):
            self._device_error = name_error(call.excinfo.value)
        return (yield)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Ends the session after a case that has left the process unusable."""
        self._device_error = ""
        result = yield
        device_error = self._device_error or self._probe_device()
        self._run.is_device_lost = bool(device_error)
        stopped = f"a hook ended pytest: {item.session.shouldstop}" if item.session.shouldstop else ""
        self.failure = device_error or find_closed_stream() or stopped
        if self.failure:
            self._journal.write("process_failure", case=item.nodeid, text=self.failure)
            item.session.shouldstop = self.failure
        return result

    def _probe_device(self) -> str:
        """What a synchronisation of the device reports, "" if it works or none is measured."""
        try:
            self._run.synchronize()
        except Exception as error:
            return name_error(error)
        return ""


def find_closed_stream() -> str:
    """Which of the streams that pytest and the plugins of a process write to is closed, "" if none."""
    for name, number in (("stdout", 1), ("stderr", 2)):
        if getattr(getattr(sys, name), "closed", False):
            return f"the test closed sys.{name}"
        try:
            os.fstat(number)
        except OSError:
            return f"the test closed file descriptor {number}, which is {name}"
    return ""
