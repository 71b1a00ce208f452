"""A repository whose case got slower."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_nsight.model.values import RunSummary
from tests.history.saves import OTHER, git, stored, write_baseline


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Ten saves, one commit each. The last five are slower. A file keeps only the newest two saves."""
    git(tmp_path, "init", "-q", "-b", "main")
    saves: list[tuple[RunSummary, ...]] = []
    for day in range(1, 11):
        (tmp_path / "kernel.py").write_text(f"VERSION = {day}\n", encoding="utf-8")
        git(tmp_path, "add", "-A")
        git(tmp_path, "commit", "-q", "-m", f"kernel, version {day}")
        time_ns = 20_000 + 13 * (day % 3) + (1_500 if day > 5 else 0)
        reason = "clearer code" if day == 6 else ""
        saves.append(stored(day, time_ns, git(tmp_path, "rev-parse", "HEAD"), reason=reason))
        write_baseline(tmp_path, *saves[-2:], stored(day, 90_000, "", OTHER))
        git(tmp_path, "add", "-A")
        git(tmp_path, "commit", "-q", "-m", f"save {day}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path
