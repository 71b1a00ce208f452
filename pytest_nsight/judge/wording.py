"""How times, kernel names and differences in structure are written in sentences."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from pytest_nsight.judge.tuning import RetunedKernel
from pytest_nsight.model.comparison import Comparison
from pytest_nsight.model.identity import CHOOSERS, CUDNN, INDUCTOR, XLA
from pytest_nsight.model.shapes import Shape, ShapeSpread
from pytest_nsight.model.units import count, durations, name_some, percent_of_log
from pytest_nsight.model.verdicts import ShapeChange

_MOST_NAMES = 8


def write_times(comparison: Comparison) -> str:
    """The compared times: "kernel time 24.4 -> 26.1 us"."""
    against = f" against {comparison.against}" if comparison.against else ""
    return f"{comparison.metric} time{against} {durations(comparison.baseline_ns, comparison.now_ns)}"


def unless_paired(comparison: Comparison | None, remedy: str) -> str:
    """The remedy, "" in a comparison of two trees, which has no stored baseline.

    Args:
        comparison: None where no times were compared.
        remedy: that a stored baseline allows.
    """
    return "" if comparison is not None and comparison.against else remedy


def write_change(comparison: Comparison) -> str:
    """The relative change."""
    return percent_of_log(math.log(comparison.ratio)) if comparison.ratio > 0 else "-100 %"


def write_names(names: Iterable[str]) -> str:
    """Names in order, repeats as "mul (x2)", at most 8 of them."""
    return write_counts(Counter(names))


def write_counts(times: Mapping[str, int]) -> str:
    """Names with their counts, in the form of `write_names`."""
    texts = [name if number == 1 else f"{name} (x{number})" for name, number in times.items()]
    return name_some(texts, _MOST_NAMES)


def write_diff(changes: Sequence[ShapeChange]) -> str:
    """Launches lost and gained: "- 1 launch: rms_norm   + 1 copy: memcpy DtoH"."""
    parts = []
    for sign, direction in (("-", 1), ("+", -1)):
        names: dict[str, Counter[str]] = {}
        for change in changes:
            missing = max(0, direction * (change.before - change.now))
            if missing:
                names.setdefault(_noun(change.shape), Counter())[change.shape.name] += missing
        parts += [f"{sign} {count(times.total(), noun)}: {write_counts(times)}" for noun, times in names.items()]
    return "   ".join(parts)


def _noun(shape: Shape) -> str:
    return {"memcpy": "copy", "memset": "memory set"}.get(shape.kind, "launch")


def write_other_metric(other: str) -> str:
    """How to gate another metric, "" if none is known that would do."""
    return f'gate it by its {other} time (metric="{other}" in its mark)' if other else ""


def write_spreads(spreads: Sequence[ShapeSpread]) -> str:
    """Kernels that some rounds or runs launch more often than others: "add 1 to 2, mm in 2 launch shapes"."""
    by_name: dict[str, list[ShapeSpread]] = {}
    for spread in spreads:
        by_name.setdefault(spread.shape.name, []).append(spread)
    return write_names(
        f"{name} {own[0].least} to {own[0].most}" if len(own) == 1 else f"{name} in {len(own)} launch shapes"
        for name, own in by_name.items()
    )


def write_shapes(changes: Sequence[ShapeChange]) -> str:
    """A difference in launch shapes alone, before and after: "mm grid 8x1x1 block 64x1x1 -> ..."."""
    before = [_write_shape(change.shape) for change in changes if change.before > change.now]
    now = [_write_shape(change.shape) for change in changes if change.now > change.before]
    return f"{write_names(before)} -> {write_names(now)}"


def _write_shape(shape: Shape) -> str:
    grid, block = ("x".join(map(str, size)) for size in (shape.grid, shape.block))
    return f"{shape.name} grid {grid} block {block}"


_TUNERS_CACHES = ("TRITON_CACHE_AUTOTUNING=1 with TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")
_CACHES = {
    CUDNN: (),
    INDUCTOR: _TUNERS_CACHES[1:],
    XLA: ("JAX_COMPILATION_CACHE_DIR with JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0",),
}


def write_remedy(retuned: Sequence[RetunedKernel]) -> str:
    """Why the time is no evidence after these choices, and how to keep them."""
    caches = dict.fromkeys(cache for one in retuned for cache in _CACHES.get(one.name, _TUNERS_CACHES))
    has_kernels = any(one.name not in CHOOSERS for one in retuned)
    return (
        "so the time does not show whether the code is slower: keep its choices from session to session "
        f"({', '.join(caches)}, at the same paths){', or give the kernel one configuration' if has_kernels else ''}"
    )


def write_choice(retuned: Sequence[RetunedKernel]) -> str:
    """What an autotuner chose: "... chose another configuration for ... (mm BLOCK: 64 -> BLOCK: 128)"."""
    texts = []
    kernels = [one for one in retuned if one.name not in CHOOSERS]
    if kernels:
        chosen = write_names(f"{one.name} {_write_change(one, 'of several sizes')}" for one in kernels)
        texts.append(f"an autotuner chose another configuration for the same source and arguments ({chosen})")
    texts += [_write_library(one) for one in retuned if one.name in CHOOSERS]
    return ", and ".join(texts)


def _write_library(chosen: RetunedKernel) -> str:
    if chosen.name == CUDNN:
        # Their names are long, and there are many of them.
        gone, more = count(len(chosen.before), "kernel"), len(chosen.now)
        differ = chosen.before or chosen.now
        what = f"{gone} gone, {more} new" if differ else "the same kernels, in other numbers or shapes"
        return (
            f"cuDNN, which chooses by time, launched other kernels for convolutions ({what}; "
            "torch.backends.cudnn.benchmark = False keeps it from doing so)"
        )
    work = "graph and inputs" if chosen.name == INDUCTOR else "program"
    what = _write_change(chosen, "of the same names")
    return f"{chosen.name}, which chooses by time, made other kernels of the same {work} ({what})"


def _write_change(chosen: RetunedKernel, otherwise: str) -> str:
    before, now = write_names(chosen.before), write_names(chosen.now)
    if before and now:
        return f"{before} -> {now}"
    return f"also {now}" if now else f"no longer {before}" if before else otherwise
