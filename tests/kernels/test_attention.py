from __future__ import annotations

import weakref
from collections import Counter
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import kernels.attention
from kernels.attention import attention, attention_fused, attention_reference, attention_unfused
from perf_tests.closeness import assert_spread
from perf_tests.test_attention import spread_attention
from tests.kernels.tensors import DTYPES, Random


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1, 1, 8), (2, 3, 17, 16), (1, 2, 64, 40)])
@pytest.mark.parametrize("variant", ["fused", "unfused"])
def test_each_variant_equals_the_reference(
    variant: str, shape: tuple[int, ...], dtype: torch.dtype, draw: Random
) -> None:
    q, k, v = (draw.normal(*shape, dtype=dtype) for _ in range(3))

    out = attention[variant](q, k, v)

    assert out.dtype == dtype
    for index in range(shape[0]):
        assert_spread(out[index], *spread_attention(q[index], k[index], v[index], score_roundings=2))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("steps_of", ["one", "two", "less than one"])
def test_unfused_in_steps_equals_the_reference(
    steps_of: str, dtype: torch.dtype, draw: Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    q, k, v = (draw.normal(5, 3, 17, 16, dtype=dtype) for _ in range(3))
    sequence = 3 * 17 * 17
    most = {"one": 2 * sequence - 1, "two": 2 * sequence, "less than one": sequence // 2}[steps_of]
    monkeypatch.setattr(kernels.attention, "_MOST_SCORES", most)

    with Operations() as operations:
        out = attention_unfused(q, k, v)

    assert operations.count["bmm"] == 2 * {"one": 5, "two": 3, "less than one": 5}[steps_of]
    assert out.dtype == dtype
    assert out.shape == v.shape
    for index in range(5):
        assert_spread(out[index], *spread_attention(q[index], k[index], v[index], score_roundings=2))


def test_unfused_in_steps_takes_heads_that_lie_apart(draw: Random, monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = (draw.normal(2, 7, 3, 16, dtype=torch.float32).transpose(1, 2) for _ in range(3))
    whole = attention_unfused(q, k, v)
    monkeypatch.setattr(kernels.attention, "_MOST_SCORES", 1)

    torch.testing.assert_close(attention_unfused(q, k, v), whole)


LAUNCHING = {"ones", "triu", "bmm", "mul", "masked_fill", "_to_copy", "_softmax"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("batch", "length", "launches"), [(1, 128, 2 + 7), (8, 512, 2 + 7), (4, 2048, 2 + 7), (32, 2048, 2 + 8 * 7)]
)
def test_unfused_launches_nothing_but_the_mask_and_seven_operators_a_step(
    batch: int, length: int, launches: int
) -> None:
    q, k, v = (torch.empty(batch, 32, length, 128, dtype=torch.bfloat16, device="meta") for _ in range(3))

    with Operations() as operations:
        attention_unfused(q, k, v)

    assert sum(operations.count[name] for name in LAUNCHING) == launches
    views_and_places = {"transpose", "expand", "view", "_unsafe_view", "slice", "empty_like"}
    assert set(operations.count) - LAUNCHING <= views_and_places


def test_unfused_holds_no_more_than_its_docstring_says() -> None:
    q, k, v = (torch.empty(32, 32, 2048, 128, dtype=torch.bfloat16, device="meta") for _ in range(3))
    mask_bytes, out_bytes = 2 * 2048**2, 2 * v.numel()

    with Operations() as operations:
        attention_unfused(q, k, v)

    assert operations.most_scores == 2**29
    assert 8 * 2**29 <= operations.peak_bytes <= 8 * 2**29 + mask_bytes + out_bytes


class Operations(TorchDispatchMode):
    """Counts operators by name, and the bytes of results that are alive after each."""

    def __init__(self) -> None:
        super().__init__()
        self.count: Counter[str] = Counter()
        self.most_scores = 0
        self.peak_bytes = 0
        self._results: list[weakref.ref[torch.Tensor]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        name = func.overloadpacket.__name__
        self.count[name] += 1
        if name == "_softmax":
            self.most_scores = max(self.most_scores, out.numel())
        operands = (tensor for tensor in (*args, *kwargs.values()) if isinstance(tensor, torch.Tensor))
        given = {tensor.untyped_storage()._cdata for tensor in operands}
        if out.untyped_storage()._cdata not in given:
            self._results.append(weakref.ref(out))
        alive = [tensor for ref in self._results if (tensor := ref()) is not None]
        self.peak_bytes = max(self.peak_bytes, sum(tensor.numel() * tensor.element_size() for tensor in alive))
        return out


def test_the_reference_lets_no_token_see_a_later_one(draw: Random) -> None:
    q, k, v = (draw.normal(1, 1, 10, 8, dtype=torch.float32) for _ in range(3))
    changed_k, changed_v = k.clone(), v.clone()
    changed_k[..., 6:, :] += 1
    changed_v[..., 6:, :] -= 1

    before, after = attention_reference(q, k, v), attention_reference(q, changed_k, changed_v)

    assert torch.equal(before[..., :6, :], after[..., :6, :])
    assert not torch.allclose(before[..., 6:, :], after[..., 6:, :])


def test_a_value_of_another_shape_is_named() -> None:
    q = torch.ones(1, 1, 4, 8)
    with pytest.raises(ValueError, match=r"v has shape \(1, 1, 5, 8\), \(1, 1, 4, 8\) is needed to match q"):
        attention_fused(q, q, torch.ones(1, 1, 5, 8))
