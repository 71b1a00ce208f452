"""Cross entropy over a vocabulary, with its gradient: loss_r = logsumexp(x_r) - x_r[target_r].

    d(mean loss)/dx_rj = (softmax(x_r)_j - [j = target_r]) / R

The fused kernel reads a row once, holds its exponentials in registers and writes the gradient over the logits: no
second tensor of their size, 2*R*W*B bytes for R rows of W logits of B bytes, in one launch. One program of 32 warps
fills a multiprocessor at 32000 logits, and would wait for the memory while it computes; so programs stay resident
and walk over the rows, with the next two on their way into shared memory.

Rows of more than 64 KB do not fit: a second kernel goes over them twice, part by part. The first pass keeps the
largest logit and the sum of exponentials so far; the second starts with the parts read last, which are still in the
caches. `cross_entropy_unfused` also makes fp32 copies of the logits, their log-softmax and its gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from kernels._checks import check_indices, check_overwritable, check_tensor
from kernels._triton import device_of, jit, tl

_HELD_ROW_BYTES = 65536
_ELEMENTS_PER_WARP = 1024
_MOST_PROGRAMS = 16

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
    rows: tl.tensor,
    scale: tl.tensor,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
) -> None:
    log2e: tl.constexpr = 1.4426950408889634
    column = tl.arange(0, BLOCK)
    first = tl.program_id(0)
    target = tl.load(targets_ptr + first, mask=first < rows, other=0)
    # The gradient at the target is corrected one row late, so that it needs no barrier of its own.
    late_ptr = logits_ptr
    late = tl.cast(0.0, tl.float32)
    is_late = first < 0
    # Of STAGES rows all but one are on their way while that one is worked on.
    for index in tl.range(first, rows, tl.num_programs(0), num_stages=STAGES):
        row = tl.cast(index, tl.int64)
        row_ptr = logits_ptr + row * WIDTH
        # A target outside of the vocabulary cannot raise from here, but it must not pass for a loss either. Its
        # logit is read before the reductions, at which the whole program waits, and so before it is overwritten.
        is_valid = (target >= 0) & (target < WIDTH)
        chosen = tl.load(row_ptr + target, mask=is_valid, other=float("nan")).to(tl.float32)
        logits = tl.load(row_ptr + column, mask=column < WIDTH, other=float("-inf")).to(tl.float32)
        highest = tl.max(logits, axis=0)
        # All warps have passed the reduction, so they have written the row before.
        tl.store(late_ptr, late.to(logits_ptr.dtype.element_ty), mask=is_late)
        top = highest * log2e
        exponentials = tl.exp2(logits * log2e - top)
        total = tl.sum(exponentials, axis=0)
        factor = scale / total + tl.where(is_valid, 0.0, float("nan"))
        gradient = exponentials * factor
        tl.store(row_ptr + column, gradient.to(logits_ptr.dtype.element_ty), mask=column < WIDTH)
        tl.store(losses_ptr + row, tl.log(total) + highest - chosen)
        late = tl.exp2(chosen * log2e - top) * factor - scale
        late_ptr = row_ptr + target
        is_late = is_valid
        following = index + tl.num_programs(0)
        target = tl.load(targets_ptr + following, mask=following < rows, other=0)
    tl.debug_barrier()
    tl.store(late_ptr, late.to(logits_ptr.dtype.element_ty), mask=is_late)


@jit
def _cross_entropy_wide_fused_kernel(
    logits_ptr: tl.tensor,
    targets_ptr: tl.tensor,
    losses_ptr: tl.tensor,
    scale: tl.tensor,
    WIDTH: tl.constexpr,
    PART: tl.constexpr,
) -> None:
    log2e: tl.constexpr = 1.4426950408889634
    row = tl.program_id(0).to(tl.int64)
    row_ptr = logits_ptr + row * WIDTH
    within = tl.arange(0, PART)
    target = tl.load(targets_ptr + row)
    is_valid = (target >= 0) & (target < WIDTH)
    chosen = tl.load(row_ptr + target, mask=is_valid, other=float("nan")).to(tl.float32)
    highest = tl.cast(float("-inf"), tl.float32)
    top = tl.cast(0.0, tl.float32)
    sums = tl.zeros((PART,), tl.float32)
    for start in tl.range(0, WIDTH, PART):
        column = start + within
        logits = tl.load(
            row_ptr + column, mask=column < WIDTH, other=float("-inf"), eviction_policy="evict_last"
        ).to(tl.float32)
        new = tl.maximum(highest, tl.max(logits, axis=0))
        # Where all logits so far are -inf there is nothing to scale, and -inf less -inf would be no number.
        new_top = tl.where(new == float("-inf"), 0.0, new) * log2e
        shrinking = tl.where(highest == float("-inf"), 0.0, tl.exp2(top - new_top))
        sums = sums * shrinking + tl.exp2(logits * log2e - new_top)
        highest = new
        top = new_top
    total = tl.sum(sums, axis=0)
    tl.store(losses_ptr + row, tl.log(total) + highest - chosen)
    factor = scale / total + tl.where(is_valid, 0.0, float("nan"))
    for start in tl.range(0, WIDTH, PART):
        column = (WIDTH - 1) // PART * PART - start + within
        logits = tl.load(row_ptr + column, mask=column < WIDTH, other=0.0, eviction_policy="evict_first").to(
            tl.float32
        )
        gradient = (tl.exp2(logits * log2e - top) * factor).to(logits_ptr.dtype.element_ty)
        tl.store(row_ptr + column, gradient, mask=column < WIDTH, cache_modifier=".cs")
    tl.debug_barrier()
    at_target = tl.exp2(chosen * log2e - top) * factor - scale
    tl.store(row_ptr + target, at_target.to(logits_ptr.dtype.element_ty), mask=is_valid)


def cross_entropy_fused(logits: torch.Tensor, targets: torch.Tensor) -> Pair:
    """Losses (fp32) and gradient in one launch; `logits` is overwritten by the gradient and returned as it.

    On the CPU it is `torch.softmax`, its logarithm at the targets, and a copy back into `logits`.

    Args:
        logits: (rows, vocabulary), contiguous, bf16 or fp32. Overwritten.
        targets: (rows,) int64, in [0, vocabulary). On a GPU, rows with another target get NaN.

    Raises:
        TypeError: an unsupported element type.
        ValueError: an unsupported shape, device or memory layout; `logits` that require grad; on the CPU a target
            outside of the vocabulary.
    """
    check_tensor("logits", logits, dimensions=2)
    check_indices("targets", targets, logits.shape[0], logits.device)
    check_overwritable("logits", logits)
    if logits.device.type == "cpu":
        return _overwrite_on_cpu(logits, targets)
    losses = torch.empty(logits.shape[0], dtype=torch.float32, device=logits.device)
    sm_count = torch.cuda.get_device_properties(logits.device).multi_processor_count
    rows, vocabulary = logits.shape
    return _launch(logits, targets, losses, plan(sm_count, rows, vocabulary, logits.element_size()))


@dataclass(frozen=True, slots=True)
class Walk:
    """How programs walk over rows that they hold whole.

    Attributes:
        programs: in the grid.
        num_warps: warps of a program.
        stages: rows that a program has in hand, all but one of them on their way.
    """

    programs: int
    num_warps: int
    stages: int


@dataclass(frozen=True, slots=True)
class Parts:
    """How a row too wide to be held is cut, a program to each.

    Attributes:
        width: elements of a part, a power of two.
        num_warps: warps of a program.
    """

    width: int = 4096
    num_warps: int = 8


def plan(sm_count: int, rows: int, vocabulary: int, itemsize: int) -> Walk | Parts:
    """Walk over rows of up to 64 KB, a warp for each 1024 logits, as many programs as hold 64 KB a multiprocessor.

    Where each program has one row, nothing is to be loaded ahead.
    """
    block = 1 << (vocabulary - 1).bit_length()
    if block * itemsize > _HELD_ROW_BYTES:
        return Parts()
    programs = min(rows, sm_count * min(_MOST_PROGRAMS, _HELD_ROW_BYTES // (block * itemsize)))
    return Walk(programs, max(1, block // _ELEMENTS_PER_WARP), 1 if rows <= programs else 3)


def _overwrite_on_cpu(logits: torch.Tensor, targets: torch.Tensor) -> Pair:
    wrong = targets[(targets < 0) | (targets >= logits.shape[1])]
    if wrong.numel():
        raise ValueError(f"targets holds {int(wrong[0])}, 0 to {logits.shape[1] - 1} is needed")
    losses = F.cross_entropy(logits.float(), targets, reduction="none")
    gradient = torch.softmax(logits, dim=-1, dtype=torch.float32)
    gradient[torch.arange(logits.shape[0]), targets] -= 1
    torch.mul(gradient, 1 / max(1, logits.shape[0]), out=gradient)
    return losses, logits.copy_(gradient)


def _launch(logits: torch.Tensor, targets: torch.Tensor, losses: torch.Tensor, plan: Walk | Parts) -> Pair:
    rows, width = logits.shape
    if rows == 0:
        return losses, logits
    tensors = (logits, targets, losses)
    with device_of(logits):
        if isinstance(plan, Walk):
            _cross_entropy_fused_kernel[(plan.programs,)](
                *tensors,
                rows,
                1 / rows,
                WIDTH=width,
                BLOCK=1 << (width - 1).bit_length(),
                STAGES=plan.stages,
                num_warps=plan.num_warps,
            )
        else:
            _cross_entropy_wide_fused_kernel[(rows,)](
                *tensors, 1 / rows, WIDTH=width, PART=plan.width, num_warps=plan.num_warps
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
