"""Relative paths given to `pytest-nsight verify`, whose pytest runs in another folder than the user's."""

from __future__ import annotations

from pathlib import Path

import pytest
from _pytest.config import get_config

from pytest_nsight.controller.commands.caller_paths import CallerPaths, place_options
from pytest_nsight.controller.options import SWITCH_OPTIONS
from pytest_nsight.controller.settings import read_settings
from tests.controller.test_setting_paths import OPTIONS, paths

HERE = Path("/here")


def test_every_path_of_this_plugin_starts_where_the_command_was_started(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makeini("[pytest]\n")
    here = pytester.mkdir("here")
    monkeypatch.chdir(here)
    wanted = paths(read_settings(pytester.parseconfig(*OPTIONS)))
    monkeypatch.chdir(pytester.mkdir("elsewhere"))

    assert paths(read_settings(pytester.parseconfig(*place_options(OPTIONS, here)))) == wanted


@pytest.mark.parametrize(
    ("given", "placed"),
    [
        (["--nsight-html", "a.html", "-q"], ["--nsight-html=/here/a.html", "-q"]),
        (["--nsight-markdown=pages/"], ["--nsight-markdown=/here/pages/"]),
        (["--nsight-report", "otava=../a.csv"], ["--nsight-report=otava=/here/../a.csv"]),
        (["--junitxml=a.xml", "--junit-xml", "/b.xml"], ["--junitxml=/here/a.xml", "--junit-xml=/b.xml"]),
        # An unset variable of the shell: what follows is no value.
        (["--nsight-html", "", "test_x.py"], ["--nsight-html=", "test_x.py"]),
        (["--junitxml", ""], ["--junitxml="]),
    ],
)
def test_values_that_are_paths_are_placed(given: list[str], placed: list[str]) -> None:
    assert place_options(given, HERE) == placed


@pytest.mark.parametrize(
    "given",
    [
        ["--nsight-baselines="],
        ["--nsight-report=otava"],
        ["perf", "--nsight-html"],
        ["--nsight-html", "-q", "test_x.py"],
        ["--nsight-html", "--nsight-band=1%"],
        ["--nsight-band=1%", "-k", "a.html", "perf"],
        ["--nsight-collector", "nsys", "--nsight-strict", "perf"],
    ],
    ids=" ".join,
)
def test_other_arguments_stay_as_they_are(given: list[str]) -> None:
    assert place_options(given, HERE) == given


@pytest.mark.parametrize(
    ("given", "placed"),
    [
        (["--nsight-collector", "nsys"], []),
        (["--other-plugin", "nsys", "nsys"], [2]),
        (["--other-plugin", "nsys", "-q", "nsys::test_a"], [3]),
        (["--other-plugin=nsys", "nsys"], [1]),
        # None of these takes a value.
        (["--nsight-strict", "nsys"], [1]),
        (["--nsight", "nsys", "--collect-only", "nsys"], [1, 3]),
        # pytest knows these itself.
        (["-k", "nsys", "--maxfail", "1", "nsys"], [4]),
    ],
)
def test_the_value_of_a_plugins_option_is_no_path_of_tests(
    pytester: pytest.Pytester, given: list[str], placed: list[int]
) -> None:
    here = pytester.mkdir("here")
    (here / "nsys").mkdir()
    plugin = CallerPaths(here, pytester.mkdir("tree"))
    # Neither this plugin nor another has declared its options there, as before pytest loads them.
    plugin.pytest_addoption(get_config()._parser)
    arguments = list(given)

    plugin.pytest_cmdline_parse(arguments)

    assert arguments == [f"{here}/{word}" if number in placed else word for number, word in enumerate(given)]


def test_the_options_that_take_no_value_are_known(pytester: pytest.Pytester) -> None:
    assert set(SWITCH_OPTIONS) == {
        name
        for action in pytester.parseconfig()._parser.optparser._actions
        for name in action.option_strings
        if name.startswith("--nsight") and action.nargs == 0
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("start", "given", "collected"),
    [
        ("tree/below", ["test_own.py::test_a"], ["below/test_own.py"]),
        ("tree/below", ["-k", "test_own.py", "test_own.py"], ["below/test_own.py"]),
        ("elsewhere", ["test_top.py"], ["test_top.py"]),
        ("elsewhere", ["below"], ["below/test_own.py"]),
        ("elsewhere", ["../tree/below"], ["below/test_own.py"]),
    ],
)
def test_a_path_of_tests_is_one_from_here_or_one_of_the_tree(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, start: str, given: list[str], collected: list[str]
) -> None:
    for name in ("tree/test_top.py", "tree/below/test_own.py", "elsewhere/test_top.py"):
        (pytester.path / name).parent.mkdir(exist_ok=True, parents=True)
        (pytester.path / name).write_text("def test_a(): pass\n")
    tree = pytester.path / "tree"
    (tree / "pytest.ini").write_text("[pytest]\n")
    monkeypatch.chdir(tree)

    result = pytester.inline_run(*given, plugins=[CallerPaths(pytester.path / start, tree)])

    items = [item for call in result.getcalls("pytest_collection_finish") for item in call.session.items]
    assert [item.nodeid.partition("::")[0] for item in items] == collected
    assert all(item.path.is_relative_to(tree) for item in items)
