"""The command behind the dashes: a script, a module, a pytest, or a sentence."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_nsight import cli
from pytest_nsight.controller import pytest_input
from pytest_nsight.controller.collection.collection_record import Collected
from pytest_nsight.controller.commands.script_command import find_module, read_script, run
from pytest_nsight.model.errors import UsageError
from pytest_nsight.protocol.script import Script, clean_name

PATH = ("folder of the command", *sys.path)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a script, a package, and a module that no interpreter may run to find it."""
    (tmp_path / "bench.py").touch()
    (tmp_path / "b[1].py").touch()
    (tmp_path / "f[2]").mkdir()
    (tmp_path / "f[2]" / "bench.py").touch()
    package = tmp_path / "suite"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / "norm.py").touch()
    (package / "__main__.py").touch()
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(PATH))
    return tmp_path


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What pytest is started with, in place of starting it."""
    calls: list[Any] = []

    def main(arguments: list[str], plugins: Any = None) -> int:
        calls.append((arguments, plugins, list(sys.path)))
        return 1

    monkeypatch.setattr(pytest_input.pytest, "main", main)
    return calls


@pytest.mark.parametrize(
    ("command", "module", "arguments", "name"),
    [
        (["bench.py"], "", (), ""),
        (["suite/../bench.py"], "", (), ""),
        ([sys.executable, "bench.py", "--n", "4"], "", ("--n", "4"), "--n 4"),
        ([sys.executable, "-u", "bench.py", "a b", "::"], "", ("a b", "::"), "'a b' :~e339ae8c"),
        ([sys.executable, "-m", "suite.norm", "-x"], "suite.norm", ("-x",), "-x"),
        ([sys.executable, "-m", "suite"], "suite", (), ""),
    ],
)
def test_a_command_line_becomes_a_script(
    here: Path, started: list[Any], command: list[str], module: str, arguments: tuple[str, ...], name: str
) -> None:
    assert run(["--nsight-save"], command, None) == 1

    ((pytest_arguments, (plugin,), path),) = started
    file = {"": "bench.py", "suite.norm": "suite/norm.py", "suite": "suite/__main__.py"}[module]
    assert pytest_arguments == ["--nsight", "--nsight-save", str(here / file)]
    assert plugin._script == Script(str(here / file), module, arguments, name)
    assert tuple(path) == PATH[1:]


@pytest.mark.parametrize("given", ["", "-c", "--rootdir=.", "environment"])
def test_a_script_elsewhere_has_the_root_folder_and_ini_file_of_the_current_folder(
    here: Path, started: list[Any], monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    project = here / "project/deep"
    project.mkdir(parents=True)
    ini = here / "project/pytest.ini"
    ini.write_text("[pytest]\n")
    monkeypatch.chdir(project)
    monkeypatch.setenv("PYTEST_ADDOPTS", "--rootdir='a b'" if given == "environment" else "")
    options = {"-c": ["-c", "own.ini"], "--rootdir=.": ["--rootdir=."]}.get(given, [])

    run(options, ["../../bench.py"], None)

    expected = options if given else [f"--rootdir={here / 'project'}", "-c", str(ini)]
    assert started[0][0] == ["--nsight", *expected, str(here / "bench.py")]


def test_without_an_ini_file_the_current_folder_is_the_root_of_a_script_elsewhere(
    here: Path, started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.chdir(here / "empty")

    run([], ["../bench.py"], None)

    assert started[0][0] == ["--nsight", f"--rootdir={here / 'empty'}", str(here / "bench.py")]


def test_a_part_of_python_that_runs_programs_is_none_itself(here: Path) -> None:
    with pytest.raises(UsageError, match=r"^-m cProfile is a part of Python, .*; give such a program itself: "):
        read_script(("-m", "cProfile", "bench.py"))


def test_a_name_stands_for_the_arguments_and_the_command_repeats_them(here: Path) -> None:
    script = read_script(("bench.py", "--out", "/tmp/a b"), "half")

    assert script.name == "half"
    assert Script("", file="b/bench.py", name="half").case("norm#2[N=4]") == "b/bench.py::half::norm#2[N=4]"
    assert Script("", file="bench.py").case("norm") == "bench.py::norm"
    assert Script("", file="bench.py", arguments=("--out", "a b")).command == "python bench.py --out 'a b'"
    assert Script("", module="suite.norm", arguments=("x",)).command == "python -m suite.norm x"


@pytest.mark.parametrize("command", [["pytest", "tests", "-x"], [sys.executable, "-m", "pytest", "tests", "-x"]])
def test_a_pytest_takes_all_tests_of_pytest_benchmark(here: Path, started: list[Any], command: list[str]) -> None:
    run(["--nsight-band=2%"], command, None)

    assert started[0][0] == ["--nsight", "-o", "nsight_mark=benchmark", "--nsight-band=2%", "tests", "-x"]


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ([], "give a program of Python after --, such as: pytest-nsight run -- python bench.py"),
        (["./bench.sh"], "./bench.sh is no program of Python; "),
        (["torchrun", "bench.py"], "torchrun is no program of Python; "),
        (["gone.py"], "there is no script gone.py; "),
        ([sys.executable], " without a script; "),
        ([sys.executable, "-O", "bench.py"], "the option -O of "),
        (
            [sys.executable, "-c", "1"],
            " -c has no file, and each process that measures runs the program again: write ",
        ),
        ([sys.executable, "-"], " - has no file, and each process that measures runs the program again: write "),
        (
            [sys.executable, "suite"],
            "suite is a folder, which run does not take for a script; give its file, suite/__m",
        ),
        (
            [sys.executable, "empty"],
            "empty is a folder, which run does not take for a script; give the script in it",
        ),
        ([sys.executable, "-m", "suite.gone"], "there is no module 'suite.gone' that can be run"),
        ([sys.executable, "-m", "sys"], "there is no module 'sys' that can be run"),
        ([sys.executable, "-m"], " -m without a module; give a program of Python after --, such as: "),
        ([sys.executable, "-m", ""], "there is no module '' that can be run"),
        (["python9.9", "bench.py"], "there is no program python9.9; "),
        (["b[1].py"], "b[1].py: in the ids of cases [ stands for something else; rename the script"),
        (["f[2]/bench.py"], "f[2]/bench.py: in the ids of cases [ stands for something else; rename the script"),
    ],
)
def test_a_command_that_cannot_be_measured_gets_a_sentence(
    here: Path, started: list[Any], command: list[str], sentence: str
) -> None:
    with pytest.raises(UsageError) as raised:
        run([], command, None)

    assert sentence in str(raised.value)
    assert started == []


def test_another_interpreter_is_refused(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = here / "other" / "bin" / "python"
    other.parent.mkdir(parents=True)
    other.write_text("#!/bin/sh\necho /somewhere/else\n")
    other.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda _: str(other))

    with pytest.raises(UsageError, match=r"python is .*, and this pytest-nsight belongs to .*: install it there"):
        run([], ["python", "bench.py"], None)


def test_a_module_is_found_without_importing_its_package(here: Path) -> None:
    assert find_module("suite.norm") == here / "suite" / "norm.py"
    assert find_module("bench") == here / "bench.py"
    assert find_module("bench.gone") is None
    assert find_module("pytest_nsight.cli") == Path(cli.__file__)


def test_the_options_before_the_dashes_reach_pytest_in_order(here: Path, started: list[Any]) -> None:
    code = cli.main(
        ["run", "--nsight-band", "2%", "-k", "a or b", "--name", "n", "--", "bench.py", "--", "--name", "x"]
    )

    assert code == 1
    ((arguments, (plugin,), _),) = started
    assert arguments == ["--nsight", "--nsight-band", "2%", "-k", "a or b", str(here / "bench.py")]
    assert plugin._script.name == "n"
    assert plugin._script.arguments == ("--", "--name", "x")


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("command", [["gone.py"], ["python", "-m", "gone"], []])
def test_what_cannot_be_run_has_the_exit_code_of_a_gate_that_cannot_measure(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["run", "--", *command]) == 4
    assert capsys.readouterr().err.startswith("pytest-nsight: ")


def test_other_commands_refuse_what_they_do_not_know() -> None:
    with pytest.raises(SystemExit):
        cli.main(["doctor", "--nsight-save"])


def test_cases_of_other_arguments_and_of_tests_are_not_missed() -> None:
    collected = Collected(known=frozenset(["bench.py::-n 4::norm"]), scope="bench.py::-n 4")
    stored = [
        "bench.py::-n 4::norm",
        "bench.py::-n 4::gone[a]",
        "bench.py::-n 8::norm",
        "bench.py::norm",
        "test_a.py::b",
    ]

    assert collected.find_removed(stored, Path()) == ("bench.py::-n 4::gone[a]",)


@pytest.mark.parametrize(
    ("text", "clean"),
    [("a\tb\n c", "a b c"), ("a:b", "a:b"), ("x" * 150, "x" * 150), ("\x1b[1m", "[1m"), ("<f at 0x7fE0>", "<f>")],
)
def test_names_are_fit_for_node_ids(text: str, clean: str) -> None:
    assert clean_name(text) == clean


def test_different_texts_stay_different_names_where_they_are_cut_or_lose_separators() -> None:
    long = "--shape 1,2,3 " * 20
    texts = ["a:b", "a::b", "a:::b", f"{long}1", f"{long}2", "x" * 150, "x" * 151]

    names = [clean_name(text) for text in texts]

    assert len(set(names)) == len(texts)
    assert all(len(name) <= 150 and "::" not in name for name in names)
    # Stored cases are found by these names, in every process and version.
    assert names[1] == "a:b~78f0be89"
    assert [clean_name(name) for name in names] == names
