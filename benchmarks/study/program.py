"""What the study profiles: `python -m benchmarks.study.program small --contexts 128 512`, under nsys or not.

Per context some inferences and some training steps, each within a range and timed by Python's clock as well. The
last line of the output is a JSON object with the times. `fused` and `unfused` in place of a model run RMSNorm ->
Linear at the amounts of tokens of the perf tests.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch.cuda import nvtx
from torch.nn import functional

from benchmarks.study.transformer import BATCH, CONTEXTS, SIZES, VOCABULARY, Transformer
from kernels.rms_norm_linear import fold_norm_weight, rms_norm_linear, rms_norm_linear_bytes
from perf_tests.llama import LARGE, MEDIUM, SMALL, WIDTH

WARM_UP, STEPS = 2, 5
FUSION_STEPS = 30
FUSIONS = ("unfused", "fused")
AMOUNTS = {"few tokens": SMALL, "some tokens": MEDIUM, "many tokens": LARGE}
"""Spelled, as a report folds numbered names."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one model, or one side of the fusion, and prints its times."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=[*SIZES, *FUSIONS])
    parser.add_argument("--contexts", nargs="+", type=int, default=CONTEXTS)
    parser.add_argument("--device", default="cuda")
    given = parser.parse_args(arguments)
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    if given.model in FUSIONS:
        times = run_fusion(given.model, given.device)
    else:
        times = run_model(given.model, given.contexts, given.device)
    print(json.dumps(times))


def run_model(name: str, contexts: Sequence[int], device: str) -> dict[str, Any]:
    """Times of a model: {"parameters", "steps", "infer": {context: ms}, "train": {context: ms}}.

    A context without a time ran out of memory.
    """
    with torch.device(device):
        model = Transformer(SIZES[name], max(contexts))
    # Plain loops over parameters, as most training scripts have them, would only be slower.
    optimizer = torch.optim.AdamW(model.parameters(), fused=device == "cuda")
    found: dict[str, Any] = {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "steps": STEPS,
        "infer": {},
        "train": {},
    }
    for context in contexts:
        tokens = torch.randint(VOCABULARY, (BATCH, context + 1), device=device)

        def infer(tokens: torch.Tensor = tokens) -> None:
            with torch.no_grad(), nvtx.range("forward"):
                model(tokens[:, :-1])

        def train(tokens: torch.Tensor = tokens) -> None:
            optimizer.zero_grad(set_to_none=True)
            with nvtx.range("forward"):
                logits = model(tokens[:, :-1])
                loss = functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
            with nvtx.range("backward"):
                loss.backward()
            with nvtx.range("optimizer"):
                optimizer.step()

        for kind, step in (("infer", infer), ("train", train)):
            times_ms = _time_steps(f"context{context} {kind}", step, device, STEPS)
            if times_ms is not None:
                found[kind][str(context)] = times_ms
            optimizer.zero_grad(set_to_none=True)
            torch.cuda.empty_cache()
    return found


def run_fusion(variant: str, device: str) -> dict[str, Any]:
    """Times of RMSNorm -> Linear: {"steps", "times": {amount: ms}, "bytes": {amount: bytes}}."""
    found: dict[str, Any] = {"steps": FUSION_STEPS, "times": {}, "bytes": {}}
    for label, amount in AMOUNTS.items():
        with torch.device(device):
            x = torch.randn(amount.rows, WIDTH, dtype=torch.bfloat16)
            norm_weight = torch.ones(WIDTH, dtype=torch.bfloat16)
            weight = torch.randn(WIDTH, WIDTH, dtype=torch.bfloat16) / WIDTH**0.5
        weights = (fold_norm_weight(norm_weight, weight),) if variant == "fused" else (norm_weight, weight)
        step = partial(rms_norm_linear[variant], x, *weights)
        found["times"][label] = _time_steps(label, step, device, FUSION_STEPS)
        found["bytes"][label] = rms_norm_linear_bytes(amount.rows, WIDTH, WIDTH, x.element_size())
    return found


def _time_steps(label: str, step: Callable[[], object], device: str, steps: int) -> list[float] | None:
    """Python's clock around each step, in ms; None where the device's memory does not suffice."""
    times_ms = []
    try:
        for _ in range(WARM_UP):
            step()
        _synchronise(device)
        for _ in range(steps):
            begin = time.perf_counter()
            with nvtx.range(label):
                step()
                _synchronise(device)
            times_ms.append(1e3 * (time.perf_counter() - begin))
    except torch.cuda.OutOfMemoryError:
        return None
    print(f"{label}: {statistics.fmean(times_ms):.2f} ms", flush=True)
    return times_ms


def _synchronise(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
