"""A file that gives no test any more does not take its stored cases out of a strict session in silence."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

Gate = Callable[..., pytest.RunResult]

# A collector without torch, whose import takes seconds.
CLOCK = Path(__file__).parents[1] / "examples" / "clock_collector"
OPTIONS = ("--nsight-collector=clock", "--nsight-no-canaries", "--nsight-runs=1", "--nsight-band=90%")
CASE = """
import pytest

@pytest.mark.nsight(rounds=5)
def test_{name}(nsight):
    nsight(sum, range(1000))
"""
SKIPS_ITSELF = "import pytest\npytest.skip('no driver', allow_module_level=True)\n"


def say(result: pytest.RunResult) -> str:
    """The output of a session, without its line breaks."""
    return " ".join(result.stdout.str().split())


def misses_nothing(result: pytest.RunResult) -> bool:
    """Whether a strict session fails at most by verdicts: one stored run seldom settles a time."""
    return "FAILED --nsight-strict" not in say(result)


@pytest.fixture
def gate(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Gate:
    """A project with three test files, each with a stored case; runs a strict pytest on it, or a loose one."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(CLOCK), *filter(None, [os.environ.get("PYTHONPATH")])]))
    pytester.makeini("[pytest]\naddopts = -p no:randomly\n")
    for path, name in (("test_one.py", "one"), ("ops/test_a.py", "a"), ("ops/test_b.py", "b")):
        write(pytester, path, CASE.format(name=name))

    def run(*arguments: str, strict: bool = True) -> pytest.RunResult:
        given = ("--nsight-strict",) if strict else ()
        return pytester.runpytest_subprocess("--nsight", *OPTIONS, *given, *arguments)

    assert "3 saved" in say(run("--nsight-save", strict=False))
    return run


def write(pytester: pytest.Pytester, name: str, text: str) -> None:
    """Writes a file of the project."""
    path = pytester.path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")


@pytest.mark.long
@pytest.mark.parametrize(
    ("file", "text", "where", "reason"),
    [
        (
            "ops/test_a.py",
            "import pytest\npytest.importorskip('missing')\n",
            "a file",
            "could not import 'missing'",
        ),
        ("ops/test_a.py", SKIPS_ITSELF, "a file", "no driver"),
        ("ops/test_a.py", "import unittest\nraise unittest.SkipTest('no board')", "a file", "no board"),
        ("ops/conftest.py", SKIPS_ITSELF, "files", "no driver"),
        ("ops/__init__.py", SKIPS_ITSELF, "files", "no driver"),
    ],
    ids=["importorskip", "skip", "unittest", "conftest", "package"],
)
def test_stored_cases_of_a_file_that_skips_itself_fail_strict(
    gate: Gate, pytester: pytest.Pytester, file: str, text: str, where: str, reason: str
) -> None:
    write(pytester, file, text)

    strict, loose = gate(), gate(strict=False)

    for result in (strict, loose):
        assert re.search(
            rf"not checked: \d cases? with stored runs of this model (is|are) in {where} that (was|were) "
            rf"skipped as a whole \(ops/test_a.py[^)]*\): {reason}",
            say(result),
        )
    assert "FAILED --nsight-strict: not checked" in say(strict)
    assert strict.ret == pytest.ExitCode.TESTS_FAILED
    assert loose.ret == pytest.ExitCode.OK


DROPS_A = """
def pytest_collection_modifyitems(items):
    items[:] = [item for item in items if item.path.name != "test_a.py"]
"""


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("conftest.py", "collect_ignore = ['ops/test_a.py']"),
        ("conftest.py", "collect_ignore_glob = ['*_a.py']"),
        ("pytest.ini", "[pytest]\npython_files = test_[!a]*.py\ntestpaths = ops test_one.py\n"),
        ("ops/test_a.py", ""),
    ],
    ids=["ignored", "ignored-by-glob", "named-otherwise", "empty"],
)
def test_stored_cases_of_a_file_without_a_collected_test_fail_strict_until_they_are_removed(
    gate: Gate, pytester: pytest.Pytester, file: str, text: str
) -> None:
    write(pytester, file, text)

    result = gate()

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "FAILED --nsight-strict: 1 stored case is in a file without a collected test" in say(result)
    remedy = "pytest-nsight baselines prune --delete ops/test_a.py::test_a"
    assert remedy in say(result)
    pytester.run(sys.executable, "-m", "pytest_nsight.cli", *remedy.split()[1:])
    assert misses_nothing(gate())


@pytest.fixture
def gate_without_two(gate: Gate, pytester: pytest.Pytester) -> Gate:
    """The project, one of whose files is not collected, and another one skips itself."""
    write(pytester, "conftest.py", "collect_ignore = ['ops/test_a.py']")
    write(pytester, "ops/test_b.py", SKIPS_ITSELF)
    return gate


