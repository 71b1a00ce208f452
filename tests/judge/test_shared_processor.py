"""A processor that other programs had is no ground for a verdict on the code."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_nsight.judge.environment_checks import explain_environment, explain_unfit
from pytest_nsight.judge.judge import judge
from pytest_nsight.model.values import Clocks, Policy, RunSummary
from pytest_nsight.model.verdicts import VerdictKind
from tests.judge.runs import make_evidence, make_runs


def runs(*lost: float | None) -> tuple[RunSummary, ...]:
    made = make_runs([1000.0] * len(lost), "session")
    return tuple(replace(run, clocks=Clocks(processor_lost=share)) for run, share in zip(made, lost, strict=True))


@pytest.mark.parametrize(
    ("baseline", "new", "words"),
    [
        (runs(0.01, 0.0), runs(0.02), ""),
        (runs(None), runs(None), ""),
        (
            runs(None),
            runs(0.4),
            "had the processor in 40% of the time that the rounds needed it, 0% in the baseline",
        ),
        (runs(0.01), runs(0.01, 0.3), "needed it, 1% in the baseline; end them and run again"),
        (runs(0.3), runs(0.01), "while the baseline was measured in 30% of the time"),
        (runs(0.3), runs(0.01), "needed it, 1% now; save a new one with --nsight-save"),
        # A baseline that is saved beside the same programs would be as bad.
        (runs(0.3), runs(0.4), "needed it, 30% in the baseline; end them and save a new one with --nsight-save"),
        (runs(0.4), runs(0.3), "needed it, 30% now; end them and save a new one with --nsight-save"),
    ],
)
def test_what_other_programs_took_is_named(
    baseline: tuple[RunSummary, ...], new: tuple[RunSummary, ...], words: str
) -> None:
    sentence = explain_environment(baseline, new).replace(" %", "%")

    assert words in sentence
    assert bool(sentence) == bool(words)


def with_clocks(**clocks: object) -> tuple[RunSummary, ...]:
    return make_runs([1000.0] * 3, "session", clocks=Clocks(**clocks))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("measured", "words"),
    [
        (with_clocks(processor_lost=0.01), ""),
        (with_clocks(), ""),
        (runs(0.01, 0.3), "other programs had the processor in 30% of the time that the rounds needed it"),
        (with_clocks(throttled=0.1), ""),
        (
            with_clocks(throttled=0.5, reasons=("power cap",)),
            "the GPU was throttled (power cap) in 50% of the rounds",
        ),
        (with_clocks(foreign_processes=("pid 7 (python)",)), "other processes computed on the GPU (python)"),
    ],
)
def test_runs_that_make_a_poor_baseline_are_known_when_they_are_saved(
    measured: tuple[RunSummary, ...], words: str
) -> None:
    """What is said of them is what the next session on an idle machine finds of its baseline."""
    idle = with_clocks(processor_lost=0.0, throttled=0.0)

    assert explain_unfit(measured).replace(" %", "%") == words
    assert bool(explain_environment(measured, idle)) == bool(words)


@pytest.mark.parametrize(
    ("before", "words"),
    [
        (runs(0.3), "while 0a1b2c3 was measured in 30% of the time that the rounds needed it, 1% now; run again"),
        (with_clocks(throttled=0.5), "the GPU was throttled for 0a1b2c3 in 50% of the rounds, 0% now; run again"),
        (with_clocks(foreign_processes=("pid 7 (x)",)), "computed on the GPU for 0a1b2c3 (x); run again"),
        (with_clocks(sm_mhz=1500), "1500 MHz in 0a1b2c3 (-33.3%); find what limits or raised it, or run again"),
    ],
)
def test_of_two_trees_nothing_is_to_be_saved_again(before: tuple[RunSummary, ...], words: str) -> None:
    new = with_clocks(processor_lost=0.01, throttled=0.0, sm_mhz=1000)

    sentence = explain_environment(before, new, "0a1b2c3").replace(" %", "%")

    assert sentence.endswith(words)


@pytest.mark.parametrize(
    ("ratio", "kind"),
    [(1.45, VerdictKind.UNCHANGED), (1.55, VerdictKind.REGRESSION), (1.75, VerdictKind.REGRESSION)],
)
def test_between_sessions_on_a_processor_the_band_is_half_the_time(ratio: float, kind: VerdictKind) -> None:
    """What docs/tutorial.md says of a laptop: no REGRESSION below 50 %, and one of 75 % is found in 95 %."""
    board = "Intel(R) Xeon(R) Processor, 2 threads"
    evidence = make_evidence(1e7, ratio, sd=0.1, policy=Policy(band=0.01), board=board)

    (verdict,) = judge([evidence])

    assert verdict.kind is kind
    assert verdict.comparison is not None
    assert verdict.comparison.effective_band == pytest.approx(0.5)
    assert verdict.comparison.mde == pytest.approx(0.75, abs=0.01)
    assert kind is not VerdictKind.UNCHANGED or "equal within 75 %" in verdict.sentence
