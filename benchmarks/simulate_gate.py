"""False alarms and power of the gate, by simulation through the project's own functions.

Each suite has baseline runs of one session and new runs of another. The gate is driven as a session drives
it: 1 run of everything, then 2, 2 and 4 more of the suspects. A false alarm is a suite in which any
unchanged subject fails.

    python benchmarks/simulate_gate.py --suites 1000

Populations, standard deviations in percent of the time, one value drawn for each subject:

    h200       what two H200 boards showed: run 0.04-0.5, round 0.1-1.5, session 0.1
    mixed      run 0.5-2, round 0.5-3 with autocorrelation 0 to 0.8, no session effect
    dirty      mixed, 10 % of the subjects with a +4 % mode in 15 % of their runs
    heavy      mixed, run effects with t tails of 4 degrees of freedom
    sessions   mixed, and each session shifts all subjects by 0.7 and each by 0.3
    processor  a shared CPU: run 1-4, session 5
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import signal, stats

from pytest_nsight.judge.gate import LOOKS, Evidence, judge, suspects
from pytest_nsight.model import Policy, RunSummary, Subject
from pytest_nsight.result import Verdict, VerdictKind

ROUNDS = 40
EFFECTS = (0.02, 0.03, 0.05, 0.10)


@dataclass(frozen=True)
class Population:
    """How the subjects of a suite vary; ranges are drawn from log-uniformly."""

    run_sd: tuple[float, float]
    round_sd: tuple[float, float]
    session_sd: float = 0.0
    common_session_sd: float = 0.0
    heavy_tails: bool = False
    slow_mode_share: float = 0.0
    board: str = "GPU-simulated"


POPULATIONS = {
    "h200": Population((0.0004, 0.005), (0.001, 0.015), session_sd=0.001),
    "mixed": Population((0.005, 0.02), (0.005, 0.03)),
    "dirty": Population((0.005, 0.02), (0.005, 0.03), slow_mode_share=0.1),
    "heavy": Population((0.005, 0.02), (0.005, 0.03), heavy_tails=True),
    "sessions": Population((0.005, 0.02), (0.005, 0.03), session_sd=0.003, common_session_sd=0.007),
    "processor": Population((0.01, 0.04), (0.01, 0.05), session_sd=0.05, board="processor"),
}

Rounds = npt.NDArray[np.int64]


def draw_rounds(
    population: Population, subjects: int, baseline_runs: int, rng: np.random.Generator, rounds: int = ROUNDS
) -> Rounds:
    """Return rounds in ns of shape (subject, run, round): baseline runs, then those of all looks."""
    runs = baseline_runs + LOOKS[-1]
    shape = (subjects, runs)
    run_sd, round_sd = (
        np.exp(rng.uniform(math.log(low), math.log(high), size=(subjects, 1)))
        for low, high in (population.run_sd, population.round_sd)
    )
    log_ns = np.log(rng.uniform(30e3, 3e6, size=(subjects, 1)))
    is_new = np.arange(runs) >= baseline_runs
    own_shift = rng.normal(0, population.session_sd, size=(subjects, 1))
    common_shift = rng.normal(0, population.common_session_sd)
    run_effect = rng.standard_t(4, shape) / np.sqrt(2) if population.heavy_tails else rng.normal(size=shape)
    log_run = log_ns + run_sd * run_effect + np.sqrt(2) * (own_shift + common_shift) * is_new
    has_slow_mode = rng.random((subjects, 1)) < population.slow_mode_share
    log_run = log_run + 0.04 * (has_slow_mode & (rng.random(shape) < 0.15))
    correlation = rng.uniform(0, 0.8, size=subjects)
    noise = rng.normal(size=(*shape, rounds))
    for index, rho in enumerate(correlation):
        noise[index] = signal.lfilter([np.sqrt(1 - rho**2)], [1, -rho], noise[index], axis=-1)
    spikes = (rng.random(noise.shape) < 0.005) * rng.exponential(0.05, noise.shape)
    log_rounds = log_run[..., None] + round_sd[..., None] * noise + spikes
    durations: Rounds = np.rint(np.exp(log_rounds)).astype(np.int64)
    return durations


def run_gate(rounds: Rounds, baseline_runs: int, board: str) -> tuple[tuple[Verdict, ...], int]:
    """Drive the gate over all its looks; return the verdicts and the number of runs beyond the first."""
    subjects = [Subject(f"suite.py::test_{index}") for index in range(len(rounds))]
    summaries = [
        [
            RunSummary(
                subject,
                run=f"r{index}",
                session="stored" if index < baseline_runs else "new",
                board=board,
                rounds={"kernel": tuple(values.tolist())},
            )
            for index, values in enumerate(of_subject)
        ]
        for subject, of_subject in zip(subjects, rounds, strict=True)
    ]
    counts = dict.fromkeys(subjects, LOOKS[0])

    def collect() -> list[Evidence]:
        return [
            Evidence(
                subject,
                Policy(),
                baseline=tuple(runs[:baseline_runs]),
                new=tuple(runs[baseline_runs : baseline_runs + counts[subject]]),
            )
            for subject, runs in zip(subjects, summaries, strict=True)
        ]

    for look in LOOKS[1:]:
        found = suspects(collect())
        if not found:
            break
        counts.update(dict.fromkeys(found, look))
    return judge(collect()), sum(counts.values()) - len(counts)


def write_rate(hits: int, trials: int) -> str:
    """Return a rate with its exact 95 % interval (Clopper and Pearson 1934)."""
    interval = stats.binomtest(hits, trials).proportion_ci(0.95, "exact")
    return f"{hits / trials:7.2%} [{interval.low:.2%}, {interval.high:.2%}]"


def measure_false_alarms(
    population: Population, suites: int, subjects: int, baseline_runs: int, rng: np.random.Generator
) -> str:
    alarms = extra = unchanged = improved = 0
    for _ in range(suites):
        rounds = draw_rounds(population, subjects, baseline_runs, rng)
        verdicts, more = run_gate(rounds, baseline_runs, population.board)
        alarms += any(verdict.kind.fails for verdict in verdicts)
        unchanged += sum(verdict.kind is VerdictKind.UNCHANGED for verdict in verdicts)
        improved += any(verdict.kind is VerdictKind.IMPROVEMENT for verdict in verdicts)
        extra += more
    total = suites * subjects
    return (
        f"suites with a false alarm {write_rate(alarms, suites)}, with a false improvement "
        f"{improved / suites:.1%}; unchanged {unchanged / total:.0%}, "
        f"extra runs per subject {extra / total:.2f}"
    )


def measure_power(
    population: Population,
    effect: float,
    suites: int,
    subjects: int,
    baseline_runs: int,
    rng: np.random.Generator,
) -> str:
    found = 0
    for _ in range(suites):
        rounds = draw_rounds(population, subjects, baseline_runs, rng)
        rounds[0, baseline_runs:] = np.rint(rounds[0, baseline_runs:] * (1 + effect))
        verdicts, _ = run_gate(rounds, baseline_runs, population.board)
        found += verdicts[0].kind is VerdictKind.REGRESSION
    return f"one subject +{effect:.0%} found {write_rate(found, suites)}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suites", type=int, default=100, help="suites for each population")
    parser.add_argument("--power-suites", type=int, help="suites for each effect; a quarter of --suites")
    parser.add_argument("--subjects", type=int, default=50, help="subjects in a suite")
    parser.add_argument("--baseline", type=int, default=5, help="stored runs")
    parser.add_argument("--population", choices=POPULATIONS, action="append", help="default: all")
    parser.add_argument("--seed", type=int, default=20260101)
    options = parser.parse_args(arguments)
    power_suites = options.power_suites if options.power_suites is not None else options.suites // 4
    print(f"{options.suites} suites of {options.subjects} subjects, {options.baseline} stored runs")
    for name in options.population or POPULATIONS:
        began = time.monotonic()
        rng = np.random.default_rng([options.seed, *name.encode()])
        population, sizes = POPULATIONS[name], (options.subjects, options.baseline)
        print(f"{name:10} {measure_false_alarms(population, options.suites, *sizes, rng)}", flush=True)
        for effect in EFFECTS if power_suites else ():
            print(f"{'':10} {measure_power(population, effect, power_suites, *sizes, rng)}", flush=True)
        print(f"{'':10} {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
