from __future__ import annotations

import pytest
import torch

from kernels import _triton
from kernels.rms_norm import rms_norm_reference
from tests.kernels.tensors import Random, assert_guarded, assert_interpreted, poisoned
from tests.spoiled.spoil import launch_slow


@pytest.mark.parametrize("percent", [5, 50, 100])
@pytest.mark.parametrize("shape", [(1, 8), (41, 16), (67, 20)])
def test_the_slow_kernel_equals_the_reference(
    shape: tuple[int, int], percent: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_triton, "_PROGRAMS_WANTED", 5)
    draw = Random(torch.Generator().manual_seed(3))
    x, weight = draw.normal(*shape, dtype=torch.float32), draw.gain(shape[-1], torch.float32)

    out = launch_slow(x, weight, 1e-5, poisoned(*shape, dtype=torch.float32), percent)

    assert_guarded(out)
    assert_interpreted(out, rms_norm_reference(x, weight))
