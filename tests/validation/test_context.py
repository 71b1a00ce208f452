"""What the experiment on a tiny kernel's predecessors computes."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest

from benchmarks.context.analyse import ProcessMean, describe_places, describe_shift, find_all, print_findings
from benchmarks.context.direct import Activity, error_of_mean, last_before_markers, middle_half
from benchmarks.context.steps import plan_steps, share_minutes
from pytest_nsight.calibrate.pool import Pool, write_pool
from pytest_nsight.model.values import Policy, RunSummary, Subject


def processes(context: str, *means_ns: float) -> list[ProcessMean]:
    return [ProcessMean("add", context, f"s/{n}", mean, place=n) for n, mean in enumerate(means_ns)]


def test_the_measured_kernel_is_the_last_one_before_its_marker() -> None:
    names = ["flush", "before", "measured", "bitwise_not", "flush", "measured", "bitwise_not_kernel", "bitwise_not"]

    found = last_before_markers([Activity(name, duration) for duration, name in enumerate(names)])

    assert [(one.name, one.duration_ns) for one in found] == [("measured", 2), ("measured", 5)]


def test_outliers_do_not_move_the_middle_half() -> None:
    assert statistics.fmean(middle_half([1, 100, 100, 100, 100, 100, 100, 10_000])) == 100


def test_the_error_of_the_middle_half_covers_what_chance_does() -> None:
    # Evenly spread values: the error must be positive, and shrink with more of them.
    few, many = list(range(0, 1000, 50)), [value % 1000 for value in range(0, 50_000, 50)]

    assert error_of_mean(few) > 5 * error_of_mean(many) > 0
    assert error_of_mean([7] * 30) == 0


def test_a_shift_has_the_error_of_both_contexts() -> None:
    groups = {"whole": processes("whole", 1280, 1300, 1320), "alone": processes("alone", 1400, 1400, 1400)}

    line = describe_shift("add", ("whole", "alone"), groups)

    assert line["shift_ns"] == 100
    assert line["error_ns"] == pytest.approx(20 / 3**0.5, abs=0.1)


def test_an_effect_of_the_place_is_a_correlation() -> None:
    rising = describe_places("add", "whole", processes("whole", 10, 20, 30, 40, 50))

    assert rising is not None
    assert rising["rank_correlation"] == 1
    assert describe_places("add", "whole", processes("whole", 10, 10, 10, 10)) is None


def test_contexts_with_a_prologue_are_compared_among_themselves() -> None:
    means = [*processes("whole", 10, 12), *processes("tiny", 11, 13)]
    means += [*processes("whole+round", 5, 7), *processes("alone+round", 6, 8)]

    shifts = [(line["from"], line["to"]) for line in find_all(means) if line["finding"] == "shift"]

    assert shifts == [("whole", "tiny"), ("whole+round", "alone+round")]


def test_pools_become_findings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tiny, filler = (
        Subject(f"benchmarks/context/suite/test_context.py::{name}")
        for name in ("test_tiny[memset]", "test_filler[sort]")
    )
    summaries = tuple(
        RunSummary(subject, f"s/{run}", "s", "GPU-1", {metric: (1000 + run,) * 20})
        for run in range(3)
        for subject, metric in ((tiny, "copy"), (filler, "kernel"))
    )
    policies = {tiny.case: Policy(metric="copy"), filler.case: Policy(metric="kernel")}
    write_pool(tmp_path / "whole.none.0.pool.gz", Pool(summaries, policies))

    print_findings(tmp_path)

    (line, *_) = [json.loads(text) for text in capsys.readouterr().out.splitlines()]
    assert (line["case"], line["context"], line["mean_ns"], line["sd_ns"]) == ("memset", "whole", 1001, 1)


def test_every_step_gets_its_share_of_the_time() -> None:
    steps = plan_steps(quick=False)
    left = 6.0
    for index in range(len(steps)):
        share = share_minutes(steps[index:], left)
        assert 0 < share <= left
        left -= share
    assert left == pytest.approx(0)
    assert len({step.name for step in steps}) == len(steps)
