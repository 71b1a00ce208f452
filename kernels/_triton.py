"""The one place that knows whether Triton is installed, and how the kernels that share a launch cut their work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import triton
    import triton.language as tl
else:
    try:
        import triton
        import triton.language as tl
    except ImportError:
        triton = None
        tl = None

__all__ = [
    "MAX_ROW_ELEMENTS",
    "Flat",
    "RowBlocks",
    "describe",
    "device_of",
    "jit",
    "load_flat",
    "load_tile",
    "plan_row_blocks",
    "store_flat",
    "store_tile",
    "tl",
]

MAX_ROW_ELEMENTS = 32768
"""Widest row that a one-pass kernel keeps in registers (32 fp32 values for each of 1024 threads)."""

_ELEMENTS_PER_PROGRAM = 4096
_ELEMENTS_PER_WARP = 512
_PROGRAMS_WANTED = 512


class _MissingKernel:
    """Stands for a kernel where Triton is not installed: a launch says so instead of failing obscurely."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getitem__(self, grid: object) -> Any:
        raise RuntimeError(
            f"kernel {self._name} needs Triton, which is not installed here; run 'pip install triton'"
        )


def jit(function: Callable[..., Any]) -> Any:
    """Compile a kernel with Triton on its first launch; without Triton, a launch raises RuntimeError."""
    if triton is None:
        return _MissingKernel(function.__name__)
    return triton.jit(function)


def describe(tensor: torch.Tensor, block_shape: list[int]) -> Any:
    """A host-side tensor descriptor: loads through the copy engine (TMA) on Hopper, plain loads elsewhere.

    Raises:
        RuntimeError: Triton is missing or too old to have descriptors.
    """
    try:
        from triton.tools.tensor_descriptor import TensorDescriptor  # noqa: PLC0415 (only where Triton is)
    except ImportError as error:
        raise RuntimeError(
            "this kernel needs Triton 3.4 or newer (tensor descriptors); run 'pip install -U triton'"
        ) from error
    return TensorDescriptor.from_tensor(tensor, block_shape)


def device_of(tensor: torch.Tensor) -> AbstractContextManager[Any]:
    """Context in which kernels are launched on the tensor's GPU, whichever is current; nothing on a CPU."""
    context: AbstractContextManager[Any] = torch.cuda.device_of(tensor)
    return context


@dataclass(frozen=True, slots=True)
class RowBlocks:
    """How a kernel that holds whole rows in registers is launched.

    Attributes:
        programs: number of blocks in the grid.
        rows_per_program: rows that one program works on, a power of two.
        block: row length in registers, the power of two not below the width.
        is_exact: whether no program has anything to mask.
        num_warps: warps of a program.
    """

    programs: int
    rows_per_program: int
    block: int
    is_exact: bool
    num_warps: int


def plan_row_blocks(rows: int, width: int) -> RowBlocks:
    """Choose the launch of a one-pass row kernel from the shape alone, so that equal shapes launch equally.

    Rows of 4096 elements or more get a program each; narrower ones share a program of 4096 elements as long
    as enough programs remain to fill a large GPU.
    """
    block = 1 << (width - 1).bit_length()
    rows_per_program = max(1, _ELEMENTS_PER_PROGRAM // block)
    while rows_per_program > 1 and rows < rows_per_program * _PROGRAMS_WANTED:
        rows_per_program //= 2
    elements = rows_per_program * block
    warps = min(16 if block < 32768 else 32, max(1, elements // _ELEMENTS_PER_WARP))
    return RowBlocks(
        programs=-(-rows // rows_per_program),
        rows_per_program=rows_per_program,
        block=block,
        is_exact=block == width and rows % rows_per_program == 0,
        num_warps=warps,
    )


@dataclass(frozen=True, slots=True)
class Flat:
    """How an elementwise kernel is launched: each program takes neighbouring elements, whatever the rows.

    Attributes:
        block: elements of a program, a power of two.
        num_warps: warps of a program.
    """

    block: int
    num_warps: int

    def count_programs(self, elements: int) -> int:
        """Programs in the grid."""
        return -(-elements // self.block)

    def is_exact(self, elements: int) -> bool:
        """Whether no program has anything to mask."""
        return elements % self.block == 0


@jit
def load_tile(
    ptr: tl.tensor,
    row: tl.tensor,
    column: tl.tensor,
    rows: tl.tensor,
    WIDTH: tl.constexpr,
    EXACT: tl.constexpr,
) -> tl.tensor:
    """Part of a contiguous matrix in fp32, zero outside of it. `row` must be int64: offsets pass 2^31."""
    ptrs = ptr + row[:, None] * WIDTH + column[None, :]
    if EXACT:
        tile = tl.load(ptrs)
    else:
        tile = tl.load(ptrs, mask=(row[:, None] < rows) & (column[None, :] < WIDTH), other=0.0)
    return tile.to(tl.float32)


@jit
def store_tile(
    ptr: tl.tensor,
    row: tl.tensor,
    column: tl.tensor,
    value: tl.tensor,
    rows: tl.tensor,
    WIDTH: tl.constexpr,
    EXACT: tl.constexpr,
) -> None:
    """Counterpart of load_tile: rounds once to the type of `ptr`, writes nothing outside the matrix."""
    ptrs = ptr + row[:, None] * WIDTH + column[None, :]
    rounded = value.to(ptr.dtype.element_ty)
    if EXACT:
        tl.store(ptrs, rounded)
    else:
        tl.store(ptrs, rounded, mask=(row[:, None] < rows) & (column[None, :] < WIDTH))


@jit
def load_flat(ptr: tl.tensor, index: tl.tensor, elements: tl.tensor, EXACT: tl.constexpr) -> tl.tensor:
    """Elements of a contiguous array in fp32, anything beyond its end. `index` must be int64: offsets pass 2^31."""
    mask = None if EXACT else index < elements
    return tl.load(ptr + index, mask=mask).to(tl.float32)


@jit
def store_flat(
    ptr: tl.tensor, index: tl.tensor, values: tl.tensor, elements: tl.tensor, EXACT: tl.constexpr
) -> None:
    """Counterpart of load_flat: rounds once to the type of `ptr`, writes nothing beyond the end."""
    rounded = values.to(ptr.dtype.element_ty)
    mask = None if EXACT else index < elements
    tl.store(ptr + index, rounded, mask=mask)
