"""False alarms and power of the gate, by simulation through the project's own functions.

Each suite has baseline runs of one session and new runs of another. The gate is driven as a session drives
it: 1 run of everything, then 2, 2 and 4 more of the suspects. A false alarm is a suite in which any
unchanged subject fails; a false improvement one in which any improves.

    python benchmarks/simulate_gate.py --suites 1000

Populations, standard deviations in percent of the time, one value drawn for each subject:

    h200        what two H200 boards showed: run 0.04-0.5, round 0.1-1.5, session 0.1
    mixed       run 0.5-2, round 0.5-3 with autocorrelation 0 to 0.8, no session effect
    dirty       mixed, 10 % of the subjects with a +4 % mode in 15 % of their runs
    heavy       mixed, run effects with t tails of 4 degrees of freedom
    sessions    mixed, and each session shifts all subjects by 0.7 and each by 0.3
    watched     sessions, with 8 canaries of the same population
    quiet       h200, and each session shifts all subjects by 0.7; with 8 canaries
    against     sessions, but the baseline is measured in the same session (--nsight-against)
    placement   h200, 20 % of the subjects with a +3 % mode in 15 % of their runs, as allocations make it
    same_group  h200, the baseline from another board of its board group: 0.2, t tails of 4 degrees; 8 canaries
    other_group h200, the baseline from a board of another group: 0.7; 8 canaries
    cpu         a shared CPU: run 1-4, session 5
    alternating h200, a quarter of the subjects with two levels from round to round, 5 % apart; the share of the
                slower one drifts within a process and differs between processes; 100 rounds
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy import signal, stats

from pytest_nsight.judge.board_groups import STREAMS
from pytest_nsight.judge.judge import LOOKS, SubjectRuns, judge, suspects
from pytest_nsight.model.kernel_names import family
from pytest_nsight.model.values import CANARIES, Policy, RunSummary, Subject
from pytest_nsight.model.verdicts import Verdict, VerdictKind

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
    slow_mode: float = 0.04
    board_sd: float = 0.0
    stream_shift: float | None = None
    alternating_share: float = 0.0
    canaries: int = 0
    is_one_session: bool = False
    board: str = "GPU-simulated"
    rounds: int = ROUNDS


MIXED = Population((0.005, 0.02), (0.005, 0.03))
H200 = Population((0.0004, 0.005), (0.001, 0.015), session_sd=0.001)
SESSIONS = replace(MIXED, session_sd=0.003, common_session_sd=0.007)
POPULATIONS = {
    "h200": H200,
    "mixed": MIXED,
    "dirty": replace(MIXED, slow_mode_share=0.1),
    "heavy": replace(MIXED, heavy_tails=True),
    "sessions": SESSIONS,
    "watched": replace(SESSIONS, canaries=8),
    "quiet": replace(H200, common_session_sd=0.007, canaries=8),
    "against": replace(SESSIONS, is_one_session=True),
    "placement": replace(H200, slow_mode_share=0.2, slow_mode=0.03),
    "same_group": replace(H200, board_sd=0.002, stream_shift=0.001, canaries=8),
    "other_group": replace(H200, board_sd=0.007, stream_shift=0.02, canaries=8),
    "cpu": Population((0.01, 0.04), (0.01, 0.05), session_sd=0.05, board="cpu"),
    "alternating": replace(H200, alternating_share=0.25, rounds=100),
}
SEED_NAMES = {"same_group": "kin", "other_group": "strangers", "cpu": "processor"}
"""Population -> the name in its seed, so that the figures in docs/statistics.md can be made again."""

Rounds = npt.NDArray[np.int64]

_STREAM_SD = 0.0003
"""Of the runs of a streaming canary, measured."""

_ALTERNATING_GAP, _ODDS_RUN_SD, _ODDS_SD, _ODDS_ROUNDS = 0.05, 1.2, 1.5, 60
"""Two levels of log time, and the log odds of the slower one: their standard deviations over runs and within one,
and after how many rounds they are new."""


@dataclass(frozen=True)
class Sizes:
    """How much is simulated: suites, subjects in each, stored runs, and the band they are judged by."""

    suites: int
    subjects: int = 50
    baseline: int = 5
    band: float = 0.02


def draw_rounds(
    population: Population, subjects: int, baseline_runs: int, rng: np.random.Generator, rounds: int = 0
) -> Rounds:
    """Return rounds in ns of shape (subject, run, round): baseline runs, then those of all looks.

    The canaries are the last subjects, beyond those that were asked for; those that alternate are the first ones.
    Without a number of rounds, there are as many as the population has.
    """
    rounds = rounds or population.rounds
    alternating = round(population.alternating_share * subjects)
    subjects += population.canaries
    runs = baseline_runs + LOOKS[-1]
    shape = (subjects, runs)
    run_sd, round_sd = (
        np.exp(rng.uniform(math.log(low), math.log(high), size=(subjects, 1)))
        for low, high in (population.run_sd, population.round_sd)
    )
    log_ns = np.log(rng.uniform(30e3, 3e6, size=(subjects, 1)))
    is_new = np.arange(runs) >= baseline_runs
    streams = slice(subjects - population.canaries, subjects - population.canaries + len(STREAMS))
    if population.stream_shift is not None:
        run_sd[streams] = _STREAM_SD
    shift = np.zeros((subjects, 1))
    if not population.is_one_session:
        shift = rng.normal(0, population.session_sd, size=(subjects, 1))
        shift = shift + rng.normal(0, population.common_session_sd)
        shift = shift + population.board_sd * rng.standard_t(4, size=(subjects, 1)) / np.sqrt(2)
    if population.stream_shift is not None:
        shift[streams] = population.stream_shift / np.sqrt(2)
    run_effect = rng.standard_t(4, shape) / np.sqrt(2) if population.heavy_tails else rng.normal(size=shape)
    # The baseline has a shift of its own, independent and as large: their difference has twice the variance.
    log_run = log_ns + run_sd * run_effect + np.sqrt(2) * shift * is_new
    has_slow_mode = rng.random((subjects, 1)) < population.slow_mode_share
    log_run = log_run + population.slow_mode * (has_slow_mode & (rng.random(shape) < 0.15))
    correlation = rng.uniform(0, 0.8, size=subjects)
    noise = rng.normal(size=(*shape, rounds))
    for index, rho in enumerate(correlation):
        noise[index] = signal.lfilter([np.sqrt(1 - rho**2)], [1, -rho], noise[index], axis=-1)
    spikes = (rng.random(noise.shape) < 0.005) * rng.exponential(0.05, noise.shape)
    log_rounds = log_run[..., None] + round_sd[..., None] * noise + spikes
    if alternating:
        log_rounds[:alternating] = _alternate((alternating, runs, rounds), rng)
    durations: Rounds = np.rint(np.exp(log_rounds)).astype(np.int64)
    return durations


def _alternate(shape: tuple[int, int, int], rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Return log rounds of two levels; in a run, the log odds of the slower one are an Ornstein-Uhlenbeck process.

    The numbers are those of a JAX program of 26 us on an H200 (docs/validation/identity.md).
    """
    rho = math.exp(-1 / _ODDS_ROUNDS)
    drift = rng.normal(size=shape)
    drift[..., 0] /= math.sqrt(1 - rho**2)
    drift = signal.lfilter([math.sqrt(1 - rho**2)], [1, -rho], drift, axis=-1)
    log_odds = 0.5 + _ODDS_RUN_SD * rng.normal(size=(*shape[:2], 1)) + _ODDS_SD * drift
    is_slow = rng.random(shape) < 1 / (1 + np.exp(-log_odds))
    level = math.log(26e3) + 0.004 * rng.normal(size=(*shape[:2], 1)) + 0.007 * rng.normal(size=shape)
    return np.asarray(level + _ALTERNATING_GAP * is_slow, dtype=np.float64)


