"""Cases of other kinds and sizes, which run between the tiny ones and leave the GPU in many states."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

Body = Callable[[], object]


def _size(device: str, on_gpu: int, on_cpu: int) -> int:
    return on_gpu if device == "cuda" else on_cpu


def _normal(device: str, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, device=device, dtype=dtype)


def large_matmul(device: str) -> Body:
    side = _size(device, 4096, 64)
    x = _normal(device, side, side, dtype=torch.bfloat16)
    return lambda: torch.mm(x, x)


def convolution(device: str) -> Body:
    side = _size(device, 56, 8)
    x, weight = _normal(device, 16, 64, side, side), _normal(device, 64, 64, 3, 3)
    return lambda: F.conv2d(x, weight, padding=1)


def attention(device: str) -> Body:
    length = _size(device, 2048, 32)
    q = _normal(device, 2, 16, length, 64, dtype=torch.bfloat16)
    return lambda: F.scaled_dot_product_attention(q, q, q, is_causal=True)


def large_softmax(device: str) -> Body:
    x = _normal(device, _size(device, 8192, 16), 4096)
    return lambda: torch.softmax(x, 1)


def layer_norm(device: str) -> Body:
    x = _normal(device, _size(device, 8192, 16), 1024)
    return lambda: F.layer_norm(x, (1024,))


def embedding(device: str) -> Body:
    rows = _size(device, 1 << 16, 1 << 6)
    weight = _normal(device, rows, 128)
    index = torch.randint(rows, (rows,), device=device)
    return lambda: F.embedding(index, weight)


def sort(device: str) -> Body:
    x = torch.rand(_size(device, 1 << 20, 1 << 8), device=device)
    return lambda: torch.sort(x)


def prefix_sum(device: str) -> Body:
    x = torch.rand(_size(device, 1 << 24, 1 << 8), device=device)
    return lambda: torch.cumsum(x, 0)


def large_copy(device: str) -> Body:
    x = torch.ones(_size(device, 1 << 26, 1 << 8), device=device)
    y = torch.empty_like(x)
    return lambda: y.copy_(x)


def fourier(device: str) -> Body:
    x = torch.rand(64, _size(device, 1 << 16, 1 << 6), device=device)
    return lambda: torch.fft.rfft(x)


def scatter(device: str) -> Body:
    count = _size(device, 1 << 22, 1 << 8)
    x, index = torch.ones(count, device=device), torch.randint(1 << 8, (count,), device=device)
    sums = torch.zeros(1 << 8, device=device)
    return lambda: sums.scatter_add_(0, index, x)


def many_launches(device: str) -> Body:
    xs = [torch.ones(_size(device, 1 << 18, 1 << 4), device=device) for _ in range(40)]

    def body() -> None:
        for x in xs:
            x.mul_(1.0)

    return body


def allocator_churn(device: str) -> Body:
    """Tensors of many sizes, made and dropped in every round."""
    sizes = [_size(device, 1 << 10, 1 << 2) * (1 + 7 * index % 61) for index in range(60)]

    def body() -> int:
        return sum(tensor.numel() for tensor in [torch.ones(size, device=device) for size in sizes])

    return body


CASES: dict[str, Callable[[str], Body]] = {
    build.__name__: build
    for build in (
        large_matmul,
        convolution,
        attention,
        large_softmax,
        layer_norm,
        embedding,
        sort,
        prefix_sum,
        large_copy,
        fourier,
        scatter,
        many_launches,
        allocator_churn,
    )
}
