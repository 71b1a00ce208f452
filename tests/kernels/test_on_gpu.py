"""Every fused kernel on a GPU against its reference: ragged rows, widths that are no power of two, both types.

The interpreter's tests say that a kernel's text is right; these, that what the compiler makes of it is.
"""

from __future__ import annotations

import pytest
import torch

from kernels.add_rms_norm import add_rms_norm_fused, add_rms_norm_reference
from kernels.attention import attention_fused, attention_reference
from kernels.bias_gelu import bias_gelu_fused, bias_gelu_reference
from kernels.block import BlockWeights, block
from kernels.cross_entropy import cross_entropy_fused, cross_entropy_reference
from kernels.rms_norm import rms_norm_fused, rms_norm_reference
from kernels.rms_norm_backward import rms_norm_backward_fused, rms_norm_backward_reference
from kernels.rotary import make_tables, rotary_fused, rotary_reference
from kernels.softmax import softmax_fused, softmax_reference
from kernels.swiglu import swiglu_fused, swiglu_reference
from kernels.swiglu_backward import swiglu_backward_fused, swiglu_backward_reference
from perf_tests.closeness import assert_product, assert_rounded
from perf_tests.test_block import assert_block
from tests.kernels.tensors import DTYPES

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

SHAPES = [(1, 8), (3, 100), (37, 1000), (129, 4096), (1000, 5120), (4099, 4096), (257, 8191)]

ON_SHAPES = pytest.mark.parametrize("shape", SHAPES)
ON_DTYPES = pytest.mark.parametrize("dtype", DTYPES)


@pytest.fixture
def generator(seed: int) -> torch.Generator:
    return torch.Generator("cuda").manual_seed(seed)


def draw(generator: torch.Generator, *shape: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(*shape, generator=generator, device="cuda", dtype=dtype)


@ON_SHAPES
@ON_DTYPES
def test_rms_norm(shape: tuple[int, int], dtype: torch.dtype, generator: torch.Generator) -> None:
    x, weight = draw(generator, *shape, dtype=dtype), draw(generator, shape[1], dtype=dtype)

    assert_rounded(rms_norm_fused(x, weight), rms_norm_reference(x, weight))


@ON_SHAPES
@ON_DTYPES
def test_rms_norm_backward(shape: tuple[int, int], dtype: torch.dtype, generator: torch.Generator) -> None:
    gradient, x = (draw(generator, *shape, dtype=dtype) for _ in range(2))
    weight = draw(generator, shape[1], dtype=dtype)

    outs = rms_norm_backward_fused(gradient, x, weight)

    # In few elements the errors of roundings do not average out.
    for out, expected in zip(outs, rms_norm_backward_reference(gradient, x, weight), strict=True):
        assert_product(out, expected, roundings=6)


@ON_SHAPES
@ON_DTYPES
def test_add_rms_norm(shape: tuple[int, int], dtype: torch.dtype, generator: torch.Generator) -> None:
    x, residual = (draw(generator, *shape, dtype=dtype) for _ in range(2))
    weight = draw(generator, shape[1], dtype=dtype)

    out, total = add_rms_norm_fused(x, residual, weight)

    expected, expected_total = add_rms_norm_reference(x, residual, weight)
    assert_rounded(total, expected_total, roundings=0)
    assert_rounded(out, expected)


@ON_SHAPES
@ON_DTYPES
def test_swiglu(shape: tuple[int, int], dtype: torch.dtype, generator: torch.Generator) -> None:
    gate, up = (draw(generator, *shape, dtype=dtype) for _ in range(2))

    assert_rounded(swiglu_fused(gate, up), swiglu_reference(gate, up))


@ON_SHAPES
@ON_DTYPES
def test_swiglu_backward(shape: tuple[int, int], dtype: torch.dtype, generator: torch.Generator) -> None:
    gradient, gate, up = (draw(generator, *shape, dtype=dtype) for _ in range(3))

    outs = swiglu_backward_fused(gradient, gate, up)

    for out, expected in zip(outs, swiglu_backward_reference(gradient, gate, up), strict=True):
        assert_rounded(out, expected)


@ON_SHAPES
@ON_DTYPES
def test_bias_gelu(shape: tuple[int, int], dtype: torch.dtype, generator: torch.Generator) -> None:
    x, bias = draw(generator, *shape, dtype=dtype), draw(generator, shape[1], dtype=dtype)

    assert_product(bias_gelu_fused(x, bias), bias_gelu_reference(x, bias), roundings=6)


@ON_SHAPES
@ON_DTYPES
def test_softmax(shape: tuple[int, int], dtype: torch.dtype, generator: torch.Generator) -> None:
    x = draw(generator, *shape, dtype=dtype) * 3

    assert_rounded(softmax_fused(x), softmax_reference(x), scale=shape[1])


@pytest.mark.parametrize("shape", [*SHAPES, (70, 32000), (5, 128256)])
@ON_DTYPES
def test_cross_entropy(shape: tuple[int, int], dtype: torch.dtype, generator: torch.Generator) -> None:
    rows, vocabulary = shape
    logits = draw(generator, *shape, dtype=dtype) * 3
    targets = torch.randint(vocabulary, (rows,), generator=generator, device="cuda")
    expected_losses, expected_gradient = cross_entropy_reference(logits, targets)

    losses, gradient = cross_entropy_fused(logits, targets)

    assert gradient.data_ptr() == logits.data_ptr()
    torch.testing.assert_close(losses, expected_losses, rtol=1e-5, atol=1e-4)
    assert_rounded(gradient, expected_gradient, scale=rows)


@pytest.mark.parametrize("shape", [(1, 1, 1, 1, 2), (2, 5, 4, 4, 8), (3, 77, 6, 2, 20), (2, 130, 32, 8, 128)])
@ON_DTYPES
def test_rotary(shape: tuple[int, int, int, int, int], dtype: torch.dtype, generator: torch.Generator) -> None:
    batch, length, query_heads, key_heads, width = shape
    q = draw(generator, batch, length, query_heads, width, dtype=dtype)
    k = draw(generator, batch, length, key_heads, width, dtype=dtype)
    tables = make_tables(length, width, q.device, dtype)

    outs = rotary_fused(q, k, *tables)

    # In few elements the errors of roundings do not average out.
    for out, expected in zip(outs, rotary_reference(q, k, *tables), strict=True):
        assert_product(out, expected, roundings=6)


@pytest.mark.parametrize("shape", [(2, 3, 17, 64), (1, 2, 300, 128)])
def test_attention(shape: tuple[int, ...], generator: torch.Generator) -> None:
    q, k, v = (draw(generator, *shape, dtype=torch.bfloat16) for _ in range(3))

    assert_product(attention_fused(q, k, v), attention_reference(q, k, v), roundings=6)


@pytest.mark.parametrize("variant", block)
@pytest.mark.parametrize("length", [2, 33, 300])
def test_block(length: int, variant: str, generator: torch.Generator) -> None:
    weights = BlockWeights(512, 8, 1376, generator=generator, dtype=torch.bfloat16)
    x, upstream = (draw(generator, 2, length, 512, dtype=torch.bfloat16) for _ in range(2))
    tables = make_tables(length, 64, x.device, torch.bfloat16)

    assert_block(variant, x, weights, tables, upstream)
