"""The report is true of pools of known noise, and a gate that is wrong shows in it."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from pytest_nsight.calibrate import replayed_gate
from pytest_nsight.calibrate.calibration_report import report
from pytest_nsight.calibrate.false_alarms import Alarms, measure_alarms
from pytest_nsight.calibrate.noise_levels import MDE_SITUATIONS, measure_levels
from pytest_nsight.calibrate.pool import Pool, PooledRun, list_processes
from pytest_nsight.calibrate.replayed_gate import replay
from pytest_nsight.calibrate.resampling import STORED_BOARDS, Situation, draw_resamples
from pytest_nsight.judge import compare_times, looks
from pytest_nsight.judge import subject_verdict as verdict
from pytest_nsight.model.errors import UsageError
from pytest_nsight.model.values import RunSummary
from pytest_nsight.model.verdicts import VerdictKind
from tests.calibrate.pools import Sessions, make_pool

pytestmark = pytest.mark.slow

QUIET = Sessions(boards=2, sessions=2, runs=14, subjects=12, canaries=2, session_sd=0.0005, board_sd=0.003)


def alarms_of(pool: Pool, situation: Situation, resamples: int = 40) -> Alarms:
    processes = list_processes(pool.summaries)
    found = measure_alarms(processes, pool.policies, situation, resamples, np.random.default_rng(5))
    assert found is not None
    return found


def slow(factor: float):
    def alter(run: RunSummary) -> RunSummary:
        return replace(run, rounds={"kernel": tuple(round(ns * factor) for ns in run.rounds["kernel"])})

    return alter


def drift(run: RunSummary) -> RunSummary:
    rounds = run.rounds["kernel"]
    return replace(
        run, rounds={"kernel": tuple(round(ns * (1 + 0.05 * i / len(rounds))) for i, ns in enumerate(rounds))}
    )


@pytest.mark.slow
def test_deviations_and_shifts_are_those_that_the_pool_was_made_with() -> None:
    pool = make_pool(
        Sessions(boards=2, sessions=3, runs=30, subjects=10, run_sd=0.004, session_sd=0.002, board_sd=0.02)
    )

    levels = measure_levels(list_processes(pool.summaries), pool.policies, 5, np.random.default_rng(1))

    assert np.mean([level.run_sd for level in levels]) == pytest.approx(0.004, rel=0.05)
    # The range of three values is 1.69 standard deviations on average; the larger of two ranges is more.
    assert 1.5 * 0.002 < np.mean([level.session_shift for level in levels]) < 3 * 0.002
    # That of two is 1.13.
    assert np.mean([level.board_shift for level in levels]) == pytest.approx(1.13 * 0.02, rel=0.6)


def test_a_pool_of_one_session_knows_no_shift_and_tells_what_would_be_found_on_its_board() -> None:
    pool = make_pool(Sessions(runs=10, subjects=11))

    levels = measure_levels(list_processes(pool.summaries), pool.policies, 5, np.random.default_rng(1))

    for level in levels:
        assert level.session_shift is None
        assert level.board_shift is None
        assert 0.02 < level.mde[Situation.SAME_SESSION] <= level.mde[Situation.SAME_BOARD]
        assert Situation.OTHER_BOARD not in level.mde


@pytest.mark.parametrize(
    ("runs", "situations"),
    [(3, set()), (5, {Situation.SAME_SESSION}), (6, {Situation.SAME_SESSION, Situation.SAME_BOARD})],
)
def test_few_runs_show_what_they_suffice_for(runs: int, situations: set[Situation]) -> None:
    pool = make_pool(Sessions(runs=runs, subjects=3))

    levels = measure_levels(list_processes(pool.summaries), pool.policies, 5, np.random.default_rng(1))

    assert [set(level.mde) for level in levels] == [situations] * 3


def test_boards_that_differ_hide_slowdowns_that_boards_alike_show() -> None:
    found = {}
    for board_sd in (0.0, 0.01):
        pool = make_pool(Sessions(boards=3, runs=10, subjects=11, canaries=2, board_sd=board_sd))
        levels = measure_levels(list_processes(pool.summaries), pool.policies, 5, np.random.default_rng(1))
        found[board_sd] = [level.mde[Situation.OTHER_BOARD] for level in levels if level.mde]

    assert max(found[0.0]) < min(found[0.01])


@pytest.mark.slow
def test_a_slowdown_of_the_mde_is_found_and_half_the_band_never_is() -> None:
    pool = make_pool(Sessions(runs=40, sessions=2, subjects=12, run_sd=0.004))
    processes = list_processes(pool.summaries)
    levels = measure_levels(processes, pool.policies, 5, np.random.default_rng(1))
    rng, found, half = np.random.default_rng(2), 0, 0
    resamples = [
        resample
        for resample, _ in zip(draw_resamples(processes, Situation.SAME_BOARD, rng), range(40), strict=False)
    ]
    for resample in resamples:
        level = levels[int(rng.integers(len(levels)))]
        for factor in (1 + level.mde[Situation.SAME_BOARD], 1.01):
            verdicts = replay(resample.change(slow(factor), level.subject), pool.policies).verdicts
            is_found = {v.subject: v.kind for v in verdicts}[level.subject] is VerdictKind.REGRESSION
            found, half = (found + is_found, half) if factor > 1.01 else (found, half + is_found)

    assert found >= 34  # of 40 at 95 %: less than this by chance in one of a thousand suites
    assert half == 0


@pytest.mark.slow
@pytest.mark.parametrize("situation", list(Situation))
def test_the_gate_raises_no_alarm_over_a_quiet_pool(situation: Situation) -> None:
    boards = STORED_BOARDS + 1 if situation is Situation.SEVERAL_BOARDS else 2
    found = alarms_of(make_pool(replace(QUIET, boards=boards)), situation)

    assert found.gate.suites.hits == 0
    # Two trees take two pairs before the first look.
    assert found.processes < (8 if situation is Situation.SAME_SESSION else 1.5)


@pytest.mark.slow
def test_a_level_that_is_too_generous_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = make_pool(replace(QUIET, run_sd=0.01, board_sd=0.0), band=0.0005)
    sound = alarms_of(pool, Situation.SAME_BOARD)

    for module in (looks, verdict):
        monkeypatch.setattr(module, "FALSE_DISCOVERY_RATE", 0.5)
    generous = alarms_of(pool, Situation.SAME_BOARD)

    assert sound.gate.suites.hits <= 2
    assert generous.gate.suites.interval[0] > 0.1
    assert sum(generous.failed.values()) == generous.gate.subjects.hits > 0


@pytest.mark.slow
def test_a_gate_that_takes_rounds_for_the_unit_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = make_pool(replace(QUIET, run_sd=0.01, board_sd=0.0), band=0.0005)

    def believe_rounds(*arguments: object, **options: object) -> object:
        noise = estimate(*arguments, **options)  # type: ignore[arg-type]
        tiny = replace(noise.run, variance=noise.run.variance / 100, degrees_of_freedom=1000.0)
        return replace(noise, run=tiny, session=replace(noise.session, variance=1e-12))

    estimate = compare_times.estimate_noise
    monkeypatch.setattr(compare_times, "estimate_noise", believe_rounds)

    assert alarms_of(pool, Situation.SAME_BOARD).gate.suites.interval[0] > 0.5


@pytest.mark.parametrize(("ratio", "runs"), [(1.022, 9), (1.05, 5)])
def test_only_suspects_get_more_runs_up_to_nine_unless_the_change_is_beyond_doubt(ratio: float, runs: int) -> None:
    pool = make_pool(Sessions(runs=30, sessions=2, subjects=12))
    processes = list_processes(pool.summaries)
    resample = next(draw_resamples(processes, Situation.SAME_BOARD, np.random.default_rng(1)))
    victim = next(iter(processes[0].summaries))

    found = replay(resample.change(slow(ratio), victim), pool.policies)

    assert found.runs[victim] == runs
    assert found.processes == runs
    assert {runs for subject, runs in found.runs.items() if subject != victim} == {1}
    assert {v.subject: v.kind for v in found.verdicts}[victim] is VerdictKind.REGRESSION


def test_a_comparison_of_two_trees_is_replayed_in_pairs_and_further_pairs_stand_in_for_runs_set_aside() -> None:
    pool = make_pool(Sessions(runs=40, subjects=12))
    resample = next(
        draw_resamples(list_processes(pool.summaries), Situation.SAME_SESSION, np.random.default_rng(1))
    )
    victim, *others = resample.new[0].summaries
    drifting = tuple(
        replace(one, summaries={**one.summaries, victim: drift(one.summaries[victim])}) if index == 0 else one
        for index, one in enumerate(resample.stored)
    )

    found = replay(replace(resample, stored=drifting).change(slow(1.022), victim), pool.policies)

    assert found.runs == {victim: 18} | dict.fromkeys(others, 4)
    assert found.processes == 18
    assert {v.subject: v.kind for v in found.verdicts}[victim] is VerdictKind.REGRESSION


def test_regressions_and_improvements_of_unchanged_code_are_equally_rare_at_any_level() -> None:
    pool = make_pool(Sessions(runs=40, sessions=2, subjects=12))
    processes = list_processes(pool.summaries)
    rng = np.random.default_rng(1)
    p_values = [
        verdict.comparison.p_slower
        for resample, _ in zip(draw_resamples(processes, Situation.SAME_BOARD, rng), range(30), strict=False)
        for verdict in replay(resample, pool.policies, fixed=5).verdicts
        if verdict.comparison is not None
    ]

    assert 0.4 < np.mean(p_values) < 0.6


def test_the_report_has_a_row_for_each_case_and_a_table_for_each_situation() -> None:
    text = report(make_pool(QUIET), stored=5, resamples=10, seed=1, width=120)

    assert text.startswith("56 runs of 12 subjects and 2 canaries, 4 sessions, 2 boards")
    assert "a run takes 8.0 s, 0.67 s for each subject" in text
    rows = [line for line in text.splitlines() if re.match(r"(test_case\[\d\d\]|copy|triad) ", line)]
    assert len(rows) == 14
    for situation in MDE_SITUATIONS:
        assert f"{situation.value}: 10 random resamples" in text
    assert text.count("false alarms a suite [exact 95 %]") == 3


def test_too_few_runs_are_refused_with_the_remedy() -> None:
    with pytest.raises(UsageError, match="2 whole runs, and at least 3 are needed; give more with --runs"):
        report(make_pool(Sessions(runs=2)), stored=5, resamples=10, seed=1, width=120)


def test_a_pool_too_small_for_resamples_says_so() -> None:
    text = report(make_pool(Sessions(runs=6)), stored=5, resamples=10, seed=1, width=120)

    assert "no false alarms can be counted" in text


def test_an_interrupted_run_is_told() -> None:
    pool = make_pool(Sessions(runs=12))
    text = report(replace(pool, summaries=pool.summaries[:-1]), stored=5, resamples=0, seed=1, width=120)

    assert "11 runs" in text
    assert "1 run left out" in text


def test_processes_hold_what_their_run_measured() -> None:
    process = list_processes(make_pool(Sessions(runs=1)).summaries)[0]

    assert isinstance(process, PooledRun)
    assert {summary.run for summary in process.summaries.values()} == {process.run}


def test_checks_with_forced_looks_are_counted_where_the_pool_has_confirming_runs() -> None:
    pool = make_pool(Sessions(sessions=2, runs=14, subjects=12, canaries=2))

    def part(run: RunSummary) -> RunSummary:
        # Canaries count among a process's cases.
        return replace(run, cases=14 if int(run.run.rpartition("/")[2]) <= 5 else 3 + 2)

    parted = replace(pool, summaries=tuple(map(part, pool.summaries)))
    text = report(parted, stored=5, resamples=20, seed=1, width=120)

    assert "forced looks" not in report(pool, stored=5, resamples=20, seed=1, width=120)
    assert "10 runs of 12 subjects and 2 canaries, 2 sessions, 1 board" in text
    assert "18 confirming runs of few cases" in text
    assert "left out" not in text
    assert "no checks with forced looks" not in text
    assert "same board, other session, forced looks: 20 random checks, 3 random cases of each" in text
    assert "verdicts on these cases: 60 UNCHANGED" in text


def test_what_checks_with_forced_looks_take_is_said_where_there_is_too_little() -> None:
    pool = make_pool(Sessions(runs=20, subjects=12))
    numbers = {run.run: int(run.run.rpartition("/")[2]) for run in pool.summaries}
    parted = replace(
        pool, summaries=tuple(replace(run, cases=12 if numbers[run.run] <= 12 else 3) for run in pool.summaries)
    )
    text = report(parted, stored=5, resamples=5, seed=1, width=120)

    assert "8 confirming runs of few cases" in text
    assert "no checks with forced looks can be counted: that takes 8 confirming runs of a case" in text


def test_runs_that_lack_cases_and_confirm_nothing_are_left_out_by_name() -> None:
    pool = make_pool(Sessions(runs=20, subjects=12))
    numbers = {run.run: int(run.run.rpartition("/")[2]) for run in pool.summaries}
    broken = tuple(
        replace(run, cases=6 if numbers[run.run] > 18 else 12)
        for run in pool.summaries
        if numbers[run.run] <= 18 or run.subject.case < "suite.py::test_case[06"
    )

    text = report(replace(pool, summaries=broken), stored=5, resamples=0, seed=1, width=120)

    assert "2 runs left out: a subject that most runs have is missing there" in text
    assert "confirming" not in text


def test_a_replayed_comparison_has_canaries_where_the_live_one_has() -> None:
    pool = make_pool(Sessions(runs=40, subjects=3, canaries=4))
    resample = next(
        draw_resamples(list_processes(pool.summaries), Situation.SAME_SESSION, np.random.default_rng(1))
    )
    victim = next(subject for subject in resample.new[0].summaries if not subject.is_canary)
    spoiled = resample.change(slow(1.022), victim)
    asked: list[bool] = []

    class Source(replayed_gate._PoolSource):
        def execute(self, assignment, upcoming=()):
            (process,) = super().execute(assignment, upcoming)
            canaries = [one for one in process.summaries if one.subject.is_canary]
            assert len(canaries) == (4 if assignment.canaries else 0)
            asked.append(bool(canaries))
            return (process,)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replayed_gate, "_PoolSource", Source)
        replay(spoiled, pool.policies)

    assert asked[:4] == [True] * 4
    assert asked[4:]
    assert not any(asked[4:])
