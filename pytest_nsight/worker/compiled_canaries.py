"""The canaries as CUDA C, compiled at run time: they need no framework, and no framework's release changes them.

Each does the same kind of work as the canary of the same name in canaries.py, and writes what can be checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from ctypes import c_float, c_int, c_uint, c_uint64, c_void_p
from dataclasses import dataclass

from pytest_nsight.model.values import Work
from pytest_nsight.worker.canaries import Canary, Prepared
from pytest_nsight.worker.cuda_driver import CudaDriver, CudaDriverError, DeviceBuffer
from pytest_nsight.worker.nvrtc import CompilationError, compile_source, load_nvrtc

VERSION = 1
"""Version of the source below; baselines store the version that they were measured with."""

SOURCE = r"""
extern "C" {

__device__ unsigned mixed(unsigned x) {
    x ^= x >> 16; x *= 0x7feb352dU; x ^= x >> 15; x *= 0x846ca68bU; x ^= x >> 16;
    return x;
}

__global__ void nsight_fill(float* x, unsigned long long n, unsigned seed) {
    unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x; i < n; i += step)
        x[i] = (float)mixed((unsigned)i + seed) * (2.0f / 4294967296.0f) - 1.0f;
}

// A permutation of 0 to 2**bits - 1: each step can be undone.
__global__ void nsight_permute(unsigned* index, unsigned bits) {
    unsigned mask = (1u << bits) - 1, step = gridDim.x * blockDim.x;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i <= mask; i += step) {
        unsigned x = i;
        for (int pass = 0; pass < 3; ++pass) {
            x = (x * 0x2c1b3c6dU + 0x9e3779b9U) & mask;
            x ^= x >> (bits / 2);
        }
        index[i] = x;
    }
}

__global__ void nsight_negate(const float4* x, float4* out, unsigned long long n) {
    unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x; i < n; i += step) {
        float4 v = x[i];
        out[i] = make_float4(-v.x, -v.y, -v.z, -v.w);
    }
}

__global__ void nsight_triad(const float4* b, const float4* c, float4* a, float s, unsigned long long n) {
    unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x; i < n; i += step) {
        float4 v = b[i], w = c[i];
        a[i] = make_float4(v.x + s * w.x, v.y + s * w.y, v.z + s * w.z, v.w + s * w.w);
    }
}

__global__ void nsight_elementwise(const float* x, float* out, unsigned long long n) {
    unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x; i < n; i += step) {
        float v = fabsf(x[i]);
        // The continued fraction of the golden ratio's inverse: it ends near 0.618 for every element.
        for (int k = 0; k < 48; ++k) v = 1.0f / (1.0f + v);
        out[i] = v;
    }
}

__global__ void nsight_row_sums(const float4* x, float* out, unsigned columns) {
    __shared__ float partial[8];
    const float4* row = x + (unsigned long long)blockIdx.x * columns;
    float sum = 0.0f;
    for (unsigned i = threadIdx.x; i < columns; i += blockDim.x) {
        float4 v = row[i];
        sum += (v.x + v.y) + (v.z + v.w);
    }
    for (int distance = 16; distance; distance >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int warp = 1; warp < blockDim.x / 32; ++warp) sum += partial[warp];
        out[blockIdx.x] = sum;
    }
}

// Rows of 128 bytes, one line of the cache each.
__global__ void nsight_gather(const float4* x, const unsigned* index, float4* out, unsigned long long n) {
    unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x; i < n; i += step)
        out[i] = x[(unsigned long long)index[i / 8] * 8 + i % 8];
}

