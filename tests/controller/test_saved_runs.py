"""What a save that failed, or that was interrupted, says."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from pytest_nsight.controller.saved_runs import describe_unfinished_save, save_runs
from pytest_nsight.controller.settings import Settings
from tests.gate.test_saving import OWN, after, launching


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    root = tmp_path / "it's a project"
    root.mkdir()
    return Settings(root, baselines=root / "baselines")


def test_the_command_that_saves_later_can_be_typed_whatever_the_folder_is_called(settings: Settings) -> None:
    session = settings.root / ".nsight" / "20260101-120000-ab01"
    (session / "run-001").mkdir(parents=True)
    (session / "run-001" / "manifest.jsonl").touch()
    state = after(launching(OWN))

    interrupted = describe_unfinished_save(settings, state, session).error
    settings.baselines.touch()
    failed = save_runs(settings, state, session, None).error

    for error in (interrupted, failed):
        command = error.partition("save it with ")[2]
        assert shlex.split(command) == ["--nsight", "--nsight-save", "--nsight-replay", str(session)]
