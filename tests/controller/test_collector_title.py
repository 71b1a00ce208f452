"""What a replay names as its collector and folder, and its time, which is that of the recording."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_nsight.collectors.torch.torch_collector import TorchCollector
from pytest_nsight.controller.session_result import SessionRecord
from pytest_nsight.controller.settings import Settings
from pytest_nsight.gate.state import GateState, SessionPlan
from tests.judge.runs import make_runs


@pytest.mark.parametrize(
    ("folder", "shown"), [("/project/tests/slow", "tests/slow"), ("/somewhere/else/slow", "slow")]
)
def test_a_replay_names_the_recorder_and_a_short_folder(folder: str, shown: str) -> None:
    settings = Settings(Path("/project"), replay=Path(folder))
    record = SessionRecord("s", "2026-03-01T12:00:00+00:00", Path("s"), settings)
    state = GateState(plan=SessionPlan((), runs=1), environment={"collector": "nsys"})

    assert record.collector_title(state) == f"nsys, replay of {shown}"
    assert record.collector_title(GateState(plan=SessionPlan((), runs=1))) == f"replay of {shown}"


def test_a_replay_has_the_time_of_the_recording() -> None:
    replayed = SessionRecord("s", "2026-03-01T12:00:00+00:00", Path("s"), Settings(Path()))
    runs = tuple(make_runs([20.0, 20.1], "old", recorded="2026-01-01T00:00:00Z"))
    state = GateState(plan=SessionPlan((), runs=2), summaries=runs)

    assert replayed.recorded_at(state) == "2026-01-01T00:00:00Z"
    assert replayed.recorded_at(replace(state, summaries=())) == "2026-03-01T12:00:00+00:00"
    assert (
        replace(replayed, collector=TorchCollector("torch", times_cpu=False)).recorded_at(state)
        == "2026-03-01T12:00:00+00:00"
    )
