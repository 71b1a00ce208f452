"""Relative paths of the command line start in the current folder, those of the ini file at the root."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_nsight.controller.settings import Settings, read_settings

INI = """[pytest]
nsight_baselines = stored
nsight_json = out.json
nsight_markdown = pages/
nsight_html = out.html
nsight_durations = old
nsight_report = otava=out.csv
"""
OPTIONS = (
    "--nsight-baselines=stored",
    "--nsight-json=out.json",
    "--nsight-markdown=pages/",
    "--nsight-html=out.html",
    "--nsight-durations=old",
    "--nsight-report=otava=out.csv",
)
FILES = ("out.json", "pages/nsight.md", "out.html", "out.csv")


@pytest.fixture
def below(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, below the root folder."""
    folder = pytester.mkdir("below")
    monkeypatch.chdir(folder)
    return folder


def paths(settings: Settings) -> list[Path]:
    assert settings.durations is not None
    return [settings.baselines, settings.durations, *(file.path for file in settings.reports)]


def test_paths_of_the_ini_file_do_not_depend_on_the_current_folder(pytester: pytest.Pytester, below: Path) -> None:
    pytester.makeini(INI)

    settings = read_settings(pytester.parseconfig())

    assert settings.root == pytester.path
    assert paths(settings) == [pytester.path / name for name in ("stored", "old", *FILES)]


def test_paths_of_the_command_line_start_in_the_current_folder(pytester: pytest.Pytester, below: Path) -> None:
    pytester.makeini(INI)

    settings = read_settings(pytester.parseconfig(*OPTIONS))

    assert paths(settings) == [below / name for name in ("stored", "old", *FILES)]


def test_absolute_paths_stay(pytester: pytest.Pytester, below: Path, tmp_path: Path) -> None:
    pytester.makeini(f"[pytest]\nnsight_json = {tmp_path}/a/\nnsight_durations = {tmp_path}/old\n")

    settings = read_settings(pytester.parseconfig())

    assert paths(settings)[1:] == [tmp_path / "old", tmp_path / "a/nsight.json"]
