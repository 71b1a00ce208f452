"""What `pytest-nsight bisect` found, as text for a terminal and as JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_nsight.model.bisection import Bisection, Commit, Judgement
from pytest_nsight.model.comparison import Comparison
from pytest_nsight.model.units import count, duration, durations, interval, percent
from pytest_nsight.protocol.json_files import write_json
from pytest_nsight.report.escapes import visible

FORMAT = 1

_NARROWEST = 60
_COMMAND = "  pytest-nsight "
_DAY = len("2026-01-31")


@dataclass(frozen=True, slots=True)
class BisectionFile:
    """The JSON object.

    Attributes:
        format: version of it.
        first_bad: hash of the commit that did it, "" where several may have.
        bisection: the answer.
    """

    format: int
    first_bad: str
    bisection: Bisection


def render_text(found: Bisection, width: int) -> str:
    """The answer, and what became of each commit that was measured.

    Args:
        found: the answer.
        width: the most characters that a line may have.
    """
    width = max(width, _NARROWEST)
    sentences = (visible(line) for sentence in found.sentences for line in sentence.splitlines())
    lines = [*_describe_answer(found), "", *_describe_change(found), *sentences]
    skipped = [one for one in found.measured if one.judgement is Judgement.SKIPPED]
    lines += [f"skipped {one.commit.short}: {_first_line(one.why)}" for one in skipped]
    measured = count(len(found.measured) - len(skipped), "commit")
    others = f", {len(skipped)} skipped" if skipped else ""
    lines.append(f"{measured} of {found.commits + 1} measured{others}, by {found.criterion.value}")
    return "\n".join(part for line in lines for part in _wrap(line, width))


def _describe_answer(found: Bisection) -> Sequence[str]:
    case = visible(found.case)
    if found.first_bad is not None:
        return [f"{case}: the first bad commit is", f"  {_write_commit(found.first_bad)}"]
    commits = [f"  {_write_commit(commit)}" for commit in found.candidates]
    return [f"{case}: the first bad commit is one of these {len(commits)}", *commits]


def _write_commit(commit: Commit) -> str:
    return f"{commit.short} {commit.date[:_DAY]} {visible(commit.subject)}"


def _describe_change(found: Bisection) -> Sequence[str]:
    good, bad = found.last_good.short, found.candidates[-1].short
    if found.changes:
        lines = [f"launches of a round from {good} to {bad}: {found.before} -> {found.now}"]
        lines.append(f"  {visible(found.difference)}")
    else:
        lines = [f"launches of a round: {found.now} in {good} and in {bad}, the same"]
        lines += [f"  {visible(found.code_change)}"] if found.code_change else []
    lines += [f"  {visible(phrase)}" for phrase in found.resources]
    if found.comparison is not None:
        lines += _describe_times(f"from {good} to {bad}", found.comparison)
    for side in sorted(found.sides, key=lambda one: one.judgement is Judgement.BAD):
        if side.comparison is not None:
            between = f"from GOOD ({found.good.short}) to {side.commit.short}, {side.judgement.value}"
            lines += _describe_times(between, side.comparison)
    return lines


def _describe_times(between: str, comparison: Comparison) -> Sequence[str]:
    return [
        f"{comparison.metric} time {between}: {_write_times(comparison)}",
        *(
            f"  slower: {visible(kernel.name)} {durations(kernel.baseline_ns, kernel.now_ns)}"
            for kernel in comparison.slower_kernels
        ),
    ]


def _write_times(comparison: Comparison) -> str:
    change = percent(comparison.ratio - 1, error=comparison.half_width)
    change += f", interval {interval(comparison.low - 1, comparison.high - 1)}"
    runs = f"{comparison.baseline_runs}+{comparison.new_runs} runs"
    return f"{duration(comparison.baseline_ns)} -> {duration(comparison.now_ns)} ({change}, {runs})"


def render_json(found: Bisection) -> str:
    """Everything, as one JSON object; times in ns, ratios as ratios."""
    return write_json(BisectionFile(FORMAT, found.first_bad.hash if found.first_bad is not None else "", found))


def _first_line(text: str) -> str:
    return visible((text.splitlines() or [""])[0])


def _wrap(line: str, width: int) -> Sequence[str]:
    indent = line[: len(line) - len(line.lstrip())]
    if line.startswith(_COMMAND):
        # In two pieces it could not be copied.
        return [line]
    return textwrap.wrap(line, width, subsequent_indent=indent + "  ", break_long_words=False) or [""]
