"""A CUDA driver without a device: memory is the host's, kernels are NumPy, and every call is recorded."""

# ruff: noqa: N802 - the names are the driver's

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from pytest_nsight.worker.compiled_canaries import SOURCE

UUID = bytes(range(16))
NO_DEVICE, INVALID_VALUE, ILLEGAL_ADDRESS = 100, 1, 700
ERRORS = {NO_DEVICE: b"CUDA_ERROR_NO_DEVICE", INVALID_VALUE: b"CUDA_ERROR_INVALID_VALUE"}

SIGNATURES = {
    name: [parameter.replace("const ", "").rpartition(" ")[0] for parameter in parameters.split(", ")]
    for name, parameters in re.findall(r"__global__ void (\w+)\((.*?)\)", SOURCE)
}
"""Kernel -> types of its parameters, as the source declares them."""

_TYPES = {"float": ctypes.c_float, "unsigned": ctypes.c_uint, "unsigned long long": ctypes.c_uint64}


class FakeCuda:
    """What `ctypes.CDLL("libcuda.so.1")` returns on a machine with GPUs.

    Attributes:
        calls: names of the functions called, in order.
        launched: kernels launched, in order.
        memory: address -> allocated bytes.
        current: handle of the current context, 0 for none.
        fails: function -> the error that it returns from now on.
    """

    def __init__(self, devices: int = 1, current: int = 0) -> None:
        self.calls: list[str] = []
        self.launched: list[str] = []
        self.memory: dict[int, np.ndarray] = {}
        self.current = current
        self.fails: dict[str, int] = {}
        self._devices = devices
        self._stack: list[int] = []
        self._next = 1 << 20
        self._functions: dict[str, Callable[..., int]] = {}

    def __getattr__(self, name: str) -> Callable[..., int]:
        method = type(self).__dict__.get(f"_{name}")
        if method is None:
            raise AttributeError(f"undefined symbol: {name}")

        def function(*arguments: Any) -> int:
            self.calls.append(name)
            if name in self.fails:
                return self.fails[name]
            return method(self, *arguments) or 0

        return self._functions.setdefault(name, function)

    def _cuInit(self, flags: int) -> int:
        return 0 if self._devices else NO_DEVICE

    def _cuDriverGetVersion(self, version: Any) -> None:
        version._obj.value = 13000

    def _cuDeviceGetCount(self, count: Any) -> None:
        count._obj.value = self._devices

    def _cuDeviceGet(self, device: Any, ordinal: int) -> None:
        device._obj.value = ordinal

    def _cuDeviceGetName(self, name: Any, size: int, device: int) -> None:
        name.value = f"NVIDIA Fake {device}".encode()

    def _cuDeviceGetUuid_v2(self, raw: Any, device: int) -> None:
        raw.raw = UUID

    def _cuDeviceGetAttribute(self, value: Any, attribute: int, device: int) -> None:
        value._obj.value = {16: 4, 38: 1 << 20, 75: 9, 76: 0}[attribute]

    def _cuDeviceTotalMem_v2(self, memory: Any, device: int) -> None:
        memory._obj.value = 80 << 30

    def _cuDevicePrimaryCtxRetain(self, context: Any, device: int) -> None:
        context._obj.value = 1000 + device

    def _cuCtxGetCurrent(self, context: Any) -> None:
        context._obj.value = self.current

    def _cuCtxGetDevice(self, device: Any) -> None:
        device._obj.value = self.current - 1000

    def _cuCtxPushCurrent_v2(self, context: Any) -> None:
        self._stack.append(self.current)
        self.current = context.value

    def _cuCtxPopCurrent_v2(self, context: Any) -> None:
        self.current = self._stack.pop()

    def _cuCtxSynchronize(self) -> int:
        return self._in_context()

    def _cuMemGetInfo_v2(self, free: Any, total: Any) -> int:
        total._obj.value = 80 << 30
        free._obj.value = total._obj.value - sum(block.nbytes for block in self.memory.values())
        return self._in_context()

    def _cuMemAlloc_v2(self, pointer: Any, size: int) -> int:
        pointer._obj.value = self._next
        self.memory[self._next] = np.full(size, 0xEE, np.uint8)
        self._next += size + 512
        return self._in_context()

    def _cuMemFree_v2(self, pointer: int) -> int:
        return 0 if self.memory.pop(pointer, None) is not None else INVALID_VALUE

    def _cuMemcpyDtoH_v2(self, host: Any, pointer: int, size: int) -> int:
        host.raw = self._bytes(pointer, size).tobytes()
        return self._in_context()

    def _cuMemsetD8Async(self, pointer: int, value: int, size: int, stream: None) -> int:
        self._bytes(pointer, size)[:] = value
        return self._in_context()

    def _cuModuleLoadData(self, module: Any, image: bytes) -> int:
        module._obj.value = 1
        return self._in_context()

    def _cuModuleGetFunction(self, function: Any, module: Any, name: bytes) -> int:
        if name.decode() not in SIGNATURES:
            return 500
        function._obj.value = 1 + list(SIGNATURES).index(name.decode())
        return 0

    def _cuLaunchKernel(self, function: Any, *rest: Any) -> int:
        name = list(SIGNATURES)[function.value - 1]
        addresses = rest[8]
        values = [self._argument(kind, addresses[n]) for n, kind in enumerate(SIGNATURES[name])]
        self.launched.append(name)
        KERNELS[name](*values, blocks=rest[0])
        return self._in_context()

    def _cuGetErrorName(self, code: int, text: Any) -> int:
        text._obj.value = ERRORS.get(code)
        return 0 if code in ERRORS else INVALID_VALUE

    def _cuGetErrorString(self, code: int, text: Any) -> int:
        return INVALID_VALUE

    def _cuEventCreate(self, event: Any, flags: int) -> None: ...

    def _cuEventRecord(self, event: Any, stream: None) -> None: ...

    def _cuEventSynchronize(self, event: Any) -> None: ...

    def _cuEventElapsedTime(self, elapsed: Any, start: Any, end: Any) -> None: ...

    def _in_context(self) -> int:
        return 0 if self.current else 201

    def _argument(self, kind: str, address: int) -> Any:
        if not kind.endswith("*"):
            return _TYPES[kind].from_address(address).value
        pointer = ctypes.c_uint64.from_address(address).value
        dtype = np.uint32 if kind.startswith("unsigned") else np.float32
        return self.memory[pointer].view(dtype)

    def _bytes(self, pointer: int, size: int) -> np.ndarray:
        """Fails the test where a real device would have an illegal access."""
        for start, block in self.memory.items():
            if start <= pointer and pointer + size <= start + block.nbytes:
                return block[pointer - start : pointer - start + size]
        raise AssertionError(f"{size} bytes at {pointer} are not allocated")


