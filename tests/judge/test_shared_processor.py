"""A processor that other programs had is no ground for a verdict on the code."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_nsight.judge.environment_checks import explain_environment
from pytest_nsight.model.values import Clocks, RunSummary
from tests.judge.runs import make_runs


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
        (runs(0.01), runs(0.01, 0.3), "in 30% of the time"),
        (runs(0.3), runs(0.01), "while the baseline was measured in 30% of the time"),
        (runs(0.3), runs(0.4), "in 40% of the time that the rounds needed it, 30% in the baseline"),
    ],
)
def test_what_other_programs_took_is_named(
    baseline: tuple[RunSummary, ...], new: tuple[RunSummary, ...], words: str
) -> None:
    sentence = explain_environment(baseline, new).replace(" %", "%")

    assert words in sentence
    assert bool(sentence) == bool(words)
