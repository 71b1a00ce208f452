"""The operators beside the norms, for `kernels_on_gpu.py`."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

from benchmarks import liger
from benchmarks.workload import Source, Workload, relative_error, row_sample
from kernels import attention, bias_gelu, cross_entropy, rotary, softmax, swiglu, swiglu_backward
from kernels.adamw import adamw, adamw_bytes, adamw_flops
from perf_tests.llama import HEAD_WIDTH, HEADS, MLP_WIDTH, VOCABULARY, WIDTH, Configuration


def make_copy(configuration: Configuration, source: Source) -> Workload:
    x = source.normal(configuration.rows, WIDTH)
    out = torch.empty_like(x)
    return Workload(
        ways={"torch": lambda: out.copy_(x)},
        compiled=None,
        error=lambda result: relative_error(result, x),
        bytes_moved=2 * x.numel() * x.element_size(),
        flops=0,
    )


def make_swiglu(configuration: Configuration, source: Source) -> Workload:
    rows = configuration.rows
    gate, up = source.normal(rows, MLP_WIDTH), source.normal(rows, MLP_WIDTH)
    some = row_sample(rows, source.device)
    return Workload(
        ways={
            "fused": lambda: swiglu.swiglu_fused(gate, up),
            "unfused": lambda: swiglu.swiglu_unfused(gate, up),
            **liger.swiglu(gate, up),
        },
        compiled=(swiglu.swiglu_unfused, (gate, up)),
        error=lambda out: relative_error(out[some], swiglu.swiglu_reference(gate[some], up[some])),
        bytes_moved=swiglu.swiglu_bytes(rows, MLP_WIDTH, source.dtype.itemsize),
        flops=swiglu.swiglu_flops(rows, MLP_WIDTH),
    )


def make_swiglu_backward(configuration: Configuration, source: Source) -> Workload:
    rows = configuration.rows
    gradient, gate, up = (source.normal(rows, MLP_WIDTH) for _ in range(3))
    some = row_sample(rows, source.device)
    leaves = (gate.detach().requires_grad_(), up.detach().requires_grad_())
    out = swiglu.swiglu_unfused(*leaves)

    def error(outs: tuple[torch.Tensor, torch.Tensor]) -> float:
        truths = swiglu_backward.swiglu_backward_reference(gradient[some], gate[some], up[some])
        return max(relative_error(found[some], truth) for found, truth in zip(outs, truths, strict=True))

    return Workload(
        ways={
            "fused": lambda: swiglu_backward.swiglu_backward_fused(gradient, gate, up),
            "unfused": lambda: swiglu_backward.swiglu_backward_unfused(gradient, gate, up),
            "torch": lambda: torch.autograd.grad(out, leaves, gradient, retain_graph=True),
            **liger.swiglu_backward(gradient, gate, up),
        },
        compiled=(swiglu_backward.swiglu_backward_unfused, (gradient, gate, up)),
        error=error,
        bytes_moved=swiglu_backward.swiglu_backward_bytes(rows, MLP_WIDTH, source.dtype.itemsize),
        flops=swiglu_backward.swiglu_backward_flops(rows, MLP_WIDTH),
        unchecked=frozenset({"liger"}),
    )


def make_bias_gelu(configuration: Configuration, source: Source) -> Workload:
    rows = configuration.rows
    x, bias = source.normal(rows, MLP_WIDTH), source.normal(MLP_WIDTH)
    some = row_sample(rows, source.device)
    return Workload(
        ways={
            "fused": lambda: bias_gelu.bias_gelu_fused(x, bias),
            "unfused": lambda: bias_gelu.bias_gelu_unfused(x, bias),
        },
        compiled=(bias_gelu.bias_gelu_unfused, (x, bias)),
        error=lambda out: relative_error(out[some], bias_gelu.bias_gelu_reference(x[some], bias)),
        bytes_moved=bias_gelu.bias_gelu_bytes(rows, MLP_WIDTH, source.dtype.itemsize),
        flops=bias_gelu.bias_gelu_flops(rows, MLP_WIDTH),
    )


def make_softmax(configuration: Configuration, source: Source) -> Workload:
    rows, width = min(configuration.batch, 8) * configuration.length * HEADS, configuration.length
    x = source.normal(rows, width)
    some = row_sample(rows, source.device)
    return Workload(
        ways={
            "fused": lambda: softmax.softmax_fused(x),
            "unfused": lambda: softmax.softmax_unfused(x),
            "torch": lambda: torch.softmax(x, dim=-1),
            **liger.softmax(x),
        },
        compiled=(softmax.softmax_unfused, (x,)),
        error=lambda out: relative_error(out[some], softmax.softmax_reference(x[some])),
        bytes_moved=softmax.softmax_bytes(rows, width, source.dtype.itemsize),
        flops=softmax.softmax_flops(rows, width),
    )


def make_cross_entropy(configuration: Configuration, source: Source) -> Workload:
    rows = configuration.rows
    kept = source.normal(rows, VOCABULARY)
    logits = torch.empty_like(kept)
    targets = torch.randint(VOCABULARY, (rows,), device=source.device)
    some = row_sample(rows, source.device)
    losses_truth, gradient_truth = cross_entropy.cross_entropy_reference(kept[some], targets[some], rows)

    compiled = torch.compile(lambda leaf, targets: F.cross_entropy(leaf.float(), targets), dynamic=False)

    def error_of_first_call(_: tuple[torch.Tensor, torch.Tensor]) -> float:
        # The fused call overwrites its logits, so what is checked is a call on fresh ones.
        worst = 0.0
        for way in cross_entropy.cross_entropy.values():
            logits.copy_(kept)
            losses, gradient = way(logits, targets)
            errors = (
                relative_error(losses[some], losses_truth),
                relative_error(gradient[some], gradient_truth),
            )
            worst = max(worst, *errors)
        return worst

    return Workload(
        ways={
            "fused": lambda: cross_entropy.cross_entropy_fused(logits, targets),
            "unfused": lambda: cross_entropy.cross_entropy_unfused(logits, targets),
            "torch": lambda: _loss_and_gradient(F.cross_entropy, logits, targets),
            "torch.compile": lambda: _loss_and_gradient(compiled, logits, targets),
            **liger.cross_entropy(logits, targets),
        },
        compiled=None,
        error=error_of_first_call,
        bytes_moved=cross_entropy.cross_entropy_bytes(rows, VOCABULARY, source.dtype.itemsize),
        flops=cross_entropy.cross_entropy_flops(rows, VOCABULARY),
        unchecked=frozenset({"torch", "torch.compile", "liger"}),
    )


def _loss_and_gradient(
    loss: Callable[..., torch.Tensor], logits: torch.Tensor, targets: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    leaf = logits.detach().requires_grad_()
    value = loss(leaf, targets)
    return value.detach(), torch.autograd.grad(value, leaf)[0]


def make_rotary(configuration: Configuration, source: Source) -> Workload:
    shape = (configuration.batch, configuration.length, HEADS, HEAD_WIDTH)
    q, k = source.normal(*shape), source.normal(*shape)
    tables = rotary.make_tables(configuration.length, HEAD_WIDTH, source.device, source.dtype)

    def error(outs: tuple[torch.Tensor, torch.Tensor]) -> float:
        truths = rotary.rotary_reference(q[-1:], k[-1:], *tables)
        return max(relative_error(out[-1:], truth) for out, truth in zip(outs, truths, strict=True))

    return Workload(
        ways={
            "fused": lambda: rotary.rotary_fused(q, k, *tables),
            "unfused": lambda: rotary.rotary_unfused(q, k, *tables),
            **liger.rotary(q, k, *tables),
        },
        compiled=(rotary.rotary_unfused, (q, k, *tables)),
        error=error,
        bytes_moved=rotary.rotary_bytes(configuration.rows, 2 * HEADS, HEAD_WIDTH, source.dtype.itemsize),
        flops=rotary.rotary_flops(configuration.rows, 2 * HEADS, HEAD_WIDTH),
        unchecked=frozenset({"liger"}),
    )


def make_attention(configuration: Configuration, source: Source) -> Workload:
    size = (configuration.batch, HEADS, configuration.length, HEAD_WIDTH)
    q, k, v = source.normal(*size), source.normal(*size), source.normal(*size)
    return Workload(
        ways={
            "fused": lambda: attention.attention_fused(q, k, v),
            "unfused": lambda: attention.attention_unfused(q, k, v),
        },
        compiled=(attention.attention_unfused, (q, k, v)),
        error=lambda out: relative_error(out[-1], attention.attention_reference(q[-1], k[-1], v[-1])),
        bytes_moved=attention.attention_bytes(*size, source.dtype.itemsize),
        flops=attention.attention_flops(*size),
    )


def make_adamw(configuration: Configuration, source: Source) -> Workload:
    # Parameters do not grow with tokens: the sizes are those of one norm, one projection and one MLP.
    shape = {1: (WIDTH,), 8: (WIDTH, WIDTH), 32: (3 * MLP_WIDTH, WIDTH)}[configuration.batch]
    parameters = [torch.nn.Parameter(source.normal(*shape).float())]
    parameters[0].grad = source.normal(*shape).float()
    count = parameters[0].numel()
    return Workload(
        ways={name: make(parameters).step for name, make in adamw.items()},
        compiled=None,
        error=lambda _: 0.0,
        bytes_moved=adamw_bytes(count, 4),
        flops=adamw_flops(count),
        unchecked=frozenset(adamw),
    )
