"""A kernel that is compiled and launched through the CUDA driver: nothing here imports torch."""

from __future__ import annotations

import sys
from ctypes import c_uint64

import pytest

from pytest_nsight.worker.compiled_canaries import SOURCE
from pytest_nsight.worker.cuda_driver import DeviceBuffer, load_driver
from pytest_nsight.worker.nvrtc import compile_source, load_nvrtc

ELEMENTS = 1 << 22


@pytest.mark.nsight(launches=1)
def test_negate(nsight):
    driver = load_driver()
    image = compile_source(load_nvrtc(), SOURCE, driver.architecture).image
    function = driver.load_functions(image, ["nsight_negate"])["nsight_negate"]
    x, out = DeviceBuffer(driver, 4 * ELEMENTS), DeviceBuffer(driver, 4 * ELEMENTS)
    driver.clear(x)
    arguments = [c_uint64(x.pointer), c_uint64(out.pointer), c_uint64(ELEMENTS // 4)]

    nsight(driver.launch, function, driver.multiprocessors * 8, 256, arguments)

    assert driver.read_buffer(out, 4) == b"\0\0\0\x80"
    assert "torch" not in sys.modules
