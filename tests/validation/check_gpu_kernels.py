"""Run by test_suite.py with Triton's interpreter: the kernels compute what they say, and do the additional work."""

from __future__ import annotations

import pytest
import torch

from benchmarks.validation_suite import gpu_kernels as gpu

BLOCKS = 40
SHARES = (0, 50)


@pytest.fixture(params=SHARES)
def share(request: pytest.FixtureRequest) -> int:
    return request.param


def make_blocks(share: int) -> tuple[torch.Tensor, int]:
    """Blocks, and how many elements of them a round is to touch."""
    x = torch.rand((BLOCKS + gpu.extra_blocks(BLOCKS)) * gpu.BLOCK).to(torch.bfloat16)
    return x, (BLOCKS + BLOCKS * share // 1000) * gpu.BLOCK


def test_a_copy_touches_exactly_the_share_of_more_blocks(share: int) -> None:
    x, touched = make_blocks(share)
    out = torch.zeros_like(x)

    gpu.copy(x, out, BLOCKS, share)

    assert torch.equal(out[:touched], x[:touched])
    assert not out[touched:].any()


def test_triad(share: int) -> None:
    x, touched = make_blocks(share)
    y, out = torch.rand(x.shape).to(torch.bfloat16), torch.zeros_like(x)

    gpu.triad(x, y, out, BLOCKS, share)

    torch.testing.assert_close(out[:touched], (x + 3 * y)[:touched], rtol=2e-2, atol=2e-2)
    assert not out[touched:].any()


def test_norm(share: int) -> None:
    x, touched = make_blocks(share)
    out = torch.zeros_like(x)

    gpu.norm(x, out, BLOCKS, share)

    rows = x[:touched].view(-1, gpu.WIDTH).float()
    expected = rows * torch.rsqrt(rows.square().mean(1, keepdim=True) + 1e-5)
    torch.testing.assert_close(out[:touched].view(-1, gpu.WIDTH).float(), expected, rtol=1e-2, atol=1e-2)
    assert not out[touched:].any()


def test_reduce(share: int) -> None:
    x, touched = make_blocks(share)
    out = torch.zeros(BLOCKS + gpu.extra_blocks(BLOCKS))

    gpu.reduce(x, out, BLOCKS, share)

    sums = x[:touched].view(-1, gpu.WIDTH).float().sum(1)
    torch.testing.assert_close(out[: len(sums)], sums)
    assert not out[len(sums) :].any()


@pytest.mark.parametrize("iterations", [5, 6])
def test_fma(iterations: int) -> None:
    out = torch.rand(2048)
    expected = out.double()
    for _ in range(iterations * 4):
        expected = expected * 0.999 + 0.001

    gpu.fma(out, iterations, 4)

    torch.testing.assert_close(out.double(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("k_tiles", [1, 2])
def test_dot_takes_as_many_tiles_as_told(k_tiles: int) -> None:
    # The interpreter multiplies no bfloat16.
    a = torch.rand(gpu.TILE_M, 3 * gpu.TILE_K) - 0.5
    b = torch.rand(3 * gpu.TILE_K, gpu.TILE_N) - 0.5
    out = torch.empty(gpu.TILE_M, gpu.TILE_N, dtype=torch.bfloat16)

    gpu.dot(a, b, out, k_tiles)

    depth = k_tiles * gpu.TILE_K
    torch.testing.assert_close(out.float(), a[:, :depth] @ b[:depth], rtol=2e-2, atol=2e-2)