def summarise(
    subject: Subject, rounds: npt.NDArray[np.int64], baseline_runs: int, population: Population
) -> list[RunSummary]:
    """Return the runs of one subject, as a session would have recorded them."""
    summaries = []
    for index, values in enumerate(rounds):
        is_new = index >= baseline_runs
        is_other = population.board_sd > 0 and is_new
        summaries.append(
            RunSummary(
                subject,
                run=f"r{index}",
                session="new" if is_new or population.is_one_session else "stored",
                board=f"{population.board}-other" if is_other else population.board,
                rounds={"kernel": tuple(values.tolist())},
            )
        )
    return summaries


def run_gate(
    rounds: Rounds, baseline_runs: int, population: Population, band: float = 0.02
) -> tuple[tuple[Verdict, ...], int]:
    """Drive the gate over all its looks; return the verdicts and the number of runs beyond the first."""
    users = len(rounds) - population.canaries
    subjects = [Subject(f"suite.py::test_{index}") for index in range(users)]
    names = (*STREAMS, *(str(index) for index in range(len(STREAMS), population.canaries)))
    watched = [Subject(f"{CANARIES}::{name}") for name in names[: population.canaries]]
    summaries = {
        subject: summarise(subject, of_subject, baseline_runs, population)
        for subject, of_subject in zip((*subjects, *watched), rounds, strict=True)
    }
    counts = dict.fromkeys(subjects, LOOKS[0])

    def collect(chosen: Sequence[Subject], counts: Mapping[Subject, int]) -> list[SubjectRuns]:
        return [
            SubjectRuns(
                subject,
                Policy(band=band),
                baseline=tuple(summaries[subject][:baseline_runs]),
                new=tuple(summaries[subject][baseline_runs : baseline_runs + counts[subject]]),
            )
            for subject in chosen
        ]

    def collect_canaries() -> list[SubjectRuns]:
        return collect(watched, dict.fromkeys(watched, max(counts.values())))

    for look in LOOKS[1:]:
        found = suspects(collect(subjects, counts), family=family, canaries=collect_canaries())
        if not found:
            break
        counts.update(dict.fromkeys(found, look))
    verdicts = judge(collect(subjects, counts), family=family, canaries=collect_canaries())
    return verdicts, sum(counts.values()) - len(counts)


