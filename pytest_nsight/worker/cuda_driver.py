"""The CUDA driver through its C interface: what the rounds need of a GPU, whichever framework the test uses.

The functions are those of NVIDIA's "CUDA Driver API" reference. Everything happens in the device's primary context,
which the runtime, and with it every framework, shares.
"""

from __future__ import annotations

import ctypes
import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

from pytest_nsight.model.errors import NsightError

_NAME_BYTES = 256
_MULTIPROCESSORS, _L2_BYTES, _MAJOR, _MINOR = 16, 38, 75, 76
"""Numbers of CUdevice_attribute."""

_POINTER = c_uint64
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (c_void_p,),
    "cuDeviceGetCount": (c_void_p,),
    "cuDeviceGet": (c_void_p, c_int),
    "cuDeviceGetName": (c_void_p, c_int, c_int),
    "cuDeviceGetUuid_v2": (c_void_p, c_int),
    "cuDeviceGetAttribute": (c_void_p, c_int, c_int),
    "cuDeviceTotalMem_v2": (c_void_p, c_int),
    "cuDevicePrimaryCtxRetain": (c_void_p, c_int),
    "cuCtxGetCurrent": (c_void_p,),
    "cuCtxGetDevice": (c_void_p,),
    "cuCtxPushCurrent_v2": (c_void_p,),
    "cuCtxPopCurrent_v2": (c_void_p,),
    "cuCtxSynchronize": (),
    "cuMemGetInfo_v2": (c_void_p, c_void_p),
    "cuMemAlloc_v2": (c_void_p, c_size_t),
    "cuMemFree_v2": (_POINTER,),
    "cuMemcpyDtoH_v2": (c_void_p, _POINTER, c_size_t),
    "cuMemsetD8Async": (_POINTER, ctypes.c_ubyte, c_size_t, c_void_p),
    "cuModuleLoadData": (c_void_p, c_char_p),
    "cuModuleGetFunction": (c_void_p, c_void_p, c_char_p),
    "cuLaunchKernel": (c_void_p, *(c_uint,) * 7, c_void_p, c_void_p, c_void_p),
    "cuEventCreate": (c_void_p, c_uint),
    "cuEventRecord": (c_void_p, c_void_p),
    "cuEventSynchronize": (c_void_p,),
    "cuEventElapsedTime": (c_void_p, c_void_p, c_void_p),
    "cuGetErrorName": (c_int, c_void_p),
    "cuGetErrorString": (c_int, c_void_p),
}


class CudaDriverError(NsightError):
    """A call of the CUDA driver failed.

    Attributes:
        code: the CUresult, such as 700 for an illegal access.
    """

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class DeviceBuffer:
    """Memory on the device, freed with this object.

    Attributes:
        pointer: its address there.
        size_bytes: its size.
    """

    def __init__(self, driver: CudaDriver, size_bytes: int) -> None:
        self._driver = driver
        self.size_bytes = size_bytes
        self.pointer = driver.allocate(size_bytes)

    def __del__(self) -> None:
        # Allocating may have failed, and a context whose work failed frees nothing any more.
        if pointer := getattr(self, "pointer", 0):
            try:
                self._driver.free(pointer)
            except CudaDriverError:
                return


