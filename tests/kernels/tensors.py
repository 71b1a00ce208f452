"""Inputs and outputs for the tests of kernels."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from perf_tests.closeness import _ROUNDING

GUARD_ELEMENTS = 64

DTYPES = [torch.bfloat16, torch.float32]

# Powers of two and not, one row, a row count that divides nothing, several programs.
SHAPES = [(1, 8), (5, 48), (3, 64), (37, 100), (130, 32)]


@dataclass(frozen=True)
class Random:
    """Random inputs on the CPU, from one seed."""

    generator: torch.Generator

    def normal(self, *shape: int, dtype: torch.dtype) -> torch.Tensor:
        return torch.randn(*shape, generator=self.generator).to(dtype)

    def gain(self, width: int, dtype: torch.dtype) -> torch.Tensor:
        return (1 + 0.3 * torch.randn(width, generator=self.generator)).to(dtype)

    def indices(self, count: int, below: int) -> torch.Tensor:
        return torch.randint(below, (count,), generator=self.generator)


def poisoned(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    """A tensor of NaN with a guard of NaN on either side of it in memory: see assert_guarded."""
    elements = torch.Size(shape).numel()
    memory = torch.full((elements + 2 * GUARD_ELEMENTS,), float("nan"), dtype=dtype)
    return memory[GUARD_ELEMENTS : GUARD_ELEMENTS + elements].view(shape)


def assert_guarded(tensor: torch.Tensor) -> None:
    """Demand that a tensor from `poisoned` was written whole, and nothing around it."""
    assert tensor._base is not None
    memory = tensor._base.flatten()
    assert not torch.isnan(tensor).any(), "elements were left unwritten"
    assert torch.isnan(memory[:GUARD_ELEMENTS]).all(), "memory before the tensor was written"
    assert torch.isnan(memory[-GUARD_ELEMENTS:]).all(), "memory after the tensor was written"


def assert_interpreted(
    result: torch.Tensor, expected: torch.Tensor, roundings: int = 1, *, scale: float = 1
) -> None:
    """Demand equality with the truth as the interpreter keeps it: it cuts bf16 off, two halves of a unit."""
    tolerance = 2 * roundings * _ROUNDING[result.dtype] * 1.01 + 1e-5
    torch.testing.assert_close(result.float() * scale, expected * scale, rtol=tolerance, atol=1e-5)