@pytest.mark.parametrize(
    "arguments",
    [
        ("test_one.py",),
        ("test_one.py::test_one",),
        ("--pyargs", "test_one"),
        ("--ignore=ops/test_a.py", "--ignore=ops/test_b.py"),
        ("--ignore-glob=*ops",),
        ("--deselect=ops/test_a.py", "--deselect=ops/test_b.py::test_b"),
        ("--nsight-affected=HEAD",),
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_file_that_the_user_did_not_ask_for_fails_nothing(
    gate_without_two: Gate, pytester: pytest.Pytester, arguments: tuple[str, ...]
) -> None:
    if arguments == ("--nsight-affected=HEAD",):
        git = ("git", "-c", "user.name=T", "-c", "user.email=t@example.org")
        for command in (("init", "-q"), ("add", "test_one.py"), ("commit", "-q", "-m", "one")):
            assert pytester.run(*git, *command).ret == 0

    result = gate_without_two(*arguments)

    assert re.search(r"\b1 verdict:", say(result))
    assert misses_nothing(result)
    if arguments != ("--nsight-affected=HEAD",):
        assert "not checked" not in say(result)
        assert "without a collected test" not in say(result)


def test_tests_that_have_not_failed_last_are_not_missed(gate_without_two: Gate, pytester: pytest.Pytester) -> None:
    write(pytester, "test_one.py", "def test_one(): assert False")
    assert pytester.runpytest_subprocess("test_one.py").ret == pytest.ExitCode.TESTS_FAILED
    write(pytester, "test_one.py", CASE.format(name="one"))

    last, first = gate_without_two("--lf"), gate_without_two("--ff")

    assert "ops/test_" not in say(last)
    assert misses_nothing(last)
    # --ff sorts, and leaves nothing out.
    assert not misses_nothing(first)


@pytest.mark.parametrize("arguments", [("-k", "test_one"), ("-m", "nsight")], ids=["-k", "-m"])
def test_what_a_filter_may_have_left_out_is_noted_and_fails_nothing(
    gate_without_two: Gate, arguments: tuple[str, ...]
) -> None:
    result = gate_without_two(*arguments)

    assert "not checked: 1 case with stored runs of this model" in say(result)
    assert "1 stored case is in a file without a collected test" in say(result)
    assert misses_nothing(result)


SAYS_WHAT_IT_LEAVES_OUT = """
def pytest_collection_modifyitems(config, items):
    config.hook.pytest_deselected(items=[item for item in items if "ops" in item.nodeid])
    items[:] = [item for item in items if "ops" not in item.nodeid]
"""


def test_a_file_whose_tests_are_deselected_is_not_missed(gate: Gate, pytester: pytest.Pytester) -> None:
    filtered = gate("-k", "test_one")
    write(pytester, "conftest.py", SAYS_WHAT_IT_LEAVES_OUT)
    by_hook = gate()
    write(pytester, "conftest.py", DROPS_A)
    in_silence = gate()

    for result in (filtered, by_hook, in_silence):
        assert misses_nothing(result)
        assert "ops/test_a" not in say(result)


def test_a_plugin_that_divides_tests_leaves_whole_files_to_other_shards(
    gate: Gate, pytester: pytest.Pytester
) -> None:
    write(pytester, "conftest.py", DROPS_A)

    result = gate("--nsight-shard=1/2", "--nsight-shard-by=selection")

    assert result.ret == pytest.ExitCode.OK, say(result)
    assert "without a collected test" not in say(result)


def test_the_calls_of_scripts_are_not_missed_by_tests(gate: Gate, pytester: pytest.Pytester) -> None:
    write(
        pytester,
        "bench.py",
        "from tilelang.profiler.bench import do_bench\ndef main(): do_bench(lambda: 1)\nmain()\n",
    )
    packages = Path(__file__).parents[1] / "fakes" / "packages"
    environ = os.pathsep.join([str(packages), os.environ["PYTHONPATH"]])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", environ)
        saved = pytester.run(
            *(sys.executable, "-m", "pytest_nsight.cli", "run", "--nsight-save", *OPTIONS, "--", "bench.py")
        )
    assert "1 saved" in say(saved)

    result = gate()

    assert "bench.py" not in say(result)
    assert misses_nothing(result)


def test_a_shorter_python_functions_does_not_hide_the_cases_of_a_file(
    gate: Gate, pytester: pytest.Pytester
) -> None:
    pytester.makeini("[pytest]\naddopts = -p no:randomly\npython_functions = test_one other_*\n")
    # Only what a file still defines is a test: the other names may be calls of a script.
    write(pytester, "ops/test_a.py", "def main(): ...\n")

    result = gate()

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    said = say(result)
    assert "1 stored case is in a file without a collected test" in said
    assert "test_b" in said
    assert "python_files, python_functions and collect_ignore decide" in said
    assert misses_nothing(gate("--ignore=ops"))


def test_a_package_named_with_pyargs_is_what_was_asked_for(gate: Gate, pytester: pytest.Pytester) -> None:
    write(pytester, "ops/__init__.py", "")
    write(pytester, "ops/test_a.py", SKIPS_ITSELF)

    result = gate("--pyargs", "ops")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "FAILED --nsight-strict: not checked: 1 case" in say(result)
    assert misses_nothing(gate("--pyargs", "ops.test_b"))
