"""The same machine code at many addresses: one cubin loaded again and again, with other modules between.

Shows what the place of a kernel's code does to its time, for neither its data nor its instructions differ.
"""

from __future__ import annotations

import ctypes
import random
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from benchmarks.context.settings import Setting, do_nothing
from kernels._triton import jit, tl

COPIES = 24
_BLOCK = 256
_WARPS = 4
_LIBRARY = "libcuda.so.1"


@jit
def _copied_scale_kernel(x_ptr: tl.tensor, y_ptr: tl.tensor, n_elements: tl.tensor, BLOCK: tl.constexpr) -> None:
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n_elements
    tl.store(y_ptr + offsets, 2.0 * tl.load(x_ptr + offsets, mask=inside), mask=inside)


class DriverError(RuntimeError):
    """A call of the CUDA driver failed."""


def _check(code: int, call: str) -> None:
    if code:
        raise DriverError(f"{call} returned {code}")


class LoadedKernel:
    """One copy of a kernel in the current CUDA context, launched through the driver."""

    def __init__(self, library: Any, cubin: bytes, name: str) -> None:
        self._library = library
        module, self._function = ctypes.c_void_p(), ctypes.c_void_p()
        _check(library.cuModuleLoadData(ctypes.byref(module), cubin), "cuModuleLoadData")
        found = library.cuModuleGetFunction(ctypes.byref(self._function), module, name.encode())
        _check(found, "cuModuleGetFunction")

    def launch(self, x: torch.Tensor, y: torch.Tensor, shared_bytes: int) -> None:
        """Launches on the current stream; Triton's two scratch pointers follow the kernel's own arguments."""
        values = [
            ctypes.c_uint64(x.data_ptr()),
            ctypes.c_uint64(y.data_ptr()),
            ctypes.c_int32(x.numel()),
            ctypes.c_uint64(0),
            ctypes.c_uint64(0),
        ]
        pointers = (ctypes.c_void_p * len(values))(*[ctypes.addressof(value) for value in values])
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        grid, block = (-(-x.numel() // _BLOCK), 1, 1), (32 * _WARPS, 1, 1)
        launched = self._library.cuLaunchKernel(self._function, *grid, *block, shared_bytes, stream, pointers, None)
        _check(launched, "cuLaunchKernel")


def code_copies(seed: int) -> Iterator[Setting]:
    """Settings on one tensor that differ only in where the code of the kernel lies. Needs a CUDA device."""
    x, y = torch.ones(1024, device="cuda"), torch.empty(1024, device="cuda")
    compiled = _copied_scale_kernel[(4,)](x, y, x.numel(), BLOCK=_BLOCK, num_warps=_WARPS)
    cubin, name = compiled.asm["cubin"], compiled.metadata.name
    library, order = ctypes.CDLL(_LIBRARY), random.Random(seed)
    for index in range(COPIES):
        kernel = LoadedKernel(library, cubin, name)
        for _ in range(order.randrange(1, 8)):
            LoadedKernel(library, cubin, name)
        launch = partial(kernel.launch, x, y, compiled.metadata.shared)
        launch()
        torch.cuda.synchronize()
        if not torch.equal(y, 2 * x):
            raise DriverError(f"copy {index} of {name} computed something else")
        yield Setting("code", str(index), do_nothing, launch)
