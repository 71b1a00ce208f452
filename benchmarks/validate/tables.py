"""The study's results as Markdown."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from scipy import stats

from benchmarks.validate.false_alarms import Strictness, StudyAlarms
from benchmarks.validate.power import Finding, Truth
from benchmarks.validate.rules import RULES
from benchmarks.validate.study import Study
from pytest_nsight.calibrate.calibration_report import write_interval
from pytest_nsight.calibrate.false_alarms import Rate, bootstrap_sessions
from pytest_nsight.calibrate.forced_looks import ForcedLooks
from pytest_nsight.calibrate.noise_levels import MDE_SITUATIONS, CaseNoise
from pytest_nsight.calibrate.resampling import Situation, group_by_session
from pytest_nsight.judge.subject_runs import MINIMUM_NEW_RUNS
from pytest_nsight.model.units import duration
from pytest_nsight.model.verdicts import VerdictKind

_Key = TypeVar("_Key", bound=Hashable)


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """A Markdown table."""
    lines = [f"| {' | '.join(header)} |", "|" + "---|" * len(header)]
    return [*lines, *(f"| {' | '.join(map(str, row))} |" for row in rows), ""]


def percent(value: float | None, digits: int = 2) -> str:
    """A ratio in percent."""
    return "-" if value is None or np.isnan(value) else f"{100 * value:.{digits}f} %"


def data(study: Study) -> list[str]:
    """Where the runs come from, and what they cost."""
    rows = []
    for name, processes in (("sound", study.sound), ("injected", study.injected), *study.controls.items()):
        for session in group_by_session(processes):
            seconds = [study.seconds[one.run] for one in session if one.run in study.seconds]
            middle = statistics.median(seconds) if seconds else float("nan")
            board = study.boards.get(session[0].board, "-")
            driver = next(iter(session[0].summaries.values())).environment.get("driver", "-")
            group = study.board_groups.get(session[0].board, "-")
            rows.append((name, session[0].session, board, group, driver, len(session), f"{middle:.1f} s"))
    return table(("runs of", "session", "board", "board group", "driver", "runs", "a run"), rows)


def noise(levels: Sequence[CaseNoise]) -> list[str]:
    """Run, session and board deviations case by case."""
    return table(
        (
            "case",
            "time",
            "run SD",
            "largest session shift",
            "largest board shift",
            "MDE A/B",
            "later",
            "other board",
        ),
        [
            (
                level.subject.label,
                duration(level.time_ns),
                percent(level.run_sd),
                percent(level.session_shift),
                percent(level.board_shift),
                *(percent(level.mde.get(situation)) for situation in MDE_SITUATIONS),
            )
            for level in levels
        ],
    )


def false_alarms(found: Mapping[tuple[Situation, float], StudyAlarms]) -> list[str]:
    """The gate at each band, then the rules."""
    rows: list[tuple[object, ...]] = []
    for (situation, band), one in found.items():
        alarms = one.gate
        changed = alarms.regressions + alarms.improvements
        p_value = stats.binomtest(alarms.regressions, changed).pvalue if changed else 1.0
        other = sum(n for kind, n in alarms.verdicts.items() if kind.fails) - alarms.regressions
        rows.append(
            (
                situation.value,
                percent(band, 1),
                alarms.resamples,
                alarms.gate.suites.write(),
                write_interval(alarms.gate),
                f"{alarms.regressions} : {alarms.improvements} (p {p_value:.2g})",
                other,
                alarms.improved_suites.write(),
                alarms.verdicts.get(VerdictKind.INCONCLUSIVE, 0),
                alarms.verdicts.get(VerdictKind.ENVIRONMENT, 0),
                f"{alarms.runs:.2f}",
                ", ".join(f"{subject.label} {count}" for subject, count in sorted(alarms.failed.items())),
            )
        )
    header: tuple[str, ...] = (
        *("stored and new", "band", "resamples", "suites with a false alarm [exact 95 %]", "by sessions"),
        *("regressions : improvements", "other failures", "suites with a false improvement"),
        *("INCONCLUSIVE", "ENVIRONMENT", "runs measured a case", "cases that failed"),
    )
    lines = table(header, rows)
    largest = max((band for _, band in found), default=0.0)
    chosen = {situation: alarms for (situation, band), alarms in found.items() if band == largest}
    rows = []
    for index, rule in enumerate(RULES):
        cells = [
            cell
            for alarms in chosen.values()
            for cell in (alarms.rules[index].suites.write(), percent(alarms.rules[index].subjects.value))
        ]
        rows.append((rule.name, f"{rule.stored} : {rule.new}", *cells))
    header = ("rule", "runs stored : new", *(c for s in chosen for c in (f"suites, {s.value}", "cases")))
    return lines + (table(header, rows) if chosen else [])


def forced_looks(found: Sequence[ForcedLooks]) -> list[str]:
    """A/A checks in which random cases go through all looks, and the verdicts that each duration gets."""
    if not found:
        return ["No session holds confirming runs; collect some with --confirming.", ""]
    rows = [
        (
            one.situation.value,
            one.suites.attempts,
            one.suites.write(),
            write_bounds(one.by_session),
            ", ".join(f"{subject.label} {count}" for subject, count in sorted(one.failed.items())),
        )
        for one in found
    ]
    header = (
        "stored and new",
        "checks",
        "checks with a false alarm [exact 95 %]",
        "by sessions",
        "cases that failed",
    )
    lines = table(header, rows)
    kinds: dict[int, Counter[VerdictKind]] = defaultdict(Counter)
    for one in found:
        for octave, counts in one.kinds.items():
            kinds[octave] += counts
    seen = [kind for kind in VerdictKind if any(counts[kind] for counts in kinds.values())]
    shares = [
        (
            f"{2**octave} to {2 ** (octave + 1)} us",
            counts.total(),
            *(percent(counts[k] / counts.total(), 0) for k in seen),
        )
        for octave, counts in sorted(kinds.items())
    ]
    return lines + table(("duration", "forced cases", *(kind.value for kind in seen)), shares)


def write_bounds(bounds: tuple[float, float] | None) -> str:
    """An interval of a rate in percent, "-" where there is none."""
    return "-" if bounds is None else f"[{100 * bounds[0]:.2f}, {100 * bounds[1]:.2f}]"


def strictness(found: Mapping[tuple[Situation, float], Strictness]) -> list[str]:
    """What --nsight-strict fails of unchanged code, and for the sake of which cases."""
    rows = [
        (
            situation.value,
            percent(band, 1),
            strict.suites.write(),
            percent(strict.cases.value),
            f"{strict.runs:.2f}",
            ", ".join(f"{one.label} {percent(count / strict.suites.attempts, 0)}" for one, count in strict.worst),
        )
        for (situation, band), strict in found.items()
    ]
    header = (
        "stored and new",
        "band",
        "suites that fail [exact 95 %]",
        "cases",
        "runs measured a case",
        "most often",
    )
    return table(header, rows)


def p_values(described: Mapping[Situation, Mapping[str, float]]) -> list[str]:
    """How p-values of unchanged code are distributed."""
    names = ("below_0.01", "below_0.05", "above_0.95", "above_0.99")
    return table(
        ("stored and new", "p-values", "Kolmogorov-Smirnov distance", *(name.replace("_", " ") for name in names)),
        [
            (
                situation.value,
                int(values["number"]),
                f"{values['ks_distance']:.3f}",
                *(percent(values[name]) for name in names),
            )
            for situation, values in described.items()
        ],
    )


def truth(found: Sequence[Truth]) -> list[str]:
    """What the injected work really costs."""
    by_subject: dict[str, list[Truth]] = defaultdict(list)
    for one in found:
        by_subject[one.subject.label].append(one)
    levels = sorted({one.per_mille for one in found})
    rows = []
    for label, own in by_subject.items():
        cells = {one.per_mille: f"{100 * one.change:+.2f} ± {100 * one.error:.2f} %" for one in own}
        rows.append((label, *(cells.get(level, "-") for level in levels)))
    return table(("case", *(f"+{level / 10:g} % work" for level in levels)), rows)


def rate_of(findings: Sequence[Finding], hit: Callable[[Finding], bool | None]) -> str:
    """A rate over findings, its interval over cases and sessions: draws of one case in one session share runs."""
    asked = [(finding, hit(finding)) for finding in findings]
    hits = [(finding, bool(answer)) for finding, answer in asked if answer is not None]
    if not hits:
        return "-"
    names = [f"{finding.subject.label} {finding.session}" for finding, _ in hits]
    rate = Rate(sum(answer for _, answer in hits), len(hits))
    rng = np.random.default_rng(1)
    over = bootstrap_sessions([answer for _, answer in hits], [(name,) for name in names], rng)
    if over is None:
        # All alike: as many independent trials as there are cases and sessions, at least.
        cases = len(set(names))
        over = Rate(cases if rate.hits else 0, cases).interval
    return f"{100 * rate.value:.0f} % [{100 * over[0]:.0f}, {100 * over[1]:.0f}]"


def _by(findings: Sequence[Finding], key: Callable[[Finding], _Key]) -> dict[_Key, list[Finding]]:
    groups: dict[_Key, list[Finding]] = defaultdict(list)
    for finding in findings:
        groups[key(finding)].append(finding)
    return groups


def power(findings: Sequence[Finding], key: Callable[[Finding], str], name: str) -> list[str]:
    """Power by situation, band, real or multiplied, and one more property."""
    levels = sorted({finding.per_mille for finding in findings})
    rows = []

    def group_of(finding: Finding) -> tuple[str, float, bool, str]:
        return finding.situation.value, finding.band, not finding.is_real, key(finding)

    for (situation, band, is_multiplied, value), own in sorted(_by(findings, group_of).items()):
        cells = [
            rate_of([finding for finding in own if finding.per_mille == level], lambda f: f.is_found)
            for level in levels
        ]
        how = "multiplied" if is_multiplied else "injected"
        rows.append((situation, percent(band, 1), how, value, len(own), *cells))
    header = ("stored and new", "band", "slowdown", name, "draws", *(f"+{level / 10:g} %" for level in levels))
    return table(header, rows)


def rules_power(findings: Sequence[Finding], smallest_band: float) -> list[str]:
    """The same injected slowdowns, asked of the other rules; the gate at its smallest band beside them."""
    real = [finding for finding in findings if finding.is_real and finding.band == smallest_band]
    levels = sorted({finding.per_mille for finding in real})
    lines: list[str] = []
    for situation in Situation:
        own = [finding for finding in real if finding.situation is situation]
        if not own:
            continue
        rows = [("this gate", "looks", *_across(own, levels, lambda f: f.is_found))]
        for index, rule in enumerate(RULES):
            cells = _across(own, levels, lambda f, index=index: f.flagged[index])  # type: ignore[misc]
            rows.append((rule.name, f"{rule.stored} : {rule.new}", *cells))
        lines += [f"{situation.value}, gate at a band of {percent(smallest_band, 1)}:", ""]
        lines += table(("rule", "runs stored : new", *(f"+{level / 10:g} %" for level in levels)), rows)
    return lines


def _across(findings: Sequence[Finding], levels: Sequence[int], hit: Callable[[Finding], bool | None]) -> list[str]:
    return [rate_of([finding for finding in findings if finding.per_mille == level], hit) for level in levels]


def cost(study: Study, found: Mapping[tuple[Situation, float], StudyAlarms]) -> list[str]:
    """What a verdict on one unchanged case takes: runs measured, and processes, each of which starts anew."""
    seconds = [study.seconds[one.run] for one in study.sound if one.run in study.seconds]
    if not seconds:
        return ["No run records how long it took.", ""]
    middle = statistics.median(seconds)
    rows: list[tuple[object, ...]] = [
        (
            f"this gate, {situation.value}, band {percent(band, 1)}",
            f"{alarms.gate.runs:.2f}",
            f"{alarms.gate.processes:.2f}",
        )
        for (situation, band), alarms in found.items()
    ]
    rows.append(("a rule on one new run", 1, 1))
    rows.append(("t on run means", MINIMUM_NEW_RUNS, MINIMUM_NEW_RUNS))
    return [
        f"In a session of many a run of all cases takes {middle:.1f} s.",
        "",
        *table(("rule", "runs measured a case", "processes a check"), rows),
    ]


def controls(study: Study, verdicts: Mapping[str, Mapping[Situation, Counter[VerdictKind]]]) -> list[str]:
    """Verdicts on runs under negative controls, against sound stored runs; none on too few to fail."""
    kinds = sorted(
        {kind for by in verdicts.values() for found in by.values() for kind in found}, key=list(VerdictKind).index
    )
    rows = [
        (name, len(study.controls[name]), situation.value, *(found[kind] for kind in kinds))
        for name, by in sorted(verdicts.items())
        for situation, found in by.items()
    ]
    few = [f"{name} ({len(runs)})" for name, runs in sorted(study.controls.items()) if name not in verdicts]
    note = [f"Too few runs to be judged: {', '.join(few)}.", ""] if few else []
    return note + table(("control", "runs", "stored and new", *(kind.value for kind in kinds)), rows)


def live(study: Study) -> list[str]:
    """Whole executions, by what they compared with and at which band."""
    if not study.live:
        return ["None.", ""]
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for check in study.live:
        compared = f"git {check['against']}" if check["against"] else "baselines"
        compared += ", forced looks" if check.get("forced") else ""
        groups.setdefault((compared, " ".join(percent(band, 1) for band in check["bands"])), []).append(check)
    rows = [(*how, *_live_row(checks)) for how, checks in sorted(groups.items())]
    header = (
        *("compared with", "band", "checks", "exit code other than 0 [exact 95 %]"),
        *("s, all of pytest included", "s a case, median", "s a case, at most", "verdicts"),
    )
    failed = [sentence for check in study.live if check["exit"] for sentence in check["failures"]]
    return table(header, rows) + [f"- {sentence}" for sentence in failed] + [""]


def _live_row(checks: Sequence[Mapping[str, Any]]) -> tuple[object, ...]:
    seconds = [float(check["seconds"]) for check in checks]
    ended = [check for check in checks if check["verdicts"]]
    by_case = [float(check["seconds"]) / sum(check["verdicts"].values()) for check in ended]
    kinds: Counter[str] = Counter()
    for check in checks:
        kinds.update(check["verdicts"])
    return (
        len(checks),
        Rate(sum(check["exit"] != 0 for check in checks), len(checks)).write(),
        f"{min(seconds):.0f} to {max(seconds):.0f}",
        f"{statistics.median(by_case):.1f}" if by_case else "",
        f"{max(by_case):.1f}" if by_case else "",
        ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items())),
    )