__global__ void nsight_matmul(float* out, unsigned steps) {
#if __CUDA_ARCH__ >= 800
    // Eight products at once keep the tensor cores busy; operands stay in registers.
    float c[8][4] = {};
    unsigned a[4], b[2], thread = blockIdx.x * blockDim.x + threadIdx.x;
    for (int i = 0; i < 4; ++i) a[i] = (mixed(thread * 8 + i) & 0x807f807fu) | 0x3c003c00u;
    for (int i = 0; i < 2; ++i) b[i] = (mixed(thread * 8 + 4 + i) & 0x807f807fu) | 0x3c003c00u;
    for (unsigned step = 0; step < steps; ++step)
#pragma unroll
        for (int i = 0; i < 8; ++i)
            asm volatile(
                "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                : "+f"(c[i][0]), "+f"(c[i][1]), "+f"(c[i][2]), "+f"(c[i][3])
                : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    float sum = 0.0f;
    for (int i = 0; i < 8; ++i) sum += c[i][0] + c[i][1] + c[i][2] + c[i][3];
    out[thread] = sum;
#endif
}

}
"""

KERNELS = ("fill", "permute", "negate", "triad", "elementwise", "row_sums", "gather", "matmul")

_THREADS = 256
_WAVES = 8
"""Blocks for each SM: enough to hide the latency of memory."""

_LARGE = 1 << 27
"""Elements of the arrays that no cache holds: 512 MiB, as in canaries.py."""

_ELEMENTWISE, _TINY = 1 << 23, 1 << 16
_COLUMNS = 4096
_GATHERED_BITS = 20
_ROW_FLOATS = 32
_MATMUL_STEPS = 1024
_TENSOR_CORES_SINCE = (8, 0)
_LARGEST_L2_PART = 16 << 20
_SEED = 20_240_229
_FLOAT_BYTES = 4


@dataclass(frozen=True, slots=True)
class CompiledCanaries:
    """The canaries of a device.

    Attributes:
        canaries: those that the device can run; none where nothing can be compiled.
        compiler: its name and version, "" where nothing can be compiled.
        why_none: why nothing can be compiled, else "".
    """

    canaries: tuple[Canary, ...] = ()
    compiler: str = ""
    why_none: str = ""


def make_compiled_canaries(driver: CudaDriver, shrink: int = 1) -> CompiledCanaries:
    """The canaries of a device.

    Args:
        driver: the device.
        shrink: divisor of all sizes, a power of two, for tests of the canaries themselves.
    """
    try:
        return _compile(driver, shrink)
    except (CompilationError, CudaDriverError) as error:
        return CompiledCanaries(why_none=str(error))


def _compile(driver: CudaDriver, shrink: int) -> CompiledCanaries:
    compiled = compile_source(load_nvrtc(), SOURCE, driver.architecture)
    functions = driver.load_functions(compiled.image, [f"nsight_{name}" for name in KERNELS])
    make = _KernelMaker(driver, functions, shrink)
    canaries = [
        Canary("copy", make.copy),
        Canary("triad", make.triad),
        Canary("elementwise", make.elementwise),
        Canary("reduction", make.reduction),
        Canary("gather", make.gather),
        Canary("l2", make.l2, cold_cache=False),
        Canary("tiny", make.tiny),
    ]
    if driver.architecture >= _TENSOR_CORES_SINCE:
        canaries.insert(2, Canary("matmul", make.matmul))
    return CompiledCanaries(tuple(canaries), compiled.compiler)


class _KernelMaker:
    """Prepares the canaries on one device."""

    def __init__(self, driver: CudaDriver, functions: Mapping[str, c_void_p], shrink: int) -> None:
        self._driver = driver
        self._functions = functions
        self._shrink = shrink
        self._blocks = driver.multiprocessors * _WAVES

    def copy(self) -> Prepared:
        """Memory: 1 GiB read, 1 GiB written."""
        return self._negate(2 * _LARGE // self._shrink)

    def triad(self) -> Prepared:
        """Memory, as STREAM does it: a = b + s c."""
        elements = _LARGE // self._shrink
        b, c, a = self._random(elements), self._random(elements, 1), self._empty(elements)
        arguments = (b, c, a, c_float(3.0), c_uint64(elements // 4))
        return Prepared(self._launcher("triad", *arguments), Work(3 * b.size_bytes, 2 * elements))

    def matmul(self) -> Prepared:
        """Tensor cores, and with them the power limit; it declares no work: its rate is not the board's limit."""
        out = self._empty(self._blocks * _THREADS)
        return Prepared(self._launcher("matmul", out, c_uint(_MATMUL_STEPS // self._shrink)))

    def elementwise(self) -> Prepared:
        """Arithmetic in the SMs: 48 divisions an element."""
        elements = _ELEMENTWISE // self._shrink
        x, out = self._random(elements), self._empty(elements)
        return Prepared(self._launcher("elementwise", x, out, c_uint64(elements)))

    def reduction(self) -> Prepared:
        """Memory, read only: sums of rows."""
        rows = _LARGE // _COLUMNS // self._shrink
        x, out = self._random(rows * _COLUMNS), self._empty(rows)
        return Prepared(self._launcher("row_sums", x, out, c_uint(_COLUMNS // 4), blocks=rows))

    def gather(self) -> Prepared:
        """Memory in random order: rows of one cache line each."""
        rows = (1 << _GATHERED_BITS) // self._shrink
        x, out, index = self._random(rows * _ROW_FLOATS), self._empty(rows * _ROW_FLOATS), self._empty(rows)
        self._launcher("permute", index, c_uint(rows.bit_length() - 1))()
        return Prepared(self._launcher("gather", x, index, out, c_uint64(rows * _ROW_FLOATS // 4)))

    def l2(self) -> Prepared:
        """The L2 cache: source and target fill at most half of it, and nobody flushes it."""
        part_bytes = min(self._driver.l2_bytes // 4, _LARGEST_L2_PART // self._shrink)
        return Prepared(self._negate(part_bytes // _FLOAT_BYTES // 4 * 4).body)

    def tiny(self) -> Prepared:
        """Launching: a kernel of two or three microseconds."""
        return Prepared(self._negate(_TINY // self._shrink).body)

    def _negate(self, elements: int) -> Prepared:
        x, out = self._random(elements), self._empty(elements)
        return Prepared(self._launcher("negate", x, out, c_uint64(elements // 4)), Work(2 * x.size_bytes, 0))

    def _empty(self, elements: int) -> DeviceBuffer:
        return DeviceBuffer(self._driver, elements * _FLOAT_BYTES)

    def _random(self, elements: int, stream: int = 0) -> DeviceBuffer:
        """Numbers from -1 to 1, the same ones each time."""
        buffer = self._empty(elements)
        self._launcher("fill", buffer, c_uint64(elements), c_uint(_SEED + stream))()
        return buffer

    def _launcher(
        self, kernel: str, *arguments: DeviceBuffer | c_float | c_uint | c_uint64 | c_int, blocks: int = 0
    ) -> Callable[[], None]:
        """A function that launches the kernel; it keeps the buffers alive."""
        function, grid = self._functions[f"nsight_{kernel}"], blocks or self._blocks
        values = [c_uint64(one.pointer) if isinstance(one, DeviceBuffer) else one for one in arguments]

        def launch(_keep_alive: tuple[object, ...] = arguments) -> None:
            self._driver.launch(function, grid, _THREADS, values)

        return launch
