"""Cross entropy over a vocabulary, with its gradient: loss_r = logsumexp(x_r) - x_r[target_r].

    d(mean loss)/dx_rj = (softmax(x_r)_j - [j = target_r]) / R

The fused kernel goes over a row twice, part by part, and writes the gradient over the logits: no second tensor of
their size. The first pass keeps the largest logit and the sum of exponentials so far; the second finds the row
(64 KB of bf16 at 32000) in the caches, so that for R rows of W logits of B bytes the memory moves 2*R*W*B bytes in
one launch. Holding a whole row in registers would leave room for one program on a multiprocessor, which waits for
the memory while it computes. `cross_entropy_unfused` also makes fp32 copies of the logits, their log-softmax and
its gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from kernels._checks import check_indices, check_tensor
from kernels._triton import device_of, jit, tl

_PART = 8192
_ELEMENTS_PER_WARP = 256

Pair = tuple[torch.Tensor, torch.Tensor]


def cross_entropy_reference(logits: torch.Tensor, targets: torch.Tensor, rows: int | None = None) -> Pair:
    """The truth in fp32: the loss of each row, and the gradient of the mean loss.

    Args:
        logits: (rows, vocabulary).
        targets: (rows,) int64.
        rows: over how many rows the mean goes, where `logits` is a sample of them.
    """
    logits = logits.float()
    log_sum = torch.logsumexp(logits, dim=-1, keepdim=True)
    losses = (log_sum - logits.gather(1, targets[:, None])).squeeze(1)
    gradient = torch.exp(logits - log_sum) - F.one_hot(targets, logits.shape[1])
    return losses, gradient / (logits.shape[0] if rows is None else rows)


def cross_entropy_unfused(logits: torch.Tensor, targets: torch.Tensor) -> Pair:
    """The loss as model code computes it, from fp32 logits, and autograd's backward."""
    leaf = logits.detach().requires_grad_()
    with torch.enable_grad():
        losses = F.cross_entropy(leaf.float(), targets, reduction="none")
    weights = torch.full_like(losses, 1 / logits.shape[0])
    (gradient,) = torch.autograd.grad(losses, leaf, weights)
    return losses.detach(), gradient


@jit
def _cross_entropy_fused_kernel(
    logits_ptr: tl.tensor,
    targets_ptr: tl.tensor,
    losses_ptr: tl.tensor,
    scale: tl.tensor,
    WIDTH: tl.constexpr,
    PART: tl.constexpr,
    STAGES: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    row_ptr = logits_ptr + row * WIDTH
    within = tl.arange(0, PART)
    target = tl.load(targets_ptr + row)
    # A target outside of the vocabulary cannot raise from here, but it must not pass for a loss either. Its logit
    # is read before the reductions, at which the whole program waits, and so before the gradient is written.
    is_valid = (target >= 0) & (target < WIDTH)
    chosen = tl.load(row_ptr + target, mask=is_valid, other=float("nan")).to(tl.float32)
    highest = tl.full((1,), float("-inf"), tl.float32)
    sums = tl.zeros((PART,), tl.float32)
    for start in tl.range(0, WIDTH, PART, num_stages=STAGES):
        column = start + within
        logits = tl.load(
            row_ptr + column, mask=column < WIDTH, other=float("-inf"), eviction_policy="evict_last"
        ).to(tl.float32)
        new = tl.maximum(highest, tl.max(logits, axis=0))
        # Where all logits so far are -inf there is nothing to scale, and -inf less -inf would be no number.
        shift = tl.where(new == float("-inf"), 0.0, new)
        sums = sums * tl.exp(highest - shift) + tl.exp(logits - shift)
        highest = new
    total = tl.sum(sums, axis=0)
    tl.store(losses_ptr + row + tl.arange(0, 1), tl.log(total) + highest - chosen)
    factor = scale / total + tl.where(is_valid, 0.0, float("nan"))
    # 32 bits suffice for a column, and cost half as much to compare; an invalid target spoils the row anyway.
    hit = target.to(tl.int32)
    for start in tl.range(0, WIDTH, PART, num_stages=STAGES):
        column = start + within
        is_inside = column < WIDTH
        logits = tl.load(row_ptr + column, mask=is_inside, other=0.0, eviction_policy="evict_first").to(tl.float32)
        gradient = tl.exp(logits - highest) * factor - tl.where(column == hit, scale, 0.0)
        tl.store(row_ptr + column, gradient.to(logits_ptr.dtype.element_ty), mask=is_inside)


def cross_entropy_fused(logits: torch.Tensor, targets: torch.Tensor) -> Pair:
    """Losses (fp32) and gradient in one launch; `logits` is overwritten by the gradient and returned as it.

    On the CPU it is `torch.softmax`, its logarithm at the targets, and a copy back into `logits`.

    Args:
        logits: (rows, vocabulary), contiguous, bf16 or fp32. Overwritten.
        targets: (rows,) int64, in [0, vocabulary). On a GPU, rows with another target get NaN.

    Raises:
        TypeError: an unsupported element type.
        ValueError: an unsupported shape, device or memory layout.
    """
    check_tensor("logits", logits, dimensions=2)
    check_indices("targets", targets, logits.shape[0], logits.device)
    if logits.device.type == "cpu":
        return _overwrite_on_cpu(logits, targets)
    losses = torch.empty(logits.shape[0], dtype=torch.float32, device=logits.device)
    return _launch(logits, targets, losses, plan_parts(logits.shape[1]))


@dataclass(frozen=True, slots=True)
class Parts:
    """How a row is cut.

    Attributes:
        width: elements of a part, a power of two.
        num_warps: warps of a program.
        stages: parts of a row that a program has in hand, all but one of them on their way.
    """

    width: int
    num_warps: int
    stages: int = 1


def plan_parts(vocabulary: int) -> Parts:
    """Cut rows in parts of 8192 logits, a warp for each 256 of them; narrower rows are one part."""
    width = min(_PART, 1 << (vocabulary - 1).bit_length())
    return Parts(width, max(1, width // _ELEMENTS_PER_WARP))


def _overwrite_on_cpu(logits: torch.Tensor, targets: torch.Tensor) -> Pair:
    losses = F.cross_entropy(logits.float(), targets, reduction="none")
    gradient = torch.softmax(logits, dim=-1, dtype=torch.float32)
    gradient[torch.arange(logits.shape[0]), targets] -= 1
    torch.mul(gradient, 1 / max(1, logits.shape[0]), out=gradient)
    return losses, logits.copy_(gradient)


def _launch(logits: torch.Tensor, targets: torch.Tensor, losses: torch.Tensor, parts: Parts) -> Pair:
    rows, width = logits.shape
    with device_of(logits):
        _cross_entropy_fused_kernel[(rows,)](
            logits,
            targets,
            losses,
            1 / max(1, rows),
            WIDTH=width,
            PART=parts.width,
            STAGES=parts.stages,
            num_warps=parts.num_warps,
        )
    return losses, logits


cross_entropy: dict[str, Callable[..., Pair]] = {
    "fused": cross_entropy_fused,
    "unfused": cross_entropy_unfused,
}
"""The variants by the names that perf tests use."""


def cross_entropy_bytes(rows: int, vocabulary: int, itemsize: int) -> int:
    """Bytes that must move: logits read, gradient written, targets read, losses written."""
    return 2 * rows * vocabulary * itemsize + rows * 12


def cross_entropy_flops(rows: int, vocabulary: int) -> int:
    """Floating-point operations an element: compare, subtract, exp, add, multiply, subtract."""
    return 6 * rows * vocabulary
