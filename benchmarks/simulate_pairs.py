"""False alarms, power and cost of `--nsight-against`, by simulation through the project's own functions.

The runs of both trees belong to one session, and the looks are those of a session: 2 pairs of everything, a third
of what these do not show to be within the band, then 2 and 4 more of the suspects. A common drift over the session,
in log time per process, tests the ABBA order. What both runs of a pair share, as they measure the same cases in the
same order, is drawn for each subject.

    python -m benchmarks.simulate_pairs --suites 400
"""

from __future__ import annotations

import argparse

import numpy as np

from benchmarks.simulate_gate import POPULATIONS, Rounds, draw_rounds, write_rate
from pytest_nsight.judge.judge import LOOKS, SubjectRuns, judge, suspects
from pytest_nsight.judge.subject_runs import FIRST_PAIRS
from pytest_nsight.model.kernel_names import family
from pytest_nsight.model.values import Policy, RunSummary, Subject
from pytest_nsight.model.verdicts import Verdict, VerdictKind

PAIRS = LOOKS[-1]


def position(pair: int, *, is_other: bool) -> int:
    """The place of a run among all processes, in the order of `gate.Gate`."""
    goes_first = is_other == (pair % 2 == 0)
    return 2 * pair + (0 if goes_first else 1)


def run_pairs(other: Rounds, this: Rounds, band: float) -> tuple[tuple[Verdict, ...], int]:
    """Return the verdicts and the number of pairs made, of rounds in ns of shape (subject, run, round)."""
    made = np.full(len(this), FIRST_PAIRS)

    def collect() -> list[SubjectRuns]:
        return [
            SubjectRuns(
                Subject(f"suite.py::case[{index}]"),
                Policy(band=band),
                baseline=summarise(other[index], index, made[index]),
                new=summarise(this[index], index, made[index]),
                against="1a2b3c4",
            )
            for index in range(len(this))
        ]

    for look in (look for look in LOOKS if look > FIRST_PAIRS):
        wanted = {subject.case for subject in suspects(collect(), family=family)}
        for index in range(len(this)):
            if f"suite.py::case[{index}]" in wanted:
                made[index] = look
    return judge(collect(), family=family), int(made.sum())


def summarise(rounds: Rounds, index: int, runs: int) -> tuple[RunSummary, ...]:
    subject = Subject(f"suite.py::case[{index}]")
    return tuple(
        RunSummary(subject, f"s/{run}", "s", "GPU-simulated", {"kernel": tuple(map(int, rounds[run]))})
        for run in range(runs)
    )


def draw(
    name: str, subjects: int, drift: float, pair_sd: float, slowdown: float, rng: np.random.Generator
) -> tuple[Rounds, Rounds]:
    """Runs of both trees for a suite; the first subject of this tree is slower.

    Args:
        name: of the population.
        subjects: of the suite.
        drift: of log time per process.
        pair_sd: standard deviation of what both runs of a pair share, of log time.
        slowdown: of the first subject, as a ratio.
        rng: source of randomness.
    """
    population = POPULATIONS[name]
    quiet = type(population)(**{**population.__dict__, "session_sd": 0.0, "common_session_sd": 0.0})
    rounds = draw_rounds(quiet, subjects, PAIRS, rng).astype(float)
    # Drawn only where wanted, so that the other situations stay the ones of earlier versions.
    shared = rng.normal(0, pair_sd, (subjects, PAIRS)) if pair_sd else np.zeros((subjects, PAIRS))
    trees = []
    for is_other, runs in ((True, rounds[:, :PAIRS]), (False, rounds[:, PAIRS:])):
        places = np.array([position(pair, is_other=is_other) for pair in range(PAIRS)])
        trees.append(runs * np.exp(drift * places + shared)[:, :, None])
    trees[1][0] *= 1 + slowdown
    other, this = (np.rint(tree).astype(np.int64) for tree in trees)
    return other, this


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suites", type=int, default=400)
    parser.add_argument("--power-suites", type=int, default=60)
    parser.add_argument("--subjects", type=int, default=50)
    given = parser.parse_args()
    for name, band, drift, pair_sd in (
        ("h200", 0.005, 0.0, 0.0),
        ("h200", 0.005, 0.0002, 0.0),
        ("h200", 0.02, 0.0, 0.0),
        ("h200", 0.01, 0.0, 0.005),
        ("mixed", 0.02, 0.0, 0.0),
        ("mixed", 0.02, 0.0, 0.01),
        ("heavy", 0.02, 0.0, 0.0),
    ):
        rng = np.random.default_rng([3, *name.encode(), int(band * 1e4), int(drift * 1e6)])
        worse = better = pairs = unchanged = 0
        for _ in range(given.suites):
            verdicts, made = run_pairs(*draw(name, given.subjects, drift, pair_sd, 0.0, rng), band)
            kinds = [verdict.kind for verdict in verdicts]
            worse += any(kind.fails for kind in kinds)
            better += VerdictKind.IMPROVEMENT in kinds
            unchanged += kinds.count(VerdictKind.UNCHANGED)
            pairs += made
        cases = given.suites * given.subjects
        print(
            f"{name}, band {band:.1%}, drift {drift:.2%} a process, {pair_sd:.1%} shared by a pair: "
            f"false alarms {write_rate(worse, given.suites)}, "
            f"false improvements {write_rate(better, given.suites)}, {pairs / cases:.2f} pairs a case, "
            f"UNCHANGED {unchanged / cases:.1%}",
            flush=True,
        )
        for slowdown in (0.005, 0.01, 0.02, 0.03, 0.05):
            found = sum(
                run_pairs(*draw(name, given.subjects, drift, pair_sd, slowdown, rng), band)[0][0].kind
                is VerdictKind.REGRESSION
                for _ in range(given.power_suites)
            )
            print(f"    +{slowdown:.1%}: {write_rate(found, given.power_suites)}", flush=True)


if __name__ == "__main__":
    main()
