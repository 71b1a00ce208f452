"""The direct experiment: one tiny kernel in one process, one factor changed at a time, timed by torch.profiler.

    python -m benchmarks.context.direct [--rounds 30] [--seed 1]

Prints one JSON line per setting, and one per factor: how far its levels differ, and by how much they would differ
by chance. A round is: flush of the cache, synchronise, what the setting does before, synchronise, the measured
kernel, synchronise, a marker by which the measured kernel is found among all.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.context import settings
from benchmarks.context.settings import Setting

MARKER = "bitwise_not"
_WARMUP = 3


@dataclass(frozen=True, slots=True)
class Activity:
    """What the profiler recorded: a name, and a duration in ns."""

    name: str
    duration_ns: int


class LostRecordsError(RuntimeError):
    """The profiler lost records, so that rounds cannot be told apart."""


def measure(chosen: Sequence[Setting], rounds: int, seed: int, device: str) -> list[list[int]]:
    """Measures all settings in rounds of random order.

    Returns:
        For each setting its rounds, in ns, in the order they ran.

    Raises:
        LostRecordsError: there are fewer markers in the record than rounds.
    """
    order = [index for index in range(len(chosen)) for _ in range(rounds)]
    random.Random(seed).shuffle(order)
    order = [index % len(chosen) for index in range(_WARMUP * len(chosen))] + order
    activities = _record(chosen, order, device)
    measured = last_before_markers(activities)
    # A profiler loses records at its start, if at all, and those are warm-up.
    if len(measured) < len(order) - _WARMUP * len(chosen):
        raise LostRecordsError(f"{len(measured)} of {len(order)} rounds are in the record")
    found: list[list[int]] = [[] for _ in chosen]
    kept = rounds * len(chosen)
    for index, activity in zip(order[-kept:], measured[-kept:], strict=True):
        found[index].append(activity.duration_ns)
    return found


def last_before_markers(activities: Iterable[Activity]) -> list[Activity]:
    """The activity right before each marker; `activities` in the order of their start."""
    found: list[Activity] = []
    last: Activity | None = None
    for activity in activities:
        if MARKER in activity.name:
            if last is not None:
                found.append(last)
            last = None
        else:
            last = activity
    return found


def _record(chosen: Sequence[Setting], order: Sequence[int], device: str) -> list[Activity]:
    on_gpu = device == "cuda"
    wait = torch.cuda.synchronize if on_gpu else lambda: None
    spill_bytes = 2 * torch.cuda.get_device_properties(0).L2_cache_size if on_gpu else 1 << 16
    spill = torch.empty(spill_bytes, dtype=torch.uint8, device=device)
    marker = torch.zeros(1, dtype=torch.int32, device=device)
    kind = torch.profiler.ProfilerActivity.CUDA if on_gpu else torch.profiler.ProfilerActivity.CPU
    wait()
    with torch.profiler.profile(activities=[kind]) as profile:
        for index in order:
            spill.zero_()
            wait()
            chosen[index].before()
            wait()
            chosen[index].measured()
            wait()
            marker.bitwise_not_()
            wait()
    return _activities(profile, on_gpu=on_gpu)


def _activities(profile: Any, *, on_gpu: bool) -> list[Activity]:
    wanted = torch.autograd.DeviceType.CUDA if on_gpu else torch.autograd.DeviceType.CPU
    events = [event for event in profile.profiler.kineto_results.events() if event.device_type() == wanted]
    events = [event for event in events if on_gpu or event.name().startswith("aten::")]
    events.sort(key=lambda event: event.start_ns())
    return [Activity(event.name(), event.duration_ns()) for event in events]


def summarize(chosen: Sequence[Setting], measured: Sequence[Sequence[int]]) -> list[dict[str, Any]]:
    """One line per setting: mean of the middle half with its error, and the quantiles, in ns."""
    lines = []
    for setting, rounds in zip(chosen, measured, strict=True):
        middle = middle_half(rounds)
        lines.append(
            {
                "finding": "setting",
                "factor": setting.factor,
                "level": setting.level,
                "mean_ns": round(statistics.fmean(middle), 1),
                "error_ns": round(error_of_mean(rounds), 1),
                "p10_p50_p90_ns": [round(q) for q in statistics.quantiles(rounds, n=10)[::4]],
                "rounds": len(rounds),
            }
        )
    return lines


def summarize_factor(lines: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """How far the levels of one factor differ: SD between levels against the error of a level, in ns."""
    means = [line["mean_ns"] for line in lines]
    between = statistics.stdev(means) if len(means) > 1 else 0.0
    error = math.sqrt(statistics.fmean(line["error_ns"] ** 2 for line in lines))
    return {
        "finding": "factor",
        "factor": lines[0]["factor"],
        "levels": len(lines),
        "lowest_ns": min(means),
        "highest_ns": max(means),
        "sd_between_levels_ns": round(between, 1),
        "expected_by_chance_ns": round(error, 1),
    }


def middle_half(values: Sequence[int]) -> list[int]:
    """The values without the lowest and the highest quarter."""
    cut = len(values) // 4
    return sorted(values)[cut : len(values) - cut]


def error_of_mean(values: Sequence[int]) -> float:
    """Standard error of the mean of the middle half, by its winsorised variance (Tukey and McLaughlin 1963)."""
    cut, ordered = len(values) // 4, sorted(values)
    kept = ordered[cut : len(ordered) - cut]
    winsorised = [kept[0]] * cut + kept + [kept[-1]] * cut
    return statistics.stdev(winsorised) * math.sqrt(len(values)) / len(kept)


def gather_settings(device: str, seed: int) -> list[Setting]:
    """All settings, which are then measured in mixed order; the two repeats show what chance does."""
    found = list(settings.repeated(device, "among the others, 1"))
    found += settings.placements(device, seed)
    if device == "cuda":
        # It needs the driver.
        from benchmarks.context.code_copies import code_copies  # noqa: PLC0415

        found += code_copies(seed)
    found += settings.fresh_allocations(device)
    found += settings.predecessors(device)
    return found + list(settings.repeated(device, "among the others, 2"))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    moment = list(settings.repeated(device, "before everything"))
    first = summarize(moment, measure(moment, options.rounds, options.seed, device))
    chosen = gather_settings(device, options.seed)
    lines = first + summarize(chosen, measure(chosen, options.rounds, options.seed, device))
    last = list(settings.repeated(device, "after everything"))
    lines += summarize(last, measure(last, options.rounds, options.seed, device))
    for line in lines:
        print(json.dumps(line), flush=True)
    for factor in dict.fromkeys(line["factor"] for line in lines):
        print(json.dumps(summarize_factor([line for line in lines if line["factor"] == factor])), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
