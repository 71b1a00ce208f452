"""What a session plans from what baselines say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_nsight.baselines.store import save
from pytest_nsight.controller import session_plan
from pytest_nsight.controller.session_plan import count_launches
from tests.baselines.examples import CASE, run

MODEL = "nvidia-h200"


@pytest.fixture(autouse=True)
def h200(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_plan, "measured_product", lambda: "NVIDIA H200")


def test_the_launches_of_a_case_are_those_of_its_newest_run(tmp_path: Path) -> None:
    newest = run(3)
    (use, *_) = newest.shapes
    save(tmp_path, MODEL, [run(1), replace(newest, shapes=(replace(use, count=7),)), run(3, CASE, "forward")])

    assert count_launches(tmp_path, [CASE, "t.py::unknown"]) == {CASE: 7}


def test_without_baselines_and_with_damaged_ones_no_launches_are_known(tmp_path: Path) -> None:
    none = count_launches(tmp_path, [CASE])
    save(tmp_path, MODEL, [run(1)])
    next((tmp_path / MODEL).glob("*.json")).write_text("damaged")

    assert none == count_launches(tmp_path, [CASE]) == {}
