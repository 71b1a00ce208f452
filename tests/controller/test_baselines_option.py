"""The folder of the baselines as commands name it, which users run in the root folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_nsight.controller.settings import read_settings


def named(pytester: pytest.Pytester, *arguments: str) -> str:
    """What a session with these arguments puts into the commands that it suggests."""
    return read_settings(pytester.parseconfig("--rootdir", str(pytester.path), *arguments)).baselines_option


def test_a_folder_of_the_command_line_is_named_from_the_root(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = pytester.mkdir("inner")
    below = pytester.path / "stored"

    assert named(pytester, "--nsight-baselines", "stored") == "stored"
    assert named(pytester, "--nsight-baselines", str(below)) == "stored"
    monkeypatch.chdir(inner)
    assert named(pytester, "--nsight-baselines", "stored") == "inner/stored"


def test_a_folder_elsewhere_stays_what_the_user_gave(pytester: pytest.Pytester, tmp_path_factory) -> None:
    elsewhere: Path = tmp_path_factory.mktemp("elsewhere")

    assert named(pytester, "--nsight-baselines", str(elsewhere)) == str(elsewhere)
    assert named(pytester, "--nsight-baselines", "../beside") == "../beside"


@pytest.mark.parametrize("ini", ["[pytest]\n", "[pytest]\nnsight_baselines = stored\n"])
def test_what_every_command_finds_by_itself_is_not_named(pytester: pytest.Pytester, ini: str) -> None:
    pytester.makeini(ini)

    assert named(pytester) == ""


def test_a_folder_of_the_command_line_that_does_not_exist_is_said_before_anything_is_measured(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile("import pytest\n\n@pytest.mark.nsight\ndef test_it(nsight): nsight(int)\n")
    pytester.mkdir("baselines")
    options = ("--nsight", "--collect-only", "--nsight-collector=torch")

    heads = [
        " ".join(pytester.runpytest_subprocess(*options, *more).stdout.str().split())
        for more in (["--nsight-baselines=basline"], ["--nsight-baselines=basline", "--nsight-save"], [])
    ]

    assert "basline, which does not exist, so nothing can be compared; correct the path, or save" in heads[0]
    assert [head.count("does not exist") for head in heads] == [1, 0, 0]
