"""Well-formed baselines with extreme values: a verdict with a finite comparison, and never an exception."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_nsight.baselines.decode import decode
from pytest_nsight.baselines.encode import encode
from pytest_nsight.judge.subject_runs import SubjectRuns
from pytest_nsight.model.values import METRICS, Clocks, Policy, RunSummary, Subject
from pytest_nsight.model.verdicts import SessionResult
from pytest_nsight.report.markdown import render
from tests.baselines.examples import CASE, run, summaries
from tests.judge.runs import judge

pytestmark = pytest.mark.slow

SUBJECT = Subject(CASE)
NEW = tuple(dataclasses.replace(run(number), session="now") for number in range(100, 103))
Change = Callable[[RunSummary], RunSummary]


def check(stored: tuple[RunSummary, ...], new: tuple[RunSummary, ...] = NEW) -> None:
    """Judges the new runs against what is read back from a file with the stored ones, and renders the verdict."""
    baseline = decode(encode({SUBJECT: stored})).get(SUBJECT, ())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        verdicts = judge([SubjectRuns(SUBJECT, Policy(), baseline, new)])
    for verdict in verdicts:
        compared = verdict.comparison
        assert compared is None or math.isfinite(compared.ratio)
    assert render(SessionResult("now", "", "nsys", {}, verdicts, new, baseline_runs=baseline))


def rounds(*durations: int) -> Change:
    return lambda stored: dataclasses.replace(stored, rounds=dict.fromkeys(METRICS, durations))


@pytest.mark.parametrize(
    "change",
    [
        rounds(),
        rounds(0),
        rounds(*[0] * 40),
        rounds(*[2**53] * 40),
        rounds(*range(2**53 - 40, 2**53)),
        rounds(*[0, 1, 2**53] * 20),
        rounds(*[1] * 39, 2**53),
        lambda stored: dataclasses.replace(stored, rounds={}),
        lambda stored: dataclasses.replace(stored, shapes=()),
        lambda stored: dataclasses.replace(
            stored,
            shapes=tuple(dataclasses.replace(use, count=2**31, median_ns=2**53) for use in stored.shapes),
            copied_bytes=2**63 - 1,
        ),
        lambda stored: dataclasses.replace(
            stored, clocks=Clocks(2**63 - 1, 1e6, 2**63 - 1, 1.0, ("x",), ("y",), (0, 2**63 - 1, 1980, 7, 7))
        ),
    ],
)
def test_extreme_values_are_judged(change: Change) -> None:
    stored = tuple(change(run(number)) for number in range(5))

    check(stored)
    check(tuple(run(number) for number in range(5)), tuple(map(change, NEW)))
    check(stored, tuple(map(change, NEW)))


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(summaries, min_size=1, max_size=5, unique_by=lambda one: one.run))
def test_any_stored_runs_are_judged(stored: list[RunSummary]) -> None:
    check(tuple(dataclasses.replace(one, subject=SUBJECT) for one in stored))
