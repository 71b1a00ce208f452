"""Runs side by side get the verdicts that the gate gives them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from pytest_nsight.compare.change_report import render_json, render_markdown, render_text
from pytest_nsight.compare.run_changes import compare_runs
from pytest_nsight.compare.sources import RunSource
from pytest_nsight.gate.judging import judge_state
from pytest_nsight.gate.state import GateState, SessionPlan
from pytest_nsight.gate.stored_runs import StoredRuns
from pytest_nsight.model.shapes import ShapeUse
from pytest_nsight.model.values import Case, Policy, RunSummary
from pytest_nsight.model.verdicts import VerdictKind
from tests.judge.runs import SUBJECT, kernel, make_runs, uses, wobble

TILE, OTHER_TILE = (
    (ShapeUse(kernel(f"nvjet_sm90_tst_{tile}_64x6_2x1_v_bz_TNT"), 1, 20_000),) for tile in ("128x128", "64x64")
)


@pytest.mark.parametrize(
    ("shapes", "factor", "new", "kind"),
    [
        (OTHER_TILE, 1.0, 1, VerdictKind.INCONCLUSIVE),
        (OTHER_TILE, 1.0, 5, VerdictKind.STRUCTURE),
        (uses("unfused", "kernels"), 1.0, 1, VerdictKind.STRUCTURE),
        (TILE, 1.1, 5, VerdictKind.REGRESSION),
        (TILE, 1.0, 5, VerdictKind.UNCHANGED),
    ],
)
def test_a_pair_of_runs_gets_the_verdict_of_the_gate(
    shapes: tuple[ShapeUse, ...], factor: float, new: int, kind: VerdictKind
) -> None:
    before = make_runs(wobble(20_000, 5), "old", shapes=TILE)
    after = make_runs(wobble(20_000 * factor, new), "new", shapes=shapes)
    state = GateState(
        SessionPlan((Case(SUBJECT.case, Policy()),), new),
        summaries=after,
        reports={SUBJECT.case: ({"outcome": "passed", "when": "call"},)},
    )

    (verdict,) = judge_state(state, StoredRuns({SUBJECT: before}))
    changes = compare_runs(
        RunSource("before", {SUBJECT: before}), RunSource("after", {SUBJECT: after}, {SUBJECT: Policy()}), None
    )

    assert verdict.kind is kind
    assert [row.verdict for row in changes.rows] == [kind.value]
    assert changes.regressions == ((verdict.sentence,) if kind.fails else ())
    assert changes.failing == ((kind,) if kind.fails else ())


@pytest.mark.parametrize(
    ("shapes", "factor", "word"), [(uses("unfused", "kernels"), 1.0, "STRUCTURE"), (TILE, 1.1, "REGRESSION")]
)
def test_a_failing_case_has_the_word_of_its_verdict_before_its_sentence(
    shapes: tuple[ShapeUse, ...], factor: float, word: str
) -> None:
    before = RunSource("before", {SUBJECT: make_runs(wobble(20_000, 5), "old", shapes=TILE)})
    after = RunSource("after", {SUBJECT: make_runs(wobble(20_000 * factor, 5), "new", shapes=shapes)})
    changes = compare_runs(before, after, None)

    (sentence,) = changes.regressions
    assert [line for line in render_text(changes, 1000, 15).splitlines() if sentence in line] == [
        f"{word} {sentence}"
    ]
    assert f"\n- **{word}** " in render_markdown(changes, 15)
    assert json.loads(render_json(changes))["failing"] == [word]


@pytest.fixture
def small_baseline() -> tuple[RunSummary, ...]:
    """Two runs; other programs had the CPU during the second, which took longer."""
    quiet, other = make_runs([20_000, 24_000], "old", shapes=TILE)
    return quiet, replace(other, clocks=replace(other.clocks, processor_lost=0.7))


def test_a_small_baseline_is_of_its_quiet_runs_alone_where_the_gate_keeps_all(
    small_baseline: tuple[RunSummary, ...],
) -> None:
    after = make_runs([21_000], "new", shapes=TILE)
    state = GateState(
        SessionPlan((Case(SUBJECT.case, Policy()),), 1),
        summaries=after,
        reports={SUBJECT.case: ({"outcome": "passed", "when": "call"},)},
    )

    (verdict,) = judge_state(state, StoredRuns({SUBJECT: small_baseline}))
    (row,) = compare_runs(RunSource("a", {SUBJECT: small_baseline}), RunSource("b", {SUBJECT: after}), None).rows

    assert verdict.kind is VerdictKind.ENVIRONMENT
    assert row.verdict == "INCONCLUSIVE"
    assert verdict.comparison is not None
    assert row.before == pytest.approx(20_000, rel=0.01)
    assert verdict.comparison.baseline_ns == pytest.approx((20_000 * 24_000) ** 0.5, rel=0.01)


def test_runs_that_other_programs_disturbed_are_left_out_of_both_sides_alike() -> None:
    """The gate leaves them out of new runs, and keeps them in a small baseline, as nothing replaces them."""
    runs = make_runs([20_000, 30_000, 32_000, 31_000, 33_000], "one", shapes=TILE)
    disturbed = (runs[0], *(replace(run, clocks=replace(run.clocks, processor_lost=0.4)) for run in runs[1:]))
    source = RunSource("same", {SUBJECT: disturbed})

    (row,) = compare_runs(source, source, None).rows

    assert row.before == row.after
