"""The report of `pytest-nsight calibrate`."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from pytest_nsight.calibrate.false_alarms import AlarmRates, Alarms, measure_alarms
from pytest_nsight.calibrate.forced_looks import CONFIRMING, FORCED, ForcedLooks, force_looks, part_confirming
from pytest_nsight.calibrate.noise_levels import CaseNoise, measure_levels
from pytest_nsight.calibrate.pool import Pool, PooledRun, list_processes
from pytest_nsight.calibrate.resampling import Situation
from pytest_nsight.judge.subject_runs import MINIMUM_BASELINE_RUNS
from pytest_nsight.model.errors import UsageError
from pytest_nsight.model.units import count, duration
from pytest_nsight.model.values import Policy, RunSummary
from pytest_nsight.model.verdicts import VerdictKind
from pytest_nsight.report.escapes import visible
from pytest_nsight.report.table import Column, align

_MDE_HEADERS = {
    Situation.SAME_SESSION: "MDE: A/B",
    Situation.SAME_BOARD: "later",
    Situation.OTHER_BOARD: "other board",
}


def report(pool: Pool, *, stored: int, resamples: int, seed: int, width: int) -> str:
    """The noise of every case, and the false alarms of the gate.

    Args:
        pool: runs of unchanged code.
        stored: stored runs to assume.
        resamples: random resamples in each situation; 0 leaves the false alarms out.
        seed: of the choice of resamples.
        width: columns of the terminal.

    Raises:
        UsageError: the pool has too few whole runs.
    """
    whole, confirming = part_confirming(pool.summaries)
    processes = list_processes(whole)
    if len(processes) < MINIMUM_BASELINE_RUNS:
        raise UsageError(
            f"the pool holds {count(len(processes), 'whole run')}, and at least {MINIMUM_BASELINE_RUNS} are "
            "needed; give more with --runs"
        )
    rng = np.random.default_rng(seed)
    sections = [_head(pool, processes, confirming, stored), _levels(processes, pool.policies, stored, rng, width)]
    found, has_forced = [], False
    for situation in Situation if resamples else ():
        alarms = measure_alarms(processes, pool.policies, situation, resamples, rng, stored=stored)
        if alarms is not None:
            found.append(alarms)
            sections.append(_alarms(alarms, width))
        forced = force_looks(processes, confirming, pool.policies, situation, resamples, rng, stored=stored)
        if forced is not None:
            has_forced = True
            sections.append(_forced(forced, width))
    if resamples and not found:
        sections.append(
            [f"no false alarms can be counted: that takes 10 runs of one session, or {stored} and 5 of two"]
        )
    if resamples and confirming and not has_forced:
        needed = f"{CONFIRMING} confirming runs of a case, and {stored} runs of another session"
        sections.append(
            [f"no checks with forced looks can be counted: that takes {needed}; give several pools with --from"]
        )
    return "\n\n".join("\n".join(section) for section in sections)


def _head(pool: Pool, processes: Sequence[PooledRun], confirming: Sequence[RunSummary], stored: int) -> list[str]:
    subjects = processes[0].summaries
    canaries = sum(subject.is_canary for subject in subjects)
    few = len({run.run for run in confirming})
    left_out = len({run.run for run in pool.summaries}) - few - len(processes)
    sessions = count(len({one.session for one in processes}), "session")
    boards = count(len({one.board for one in processes}), "board")
    beside = f" and {count(canaries, 'canary', 'canaries')}" if canaries else ""
    what = (
        f"{count(len(processes), 'run')} of {count(len(subjects) - canaries, 'subject')}{beside}, "
        f"{sessions}, {boards}; smallest slowdown found (MDE): A/B in pairs of runs, else with {stored} stored runs"
    )
    lines = [what]
    if few:
        lines.append(f"{count(few, 'confirming run')} of few cases, for checks with forced looks")
    if left_out:
        lines.append(f"{count(left_out, 'run')} left out: a subject that most runs have is missing there")
    seconds = [pool.seconds[one.run] for one in processes if one.run in pool.seconds]
    if seconds:
        middle = statistics.median(seconds)
        each = middle / max(len(subjects) - canaries, 1)
        lines.append(f"a run takes {middle:.1f} s, {each:.2f} s for each subject")
    return lines


def _levels(
    processes: Sequence[PooledRun],
    policies: Mapping[str, Policy],
    stored: int,
    rng: np.random.Generator,
    width: int,
) -> list[str]:
    levels = measure_levels(processes, policies, stored, rng)

    def column(header: str, text: Callable[[CaseNoise], str], *, is_number: bool = True) -> Column:
        return Column(header, [text(level) for level in levels], is_number)

    columns = [
        column("case", lambda level: visible(level.subject.label), is_number=False),
        column("time", lambda level: duration(level.time_ns)),
        column("run SD", lambda level: _percent(level.run_sd)),
    ]
    if any(level.session_shift is not None for level in levels):
        columns.append(column("sessions", lambda level: _percent(level.session_shift)))
    if any(level.board_shift is not None for level in levels):
        columns.append(column("boards", lambda level: _percent(level.board_shift)))
    for situation, header in _MDE_HEADERS.items():
        columns.append(column(header, lambda level, situation=situation: _percent(level.mde.get(situation))))  # type: ignore[misc]
    return align(columns, width, "..")


def _alarms(alarms: Alarms, width: int) -> list[str]:
    rates = alarms.gate
    columns = [
        Column("false alarms a suite [exact 95 %]", [rates.suites.write()]),
        Column("by sessions", [write_interval(rates)]),
        Column("subjects", [_percent(rates.subjects.value)]),
    ]
    if rates.by_session is None:
        del columns[1]
    cost = f"{alarms.processes:.2f} processes a check, {alarms.runs:.2f} runs a subject"
    return [
        f"{alarms.situation.value}: {count(alarms.resamples, 'random resample')}",
        *align(columns, width, ".."),
        f"verdicts: {_write_kinds(alarms.verdicts)}; {cost}",
    ]


def _forced(forced: ForcedLooks, width: int) -> list[str]:
    columns = [Column("false alarms a suite [exact 95 %]", [forced.suites.write()])]
    checks = count(forced.suites.attempts, "random check")
    kinds: Counter[VerdictKind] = sum(forced.kinds.values(), Counter())
    return [
        f"{forced.situation.value}, forced looks: {checks}, {FORCED} random cases of each through all of them",
        *align(columns, width, ".."),
        f"verdicts on these cases: {_write_kinds(kinds)}",
    ]


def _write_kinds(kinds: Mapping[VerdictKind, int]) -> str:
    return ", ".join(f"{number} {kind.value}" for kind, number in sorted(kinds.items(), key=_by_name) if number)


def _by_name(item: tuple[VerdictKind, int]) -> str:
    return item[0].value


def write_interval(rates: AlarmRates) -> str:
    """The interval over sessions in percent, "-" where there is none."""
    if rates.by_session is None:
        return "-"
    return f"[{100 * rates.by_session[0]:.2f}, {100 * rates.by_session[1]:.2f}]"


def _percent(value: float | None) -> str:
    return "-" if value is None or math.isnan(value) else f"{100 * value:.2f} %"
