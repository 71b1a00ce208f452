"""What a replayed session names as its collector: no folder of this machine but those below the root."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_nsight.controller.session_result import SessionRecord
from pytest_nsight.controller.settings import Settings
from pytest_nsight.gate.state import GateState, SessionPlan


@pytest.mark.parametrize(
    ("folder", "shown"), [("/project/tests/slow", "tests/slow"), ("/somewhere/else/slow", "slow")]
)
def test_a_replay_names_the_recorder_and_a_short_folder(folder: str, shown: str) -> None:
    record = SessionRecord("s", "2026-03-01T12:00:00+00:00", Path("s"), None)
    settings = Settings(Path("/project"), replay=Path(folder))
    state = GateState(plan=SessionPlan((), runs=1), environment={"collector": "nsys"})

    assert record.collector_title(settings, state) == f"nsys, replay of {shown}"
    assert record.collector_title(settings, GateState(plan=SessionPlan((), runs=1))) == f"replay of {shown}"
