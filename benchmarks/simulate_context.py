"""False alarms and power where confirming processes measure short kernels in another context, by simulation.

What runs before a short kernel changes its time: caches, clocks, memory. Here such a kernel has two levels, 60 to
140 ns apart. In a process of the whole suite, whose order is random, it lies on the slower one with a probability
of its own, 20 to 80 %. In a confirming process, which measures suspects only, that probability is another one:

    mixed     any, uniformly: contexts then differ by 33 ns (standard deviation), as measured on H200s
    fixed     0 or 1, for a case that always has the same predecessor: 54 ns, the worst there can be
    chains    any, and in place of the short kernels there are chains of 20 to 120 launches of 3 to 8 of them, each
              kernel on a level of its own that all its launches share
    together  the same chains, but all kernels of a chain are on their slower levels at the same time

Suites have short kernels (1 to 5 us), or chains of them, and as many long ones (50 us to 3 ms), whose levels do not
depend on the context. They are driven by the gate's own functions, with forced looks: beside the suspects, three
random cases of each suite are sent through all looks. "before" hides from the gate which runs confirm, "after" does
not.

    python -m benchmarks.simulate_context --suites 300
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.simulate_gate import Rounds, write_rate
from pytest_nsight.judge.judge import LOOKS, SubjectRuns, judge, suspects
from pytest_nsight.model.kernel_names import family
from pytest_nsight.model.shapes import Shape, ShapeUse
from pytest_nsight.model.values import Policy, RunSummary, Subject
from pytest_nsight.model.verdicts import Verdict, VerdictKind

STORED = 5
ROUNDS = 40
FORCED = 3
TICK_NS = 32
LAUNCH_NS = {"short": (1_000.0, 5_000.0), "chain": (1_000.0, 3_000.0), "long": (50_000.0, 3_000_000.0)}
"""Shortest and longest launch, by the kind of case."""

SLOWDOWNS = {"long": (0.025, 0.03, 0.05), "short": (0.05, 0.1, 0.2, 0.5), "chain": (0.025, 0.03, 0.05, 0.1)}
CONTEXTS = {"mixed": "short", "fixed": "short", "chains": "chain", "together": "chain"}
"""What the cases are that are not long, by how contexts differ."""


@dataclass(frozen=True)
class Suite:
    """One suite and the rounds of all its runs, whichever of them the gate asks for.

    Attributes:
        durations_ns: of the cases, first the short ones or the chains, then the long ones.
        shapes: launches of each case.
        whole: rounds in processes of the whole suite, (case, run, round): stored ones, then new ones.
        confirming: rounds in confirming processes, likewise; the gate asks for the last of them.
    """

    durations_ns: tuple[float, ...]
    shapes: tuple[tuple[ShapeUse, ...], ...]
    whole: Rounds
    confirming: Rounds

    @property
    def cases(self) -> int:
        """Number of cases."""
        return len(self.durations_ns)


def draw_suite(context: str, cases: int, rng: np.random.Generator) -> Suite:
    """Draws a suite of unchanged code.

    Args:
        context: one of `CONTEXTS`.
        cases: half of them short or chains.
        rng: draws.
    """
    sensitive = cases // 2
    kinds = [CONTEXTS[context]] * sensitive + ["long"] * (cases - sensitive)
    launches = [_draw_launches(kind, rng) for kind in kinds]
    kernels_ns = [
        np.exp(rng.uniform(math.log(low), math.log(high), len(own)))
        for own, (low, high) in zip(launches, [LAUNCH_NS[kind] for kind in kinds], strict=True)
    ]
    durations = np.array([float(np.dot(own, times)) for own, times in zip(launches, kernels_ns, strict=True)])
    runs = STORED + LOOKS[-1]
    shift = rng.normal(0, 0.0005 * math.sqrt(2), cases)
    levels = [
        _draw_levels(context, own, runs, rng) if case < sensitive else np.zeros((2, runs))
        for case, own in enumerate(launches)
    ]
    sides = []
    for levels_ns in np.swapaxes(np.array(levels), 0, 1):
        run_effect = rng.normal(0, 0.001, (cases, runs)) + shift[:, None] * (np.arange(runs) >= STORED)
        means = (durations[:, None] + levels_ns) * np.exp(run_effect)
        rounds = means[..., None] * np.exp(rng.normal(0, 0.004, (cases, runs, ROUNDS)))
        sides.append((np.rint(rounds / TICK_NS) * TICK_NS).astype(np.int64))
    shapes = tuple(
        tuple(ShapeUse(Shape("kernel", f"kernel_{index}"), count, 0) for index, count in enumerate(own))
        for own in launches
    )
    return Suite(tuple(durations.tolist()), shapes, sides[0], sides[1])


def _draw_launches(kind: str, rng: np.random.Generator) -> tuple[int, ...]:
    """How often each kernel of a case is launched."""
    if kind != "chain":
        return (1,)
    kernels = int(rng.integers(3, 9))
    total = int(rng.integers(20, 121))
    return tuple((1 + rng.multinomial(total - kernels, rng.dirichlet(np.ones(kernels)))).tolist())


def _draw_levels(context: str, launches: Sequence[int], runs: int, rng: np.random.Generator) -> Rounds:
    """What a case takes longer, in ns, in each process of the suite and in each confirming one: (2, run)."""
    kernels = len(launches)
    gaps_ns = rng.uniform(60, 140, kernels) * np.array(launches)
    independent = 1 if context == "together" else kernels
    in_suite = rng.uniform(0.2, 0.8, independent)
    confirmed = rng.integers(0, 2, independent) if context == "fixed" else rng.uniform(0, 1, independent)
    return np.array(
        [
            gaps_ns @ np.broadcast_to(rng.random((independent, runs)) < weight[:, None], (kernels, runs))
            for weight in (in_suite, confirmed)
        ]
    )


def check(
    suite: Suite, forced: Sequence[int], *, knows_context: bool, slower: Mapping[int, float] | None = None
) -> tuple[Verdict, ...]:
    """The verdicts of the gate after its looks.

    Args:
        suite: what is measured.
        forced: cases that go through all looks, suspect or not.
        knows_context: whether runs record how many cases their process measured.
        slower: case -> by how much its new runs are slower.
    """
    names = [Subject(f"suite.py::case[{index:02}]") for index in range(suite.cases)]
    sizes = [suite.cases]

    def summarise(case: int, run: int, number: int) -> RunSummary:
        is_new = run >= STORED
        measured = sizes[number] if is_new else suite.cases
        rounds = suite.whole if measured == suite.cases else suite.confirming
        factor = 1 + (slower or {}).get(case, 0.0) * is_new
        return RunSummary(
            names[case],
            run=f"{'new' if is_new else 'stored'}/{run}",
            session="new" if is_new else "stored",
            board="GPU-simulated",
            rounds={"kernel": tuple(np.rint(rounds[case, run] * factor).astype(int).tolist())},
            shapes=suite.shapes[case],
            cases=measured if knows_context else 0,
        )

    counts = [LOOKS[0]] * suite.cases

    def collect() -> list[SubjectRuns]:
        return [
            SubjectRuns(
                names[case],
                Policy(band=0.02),
                tuple(summarise(case, run, 0) for run in range(STORED)),
                tuple(summarise(case, STORED + number, number) for number in range(counts[case])),
            )
            for case in range(suite.cases)
        ]

    for before, look in itertools.pairwise(LOOKS):
        found = {*suspects(collect(), family=family), *(names[case] for case in forced)}
        chosen = [case for case in range(suite.cases) if names[case] in found]
        sizes += [len(chosen)] * (look - before)
        for case in chosen:
            counts[case] = look
    return judge(collect(), family=family)


@dataclass(frozen=True)
class Tally:
    """Counts over suites of unchanged code, for one way to judge them.

    Attributes:
        failed_suites: suites in which any case failed.
        failed: "short", "chain" or "long" -> cases that failed.
        kinds: octave of the duration in us -> verdicts of the forced cases.
    """

    failed_suites: int
    failed: Counter[str]
    kinds: Mapping[int, Counter[VerdictKind]]


def count_alarms(context: str, suites: int, cases: int, seed: int, *, knows_context: bool) -> Tally:
    """Judges suites of unchanged code; the same ones for the same seed."""
    rng = np.random.default_rng([seed, *context.encode()])
    failed_suites, failed, kinds = 0, Counter[str](), dict[int, Counter[VerdictKind]]()
    for _ in range(suites):
        suite = draw_suite(context, cases, rng)
        forced = rng.choice(cases, FORCED, replace=False).tolist()
        verdicts = check(suite, forced, knows_context=knows_context)
        failing = [case for case, verdict in enumerate(verdicts) if verdict.kind.fails]
        failed_suites += bool(failing)
        failed.update(CONTEXTS[context] if case < cases // 2 else "long" for case in failing)
        for case in forced:
            octave = int(math.log2(suite.durations_ns[case] / 1000))
            kinds.setdefault(octave, Counter())[verdicts[case].kind] += 1
    return Tally(failed_suites, failed, kinds)


def count_found(
    context: str, slowdown: tuple[str, float], suites: int, cases: int, seed: int, *, knows_context: bool
) -> int:
    """In how many suites one slower case is found; the same suites for the same seed.

    Args:
        context: one of `CONTEXTS`.
        slowdown: the kind of case, "short", "chain" or "long", and by which ratio it is slower.
        suites: how many.
        cases: of each.
        seed: of the draws.
        knows_context: whether the gate knows which runs confirm.
    """
    length, factor = slowdown
    rng = np.random.default_rng([seed, 1, *context.encode()])
    found = 0
    for _ in range(suites):
        case = cases // 2 if length == "long" else 0
        suite = draw_suite(context, cases, rng)
        verdicts = check(suite, [], knows_context=knows_context, slower={case: factor})
        found += verdicts[case].kind is VerdictKind.REGRESSION
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suites", type=int, default=300, help="suites of unchanged code in each context")
    parser.add_argument("--power-suites", type=int, default=60, help="suites for each slowdown")
    parser.add_argument("--cases", type=int, default=26)
    parser.add_argument("--seed", type=int, default=20260101)
    options = parser.parse_args(arguments)
    for context, sensitive in CONTEXTS.items():
        for name, knows_context in (("before", False), ("after", True)):
            tally = count_alarms(context, options.suites, options.cases, options.seed, knows_context=knows_context)
            print(
                f"{context}, {name}: suites with a false alarm {write_rate(tally.failed_suites, options.suites)}; "
                f"cases that failed: {tally.failed[sensitive]} {sensitive}, {tally.failed['long']} long",
                flush=True,
            )
            for octave, kinds in sorted(tally.kinds.items()):
                total = kinds.total()
                shares = ", ".join(f"{count / total:.0%} {kind.value}" for kind, count in kinds.most_common())
                print(f"    {2**octave} to {2 ** (octave + 1)} us, {total} forced: {shares}", flush=True)
        for length in ("long", sensitive) if options.power_suites else ():
            for slowdown in SLOWDOWNS[length]:
                before, after = (
                    count_found(
                        context,
                        (length, slowdown),
                        options.power_suites,
                        options.cases,
                        options.seed,
                        knows_context=knows_context,
                    )
                    for knows_context in (False, True)
                )
                rates = [write_rate(found, options.power_suites) for found in (before, after)]
                print(
                    f"    one {length} case +{slowdown:.1%}: found before {rates[0]}, after {rates[1]}", flush=True
                )


if __name__ == "__main__":
    main()
