"""What reports say of verdicts: their order, the cells of a row, their sentences and details.

Foreign text leaves this module without signs that have no glyph; each report adds the escapes of its own form.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_nsight.model.gpu_samples import MetricMeans
from pytest_nsight.model.shapes import Shape
from pytest_nsight.model.units import count, duration, durations, interval, percent, shorten
from pytest_nsight.model.values import Subject
from pytest_nsight.model.verdicts import SessionResult, Verdict, VerdictKind
from pytest_nsight.report.escapes import visible

MDE_LEGEND = "MDE (minimum detectable effect): the smallest slowdown that the comparison would have found"

# Names of C++ kernels fill a screen when every template argument is spelled out.
_LONGEST_NAME = 100
_WORST_FIRST = {kind: place for place, kind in enumerate(VerdictKind)}


@dataclass(frozen=True, slots=True)
class Cells:
    """One row of the table, as text; "" where there is nothing to say.

    Attributes:
        case: label of the subject.
        baseline: the gated duration in the baseline.
        now: the gated duration in this session.
        pair: both in one unit.
        change: relative change.
        interval: its 90 % confidence interval.
        half_width: half the width of that interval.
        mde: smallest slowdown that the comparison would have found; only where it was inconclusive.
        verdict: name of the verdict.
    """

    case: str
    baseline: str
    now: str
    pair: str
    change: str
    interval: str
    half_width: str
    mde: str
    verdict: str


def worst_first(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Ordered by kind, the worst first, then by the size of the change, then as they were collected."""
    return sorted(verdicts, key=lambda verdict: (_WORST_FIRST[verdict.kind], -_change_size(verdict)))


def fails(verdict: Verdict, *, strict: bool) -> bool:
    """Whether the verdict fails its test in such a session."""
    return verdict.kind.fails_in(strict=strict)


def labels(subjects: Iterable[Subject]) -> dict[Subject, str]:
    """The name of each subject in a table: its label, behind its file where two files have tests of one name."""
    distinct = dict.fromkeys(subjects)
    times = Counter(subject.label for subject in distinct)
    return {
        subject: visible(subject.label if times[subject.label] == 1 else f"{_file(subject)}::{subject.label}")
        for subject in distinct
    }


def cells(verdict: Verdict, label: str) -> Cells:
    """The verdict's row of the table, under the label that the subject has there."""
    now = "" if verdict.now_ns is None else duration(verdict.now_ns)
    compared = verdict.comparison
    if compared is None:
        if not verdict.before_ns or verdict.now_ns is None:
            return Cells(label, "", now, now, "", "", "", "", verdict.kind.value)
        change = percent(verdict.now_ns / verdict.before_ns - 1)
        pair = _pair(verdict.before_ns, verdict.now_ns)
        return Cells(label, duration(verdict.before_ns), now, pair, change, "", "", "", verdict.kind.value)
    is_open = verdict.kind is VerdictKind.INCONCLUSIVE
    return Cells(
        case=label,
        baseline=duration(compared.baseline_ns),
        now=duration(compared.now_ns),
        pair=_pair(compared.baseline_ns, compared.now_ns),
        change=percent(compared.ratio - 1, error=compared.half_width),
        interval=interval(compared.low - 1, compared.high - 1),
        half_width=percent(compared.half_width, signed=False, error=compared.half_width),
        mde=percent(compared.mde, signed=False) if is_open else "",
        verdict=verdict.kind.value,
    )


def sentence(verdict: Verdict) -> str:
    """The verdict's sentence, with the subject's name in front of it, for a place that lists the changes below."""
    label, text = visible(verdict.subject.label), _without_listing(visible(verdict.sentence), verdict)
    return text if label in text else f"{label}: {text}"


def reason(verdict: Verdict) -> str:
    """The verdict's sentence without the subject's name, for a place that has named it."""
    return visible(verdict.sentence).removeprefix(f"{visible(verdict.subject.label)}: ")


def reason_above_details(verdict: Verdict) -> str:
    """The reason for a place that lists the changes below it."""
    return _without_listing(reason(verdict), verdict)


def arrows(text: str) -> str:
    """The text with a true arrow between two numbers; those of a kernel's name stay."""
    return re.sub(r"(?<=[\w%]) -> (?=\d)", " \N{RIGHTWARDS ARROW} ", text)


