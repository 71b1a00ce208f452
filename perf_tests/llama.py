"""The sizes that all perf tests share: llama-7b, at three amounts of tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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

SIZES = {"b1x128": SMALL, "b8x512": MEDIUM, "b32x2048": LARGE}


def case(name: str, **claims: Any) -> Any:
    """A parameter set (variant, configuration) with the claims of its mark.

    Args:
        name: the case's id, "variant-size". Ids are keys of stored baselines: they stay as they are, on every
            machine, and are spelled where they are used.
        claims: arguments of the nsight mark. What is claimed of a GPU the stored baselines carry, with a margin
            for other boards: `python -m benchmarks.claims` shows by how much.
    """
    variant, size = name.split("-")
    if SIZES[size] is SMALL:
        # At 128 tokens most kernels take 2 to 30 us, and runs of the shortest differ by 1 to 2 %.
        claims = {"band": "5%", **claims}
    return pytest.param(variant, SIZES[size], id=name, marks=pytest.mark.nsight(**claims))
