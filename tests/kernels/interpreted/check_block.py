from __future__ import annotations

from typing import Any

import pytest
import torch

from kernels import add_rms_norm, autograd, rms_norm, rms_norm_backward, rotary, swiglu, swiglu_backward
from kernels.block import block_fused
from tests.kernels.block_case import find_gradients, make_block_case
from tests.kernels.tensors import poisoned


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Puts the kernels in the place of what stands for them on the CPU; names what was launched."""
    names: list[str] = []

    def like(*tensors: torch.Tensor) -> Any:
        outs = tuple(poisoned(*tensor.shape, dtype=tensor.dtype) for tensor in tensors)
        return outs[0] if len(outs) == 1 else outs

    def note(name: str, result: Any) -> Any:
        names.append(name)
        return result

    launches = {
        "rms_norm_fused": lambda x, w, eps: rms_norm._launch(x, w, eps, like(x)),
        "add_rms_norm_fused": lambda x, r, w, eps: add_rms_norm._launch(x, r, w, eps, like(x, x)),
        "rms_norm_backward_fused": lambda g, x, w, eps: rms_norm_backward._launch(
            g, x, w, eps, like(x, w), rms_norm_backward.plan(2, *x.shape)
        ),
        "rotary_fused": lambda q, k, cos, sin: rotary._launch(q, k, cos, sin, like(q, k)),
        "swiglu_fused": lambda gate, up: swiglu._launch(gate, up, like(gate)),
        "swiglu_backward_fused": lambda g, gate, up: swiglu_backward._launch(g, gate, up, like(gate, up)),
    }
    for name, launch in launches.items():
        monkeypatch.setattr(autograd, name, lambda *given, n=name, run=launch: note(n, run(*given)))
    return names


@pytest.mark.parametrize("size", [(1, 3, 16), (2, 5, 24)])
def test_result_and_gradients_equal_the_reference(
    size: tuple[int, int, int], launched: list[str], seed: int
) -> None:
    case = make_block_case(size, mlp_width=20, dtype=torch.float32, seed=seed)

    out = block_fused(case.x, case.weights, case.tables)
    gradients = find_gradients(case, out)

    torch.testing.assert_close(out, case.out, rtol=1e-4, atol=1e-4)
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, case.gradients[name], rtol=1e-3, atol=1e-3)
    assert sorted(launched) == sorted(
        [
            *("rms_norm_fused", "rotary_fused", "add_rms_norm_fused", "swiglu_fused"),
            *("swiglu_backward_fused", "rms_norm_backward_fused", "rotary_fused", "rms_norm_backward_fused"),
        ]
    )
