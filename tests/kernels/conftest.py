from __future__ import annotations

import pytest
import torch

from tests.kernels.tensors import Random


@pytest.fixture
def draw(seed: int) -> Random:
    return Random(torch.Generator().manual_seed(seed))