def headline(verdict: Verdict) -> str:
    """What stands beside verdict and test's name: "+7.0 %, 24.4 -> 26.1 us"; for all but regressions the reason.

    pytest cuts it to the terminal's width, but not in CI: the launches are left to the failure above it.
    """
    compared = verdict.comparison
    if compared is None or verdict.kind is not VerdictKind.REGRESSION:
        return reason_above_details(verdict)
    times = durations(compared.baseline_ns, compared.now_ns)
    part = f"{visible(verdict.subject.part)} " if verdict.subject.part else ""
    return f"{part}{percent(compared.ratio - 1)}, {times}"


def detail_lines(verdict: Verdict) -> list[str]:
    """What changed, below the sentence: the launches that came or went, else the kernels that got slower.

    Lines of a part say so: a case and its part often fail alike, and then their lines may stand together.
    """
    lines = [f"{change.before} -> {change.now}  {shape_text(change.shape)}" for change in verdict.changes]
    compared = verdict.comparison
    if compared is not None and len(compared.slower_kernels) > 1 and not verdict.changes:
        lines += [
            f"{durations(kernel.baseline_ns, kernel.now_ns)}  {_kernel_name(kernel.name)}"
            for kernel in compared.slower_kernels
        ]
    where = f"in {visible(verdict.subject.part)}: " if verdict.subject.part else ""
    return [f"{where}{line}" for line in lines]


def shape_text(shape: Shape) -> str:
    """A way of launching in words: "_rms_norm_fused, grid 4096, block 256, 32 registers"."""
    name = _kernel_name(shape.name)
    parts = [name if shape.kind == "kernel" else f"{shape.kind} {name}".rstrip()]
    parts += [f"{name} {_extent(extent)}" for name, extent in _extents(shape) if any(extent)]
    if shape.registers:
        parts.append(count(shape.registers, "register"))
    if shape.shared_bytes:
        parts.append(f"{count(shape.shared_bytes, 'byte')} shared")
    return ", ".join(parts)


def gated_metric(verdict: Verdict) -> str:
    """The name of the duration that the verdict is about."""
    return verdict.comparison.metric if verdict.comparison else verdict.metric


def affected_by(verdict: Verdict, result: SessionResult) -> str:
    """Why --nsight-affected has chosen the case, "" where it has not been asked."""
    return visible(result.affected.causes.get(verdict.subject.case, "")) if result.affected else ""


def shown_ns(verdict: Verdict) -> float | None:
    """The duration in ns that stands for the case in every table: the compared one, else the typical one."""
    return verdict.comparison.now_ns if verdict.comparison else verdict.now_ns


def _without_listing(text: str, verdict: Verdict) -> str:
    return text.replace(visible(verdict.listing), "", 1) if verdict.listing else text


def _file(subject: Subject) -> str:
    return subject.case.split("::", maxsplit=1)[0]


def _kernel_name(name: str) -> str:
    return shorten(visible(name), _LONGEST_NAME, "...")


def _change_size(verdict: Verdict) -> float:
    return abs(verdict.comparison.ratio - 1) if verdict.comparison else 0.0


def _pair(baseline_ns: float, now_ns: float) -> str:
    # In a table the change stands beside it, and says more than a fourth digit would.
    (before, unit), (now, now_unit) = (duration(ns).split(" ") for ns in (baseline_ns, now_ns))
    return f"{before} -> {now} {unit}" if unit == now_unit else durations(baseline_ns, now_ns)


def _extents(shape: Shape) -> tuple[tuple[str, tuple[int, int, int]], ...]:
    return ("grid", shape.grid), ("block", shape.block)


def _extent(extent: tuple[int, int, int]) -> str:
    x, y, z = extent
    return f"{x}x{y}x{z}" if z != 1 else f"{x}x{y}" if y != 1 else str(x)


def describe_metrics(means: MetricMeans) -> str:
    """Sampled counters of a case as one clause, or why there are none."""
    if not means.is_known:
        return means.refusal
    shares = (
        ("SM active", means.sm_active),
        ("tensor active", means.tensor_active),
        ("DRAM read", means.dram_read),
        ("DRAM write", means.dram_write),
    )
    parts = [f"{name} {percent(ratio, signed=False)}" for name, ratio in shares if ratio is not None]
    clock = [f"SM clock {means.clock_mhz:.0f} MHz"] if means.clock_mhz is not None else []
    return f"{', '.join([*parts, *clock])} ({means.samples} samples)"
