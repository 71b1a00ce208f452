"""Turns the collected data into the tables of the validation study.

    python -m benchmarks.validate.analyse docs/validation/data/* --without fixed-swiglu --output docs/validation

Writes results.md and results.json. Every choice is seeded: the same data give the same tables.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.validate import tables
from benchmarks.validate.false_alarms import (
    Strictness,
    StudyAlarms,
    collect_p_values,
    describe_p_values,
    measure_false_alarms,
    measure_strictness,
    share_study,
    spread,
)
from benchmarks.validate.power import by_cost, measure_power, measure_truth
from benchmarks.validate.rules import RULES
from benchmarks.validate.study import BANDS, Study, load_study
from pytest_nsight.calibrate.forced_looks import force_looks
from pytest_nsight.calibrate.noise_levels import measure_levels
from pytest_nsight.calibrate.pool import PooledRun
from pytest_nsight.calibrate.replayed_gate import replay
from pytest_nsight.calibrate.resampling import (
    STORED_RUNS,
    Resample,
    Situation,
    draw_stored,
    group_by_session,
    list_stored,
)
from pytest_nsight.judge.subject_runs import LOOKS, MINIMUM_NEW_RUNS
from pytest_nsight.judge.thresholds import FALSE_DISCOVERY_RATE
from pytest_nsight.model.values import DEFAULT_BAND
from pytest_nsight.model.verdicts import VerdictKind

CONTROL_CHECKS = 20
ACROSS_BOARDS = (Situation.OTHER_BOARD, Situation.SEVERAL_BOARDS)
STRICT_RESAMPLES = 300


def judge_controls(study: Study, seed: int) -> dict[str, dict[Situation, Counter[VerdictKind]]]:
    """Judges runs under negative controls against sound stored runs, of the same and of another board."""
    found: dict[str, dict[Situation, Counter[VerdictKind]]] = {}
    policies = study.with_band(DEFAULT_BAND)
    for name, runs in study.controls.items():
        rng = np.random.default_rng(seed)
        for situation in (Situation.SAME_BOARD, Situation.OTHER_BOARD):
            sessions = group_by_session(study.sound)
            # Fewer could fail on structure only.
            checked = [new for new in group_by_session(runs) if len(new) >= MINIMUM_NEW_RUNS]
            candidates = [(list_stored(sessions, new, situation), new) for new in checked]
            pairs = [(groups, new) for groups, new in candidates if groups]
            for _ in range(CONTROL_CHECKS if pairs else 0):
                groups, new = pairs[int(rng.integers(len(pairs)))]
                resample = Resample(situation, draw_stored(groups, situation, rng), _take(new, LOOKS[-1], rng))
                kinds = (verdict.kind for verdict in replay(resample, policies).verdicts)
                found.setdefault(name, {}).setdefault(situation, Counter()).update(kinds)
    return found


def _take(runs: Sequence[PooledRun], number: int, rng: np.random.Generator) -> tuple[PooledRun, ...]:
    chosen = rng.permutation(len(runs))[:number]
    return tuple(runs[index] for index in chosen)


def analyse(
    study: Study, *, resamples: int, power_draws: int, seed: int, processes: int
) -> tuple[list[str], dict[str, object]]:
    """The study's tables, and the numbers behind the first of them."""
    share_study(study)
    began_s = time.monotonic()

    def done(step: str) -> None:
        print(f"{time.monotonic() - began_s:5.0f} s  {step}", flush=True)

    levels = measure_levels(study.sound, study.with_band(DEFAULT_BAND), STORED_RUNS, np.random.default_rng(seed))
    done("noise")
    alarms: dict[tuple[Situation, float], StudyAlarms] = {}
    for situation, band in itertools.product(Situation, BANDS):
        found = measure_false_alarms(situation, band, resamples, seed, processes, with_rules=band == max(BANDS))
        if found is not None:
            alarms[situation, band] = found
        done(f"false alarms, {situation.value}, band {band:.1%}")
    strict: dict[tuple[Situation, float], Strictness] = {}
    for situation, band in itertools.product(Situation, BANDS):
        settled = measure_strictness(situation, band, min(resamples, STRICT_RESAMPLES), seed, processes)
        if settled is not None:
            strict[situation, band] = settled
    done("--nsight-strict")
    forced = [
        force_looks(
            study.sound,
            study.confirming,
            study.with_band(DEFAULT_BAND),
            situation,
            resamples,
            np.random.default_rng(seed),
        )
        for situation in Situation
    ]
    done("forced looks")
    samples = spread(collect_p_values, [(situation, 100, seed) for situation in Situation], processes)
    uniform = {s: describe_p_values(values) for s, values in zip(Situation, samples, strict=True) if values}
    done("p-values")
    findings = measure_power(BANDS, power_draws, seed, processes, is_real=False)
    if study.injected:
        findings += measure_power(BANDS, power_draws, seed, processes, is_real=True)
    done("power")
    truths = measure_truth(study)
    controls = judge_controls(study, seed)
    done("controls")
    settings = (
        f"Frozen settings: looks {LOOKS}, false discovery rate {FALSE_DISCOVERY_RATE:.1%}, {STORED_RUNS} stored "
        f"runs, {resamples} resamples for each situation and band, {power_draws} draws for each level, seed {seed}"
        + (f"; without the case {', '.join(study.left_out)}." if study.left_out else ".")
    )
    sections = {
        "Data": tables.data(study),
        f"Noise, smallest slowdown found at a band of {DEFAULT_BAND:.0%}": tables.noise(levels),
        "False alarms": tables.false_alarms(alarms),
        "Under --nsight-strict": tables.strictness(strict),
        f"Forced looks, band {DEFAULT_BAND:.0%}": tables.forced_looks([one for one in forced if one is not None]),
        "p-values of unchanged code": tables.p_values(uniform),
        "What the injected work costs": tables.truth(truths),
        "Power by length": tables.power(findings, lambda one: one.length, "length"),
        "Power by what the injected work really cost": tables.power(
            by_cost(findings, truths), lambda one: one.length, "length"
        ),
        "Power across boards, 50 us and more": tables.power(
            [one for one in findings if one.length == "long" and one.situation in ACROSS_BOARDS],
            lambda one: "of one group" if one.is_same_group else "of two groups",
            "boards",
        ),
        "Power by kind": tables.power([one for one in findings if one.is_real], lambda one: one.kind, "kind"),
        "Power of simpler rules": tables.rules_power(findings, BANDS[0]),
        "Cost of a verdict": tables.cost(study, alarms),
        f"Negative controls, band {DEFAULT_BAND:.0%}": tables.controls(study, controls),
        "Live checks": tables.live(study),
    }
    text = [
        "# Results",
        "",
        "Made by `python -m benchmarks.validate.analyse`; [the study's page](README.md) says what it means.",
        "",
    ]
    text += [settings, ""]
    for title, lines in sections.items():
        text += [f"## {title}", "", *lines]
    return text, {"resamples": resamples, "seed": seed, "without": study.left_out, "gate": _numbers(alarms)}


