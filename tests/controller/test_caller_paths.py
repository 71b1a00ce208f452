"""Relative paths given to `pytest-nsight verify`, whose pytest runs in another folder than the user's."""

from __future__ import annotations

from pathlib import Path

import pytest

# A pytest inside this process forgets what it imports, and numpy cannot be imported twice.
import pytest_nsight.controller.outer_pytest  # noqa: F401
from pytest_nsight.controller.commands.caller_paths import CallerPaths, place_options
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