def write_rate(hits: int, trials: int) -> str:
    """Return a rate with its exact 95 % interval (Clopper and Pearson 1934)."""
    interval = stats.binomtest(hits, trials).proportion_ci(0.95, "exact")
    return f"{hits / trials:7.2%} [{interval.low:.2%}, {interval.high:.2%}]"


def measure_false_alarms(population: Population, sizes: Sizes, rng: np.random.Generator) -> str:
    """Return how often unchanged suites alarm and improve, and what they cost."""
    alarms = extra = unchanged = improved = 0
    for _ in range(sizes.suites):
        rounds = draw_rounds(population, sizes.subjects, sizes.baseline, rng)
        verdicts, more = run_gate(rounds, sizes.baseline, population, sizes.band)
        alarms += any(verdict.kind.fails for verdict in verdicts)
        unchanged += sum(verdict.kind is VerdictKind.UNCHANGED for verdict in verdicts)
        improved += any(verdict.kind is VerdictKind.IMPROVEMENT for verdict in verdicts)
        extra += more
    total = sizes.suites * sizes.subjects
    return (
        f"suites with a false alarm {write_rate(alarms, sizes.suites)}, with a false improvement "
        f"{write_rate(improved, sizes.suites)}; unchanged {unchanged / total:.0%}, "
        f"extra runs per subject {extra / total:.2f}"
    )


def measure_power(
    population: Population, effect: float, sizes: Sizes, rng: np.random.Generator, *, everywhere: bool = False
) -> str:
    """Return how often one slower subject is found; with `everywhere`, whether one of all slower ones is."""
    found = 0
    slower = slice(0, sizes.subjects if everywhere else 1)
    for _ in range(sizes.suites):
        rounds = draw_rounds(population, sizes.subjects, sizes.baseline, rng)
        rounds[slower, sizes.baseline :] = np.rint(rounds[slower, sizes.baseline :] * (1 + effect))
        verdicts, _ = run_gate(rounds, sizes.baseline, population, sizes.band)
        found += any(verdict.kind is VerdictKind.REGRESSION for verdict in verdicts[slower])
    what = f"any of all subjects {effect:+.1%}" if everywhere else f"one subject {effect:+.1%}"
    return f"{what} found {write_rate(found, sizes.suites)}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suites", type=int, default=100, help="suites for each population")
    parser.add_argument("--power-suites", type=int, help="suites for each effect; a quarter of --suites")
    parser.add_argument("--subjects", type=int, default=50, help="subjects in a suite")
    parser.add_argument("--baseline", type=int, default=5, help="stored runs")
    parser.add_argument("--population", choices=POPULATIONS, action="append", help="default: all")
    parser.add_argument("--band", type=float, default=0.02, help="as a ratio")
    parser.add_argument("--effect", type=float, action="append", help="slowdowns to look for; 0.02 to 0.1")
    parser.add_argument("--seed", type=int, default=20260101)
    options = parser.parse_args(arguments)
    power_suites = options.power_suites if options.power_suites is not None else options.suites // 4
    sizes = Sizes(options.suites, options.subjects, options.baseline, options.band)
    print(
        f"{sizes.suites} suites of {sizes.subjects} subjects, {sizes.baseline} stored runs, band {sizes.band:.1%}"
    )
    for name in options.population or POPULATIONS:
        began = time.monotonic()
        rng = np.random.default_rng([options.seed, *SEED_NAMES.get(name, name).encode()])
        population, power = POPULATIONS[name], replace(sizes, suites=power_suites)
        print(f"{name:10} {measure_false_alarms(population, sizes, rng)}", flush=True)
        for effect in options.effect or EFFECTS if power_suites else ():
            print(f"{'':10} {measure_power(population, effect, power, rng)}", flush=True)
        if power_suites and population.common_session_sd:
            print(f"{'':10} {measure_power(population, 0.05, power, rng, everywhere=True)}", flush=True)
        print(f"{'':10} {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
