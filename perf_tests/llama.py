"""The sizes that all perf tests share: llama-7b, at three amounts of tokens."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

WIDTH = 4096
HEADS = 32
HEAD_WIDTH = 128
MLP_WIDTH = 11008
VOCABULARY = 32000


@dataclass(frozen=True, slots=True)
class Configuration:
    """An amount of tokens.

    Attributes:
        batch: sequences.
        length: tokens of a sequence.
    """

    batch: int
    length: int

    @property
    def rows(self) -> int:
        """Tokens in all: rows of an activation matrix."""
        return self.batch * self.length


SMALL, MEDIUM, LARGE = Configuration(1, 128), Configuration(8, 512), Configuration(32, 2048)

# At 128 tokens most kernels take 2 to 30 us, and runs of the shortest differ by 1 to 2 %.
_COARSE = pytest.mark.nsight(band="5%")

# The ids are keys of stored baselines: they stay as they are, on every machine.
CONFIGURATIONS = [
    pytest.param(SMALL, id="b1x128", marks=_COARSE),
    pytest.param(MEDIUM, id="b8x512"),
    pytest.param(LARGE, id="b32x2048"),
]
VARIANTS = [pytest.param("fused", id="fused"), pytest.param("unfused", id="unfused")]
