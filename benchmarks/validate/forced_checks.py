"""Sends random cases of a live check through all looks, whatever their times say.

    pytest -p benchmarks.validate.forced_checks --nsight --nsight-no-identity benchmarks/validation_suite

In a check of unchanged code few cases become suspects, and those by chance at the first look. So it takes hundreds
of checks to see what confirming processes do to short kernels. Here three cases of every check are suspects.
"""

from __future__ import annotations

import random

from pytest_nsight.calibrate.forced_looks import FORCED
from pytest_nsight.gate import loop
from pytest_nsight.gate.judging import find_suspects
from pytest_nsight.gate.state import GateState
from pytest_nsight.gate.stored_runs import StoredRuns
from pytest_nsight.model.values import Subject


def _find_more_suspects(state: GateState, stored: StoredRuns) -> tuple[Subject, ...]:
    """What the gate suspects, and the chosen cases."""
    cases = state.plan.case_ids
    chosen = random.Random(f"{state.plan.seed}/forced").sample(cases, min(FORCED, len(cases)))
    return (*find_suspects(state, stored), *map(Subject, chosen))


def pytest_configure() -> None:
    """The loop asks for the suspects by this name."""
    loop.find_suspects = _find_more_suspects  # type: ignore[attr-defined]
