"""Three kernels, sound or, under SPOILED=1, with registers spilled, memory uncoalesced or occupancy halved."""

from __future__ import annotations

import os
from ctypes import c_int, c_uint64

import pytest

from pytest_nsight.worker.cuda_driver import DeviceBuffer, load_driver
from pytest_nsight.worker.nvrtc import compile_source, load_nvrtc

ELEMENTS = 1 << 24
BLOCK = 256
SOURCE = """
#ifdef SPOILED
#define BOUNDS __launch_bounds__(256, 8)
#define PLACE(i) ((i * 32ull + i / (n / 32)) % n)
#else
#define BOUNDS
#define PLACE(i) (i)
#endif
extern "C" {
// 96 values live through a loop whose length is not known: 8 blocks leave each thread 32 registers.
__global__ void BOUNDS drill_registers(const float* x, float* out, unsigned long long n, int turns) {
    unsigned long long i = blockIdx.x * 256ull + threadIdx.x;
    float v[96];
    #pragma unroll
    for (int k = 0; k < 96; ++k) v[k] = x[(i + k * 4096ull) % n];
    for (int turn = 0; turn < turns; ++turn) {
        #pragma unroll
        for (int k = 0; k < 96; ++k) v[k] = v[k] * v[(k + 7) % 96] + v[(k + 31) % 96];
    }
    float sum = 0;
    #pragma unroll
    for (int k = 0; k < 96; ++k) sum += v[k];
    out[i] = sum;
}
// Neighbouring threads read 128 bytes apart.
__global__ void drill_coalescing(const float* x, float* out, unsigned long long n, int turns) {
    unsigned long long i = blockIdx.x * 256ull + threadIdx.x;
    out[i] = x[PLACE(i)] + turns;
}
// Chained loads: only other warps hide them. 48 KiB of shared memory leave 4 blocks of 8 on an H100.
__global__ void drill_occupancy(const float* x, float* out, unsigned long long n, int turns) {
#ifdef SPOILED
    __shared__ volatile float room[12288];
    room[threadIdx.x] = turns;
#endif
    unsigned long long i = blockIdx.x * 256ull + threadIdx.x;
    float sum = 0;
    for (int turn = 0; turn < turns; ++turn) {
        float value = x[(i + (unsigned long long)sum) % n];
        sum += value + 4096.0f;
    }
#ifdef SPOILED
    sum += room[(threadIdx.x + 1) % 256];
#endif
    out[i] = sum;
}
}
"""


@pytest.mark.parametrize("kernel", ["registers", "coalescing", "occupancy"])
@pytest.mark.nsight(rounds=20)
def test_drilled(nsight, kernel):
    driver = load_driver()
    options = ["-DSPOILED"] if os.environ.get("SPOILED") else []
    image = compile_source(load_nvrtc(), SOURCE, driver.architecture, options).image
    name = f"drill_{kernel}"
    function = driver.load_functions(image, [name])[name]
    x, out = DeviceBuffer(driver, 4 * ELEMENTS), DeviceBuffer(driver, 4 * ELEMENTS)
    driver.clear(x)
    arguments = [c_uint64(x.pointer), c_uint64(out.pointer), c_uint64(ELEMENTS), c_int(32)]

    nsight(driver.launch, function, ELEMENTS // BLOCK, BLOCK, arguments)
