"""Rotary embedding of queries and keys: pairs (a, b) = (x_j, x_{j+D/2}) of a head turn by an angle.

    a' = a * cos_j - b * sin_j        b' = b * cos_j + a * sin_j        j < D/2

For T tokens with Hq + Hk heads of D elements of B bytes: reads and writes T*(Hq+Hk)*D elements each, beside the
small tables: 2*T*(Hq+Hk)*D*B bytes, in one launch for queries and keys. `rotary_unfused` takes 10 launches.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from kernels._checks import check_shape, check_tensor
from kernels._triton import device_of, jit, tl

Pair = tuple[torch.Tensor, torch.Tensor]


def make_tables(
    length: int, head_width: int, device: torch.device, dtype: torch.dtype, base: float = 10000.0
) -> Pair:
    """Cosines and sines of the angles position * base^(-2j/D): (length, head width), both halves equal."""
    exponents = torch.arange(0, head_width, 2, device=device, dtype=torch.float32) / head_width
    angles = torch.arange(length, device=device)[:, None] * base**-exponents
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos().to(dtype), angles.sin().to(dtype)


def rotary_reference(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> Pair:
    """The truth in fp32.

    Args:
        q: (batch, length, query heads, head width).
        k: (batch, length, key heads, head width).
        cos: (length, head width) cosines of the angles; both halves are equal.
        sin: like cos, of the sines.
    """
    half = q.shape[-1] // 2
    cosine, sine = (table.float()[None, :, None, :half] for table in (cos, sin))

    def turn(x: torch.Tensor) -> torch.Tensor:
        a, b = x.float().split(half, dim=-1)
        return torch.cat((a * cosine - b * sine, b * cosine + a * sine), dim=-1)

    return turn(q), turn(k)


def rotary_unfused(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> Pair:
    """The embedding as model code writes it: x * cos + rotate_half(x) * sin."""
    cos, sin = cos[None, :, None, :], sin[None, :, None, :]

    def rotate_half(x: torch.Tensor) -> torch.Tensor:
        a, b = x.chunk(2, dim=-1)
        return torch.cat((-b, a), dim=-1)

    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


@jit
def _turn(
    x_ptr: tl.tensor,
    out_ptr: tl.tensor,
    token: tl.tensor,
    cos: tl.tensor,
    sin: tl.tensor,
    HEADS: tl.constexpr,
    HEAD_BLOCK: tl.constexpr,
    HALF: tl.constexpr,
    HALF_BLOCK: tl.constexpr,
) -> None:
    head = tl.arange(0, HEAD_BLOCK)[:, None]
    element = tl.arange(0, HALF_BLOCK)[None, :]
    mask = (head < HEADS) & (element < HALF)
    offset = token * (HEADS * 2 * HALF) + head * (2 * HALF) + element
    a = tl.load(x_ptr + offset, mask=mask, other=0.0).to(tl.float32)
    b = tl.load(x_ptr + offset + HALF, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + offset, (a * cos - b * sin).to(out_ptr.dtype.element_ty), mask=mask)
    tl.store(out_ptr + offset + HALF, (b * cos + a * sin).to(out_ptr.dtype.element_ty), mask=mask)


@jit
def _rotary_fused_kernel(
    q_ptr: tl.tensor,
    k_ptr: tl.tensor,
    cos_ptr: tl.tensor,
    sin_ptr: tl.tensor,
    q_out_ptr: tl.tensor,
    k_out_ptr: tl.tensor,
    length: tl.tensor,
    QUERY_HEADS: tl.constexpr,
    QUERY_BLOCK: tl.constexpr,
    KEY_HEADS: tl.constexpr,
    KEY_BLOCK: tl.constexpr,
    HALF: tl.constexpr,
    HALF_BLOCK: tl.constexpr,
) -> None:
    token = tl.program_id(0).to(tl.int64)
    element = tl.arange(0, HALF_BLOCK)[None, :]
    at = (token % length) * (2 * HALF) + element
    cos = tl.load(cos_ptr + at, mask=element < HALF, other=0.0).to(tl.float32)
    sin = tl.load(sin_ptr + at, mask=element < HALF, other=0.0).to(tl.float32)
    _turn(q_ptr, q_out_ptr, token, cos, sin, QUERY_HEADS, QUERY_BLOCK, HALF, HALF_BLOCK)
    _turn(k_ptr, k_out_ptr, token, cos, sin, KEY_HEADS, KEY_BLOCK, HALF, HALF_BLOCK)


def rotary_fused(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> Pair:
    """The embedding of queries and keys in one launch; fp32 inside, rounded once.

    On the CPU each half of the heads is written by one product and one in-place `torch.Tensor.addcmul_`.

    Args:
        q: (batch, length, query heads, head width), contiguous, bf16 or fp32; the head width is even.
        k: (batch, length, key heads, head width), of the type and on the device of q.
        cos: (length, head width), likewise; only its first half is read, the second must equal it.
        sin: like cos.

    Raises:
        TypeError: an argument of an unsupported or other element type.
        ValueError: an unsupported shape, device or memory layout.
    """
    check_tensor("q", q, dimensions=4)
    check_tensor("k", k, dimensions=4)
    batch, length, _, width = q.shape
    check_shape("k", k, (batch, length, k.shape[2], width), "q", q)
    check_shape("cos", cos, (length, width), "q", q)
    check_shape("sin", sin, (length, width), "q", q)
    if width % 2:
        raise ValueError(f"q has heads of {width} elements, an even number is needed")
    if q.device.type == "cpu":
        return _turn_in_place(q, cos, sin), _turn_in_place(k, cos, sin)
    return _launch(q, k, cos, sin, (torch.empty_like(q), torch.empty_like(k)))


def _turn_in_place(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    half = x.shape[-1] // 2
    cosine, sine = cos[None, :, None, :], sin[None, :, None, :half]
    out = x * cosine
    out[..., :half].addcmul_(x[..., half:], sine, value=-1)
    out[..., half:].addcmul_(x[..., :half], sine)
    return out


def _launch(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, outs: Pair) -> Pair:
    batch, length, query_heads, width = q.shape
    key_heads = k.shape[2]
    with device_of(q):
        _rotary_fused_kernel[(batch * length,)](
            q,
            k,
            cos,
            sin,
            *outs,
            length,
            QUERY_HEADS=query_heads,
            QUERY_BLOCK=1 << (query_heads - 1).bit_length(),
            KEY_HEADS=key_heads,
            KEY_BLOCK=1 << (key_heads - 1).bit_length(),
            HALF=width // 2,
            HALF_BLOCK=1 << (width // 2 - 1).bit_length(),
            num_warps=4,
        )
    return outs


rotary: dict[str, Callable[..., Pair]] = {"fused": rotary_fused, "unfused": rotary_unfused}
"""The variants by the names that perf tests use."""


def rotary_bytes(tokens: int, heads: int, head_width: int, itemsize: int) -> int:
    """Bytes that must move, `heads` of queries and keys together: read and written."""
    return 2 * tokens * heads * head_width * itemsize


def rotary_flops(tokens: int, heads: int, head_width: int) -> int:
    """Floating-point operations: two multiplications and an addition an element."""
    return 3 * tokens * heads * head_width
