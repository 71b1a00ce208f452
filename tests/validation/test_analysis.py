"""The study's analysis gives back what synthetic collections were made with."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks.validate.analyse import judge_controls
from benchmarks.validate.analyse import main as analyse
from benchmarks.validate.collect import main as collect
from benchmarks.validate.collect import read_verdicts
from benchmarks.validate.false_alarms import (
    collect_p_values,
    describe_p_values,
    measure_false_alarms,
    measure_strictness,
    share_study,
)
from benchmarks.validate.power import Truth, by_cost, draw_injected, measure_power, measure_truth
from benchmarks.validate.rules import RULES
from benchmarks.validate.study import Study, injectable, level_in, load_study
from pytest_nsight.calibrate.noise_levels import MDE_SITUATIONS
from pytest_nsight.calibrate.resampling import Situation
from pytest_nsight.model.verdicts import VerdictKind
from tests.validation.collections import make_collection


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_collection(tmp_path_factory.mktemp("study") / "collection")


@pytest.fixture(scope="module")
def study(folder: Path) -> Study:
    loaded = load_study([folder])
    share_study(loaded)
    return loaded


@pytest.mark.slow
def test_pools_are_told_apart(study: Study) -> None:
    assert [len(study.sound), len(study.injected), len(study.controls["idle"])] == [56, 54, 9]
    assert list(study.boards.values()) == ["A", "B"]
    assert len(study.subjects) == 12
    assert len(study.live) == 20


@pytest.mark.slow
def test_a_case_that_is_left_out_is_gone(folder: Path, study: Study) -> None:
    name = study.subjects[0].case.rpartition("[")[2].removesuffix("]")

    assert load_study([folder], [name]).subjects == study.subjects[1:]
    with pytest.raises(ValueError, match="no case is named typo; there are "):
        load_study([folder], ["typo"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--without", "typo"], "no case is named typo; there are"),
        (["--resamples", "0"], "--resamples, --power-draws and --processes are at least 1"),
        (["--output", "/dev/null"], "--output /dev/null is no folder"),
        (["nowhere"], "nowhere/collection.json"),
    ],
)
def test_a_wrong_argument_is_told(
    folder: Path, arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        analyse([str(folder), *arguments])
    assert sentence in capsys.readouterr().err


@pytest.mark.slow
def test_findings_are_told_by_what_the_work_really_cost(study: Study) -> None:
    share_study(study)
    found = measure_power([0.02], 2, 1, 1, is_real=True)
    subject = found[0].subject

    costly = [Truth(subject, level, 0.031, 0.0, 9) for level in (5, 10, 20, 30, 50)]
    odd = [Truth(subject, level, 0.0141, 0.0, 9) for level in (5, 10, 20, 30, 50)]

    assert {finding.per_mille for finding in by_cost(found, costly)} == {30}
    assert by_cost(found, odd) == []


@pytest.mark.slow
def test_the_truth_of_an_injection_is_measured(study: Study) -> None:
    found = measure_truth(study)

    assert {truth.per_mille for truth in found} == {5, 10, 20, 30, 50}
    assert {truth.runs for truth in found} == {9}
    # 5 standard errors: one of two million.
    assert all(abs(truth.change - truth.per_mille / 1000) < 5 * truth.error for truth in found)
    assert all(0.0002 < truth.error < 0.001 for truth in found)


@pytest.mark.slow
@pytest.mark.parametrize("situation", MDE_SITUATIONS)
def test_one_case_is_slower_in_an_injected_resample_and_no_other(study: Study, situation: Situation) -> None:
    subject, _, position = list(injectable(study.subjects))[2]
    resample = draw_injected(study, situation, subject, position, 50, np.random.default_rng(1))

    assert resample is not None
    assert len(resample.new) == 9
    positions = {one: place for one, _, place in injectable(study.subjects)}
    by_id = {process.run: process for process in study.injected}
    for process in resample.new:
        for one, summary in process.summaries.items():
            if one in positions:
                assert level_in(by_id[summary.run], positions[one]) == (50 if one == subject else 0)
    sides = [
        {process.summaries[one].run for process in runs if one in process.summaries}
        for one in resample.new[0].summaries
        for runs in (resample.stored, resample.new)
    ]
    assert all(before.isdisjoint(now) for before, now in zip(sides[::2], sides[1::2], strict=True))


@pytest.mark.long
def test_multiplied_and_injected_slowdowns_are_found_alike(study: Study) -> None:
    found = {
        is_real: [
            finding
            for finding in measure_power((0.01,), 12, 1, 1, is_real=is_real)
            if finding.situation is not Situation.OTHER_BOARD
        ]
        for is_real in (False, True)
    }

    for findings in found.values():
        assert all(finding.is_found for finding in findings if finding.per_mille >= 30)
        assert not any(finding.is_found for finding in findings if finding.per_mille == 5)
        assert not any(finding.others for finding in findings)


@pytest.mark.slow
def test_false_alarms_are_the_same_however_many_processes_count_them(study: Study) -> None:
    one, two = (
        measure_false_alarms(Situation.SAME_BOARD, 0.02, 60, 1, processes, with_rules=True) for processes in (1, 2)
    )

    assert one == two
    assert one is not None
    assert one.gate.resamples == 60
    assert one.gate.gate.suites.hits == 0


@pytest.mark.slow
def test_tests_on_rounds_raise_alarms_over_unchanged_code_where_a_wide_band_does_not(study: Study) -> None:
    share_study(study)
    found = measure_false_alarms(Situation.SAME_BOARD, 0.02, 20, 1, 1, with_rules=True)

    assert found is not None
    rates = {rule.name: alarms.suites.value for rule, alarms in zip(RULES, found.rules, strict=True)}
    assert rates["Welch on rounds, p < .05"] > 0.5
    assert rates["Mann-Whitney, p < .05 (google/benchmark)"] > 0.5
    assert rates["mean > +5 %"] == 0


@pytest.mark.slow
def test_a_strict_check_settles_what_a_wide_band_lets_it_and_tells_what_no_band_settles(study: Study) -> None:
    share_study(study)
    wide, narrow = (measure_strictness(Situation.SAME_BOARD, band, 20, 1, 1) for band in (0.05, 0.0001))

    assert wide is not None
    assert (wide.suites.hits, wide.worst, wide.runs) == (0, (), 1)
    assert narrow is not None
    assert narrow.suites.hits == 20
    assert narrow.cases.attempts == 20 * len(study.subjects)
    assert [count for _, count in narrow.worst] == [20, 20, 20]


@pytest.mark.slow
def test_p_values_of_alternating_runs_are_nearly_uniform(study: Study) -> None:
    described = describe_p_values(collect_p_values(Situation.SAME_SESSION, 40, 1))

    assert described["number"] == 40 * 12
    assert described["ks_distance"] < 0.15
    assert described["below_0.05"] < 0.1


@pytest.mark.slow
def test_a_harmless_control_fails_nothing(study: Study) -> None:
    found = judge_controls(study, 1)["idle"]

    assert set(found) == {Situation.SAME_BOARD, Situation.OTHER_BOARD}
    assert sum(found[Situation.SAME_BOARD].values()) == 20 * 12
    assert found[Situation.SAME_BOARD][VerdictKind.REGRESSION] == 0


@pytest.mark.long
def test_every_table_is_written(folder: Path, tmp_path: Path) -> None:
    analyse(
        [str(folder), "--output", str(tmp_path), "--resamples", "10", "--power-draws", "4", "--processes", "2"],
    )

    text = (tmp_path / "results.md").read_text()
    for title in ("Data", "Noise", "False alarms", "Power by length", "Negative controls", "Live checks"):
        assert re.search(rf"^## {title}.*\n\n", text, re.MULTILINE)
    assert "| baselines | 1.0 % | 15 | 0.00 % [0.00, 21.80] | 24 to 24 | 2.0 | 2.0 | 180 UNCHANGED |" in text
    assert "| git HEAD | 1.0 % | 5 | 0.00 % [0.00, 52.18] | 48 to 48 | 4.0 | 4.0 | 60 UNCHANGED |" in text
    assert "nan" not in text
    gate = json.loads((tmp_path / "results.json").read_text())["gate"]
    assert [entry["resamples"] for entry in gate] == [10] * 9


@pytest.mark.long
def test_collecting_stops_in_time_and_tells_what_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    quick = ("--", "--nsight-collector=torch", "--nsight-rounds=3", "-k", "gelu or add-small")

    code = collect(
        [str(tmp_path / "c"), "--minutes", "8", "--sound", "2", "--live", "1", "--sessions", "1", *quick]
    )

    assert code == 0
    log = json.loads((tmp_path / "c" / "collection.json").read_text())
    assert [entry["file"] for entry in log["pools"]] == ["sound-1.json.gz"]
    assert log["live"][0]["exit"] == 0
    assert sum(log["live"][0]["verdicts"].values()) == 2
    # Less time than a run takes: nothing is begun, and what was there stays.
    assert collect([str(tmp_path / "c"), "--minutes", "0.1", "--sound", "2", *quick]) == 0
    assert json.loads((tmp_path / "c" / "collection.json").read_text()) == log


@pytest.mark.slow
def test_a_check_without_a_result_has_no_verdicts(tmp_path: Path) -> None:
    assert read_verdicts(tmp_path / "missing.json") == {}
