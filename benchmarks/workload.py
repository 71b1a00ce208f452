"""What one operator at one size consists of, for `kernels_on_gpu.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

EPS = 1e-5
_CHECKED_ROWS = 512


@dataclass(frozen=True)
class Workload:
    """One operator at one size.

    Attributes:
        ways: name -> the computation, ready to be called again and again.
        compiled: what torch.compile is asked to fuse, None where that makes no sense.
        error: result of a way -> relative error in norm against fp32, over a sample of rows.
        bytes_moved: that must move.
        flops: that must be done.
        unchecked: names of ways that compute something else (a bare product, a copy) or write over their inputs.
    """

    ways: Mapping[str, Callable[[], Any]]
    compiled: tuple[Callable[..., Any], tuple[Any, ...]] | None
    error: Callable[[Any], float]
    bytes_moved: int
    flops: int
    unchecked: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Source:
    """Random inputs of one element type on one device."""

    device: torch.device
    dtype: torch.dtype

    def normal(self, *shape: int) -> torch.Tensor:
        """Standard normal values."""
        return torch.randn(*shape, device=self.device, dtype=self.dtype)

    def gain(self, width: int) -> torch.Tensor:
        """A norm's weight, around one."""
        return 1 + 0.1 * self.normal(width)


def relative_error(result: torch.Tensor, expected: torch.Tensor) -> float:
    """Norm of the difference over the norm of the truth; nan or inf if the result has such elements."""
    expected = expected.float()
    return float((result.float() - expected).norm() / expected.norm())


def row_sample(rows: int, device: torch.device) -> torch.Tensor:
    """Random rows to check, the first and the last among them."""
    chosen = torch.randint(rows, (_CHECKED_ROWS,), device=device)
    chosen[0], chosen[1] = 0, rows - 1
    return chosen