class CudaDriver:
    """One device of the CUDA driver, by its primary context.

    Attributes:
        name: product name.
        uuid: as NVML and CUDA_VISIBLE_DEVICES spell it.
        memory_bytes: size of its memory.
        l2_bytes: size of its L2 cache.
        multiprocessors: number of its SMs.
        architecture: compute capability, such as (9, 0).
        version: newest CUDA version that the driver supports, such as "13.0".
    """

    def __init__(self, library: Any) -> None:
        """Attaches to the device whose context is current on this thread, else to the first one that is visible.

        Args:
            library: the loaded libcuda.

        Raises:
            CudaDriverError: there is no usable device; the text says why.
        """
        self._library = library
        for name, parameters in _SIGNATURES.items():
            function = getattr(library, name)
            function.argtypes, function.restype = list(parameters), c_int
        self.call("cuInit", 0)
        device = self._choose_device()
        self.name = self._read_name(device)
        self.uuid = self._read_uuid(device)
        memory = c_size_t()
        self.call("cuDeviceTotalMem_v2", byref(memory), device)
        self.memory_bytes = memory.value
        self.l2_bytes = self._read_attribute(_L2_BYTES, device)
        self.multiprocessors = self._read_attribute(_MULTIPROCESSORS, device)
        self.architecture = (self._read_attribute(_MAJOR, device), self._read_attribute(_MINOR, device))
        version = self._read_int("cuDriverGetVersion")
        self.version = f"{version // 1000}.{version % 1000 // 10}"
        context = c_void_p()
        self.call("cuDevicePrimaryCtxRetain", byref(context), device)
        self._context = context

    def call(self, function: str, *arguments: Any) -> None:
        """Calls a function of the driver.

        Raises:
            CudaDriverError: it reports an error.
        """
        code = getattr(self._library, function)(*arguments)
        if code:
            raise CudaDriverError(f"{function} failed with {self._explain(code)}", code)

    def synchronize(self) -> None:
        """Waits until all streams of the device have done their work."""
        with self.current():
            self.call("cuCtxSynchronize")

    def read_free_bytes(self) -> int:
        """Memory of the device that nobody has allocated."""
        free, total = c_size_t(), c_size_t()
        with self.current():
            self.call("cuMemGetInfo_v2", byref(free), byref(total))
        return free.value

    def allocate(self, size_bytes: int) -> int:
        """The address of new memory; DeviceBuffer also frees it."""
        pointer = _POINTER()
        with self.current():
            self.call("cuMemAlloc_v2", byref(pointer), size_bytes)
        return pointer.value

    def free(self, pointer: int) -> None:
        """Frees memory that `allocate` returned."""
        with self.current():
            self.call("cuMemFree_v2", pointer)

    def clear(self, buffer: DeviceBuffer, size_bytes: int | None = None) -> None:
        """Writes zeros to the beginning of a buffer, on the default stream, without waiting."""
        with self.current():
            self.call("cuMemsetD8Async", buffer.pointer, 0, size_bytes or buffer.size_bytes, None)

    def read_buffer(self, buffer: DeviceBuffer, size_bytes: int, offset: int = 0) -> bytes:
        """Copies a part of a buffer to the host."""
        host = ctypes.create_string_buffer(size_bytes)
        with self.current():
            self.call("cuMemcpyDtoH_v2", host, buffer.pointer + offset, size_bytes)
        return host.raw

    def load_functions(self, image: bytes, names: Sequence[str]) -> dict[str, c_void_p]:
        """Name -> kernel of a compiled image; the image stays loaded as long as the process lives."""
        module, functions = c_void_p(), {}
        with self.current():
            self.call("cuModuleLoadData", byref(module), image)
            for name in names:
                function = c_void_p()
                self.call("cuModuleGetFunction", byref(function), module, name.encode())
                functions[name] = function
        return functions

    def launch(self, function: c_void_p, blocks: int, threads: int, arguments: Sequence[Any]) -> None:
        """Launches a kernel on the default stream, without waiting.

        Args:
            function: of `load_functions`.
            blocks: size of the one-dimensional grid.
            threads: threads of a block.
            arguments: ctypes values, as the kernel declares them.
        """
        addresses = (c_void_p * len(arguments))(*(ctypes.addressof(argument) for argument in arguments))
        with self.current():
            self.call("cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, 0, None, addresses, None)

    @contextmanager
    def current(self) -> Iterator[None]:
        """Makes the device's context the current one for a block; a test may have chosen another."""
        if self._read_current() == self._context.value:
            yield
            return
        self.call("cuCtxPushCurrent_v2", self._context)
        try:
            yield
        finally:
            self.call("cuCtxPopCurrent_v2", byref(c_void_p()))

    def _choose_device(self) -> int:
        if self._read_current():
            return self._read_int("cuCtxGetDevice")
        if not self._read_int("cuDeviceGetCount"):
            raise CudaDriverError("the CUDA driver offers no device", 100)
        device = c_int()
        self.call("cuDeviceGet", byref(device), 0)
        return device.value

    def _read_current(self) -> int | None:
        context = c_void_p()
        self.call("cuCtxGetCurrent", byref(context))
        return context.value

    def _read_int(self, function: str) -> int:
        value = c_int()
        self.call(function, byref(value))
        return value.value

    def _read_attribute(self, attribute: int, device: int) -> int:
        value = c_int()
        self.call("cuDeviceGetAttribute", byref(value), attribute, device)
        return value.value

    def _read_name(self, device: int) -> str:
        name = ctypes.create_string_buffer(_NAME_BYTES)
        self.call("cuDeviceGetName", name, _NAME_BYTES, device)
        return name.value.decode("utf-8", "replace")

    def _read_uuid(self, device: int) -> str:
        raw = ctypes.create_string_buffer(16)
        self.call("cuDeviceGetUuid_v2", raw, device)
        # The driver gives a part of a GPU a UUID of its own, without the prefix that says so.
        is_part = os.environ.get("CUDA_VISIBLE_DEVICES", "").startswith("MIG-")
        return f"{'MIG' if is_part else 'GPU'}-{uuid.UUID(bytes=raw.raw)}"

    def _explain(self, code: int) -> str:
        texts = []
        for function in ("cuGetErrorName", "cuGetErrorString"):
            text = c_char_p()
            if getattr(self._library, function)(code, byref(text)) == 0 and text.value:
                texts.append(text.value.decode("utf-8", "replace"))
        return f"{': '.join(texts)} ({code})" if texts else f"error {code}"


def load_driver() -> CudaDriver | None:
    """The driver's current or first device; None where there is no driver, or no device that it can use."""
    try:
        return CudaDriver(ctypes.CDLL("libcuda.so.1"))
    except (OSError, AttributeError, CudaDriverError):
        return None
