"""Two boards on which XLA chose other kernels for the same programs, recorded with empty caches (decision 42)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_nsight.baselines.decode import decode
from pytest_nsight.judge.judge import SubjectRuns, judge
from pytest_nsight.judge.structure import compare_structure
from pytest_nsight.model.kernel_names import family
from pytest_nsight.model.values import Policy, RunSummary
from pytest_nsight.model.verdicts import Verdict

DATA = Path(__file__).parents[1] / "data/choices"
ORDERS = [("first", "second"), ("second", "first")]


def read(name: str, program: str) -> tuple[RunSummary, ...]:
    runs_of = decode((DATA / f"h100_{name}.json").read_text(encoding="utf-8"))
    (runs,) = (runs for subject, runs in runs_of.items() if subject.case.endswith(f"[{program}]"))
    return tuple(runs)


def judge_program(program: str, before: str, now: str) -> Verdict:
    stored, new = read(before, program), read(now, program)
    (verdict,) = judge([SubjectRuns(stored[0].subject, Policy(band=0.01), stored, new)], family=family)
    return verdict


@pytest.mark.parametrize(("before", "now"), ORDERS)
@pytest.mark.parametrize("program", ["jax-gradient", "jax-attention"])
def test_unchanged_programs_do_not_fail_and_name_xla(program: str, before: str, now: str) -> None:
    verdict = judge_program(program, before, now)

    assert not verdict.kind.fails, verdict.sentence
    assert "XLA, which chooses by time, made other kernels of the same program (" in verdict.sentence


@pytest.mark.parametrize("knows_programs", [True, False])
def test_what_xla_compiled_decides_whether_other_products_are_a_difference_of_structure(
    *, knows_programs: bool
) -> None:
    """Two runs of each board whose launches are the same."""
    stored, new = read("second", "jax-gradient")[::2], read("first", "jax-gradient")[:2]
    stored, new = ([run if knows_programs else replace(run, tuned=()) for run in runs] for runs in (stored, new))

    finding = compare_structure(stored, new, family)

    assert not finding.is_varying
    assert not finding.was_varying
    assert finding.changes
    assert [kernel.name for kernel in finding.retuned] == (["XLA"] if knows_programs else [])