def _numbers(alarms: dict[tuple[Situation, float], StudyAlarms]) -> list[dict[str, object]]:
    return [
        {
            "situation": situation.value,
            "band": band,
            "resamples": found.gate.resamples,
            "suites_with_alarm": found.gate.gate.suites.hits,
            "exact_interval": found.gate.gate.suites.interval,
            "session_interval": found.gate.gate.by_session,
            "regressions": found.gate.regressions,
            "improvements": found.gate.improvements,
            "verdicts": {kind.value: number for kind, number in found.gate.verdicts.items()},
            "runs": found.gate.runs,
            "rules": {
                rule.name: [rates.suites.hits, rates.suites.attempts, rates.subjects.hits]
                for rule, rates in zip(RULES, found.rules, strict=False)
            },
        }
        for (situation, band), found in alarms.items()
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, help="folders of collect.py")
    parser.add_argument("--output", type=Path, default=Path("docs/validation"))
    parser.add_argument("--without", nargs="*", default=[], metavar="CASE", help="names of cases to leave out")
    parser.add_argument("--resamples", type=int, default=5000)
    parser.add_argument("--power-draws", type=int, default=100)
    parser.add_argument("--seed", type=int, default=20260101)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    if min(options.resamples, options.power_draws, options.processes) < 1:
        parser.error("--resamples, --power-draws and --processes are at least 1")
    if not options.output.is_dir():
        parser.error(f"--output {options.output} is no folder")
    try:
        study = load_study(options.folders, options.without)
    except (FileNotFoundError, ValueError) as error:
        parser.error(str(error))
    text, numbers = analyse(
        study,
        resamples=options.resamples,
        power_draws=options.power_draws,
        seed=options.seed,
        processes=options.processes,
    )
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "results.md").write_text("\n".join(text).rstrip("\n") + "\n", encoding="utf-8")
    (options.output / "results.json").write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
