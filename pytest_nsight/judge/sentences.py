"""One sentence for each verdict: what happened, with the values, and what to do."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pytest_nsight.judge.contrast import Contrast
from pytest_nsight.judge.location import Location
from pytest_nsight.judge.looks import may_settle, runs_to_settle
from pytest_nsight.judge.prepared import PreparedSubject
from pytest_nsight.judge.structure_sentences import variation
from pytest_nsight.judge.subject_runs import MINIMUM_NEW_RUNS, SAVED_AT_ONCE
from pytest_nsight.judge.thresholds import MARGIN_FACTOR, equality_margin
from pytest_nsight.judge.wording import unless_paired, write_change, write_choice, write_other_metric, write_times
from pytest_nsight.model.comparison import Comparison
from pytest_nsight.model.units import count, interval_of_logs, p_value, percent, percent_of_log
from pytest_nsight.model.values import is_gpu


def _change_with_interval(comparison: Comparison) -> str:
    low, high = (math.log(max(end, 1e-300)) for end in (comparison.low, comparison.high))
    change = percent(comparison.ratio - 1, error=comparison.half_width)
    return f"{change}, 90 % CI {interval_of_logs(low, high)}"


def _runs(comparison: Comparison) -> str:
    return f"{comparison.baseline_runs}+{comparison.new_runs} runs"


def _band(comparison: Comparison, contrast: Contrast) -> str:
    material = contrast.material
    if comparison.band >= 0 and material > math.log1p(comparison.band):
        cause = "the timer's resolution" if is_gpu(contrast.new[0].board) else "runs on a CPU"
        return f"band {percent(math.expm1(material), signed=False)} for {cause}"
    return f"band {percent(comparison.band, signed=False)}"


def regression(comparison: Comparison, contrast: Contrast) -> str:
    """Slower: by how much, beyond what band, on how many runs, how surely, and which kernels."""
    names = list(dict.fromkeys(kernel.name for kernel in comparison.slower_kernels))
    kernels = f"; slower {'kernel' if len(names) == 1 else 'kernels'}: {', '.join(names[:3])}" if names else ""
    return (
        f"{write_times(comparison)} ({write_change(comparison)}, {_band(comparison, contrast)}, "
        f"{_runs(comparison)}, {p_value(comparison.adjusted_p_slower)}){kernels}"
    )


def improvement(comparison: Comparison, contrast: Contrast) -> str:
    """Faster: the same facts as for slower, and how to save it."""
    return (
        f"{write_times(comparison)} ({write_change(comparison)}, {_band(comparison, contrast)}, "
        f"{_runs(comparison)}, {p_value(comparison.adjusted_p_faster)})"
        f"{unless_paired(comparison, '; keep it with --nsight-save')}"
    )


def unchanged(comparison: Comparison, contrast: Contrast) -> str:
    """Equal within the margin."""
    return (
        f"{write_times(comparison)} ({_change_with_interval(comparison)}, {_runs(comparison)}), "
        f"equal within {percent(math.expm1(equality_margin(contrast.material)), signed=False)}"
    )


def insufficient(comparison: Comparison) -> str:
    """Too few stored runs to judge."""
    if comparison.against:
        return (
            f"{write_times(comparison)} ({write_change(comparison)} vs {count(comparison.baseline_runs, 'run')}), "
            "too few to judge; where runs are missing, the session's notes say why"
        )
    return (
        f"{write_times(comparison)} ({write_change(comparison)} vs {count(comparison.baseline_runs, 'run')}); "
        f"save {SAVED_AT_ONCE} with --nsight-save to judge it"
    )


def inconclusive(comparison: Comparison, contrast: Contrast) -> str:
    """Neither slower nor equal: what this gate can find, and what would settle it."""
    material = contrast.material
    few = count(contrast.new_runs, "new run")
    margin = (
        percent(math.expm1(equality_margin(material)), signed=False) if math.isfinite(material) else "any margin"
    )
    found = (
        f"beyond {_band(comparison, contrast)}, for which {few} cannot be enough"
        if contrast.difference > material and contrast.new_runs < MINIMUM_NEW_RUNS
        else f"shown neither outside {_band(comparison, contrast)} nor equal within {margin}; slowdowns from "
        f"{percent_of_log(math.log1p(comparison.mde))} are found"
    )
    change = f"{write_times(comparison)} ({_change_with_interval(comparison)}, {_runs(comparison)})"
    return f"{change}, {found}; {_remedy(contrast)}"


def _remedy(contrast: Contrast) -> str:
    if not math.isfinite(contrast.material):
        return "give a band of at least 0 %"
    if contrast.difference > contrast.material and contrast.new_runs < MINIMUM_NEW_RUNS:
        return f"confirm it with {MINIMUM_NEW_RUNS} new runs (--nsight-runs {MINIMUM_NEW_RUNS})"
    stored = None if contrast.is_paired else runs_to_settle(contrast)
    if stored is not None:
        missing = max(stored - contrast.baseline_runs, SAVED_AT_ONCE)
        return f"save {count(missing, 'more run')} with --nsight-save to settle it"
    if contrast.new_runs < MINIMUM_NEW_RUNS and may_settle(contrast):
        return f"{MINIMUM_NEW_RUNS} new runs may settle it (--nsight-runs {MINIMUM_NEW_RUNS})"
    low, high = contrast.interval
    needed = math.expm1(max(-low, high)) / MARGIN_FACTOR
    return f"more runs do not settle it: a band of {percent(math.ceil(needed * 1000) / 1000, signed=False)} does"


def unmeasured(why: str, other: str = "") -> str:
    """Nothing to judge; `other` is a metric that can be judged instead, "" if none is known."""
    remedy = write_other_metric(other) or "gate it by another metric"
    return f"not measured: {why}; {remedy}, or read the test's output"


def no_baseline(absent: str, against: str) -> str:
    """Nothing to compare with, and why, if that is known."""
    if against:
        return f"{absent}; nothing to compare with"
    if absent:
        return f"no baseline: {absent}"
    return f"no baseline of this test for this machine's model; save {SAVED_AT_ONCE} runs with --nsight-save"


def incomparable(why: str, against: str) -> str:
    """Stored runs of another environment, or a revision that measures differently."""
    if against:
        return f"not compared: {why}; measure both trees alike"
    return f"not compared with its baseline: {why}; save a new baseline with --nsight-save"


def environment(why: str, comparison: Comparison) -> str:
    """A time that the machine, not the code, may have changed."""
    return f"{change_of_time(comparison)} cannot be judged: {why}"


def change_of_time(comparison: Comparison) -> str:
    """The times and their change alone, without a judgement."""
    return f"{write_times(comparison)} ({write_change(comparison)}, {_runs(comparison)})"


def repeated(comparison: Comparison) -> str:
    """Runs with exactly equal rounds."""
    return (
        f"{write_times(comparison)}, but all stored runs, or all new ones, hold the very same rounds, which no "
        "measurement gives: choose another metric, or look at how the runs were recorded"
    )


def all_set_aside(locations: Sequence[Location], where: str) -> str:
    """No run has one level."""
    if all(location.drift for location in locations):
        worst = max((location.drift for location in locations), key=abs)
        why = f"the time drifts within every run {where}, by {percent_of_log(worst)} from first to last round"
    else:
        why = f"the clock changed within every run {where}"
    return f"{why}; warm up longer (@pytest.mark.nsight(warmup=...)), or run again on a free and cool device"


def notes(subject: PreparedSubject) -> str:
    """Notes of a verdict on time: changed resources and launches, runs set aside, modes."""
    finding = subject.structure
    texts = list(finding.resources[:3])
    if retuned := finding.retuned or finding.also_retuned:
        texts.append(write_choice(retuned))
    if finding.is_varying:
        texts.append(variation(finding))
    aside = len(subject.new_aside) + len(subject.stored_aside) - subject.disturbed_aside
    if aside:
        texts.append(f"{count(aside, 'run')} set aside, drifting or on a changing clock")
    if subject.disturbed_aside:
        texts.append(f"{count(subject.disturbed_aside, 'run')} set aside, as other programs had the CPU")
    compared = (*subject.compared, *subject.new)
    modes = [location.modes for location in compared if location.modes is not None]
    if modes:
        widest = max(modes, key=lambda mode: mode.gap)
        texts.append(
            f"rounds fall into two modes {percent(math.expm1(widest.gap), signed=False)} apart in "
            f"{len(modes)} of {count(len(compared), 'run')}"
        )
    return "".join(f"; {text}" for text in texts)


def claim_failed(phrases: Sequence[str]) -> str:
    """Claims that do not hold."""
    return f"claim failed: {'; '.join(phrases)}"


def claim_open(phrases: Sequence[str]) -> str:
    """Claims that the runs do not settle."""
    return f"claim not settled: {'; '.join(phrases)}"


def claims_unchecked(reasons: Sequence[str]) -> str:
    """Claims that could not be checked, because no GPU was measured."""
    return f"its claims were not checked: {'; '.join(reasons)}"
