"""Time candidates for the launch of the memory-bound kernels at 65536 rows, and name the fastest of each.

    python -m benchmarks.sweep                          # everything
    python -m benchmarks.sweep --only cross_entropy --rows 4096
    python -m benchmarks.sweep --dry-run                # where there is no GPU: are the candidates well-formed?

What the kernels use is set in `cross_entropy.plan`, `rms_norm_backward.plan` and the `FLAT` of each elementwise
kernel; it is marked by an asterisk. The share is of the copy bandwidth that the same process measures.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Iterator
from dataclasses import replace

import torch

from benchmarks.kernels_on_gpu import Stopwatch
from benchmarks.workload import EPS, Source
from kernels import bias_gelu, cross_entropy, rms_norm_backward, swiglu, swiglu_backward
from kernels._triton import Flat
from kernels.cross_entropy import Parts, Walk
from kernels.rms_norm_backward import Plan
from perf_tests.llama import MLP_WIDTH, VOCABULARY, WIDTH

Candidates = dict[str, Callable[[], object]]

# (programs of a multiprocessor, warps, stages)
ROW_WALKS = [(1, 32, 1), (1, 32, 2), (1, 32, 3), (1, 32, 4), (1, 16, 1), (1, 16, 3), (1, 16, 4), (1, 8, 3)]
PARTS = [Parts(8192, 16), Parts(8192, 32), Parts(4096, 8), Parts(4096, 16), Parts(2048, 8), Parts(16384, 32)]
# (programs of a multiprocessor, warps, stages)
WALKS = [(2, 8, 2), (2, 8, 3), (2, 8, 4), (1, 16, 4), (2, 16, 3), (2, 16, 4), (3, 8, 3), (2, 4, 4), (3, 4, 4)]
# (columns summed by a program, sums loaded at a time), with the walk of the default
SUMS = [(64, 32), (32, 64), (32, 32), (16, 128)]
FLATS = [Flat(block, warps) for block in (1024, 2048, 4096) for warps in (4, 8, 16) if block >= 128 * warps]


def sweep_cross_entropy(rows: int, source: Source) -> tuple[int, Candidates]:
    logits = source.normal(rows, VOCABULARY)
    targets = torch.randint(VOCABULARY, (rows,), device=source.device)
    losses = torch.empty(rows, dtype=torch.float32, device=source.device)
    sm_count = _count_multiprocessors(source.device)
    used = cross_entropy.plan(sm_count, rows, VOCABULARY, source.dtype.itemsize)
    walks = [Walk(min(rows, sm_count * programs), warps, stages) for programs, warps, stages in ROW_WALKS]
    # A program for each row: no multiprocessor loads ahead, another program may work meanwhile.
    walks += [Walk(rows, 32, 1), Walk(rows, 16, 1)]
    plans: list[Walk | Parts] = [*walks, *PARTS]
    candidates: Candidates = {
        _mark(_name(plan), plan == used): (functools.partial(cross_entropy._launch, logits, targets, losses, plan))
        for plan in plans
    }
    return cross_entropy.cross_entropy_bytes(rows, VOCABULARY, source.dtype.itemsize), candidates


def sweep_rms_norm_backward(rows: int, source: Source) -> tuple[int, Candidates]:
    gradient, x, weight = source.normal(rows, WIDTH), source.normal(rows, WIDTH), source.gain(WIDTH)
    outs = (torch.empty_like(x), torch.empty_like(weight))
    used = rms_norm_backward.plan(_count_multiprocessors(source.device), rows, WIDTH)
    plans = [Plan(used.programs // 2 * programs, warps, stages) for programs, warps, stages in WALKS]
    plans += [replace(used, summed_columns=columns, summed_parts=parts) for columns, parts in SUMS]
    candidates: Candidates = {
        _mark(
            f"{plan.programs} programs, {plan.num_warps} warps, {plan.stages} stages; "
            f"sums {plan.summed_columns} x {plan.summed_parts}",
            plan == used,
        ): functools.partial(rms_norm_backward._launch, gradient, x, weight, EPS, outs, plan)
        for plan in plans
    }
    return rms_norm_backward.rms_norm_backward_bytes(rows, WIDTH, source.dtype.itemsize), candidates


def sweep_swiglu(rows: int, source: Source) -> tuple[int, Candidates]:
    gate, up = (source.normal(rows, MLP_WIDTH) for _ in range(2))
    launch = functools.partial(swiglu._launch, gate, up, torch.empty_like(gate))
    return swiglu.swiglu_bytes(rows, MLP_WIDTH, source.dtype.itemsize), _cut_flat(launch, swiglu.FLAT)


def sweep_swiglu_backward(rows: int, source: Source) -> tuple[int, Candidates]:
    gradient, gate, up = (source.normal(rows, MLP_WIDTH) for _ in range(3))
    outs = (torch.empty_like(gate), torch.empty_like(up))
    launch = functools.partial(swiglu_backward._launch, gradient, gate, up, outs)
    bytes_moved = swiglu_backward.swiglu_backward_bytes(rows, MLP_WIDTH, source.dtype.itemsize)
    return bytes_moved, _cut_flat(launch, swiglu_backward.FLAT)


def sweep_bias_gelu(rows: int, source: Source) -> tuple[int, Candidates]:
    x, bias = source.normal(rows, MLP_WIDTH), source.normal(MLP_WIDTH)
    launch = functools.partial(bias_gelu._launch, x, bias, torch.empty_like(x))
    return bias_gelu.bias_gelu_bytes(rows, MLP_WIDTH, source.dtype.itemsize), _cut_flat(launch, bias_gelu.FLAT)


def _cut_flat(launch: Callable[[Flat], object], used: Flat) -> Candidates:
    return {
        _mark(f"programs of {flat.block} elements, {flat.num_warps} warps", flat == used): functools.partial(
            launch, flat
        )
        for flat in FLATS
    }


SWEEPS = {
    "cross_entropy": sweep_cross_entropy,
    "rms_norm_backward": sweep_rms_norm_backward,
    "swiglu": sweep_swiglu,
    "swiglu_backward": sweep_swiglu_backward,
    "bias_gelu": sweep_bias_gelu,
}


def _name(plan: Walk | Parts) -> str:
    if isinstance(plan, Walk):
        return f"{plan.programs} programs hold rows, {plan.num_warps} warps, {plan.stages} stages"
    return f"parts of {plan.width}, {plan.num_warps} warps"


def _mark(name: str, is_used: bool) -> str:  # noqa: FBT001
    return f"{name} *" if is_used else name


def _count_multiprocessors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 2


def time_all(name: str, rows: int, source: Source, watch: Stopwatch, copy_gb_per_s: float) -> Iterator[str]:
    """The lines of one kernel's table, in the order of the candidates, then the fastest."""
    bytes_moved, candidates = SWEEPS[name](rows, source)
    times_us: dict[str, float] = {}
    for candidate, call in candidates.items():
        try:
            times_us[candidate] = watch.median_us(call)
        except Exception as failure:
            yield f"{name:18} {candidate:58} FAILED {type(failure).__name__}: {str(failure).strip()[-120:]}"
            continue
        gb_per_s = bytes_moved / times_us[candidate] / 1e3
        share = gb_per_s / copy_gb_per_s
        yield f"{name:18} {candidate:58} {times_us[candidate]:9.1f} us {gb_per_s:7.0f} GB/s {share:7.1%}"
    if times_us:
        yield f"{name:18} fastest: {min(times_us, key=times_us.__getitem__)}"