def _fill(x: np.ndarray, n: int, seed: int, *, blocks: int) -> None:
    x[:n] = np.random.default_rng(seed).uniform(-1, 1, n)


def _permute(index: np.ndarray, bits: int, *, blocks: int) -> None:
    x = np.arange(1 << bits, dtype=np.uint64)
    for _ in range(3):
        x = (x * 0x2C1B3C6D + 0x9E3779B9) & np.uint64((1 << bits) - 1)
        x ^= x >> np.uint64(bits // 2)
    index[: 1 << bits] = x


def _negate(x: np.ndarray, out: np.ndarray, n: int, *, blocks: int) -> None:
    out[: 4 * n] = -x[: 4 * n]
    assert 4 * n == len(out)


def _triad(b: np.ndarray, c: np.ndarray, a: np.ndarray, s: float, n: int, *, blocks: int) -> None:
    a[: 4 * n] = b[: 4 * n] + s * c[: 4 * n]
    assert 4 * n == len(a)


def _elementwise(x: np.ndarray, out: np.ndarray, n: int, *, blocks: int) -> None:
    assert n == len(x) == len(out)
    out[:] = (5**0.5 - 1) / 2


def _row_sums(x: np.ndarray, out: np.ndarray, columns: int, *, blocks: int) -> None:
    out[:] = x.reshape(blocks, 4 * columns).sum(1)


def _gather(x: np.ndarray, index: np.ndarray, out: np.ndarray, n: int, *, blocks: int) -> None:
    assert 4 * n == len(x) == len(out)
    out[:] = x.reshape(-1, 32)[index].ravel()


def _matmul(out: np.ndarray, steps: int, *, blocks: int) -> None:
    assert steps
    assert len(out) == blocks * 256
    out[:] = 0


KERNELS: dict[str, Callable[..., None]] = {
    f"nsight_{function.__name__[1:]}": function
    for function in (_fill, _permute, _negate, _triad, _elementwise, _row_sums, _gather, _matmul)
}


class FakeNvrtc:
    """What `ctypes.CDLL("libnvrtc.so.13")` returns; it compiles everything to the same image.

    Attributes:
        options: of the last compilation.
        error: what compiling returns.
        alive: programs that nobody has destroyed.
    """

    def __init__(self, error: int = 0, log: bytes = b"") -> None:
        self.error = error
        self.alive = 0
        self.options: list[str] = []

        def create(*_arguments: Any) -> int:
            self.alive += 1
            return 0

        def destroy(_program: Any) -> int:
            self.alive -= 1
            return 0

        def compile_program(_program: Any, count: int, options: Any) -> int:
            self.options = [options[n].decode() for n in range(count)]
            return self.error

        def version(major: Any, minor: Any) -> int:
            major._obj.value, minor._obj.value = 13, 1
            return 0

        def write_size(_program: Any, size: Any) -> int:
            size._obj.value = 5
            return 0

        def write_log_size(_program: Any, size: Any) -> int:
            size._obj.value = len(log) + 1
            return 0

        def write_image(_program: Any, image: Any) -> int:
            image.raw = b"cubin"
            return 0

        def write_log(_program: Any, text: Any) -> int:
            text.value = log
            return 0

        self.nvrtcCreateProgram, self.nvrtcDestroyProgram = create, destroy
        self.nvrtcCompileProgram, self.nvrtcVersion = compile_program, version
        self.nvrtcGetCUBINSize, self.nvrtcGetCUBIN = write_size, write_image
        self.nvrtcGetProgramLogSize, self.nvrtcGetProgramLog = write_log_size, write_log
        self.nvrtcGetErrorString = lambda _code: b"NVRTC_ERROR"
