"""The models of the study: decoders in the sizes of GPT-2 and a 2.7B one, with NVTX ranges in their attention.

Attention is written out, one product after the other, so that its scores, mask, softmax and values are kernels of
their own. Parameters are float32, and products of matrices run in TF32.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.cuda import nvtx
from torch.nn import functional

VOCABULARY = 10_000
BATCH = 4
CONTEXTS = (128, 256, 512, 1024)
SOFTMAX_FLOPS = 5
"""For each score: the maximum, the difference, the exponential, the sum, the division."""


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a model.

    Attributes:
        layers: blocks of attention and MLP.
        width: of a token's vector.
        heads: of attention; each is width / heads wide.
    """

    layers: int
    width: int
    heads: int

    def attention_flops(self, context: int) -> dict[str, int]:
        """Range -> floating-point operations of one forward pass over all layers and a batch."""
        scores = BATCH * self.heads * context * context * self.layers
        product = 2 * scores * (self.width // self.heads)
        return {
            "attention_scores": product,
            "attention_softmax": SOFTMAX_FLOPS * scores,
            "attention_value": product,
        }


SIZES = {
    "small": Size(12, 768, 12),
    "medium": Size(24, 1024, 16),
    "large": Size(36, 1280, 20),
    "xl": Size(48, 1600, 25),
    "2.7B": Size(32, 2560, 32),
}


class Attention(torch.nn.Module):
    """Causal attention of one layer, its parts in ranges."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.heads = size.heads
        self.inputs = torch.nn.Linear(size.width, 3 * size.width, bias=False)
        self.output = torch.nn.Linear(size.width, size.width, bias=False)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """From (batch, tokens, width) to the same shape; `mask` (tokens, tokens) is true where nothing is seen."""
        batch, tokens, width = x.shape
        parts = self.inputs(x).view(batch, tokens, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        with nvtx.range("attention_scores"):
            scores = (q / (width // self.heads) ** 0.5) @ k.transpose(-1, -2)
        with nvtx.range("attention_mask"):
            scores = scores.masked_fill(mask, float("-inf"))
        with nvtx.range("attention_softmax"):
            weights = torch.softmax(scores, dim=-1)
        with nvtx.range("attention_value"):
            values = weights @ v
        return self.output(values.transpose(1, 2).reshape(batch, tokens, width))


class Block(torch.nn.Module):
    """Attention and MLP, each after a normalisation and around a residual connection."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.attention_norm, self.mlp_norm = torch.nn.LayerNorm(size.width), torch.nn.LayerNorm(size.width)
        self.attention = Attention(size)
        self.up = torch.nn.Linear(size.width, 4 * size.width)
        self.down = torch.nn.Linear(4 * size.width, size.width)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """From (batch, tokens, width) to the same shape."""
        x = x + self.attention(self.attention_norm(x), mask)
        return x + self.down(functional.gelu(self.up(self.mlp_norm(x))))


class Transformer(torch.nn.Module):
    """A decoder from tokens to logits."""

    def __init__(self, size: Size, longest: int) -> None:
        super().__init__()
        self.tokens = torch.nn.Embedding(VOCABULARY, size.width)
        self.positions = torch.nn.Embedding(longest, size.width)
        self.blocks = torch.nn.ModuleList(Block(size) for _ in range(size.layers))
        self.norm = torch.nn.LayerNorm(size.width)
        self.head = torch.nn.Linear(size.width, VOCABULARY, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """From (batch, tokens) of integers to logits (batch, tokens, vocabulary)."""
        count = tokens.shape[1]
        places = torch.arange(count, device=tokens.device)
        mask = places[None, :] > places[:, None]
        x = self.tokens(tokens) + self.positions(places)
        for block in self.blocks:
            x = block(x, mask)
        return self.head(self.norm(x))
