"""The cases of the validation study: what each measures, and how it is given more of the same work.

On a GPU the additional work is done by the same launches (see gpu_kernels.py), so that only the time changes. On a
CPU, where the suite is only tried out, it is more rows of a smaller operand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from benchmarks.validation_suite import gpu_kernels as gpu
from kernels.rms_norm import rms_norm
from kernels.softmax import softmax
from kernels.swiglu import swiglu

Work = Callable[[], object]
Build = Callable[[int], Work]
"""From additional work in per mille to the function that is measured."""

K_TILES = 200
KINDS = ("memory", "compute", "tiny", "chain", "fixed")


@dataclass(frozen=True, slots=True)
class Case:
    """One case.

    Attributes:
        name: its id, by hand, for it is a key of stored runs.
        kind: one of KINDS; "fixed" cannot be given more work.
        on_gpu: builds it on the current CUDA device.
    """

    name: str
    kind: str
    on_gpu: Build

    def build(self, device: str, per_mille: int) -> Work:
        """The function to measure, its inputs ready."""
        return self.on_gpu(per_mille) if device == "cuda" else build_on_cpu(self.kind, per_mille)


def build_on_cpu(kind: str, per_mille: int) -> Work:
    """Small operators of the same kind, over per_mille thousandths more rows."""
    rows = (1000 + per_mille) * (1 if kind == "tiny" else 4)
    x, weight = torch.rand(rows, 64), torch.rand(64, 64)
    if kind in ("memory", "tiny"):
        return lambda: torch.neg(x)
    if kind == "compute":
        return lambda: torch.matmul(x, weight)
    return lambda: torch.sum(torch.exp(torch.neg(torch.matmul(x, weight))))


def _blocks(count: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    """Blocks of 4096 elements, with those for the largest share of additional work."""
    return torch.rand((count + gpu.extra_blocks(count)) * gpu.BLOCK, device="cuda", dtype=dtype)


def _copy(blocks: int) -> Build:
    def build(per_mille: int) -> Work:
        x = _blocks(blocks)
        out = torch.empty_like(x)
        return lambda: gpu.copy(x, out, blocks, per_mille)

    return build


def _triad(blocks: int) -> Build:
    def build(per_mille: int) -> Work:
        x, y = _blocks(blocks), _blocks(blocks)
        out = torch.empty_like(x)
        return lambda: gpu.triad(x, y, out, blocks, per_mille)

    return build


def _norm(blocks: int) -> Build:
    def build(per_mille: int) -> Work:
        x = _blocks(blocks)
        out = torch.empty_like(x)
        return lambda: gpu.norm(x, out, blocks, per_mille)

    return build


def _reduce(blocks: int) -> Build:
    def build(per_mille: int) -> Work:
        x = _blocks(blocks)
        out = torch.empty(blocks + gpu.extra_blocks(blocks), device="cuda")
        return lambda: gpu.reduce(x, out, blocks, per_mille)

    return build


def _fma(iterations: int, steps: int, programs: int) -> Build:
    def build(per_mille: int) -> Work:
        out = torch.rand(programs * 1024, device="cuda")
        return lambda: gpu.fma(out, iterations * (1000 + per_mille) // 1000, steps)

    return build


def _operands(rows: int, columns: int) -> tuple[torch.Tensor, torch.Tensor]:
    depth = (K_TILES + gpu.extra_blocks(K_TILES)) * gpu.TILE_K
    a = torch.rand(rows, depth, device="cuda", dtype=torch.bfloat16) - 0.5
    return a, torch.rand(depth, columns, device="cuda", dtype=torch.bfloat16) - 0.5


def _dot(rows: int, columns: int) -> Build:
    def build(per_mille: int) -> Work:
        a, b = _operands(rows, columns)
        out = torch.empty(rows, columns, device="cuda", dtype=torch.bfloat16)
        return lambda: gpu.dot(a, b, out, K_TILES * (1000 + per_mille) // 1000)

    return build


def _matmul(rows: int, columns: int) -> Build:
    def build(per_mille: int) -> Work:
        a, b = _operands(rows, columns)
        depth = gpu.TILE_K * K_TILES * (1000 + per_mille) // 1000
        a, b = a[:, :depth], b[:depth]
        return lambda: torch.matmul(a, b)

    return build


def _attention(queries: int, heads: int) -> Build:
    def build(per_mille: int) -> Work:
        length = gpu.TILE_K * K_TILES * (1000 + per_mille) // 1000
        query = torch.rand(1, heads, queries, 64, device="cuda", dtype=torch.bfloat16)
        key, value = torch.rand(2, 1, heads, length, 64, device="cuda", dtype=torch.bfloat16)

        def attend() -> torch.Tensor:
            # Another implementation for other lengths would be another structure.
            with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
                return F.scaled_dot_product_attention(query, key, value)

        return attend

    return build


def _chain(*builds: Build) -> Build:
    def build(per_mille: int) -> Work:
        parts = [one(per_mille) for one in builds]

        def run() -> None:
            for part in parts:
                part()

        return run

    return build


def _fixed(make: Callable[[], Work]) -> Build:
    return lambda _: make()


def _rows(rows: int, width: int) -> torch.Tensor:
    return torch.rand(rows, width, device="cuda", dtype=torch.bfloat16)


def _softmax() -> Work:
    x = _rows(32768, 2048)
    return lambda: softmax["fused"](x)


def _rms_norm() -> Work:
    x, weight = _rows(8192, 4096), torch.rand(4096, device="cuda", dtype=torch.bfloat16)
    return lambda: rms_norm["unfused"](x, weight)


def _swiglu() -> Work:
    gate, up = _rows(8192, 8192), _rows(8192, 8192)
    return lambda: swiglu["fused"](gate, up)


def _gelu() -> Work:
    x = _rows(16384, 4096)
    return lambda: F.gelu(x)


def _layer_norm() -> Work:
    x, weight = _rows(128, 1024), torch.rand(1024, device="cuda", dtype=torch.bfloat16)
    return lambda: F.layer_norm(x, (1024,), weight)


def _small_add() -> Work:
    x = _rows(64, 1024)
    return lambda: torch.add(x, x)


def _train_step() -> Work:
    weight = torch.rand(1024, 1024, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    x = _rows(2048, 1024)

    def step() -> None:
        weight.grad = None
        F.gelu(x @ weight).sum().backward()

    return step


CASES = (
    Case("copy-65MB", "memory", _copy(8000)),
    Case("copy-196MB", "memory", _copy(24000)),
    Case("triad-82MB", "memory", _triad(10000)),
    Case("norm-131MB", "memory", _norm(16000)),
    Case("reduce-262MB", "memory", _reduce(32000)),
    Case("fma-1600x16", "compute", _fma(1600, 16, 1056)),
    Case("fma-4000x16", "compute", _fma(4000, 16, 1056)),
    Case("dot-2048", "compute", _dot(2048, 2048)),
    Case("matmul-2048", "compute", _matmul(2048, 2048)),
    Case("attention-1024", "compute", _attention(1024, 16)),
    Case("fma-200x4", "tiny", _fma(200, 4, 132)),
    Case("fma-400x4", "tiny", _fma(400, 4, 132)),
    Case("fma-800x4", "tiny", _fma(800, 4, 132)),
    Case("copy-4MB", "tiny", _copy(400)),
    Case("copies-8", "chain", _chain(*[_copy(2000)] * 8)),
    Case("norms-6", "chain", _chain(*[_norm(4000)] * 6)),
    Case(
        "mixed-6",
        "chain",
        _chain(_copy(4000), _norm(4000), _dot(1024, 1024), _triad(4000), _fma(800, 16, 1056), _reduce(8000)),
    ),
    Case("fmas-10", "chain", _chain(*[_fma(400, 4, 132)] * 10)),
    Case("softmax", "fixed", _fixed(_softmax)),
    Case("rms-norm-unfused", "fixed", _fixed(_rms_norm)),
    Case("swiglu", "fixed", _fixed(_swiglu)),
    Case("gelu", "fixed", _fixed(_gelu)),
    Case("layer-norm-small", "fixed", _fixed(_layer_norm)),
    Case("add-small", "fixed", _fixed(_small_add)),
    Case("train-step", "fixed", _fixed(_train_step)),
)

INJECTABLE = tuple(case for case in CASES if case.kind != "fixed")


def position_of(name: str) -> int | None:
    """The place of a case among those that can be given more work, None for the others."""
    return next((index for index, case in enumerate(INJECTABLE) if case.name == name), None)