def measure_copy_gb_per_s(source: Source, watch: Stopwatch) -> float:
    x = source.normal(65536, WIDTH)
    out = torch.empty_like(x)
    bytes_moved: int = 2 * x.numel() * x.element_size()
    return bytes_moved / watch.median_us(lambda: out.copy_(x)) / 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="kernels, separated by commas: " + ", ".join(SWEEPS))
    parser.add_argument("--rows", type=int, default=65536)
    parser.add_argument("--rounds", type=int, default=15, help="timed calls of a candidate")
    parser.add_argument("--dry-run", action="store_true", help="make the candidates of 8 rows, time none")
    arguments = parser.parse_args()
    names = arguments.only.split(",") if arguments.only else list(SWEEPS)
    if arguments.dry_run:
        source = Source(torch.device("cpu"), torch.bfloat16)
        for name in names:
            print(name, *SWEEPS[name](8, source)[1], sep="\n  ")
        return
    if not torch.cuda.is_available():
        parser.error("no CUDA device here; --dry-run shows the candidates")
    source = Source(torch.device("cuda"), torch.bfloat16)
    watch = Stopwatch(source.device, arguments.rounds)
    copy_gb_per_s = measure_copy_gb_per_s(source, watch)
    print(f"copy {copy_gb_per_s:.0f} GB/s on {torch.cuda.get_device_name()}, torch {torch.__version__}")
    for name in names:
        for line in time_all(name, arguments.rows, source, watch, copy_gb_per_s):
            print(line, flush=True)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
