"""Cross entropy over a vocabulary, with its gradient: loss_r = logsumexp(x_r) - x_r[target_r].

    d(mean loss)/dx_rj = (softmax(x_r)_j - [j = target_r]) / R

The fused kernel keeps a row in registers and writes the gradient over the logits: no second tensor of their
size. For R rows of W logits of B bytes: reads and writes R*W elements, 2*R*W*B bytes in one launch.
`cross_entropy_unfused` also makes fp32 copies of the logits, their log-softmax and its gradient.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

from kernels._checks import check_at_most, check_indices, check_tensor
from kernels._triton import MAX_ROW_ELEMENTS, device_of, jit, load_tile, plan_row_blocks, store_tile, tl

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
    ROWS: tl.constexpr,
    EXACT: tl.constexpr,
) -> None:
    column = tl.arange(0, BLOCK)
    # A row of 32000 leaves room for one program on a multiprocessor; two stages keep its memory busy all the
    # same, as the next row is on its way while this one is worked on.
    for index in tl.range(tl.program_id(0), tl.cdiv(rows, ROWS), tl.num_programs(0), num_stages=2):
        row = (tl.zeros((ROWS,), tl.int64) + index) * ROWS + tl.arange(0, ROWS)
        target = tl.load(targets_ptr + row, mask=row < rows, other=0)
        logits = load_tile(logits_ptr, row, column, rows, WIDTH, EXACT)
        if WIDTH != BLOCK:
            logits = tl.where((column < WIDTH)[None, :], logits, float("-inf"))
        is_target = column[None, :] == target[:, None]
        highest = tl.max(logits, axis=1)
        chosen = tl.sum(tl.where(is_target, logits, 0.0), axis=1)
        exponentials = tl.exp(logits - highest[:, None])
        total = tl.sum(exponentials, axis=1)
        # A target outside of the vocabulary cannot raise from here, but it must not pass for a loss either.
        fault = tl.where((target >= 0) & (target < WIDTH), 0.0, float("nan"))
        tl.store(losses_ptr + row, tl.log(total) + highest - chosen + fault, mask=row < rows)
        factor = scale / total + fault
        gradient = exponentials * factor[:, None] - tl.where(is_target, scale, 0.0)
        store_tile(logits_ptr, row, column, gradient, rows, WIDTH, EXACT)


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
    check_at_most("logits", logits, MAX_ROW_ELEMENTS)
    if logits.device.type == "cpu":
        return _overwrite_on_cpu(logits, targets)
    losses = torch.empty(logits.shape[0], dtype=torch.float32, device=logits.device)
    sm_count = torch.cuda.get_device_properties(logits.device).multi_processor_count
    # As many as fit on the device at a time: 32 warps of a multiprocessor's 64, by their registers.
    programs = sm_count * max(1, 32 // plan_row_blocks(*logits.shape).num_warps)
    return _launch(logits, targets, losses, programs)


def _overwrite_on_cpu(logits: torch.Tensor, targets: torch.Tensor) -> Pair:
    losses = F.cross_entropy(logits.float(), targets, reduction="none")
    gradient = torch.softmax(logits, dim=-1, dtype=torch.float32)
    gradient[torch.arange(logits.shape[0]), targets] -= 1
    torch.mul(gradient, 1 / max(1, logits.shape[0]), out=gradient)
    return losses, logits.copy_(gradient)


def _launch(logits: torch.Tensor, targets: torch.Tensor, losses: torch.Tensor, programs: int) -> Pair:
    rows, width = logits.shape
    blocks = plan_row_blocks(rows, width)
    with device_of(logits):
        _cross_entropy_fused_kernel[(min(blocks.programs, programs),)](
            logits,
            targets,
            losses,
            rows,
            1 / max(1, rows),
            WIDTH=width,
            BLOCK=blocks.block,
            ROWS=blocks.rows_per_program,
            EXACT=blocks.is_exact,
            num_warps=blocks.num_warps,
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
