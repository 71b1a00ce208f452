"""A CPU that other programs had is no ground for a verdict on the code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from pytest_nsight.judge.environment_checks import explain_environment, explain_unfit, leave_out_disturbed
from pytest_nsight.judge.judge import SubjectRuns
from pytest_nsight.model.values import Clocks, Policy, RunSummary
from pytest_nsight.model.verdicts import Verdict, VerdictKind
from tests.judge.runs import SUBJECT, judge, make_evidence, make_runs, suspects, wobble


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
            "had the CPU in 40% of the time that the rounds needed it, 0% in the baseline",
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
        (runs(0.01, 0.0, 0.02, 0.3), ""),
        (runs(0.01, 0.3), "other programs had the CPU in 30% of the time that the rounds needed it"),
        (with_clocks(throttled=0.1), ""),
        (
            with_clocks(throttled=0.5, reasons=("software thermal slowdown",)),
            "the GPU was throttled (software thermal slowdown) in 50% of the rounds",
        ),
        (with_clocks(throttled=0.5, reasons=("software power cap",)), ""),
        (with_clocks(foreign_processes=("pid 7 (python)",)), "other processes computed on the GPU (python)"),
    ],
)
def test_runs_that_make_a_poor_baseline_are_known_when_they_are_saved(
    measured: tuple[RunSummary, ...], words: str
) -> None:
    """What is said of them is what the next session on an idle machine finds of its baseline."""
    idle = with_clocks(processor_lost=0.0, throttled=0.0)

    assert explain_unfit(measured).replace(" %", "%") == words
    assert bool(explain_environment(leave_out_disturbed(measured, 3), idle)) == bool(words)


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
def test_between_sessions_on_a_cpu_the_band_is_half_the_time(ratio: float, kind: VerdictKind) -> None:
    """What docs/tutorial.md says of a laptop: no REGRESSION below 50 %, and one of 75 % is found in 95 %."""
    board = "Intel(R) Xeon(R) Processor, 2 threads"
    evidence = make_evidence(1e7, ratio, sd=0.1, policy=Policy(band=0.01), board=board)

    (verdict,) = judge([evidence])

    assert verdict.kind is kind
    assert verdict.comparison is not None
    assert verdict.comparison.effective_band == pytest.approx(0.5)
    assert verdict.comparison.mde == pytest.approx(0.75, abs=0.01)
    assert kind is not VerdictKind.UNCHANGED or "equal within 75 %" in verdict.sentence


def disturb(run: RunSummary, share: float = 0.3) -> RunSummary:
    return replace(run, clocks=Clocks(processor_lost=share))


def judge_one(stored: Sequence[RunSummary], new: Sequence[RunSummary], **given: str) -> Verdict:
    subject = SubjectRuns(SUBJECT, Policy(band=0.01), tuple(stored), tuple(new), **given)  # type: ignore[arg-type]
    (verdict,) = judge([subject])
    return verdict


SLOWER = make_runs(wobble(1.1e6, 9), "now", recorded="2026-01-03T00:00:00Z")
STORED = make_runs(wobble(1e6, 5), "stored")


def test_a_disturbed_run_is_set_aside_and_a_regression_is_found_without_it() -> None:
    slow = make_runs([1.6e6], "slow")[0]
    disturbed = replace(disturb(slow), session="stored")

    verdict = judge_one([*STORED, disturbed], [*SLOWER, replace(disturb(slow), session="now")])

    assert verdict.kind is VerdictKind.REGRESSION
    assert verdict.comparison is not None
    assert verdict.comparison.ratio == pytest.approx(1.1, rel=1e-3)
    assert (verdict.comparison.baseline_runs, verdict.comparison.new_runs) == (5, 9)
    assert "2 runs set aside, as other programs had the CPU" in verdict.sentence


def test_with_fewer_than_three_stored_runs_left_the_machine_is_the_reason() -> None:
    verdict = judge_one([*STORED[:2], *map(disturb, STORED[2:])], SLOWER)

    assert verdict.kind is VerdictKind.ENVIRONMENT
    assert "other programs had the CPU while the baseline was measured" in verdict.sentence


def test_a_save_on_a_busy_machine_is_not_replaced_by_an_older_one() -> None:
    """What was accepted last counts, though all its runs were disturbed: older times would be false ones."""
    accepted = make_runs(wobble(1.1e6, 5), "newest", recorded="2026-01-02T00:00:00Z")

    verdict = judge_one([*STORED, *map(disturb, accepted)], SLOWER)

    assert verdict.kind is not VerdictKind.REGRESSION


def test_a_session_whose_runs_were_all_disturbed_asks_for_more_runs_before_it_gives_up() -> None:
    new = [disturb(run) for run in SLOWER[:1]]
    subject = SubjectRuns(SUBJECT, Policy(band=0.01), STORED, tuple(new))

    assert suspects([subject]) == (SUBJECT,)
    assert judge_one(STORED, new).kind is VerdictKind.ENVIRONMENT
