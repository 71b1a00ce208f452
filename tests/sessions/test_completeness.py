"""Nothing is green by accident: what was not measured is named, and fails a strict session."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

import pytest

from tests.sessions.conftest import HEAD

pytestmark = pytest.mark.slow

ONE = """
@pytest.mark.nsight
def test_one():
    square(torch.ones(1000))
"""
UNMARKED = """
def test_unmarked(nsight):
    nsight(square, torch.ones(10))
"""
STRICT = ("--nsight-strict", "--nsight-collector=torch")

Gate = Callable[..., pytest.RunResult]


@pytest.mark.parametrize(
    "option",
    [
        "--nsight-strict",
        "--nsight-json=x.json",
        "--nsight-band=2%",
        "--nsight-markdown=x.md",
        "--nsight-no-canaries",
    ],
)
def test_an_option_without_nsight_is_refused(gate: Gate, option: str) -> None:
    result = gate(option, body="def test_plain(): pass", nsight=False)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{option.partition('=')[0]} needs --nsight*"])


@pytest.mark.slow
def test_a_strict_session_that_measures_nothing_fails(gate: Gate) -> None:
    result = gate(*STRICT, body="def test_plain(): pass")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*nothing was measured: no selected test has the mark nsight*"])
    assert gate(body="def test_plain(): pass").ret == pytest.ExitCode.OK


PLAIN = "\ndef test_plain(): pass\n"
OTHER = ONE.replace("test_one", "test_other")
LEAVES_MARKED_OUT = """
def pytest_collection_modifyitems(items):
    items[:] = [item for item in items if item.name == "test_plain"]
"""
BOTH = "(test_case.py::test_one, test_case.py::test_other); select one of them"


@pytest.mark.parametrize(
    ("arguments", "body", "said"),
    [
        (
            ("-m", "not nsight"),
            ONE + OTHER,
            f"all 2 tests with the mark nsight were deselected by -m 'not nsight' {BOTH}",
        ),
        (("-k", "zzz"), ONE + OTHER, f"all 2 tests with the mark nsight were deselected by -k zzz {BOTH}"),
        (
            ("--deselect=test_case.py::test_one", "-k", "one"),
            ONE,
            "the only test with the mark nsight was deselected by -k one, --deselect test_case.py::test_one",
        ),
    ],
)
def test_where_all_marked_tests_are_deselected_no_mark_is_asked_for(
    gate: Gate, arguments: tuple[str, ...], body: str, said: str
) -> None:
    result = gate(*arguments, body=body + PLAIN)

    assert f"nsight: nothing was measured: {said}" in say(result)
    assert "add @pytest.mark.nsight" not in say(result)


def test_where_a_conftest_leaves_all_marked_tests_out_no_mark_is_asked_for(
    gate: Gate, pytester: pytest.Pytester
) -> None:
    pytester.makeconftest(LEAVES_MARKED_OUT)

    result = gate(body=ONE + OTHER + PLAIN)

    said = f"all 2 tests with the mark nsight were deselected by a conftest.py or a plugin {BOTH}"
    assert f"nsight: nothing was measured: {said}" in say(result)


def test_a_module_that_cannot_be_imported_is_not_said_to_lack_the_mark(gate: Gate) -> None:
    result = gate(body="def test_plain(:")

    result.stdout.fnmatch_lines(["*SyntaxError*"])
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert "nothing was measured" not in result.stdout.str()


SKIPPED = """
@pytest.mark.nsight
@pytest.mark.skip(reason="no driver")
def test_skipped(nsight):
    nsight(square, torch.ones(3))

@pytest.mark.nsight
def test_skips_itself(nsight):
    nsight(square, torch.ones(3))
    pytest.skip("after all")
"""


@pytest.mark.long
@pytest.mark.slow
def test_a_strict_session_all_of_whose_cases_are_skipped_fails(gate: Gate) -> None:
    """As on a runner whose driver is broken, where `skipif(not torch.cuda.is_available())` skips all of them."""
    loose, strict = gate("--nsight-band=90%", body=SKIPPED), gate(*STRICT)

    loose.assert_outcomes(skipped=2)
    assert loose.ret == pytest.ExitCode.OK
    assert strict.ret == pytest.ExitCode.TESTS_FAILED
    strict.stdout.fnmatch_lines(["FAILED --nsight-strict: nothing was measured: 2 selected cases were*"])


@pytest.mark.long
@pytest.mark.slow
def test_a_case_that_is_measured_beside_a_skipped_one_is_enough(gate: Gate) -> None:
    body = SKIPPED + "\n@pytest.mark.nsight\ndef test_bare():\n    square(torch.ones(64, 64))\n"
    saved = gate("--nsight-save", "--nsight-runs=2", body=body)

    strict = gate(*STRICT, "--nsight-band=90%")

    saved.assert_outcomes(passed=1, skipped=2)
    # Whether its time can be judged depends on what else the machine does.
    strict.stdout.fnmatch_lines(["1 verdict: *"])
    strict.stdout.no_fnmatch_line("*nothing was measured*")


SKIPPING = """
is_skipping = pytest.mark.skipif("SKIP" in os.environ, reason="as it is now")
is_failing = pytest.mark.xfail("SKIP" in os.environ, reason="known")

@pytest.mark.nsight
@pytest.mark.parametrize("n", [1, pytest.param(2, marks=is_skipping), pytest.param(3, marks=is_failing)])
def test_stored(nsight, n):
    nsight(square, torch.ones(64, 64))
    assert n < 3 or "SKIP" not in os.environ

@pytest.mark.nsight
@pytest.mark.skip(reason="never ran here")
def test_of_another_machine(nsight):
    nsight(square, torch.ones(64, 64))
"""


@pytest.mark.long
@pytest.mark.slow
def test_a_skipped_case_with_stored_runs_is_named_and_fails_strict(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate("--nsight-save", "--nsight-runs=2", "--nsight-collector=torch", body=SKIPPING)
    monkeypatch.setenv("SKIP", "1")

    loose, strict = gate("--nsight-band=90%"), gate("--nsight-band=90%", *STRICT)
    deselected = [f"--deselect=test_case.py::test_stored[{n}]" for n in (2, 3)]
    without = gate("--nsight-band=90%", *STRICT, *deselected)

    for result in (loose, strict):
        said = " ".join(result.stdout.str().split())
        what = "not checked: 1 case with stored runs of this model"
        assert f"{what} was skipped (test_case.py::test_stored[2]); pytest -rs shows why" in said
        assert f"{what} failed as xfail expects (test_case.py::test_stored[3]); pytest -rx shows why" in said
    assert (loose.ret, strict.ret) == (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    assert "not checked" not in without.stdout.str()


FLAKY = """
import pathlib

@pytest.mark.nsight
def test_flaky(nsight):
    nsight(chain if os.environ.get("SLOW") else square, torch.ones(64, 64))
    if os.environ.get("FLAKY"):
        counter = pathlib.Path(__file__).with_name("attempts")
        counter.write_text(counter.read_text() + "x" if counter.exists() else "x")
        assert len(counter.read_text()) % 2 == 0, "the first attempt fails"
"""


@pytest.mark.long
@pytest.mark.slow
def test_a_test_that_fails_once_and_then_passes_is_judged(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """pytest-rerunfailures gives it another attempt, which counts; what the first one measured does not."""
    pytest.importorskip("pytest_rerunfailures")
    reruns = ("--reruns=2",)
    gate("--nsight-save", "--nsight-runs=2", body=FLAKY)
    monkeypatch.setenv("FLAKY", "1")
    monkeypatch.setenv("SLOW", "1")

    result = gate(*STRICT, *reruns)

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "1 failed, 1 rerun" in result.stdout.str()
    result.stdout.fnmatch_lines(["1 verdict: 0 regressions, 0 improvements, 1 structure change"])
    saved = gate("--nsight-save", "--nsight-runs=2", *reruns)
    saved.stdout.fnmatch_lines(["1 verdict: 1 saved"])


@pytest.mark.slow
def test_a_test_with_the_fixture_and_without_the_mark_is_named_and_fails_strict(gate: Gate) -> None:
    gate("--nsight-save", "--nsight-runs=1", "--nsight-collector=torch", body=ONE + UNMARKED)

    loose, strict = gate("--nsight-band=90%"), gate("--nsight-band=90%", *STRICT)

    for result in (loose, strict):
        assert "test_unmarked; add @pytest.mark.nsight" in " ".join(result.stdout.str().split())
    assert loose.ret == pytest.ExitCode.OK
    assert strict.ret == pytest.ExitCode.TESTS_FAILED


@pytest.mark.slow
def test_a_forgotten_mark_is_said_where_nothing_else_is_measured(gate: Gate) -> None:
    result = gate(body=UNMARKED)

    assert result.ret == pytest.ExitCode.OK
    text = " ".join(result.stdout.str().split())
    assert "nsight: nothing was measured: no selected test has the mark nsight" in text
    assert "test_unmarked; add @pytest.mark.nsight" in text


@pytest.mark.slow
def test_a_fixture_that_is_never_called_is_warned_of(gate: Gate) -> None:
    body = """
@pytest.mark.nsight
def test_forgotten(nsight):
    square(torch.ones(10))

@pytest.mark.nsight
def test_part(nsight):
    with nsight.range("part"):
        square(torch.ones(10))
"""
    result = gate("--nsight-collector=torch", "--nsight-runs=1", body=body)

    text = result.stdout.str()
    assert text.count("takes the fixture nsight and never calls it") == 1
    result.assert_outcomes(passed=2, warnings=1)


@pytest.mark.slow
def test_where_nothing_ran_because_the_fixture_was_never_called_the_failure_says_so(gate: Gate) -> None:
    body = """
@pytest.mark.nsight
def test_forgotten(nsight):
    pass
"""
    result = gate("--nsight-collector=torch", "--nsight-runs=1", body=body)

    result.assert_outcomes(failed=1, warnings=1)
    said = "no CPU operator ran in the measured rounds: the test takes the fixture nsight and never calls it"
    assert said in " ".join(result.stdout.str().split())


@pytest.mark.slow
def test_a_stored_case_whose_test_is_gone_is_named_and_fails_strict(gate: Gate, pytester: pytest.Pytester) -> None:
    gate("--nsight-save", "--nsight-runs=1", "--nsight-collector=torch", body=ONE)
    body = ONE.replace("test_one", "test_other")

    result = gate(*STRICT, body=body)

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    text = " ".join(result.stdout.str().split())
    assert (
        "test_case.py::test_one; if that is intended, remove it with: pytest-nsight baselines prune --delete"
        in text
    )
    # Of a file that is not collected as a whole nobody knows what it holds.
    named = gate("test_case.py::test_other", body=body)
    assert "has no test any more" not in named.stdout.str()


TWO = ONE + ONE.replace("test_one", "test_two")


@pytest.fixture
def saved_two(gate: Gate) -> Gate:
    """A project with two stored cases."""
    gate("--nsight-save", "--nsight-runs=1", "--nsight-collector=torch", body=TWO)
    return gate


def say(result: pytest.RunResult) -> str:
    """The output of a session, without its line breaks."""
    return " ".join(result.stdout.str().split())


@pytest.mark.long
def test_a_stored_case_whose_test_has_lost_the_mark_fails_strict_until_it_is_removed(
    saved_two: Gate, pytester: pytest.Pytester
) -> None:
    body = TWO.replace("@pytest.mark.nsight\ndef test_two", "def test_two")

    result = saved_two(*STRICT, body=body)

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    remedy = "pytest-nsight baselines prune --delete test_case.py::test_two"
    assert "1 stored case without the mark nsight any more, so nothing checks it: test_case.py::test_two" in say(
        result
    )
    assert remedy in say(result)
    pytester.run(sys.executable, "-m", "pytest_nsight.cli", *remedy.split()[1:])
    assert "any more" not in say(saved_two(*STRICT))


@pytest.mark.long
def test_a_stored_part_without_a_range_fails_strict_until_the_case_is_saved(gate: Gate) -> None:
    body = """
@pytest.mark.nsight
def test_parts(nsight):
    def work(x):
        with nsight.range("a"):
            square(x)
        with nsight.range("b"):
            square(x)
    nsight(work, torch.ones(1000))
"""
    gate("--nsight-save", "--nsight-runs=1", "--nsight-collector=torch", body=body)
    assert "any more" not in say(gate(*STRICT))

    result = gate(*STRICT, body=body.replace('with nsight.range("b")', "if True"))

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "1 stored part has no range any more, so nothing checks it: test_parts/b" in say(result)
    gate("--nsight-save", "--nsight-runs=1", "--nsight-collector=torch")
    assert "any more" not in say(gate(*STRICT))


@pytest.mark.long
def test_a_failing_verdict_that_xfail_expects_is_named(gate: Gate) -> None:
    gate("--nsight-save", "--nsight-runs=1", "--nsight-collector=torch", body=ONE)
    body = ONE.replace("@pytest.mark.nsight", "@pytest.mark.nsight\n@pytest.mark.xfail").replace(
        "1000))", "1000)).exp()"
    )

    result = gate("--nsight-collector=torch", body=body)

    assert "1 structure change" in say(result)
    assert "1 case with a failing verdict did not fail, as its test is marked xfail: test_case.py::test_one" in say(
        result
    )


@pytest.mark.long
@pytest.mark.parametrize("strict", [False, True])
def test_an_xfail_for_an_exception_does_not_expect_a_verdict(gate: Gate, *, strict: bool) -> None:
    """As in plain pytest, where a test that fails with another exception fails."""
    gate("--nsight-save", "--nsight-runs=1", "--nsight-collector=torch", body=ONE)
    mark = f"@pytest.mark.xfail(raises=NotImplementedError, strict={strict})"
    other = "@pytest.mark.xfail('sys.platform == \"win32\"', reason='of another platform')"
    body = ONE.replace("@pytest.mark.nsight", f"@pytest.mark.nsight\n{mark}\n{other}")

    unchanged = gate("--nsight-band=90%", "--nsight-collector=torch", body=body)
    changed = gate("--nsight-collector=torch", body=body.replace("1000))", "1000)).exp()"))

    if strict:
        unchanged.assert_outcomes(failed=1)
    else:
        unchanged.assert_outcomes(xpassed=1)
    changed.assert_outcomes(failed=1)
    assert changed.ret == pytest.ExitCode.TESTS_FAILED
    assert "1 structure change" in say(changed)
    assert "marked xfail" not in say(changed)


LEAVES_TWO_OUT = """
def pytest_collection_modifyitems(items):
    items[:] = [item for item in items if item.name != "test_two"]
"""


@pytest.mark.long
@pytest.mark.parametrize("arguments", [("--pyargs", "test_case::test_one"), ("--lf",), ()])
def test_a_test_that_is_there_and_was_not_asked_for_is_not_gone(
    saved_two: Gate, pytester: pytest.Pytester, arguments: tuple[str, ...]
) -> None:
    if arguments == ("--lf",):
        failing = TWO.replace("square(torch.ones(1000))", "assert False", 1)
        assert saved_two("-p", "no:nsight", body=failing, nsight=False).ret == pytest.ExitCode.TESTS_FAILED
    elif not arguments:
        pytester.makeconftest(LEAVES_TWO_OUT)

    result = saved_two(*STRICT, *arguments, body=TWO)

    assert re.search(r"\b1 verdict:", say(result))
    assert "any more" not in say(result)


@pytest.mark.parametrize("option", ["--setup-plan", "--setup-only"])
def test_an_option_that_runs_no_test_is_refused(gate: Gate, option: str) -> None:
    result = gate(option, body=ONE)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{option} runs no test, so nothing can be measured; run it without --nsight"])


def test_a_test_that_replaces_sleep_and_the_clock_is_measured_like_others(gate: Gate) -> None:
    body = """
import time

@pytest.mark.nsight
def test_one(nsight, monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda seconds: 1 / 0)
    monkeypatch.setattr(time, "perf_counter_ns", lambda: 0)
    nsight(square, torch.ones(1000))
"""
    result = gate("--nsight-save", "--nsight-runs=1", "--nsight-collector=torch", body=body)

    assert "1 saved" in say(result)


@pytest.mark.slow
def test_a_save_says_what_it_changes(gate: Gate) -> None:
    gate("--nsight-save", "--nsight-runs=1", body=ONE)

    result = gate("--nsight-save", "--nsight-runs=1", "-v", body=ONE.replace("1000))", "1000)).exp()"))

    text = " ".join(result.stdout.str().split())
    assert "SAVED test_one: " in text
    assert " -> " in text
    assert re.search(r" 0 -> 1 (operator )?exp ", text)


SINCE_PYTEST_9 = pytest.mark.skipif(pytest.version_tuple < (9,), reason="pytest 9 brought the fixture subtests")
SUBTESTS = """
@pytest.mark.nsight
def test_dtypes(nsight, subtests):
    nsight(square, torch.ones(64, 64))
    for name in ("float32", "bfloat16"):
        with subtests.test(name):
            if name in os.environ.get("LEFT_OUT", ""):
                OUTCOME("no support")
"""


@pytest.mark.long
@SINCE_PYTEST_9
@pytest.mark.parametrize("outcome", ["pytest.skip", "pytest.xfail"])
def test_a_subtest_that_is_left_out_takes_no_case_from_the_gate(
    gate: Gate, monkeypatch: pytest.MonkeyPatch, outcome: str
) -> None:
    body = SUBTESTS.replace("OUTCOME", outcome)
    gate("--nsight-save", "--nsight-runs=2", body=body)
    monkeypatch.setenv("LEFT_OUT", "bfloat16")

    slower = gate(*STRICT, body=body.replace("nsight(square,", "nsight(chain,"))
    again = gate(*STRICT, "--lf")

    assert slower.ret == again.ret == pytest.ExitCode.TESTS_FAILED
    # The verdict is the test's failure, and not that of its first subtest.
    slower.stdout.fnmatch_lines(
        ["*_ test_dtypes _*", "test_dtypes *STRUCTURE", "STRUCTURE test_case.py::test_dtypes - *"]
    )
    again.stdout.fnmatch_lines(["test_dtypes *STRUCTURE"])


@SINCE_PYTEST_9
def test_a_subtest_that_fails_fails_its_case(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEFT_OUT", "bfloat16")
    body = SUBTESTS.replace("OUTCOME", "pytest.fail")

    result = gate("--nsight-save", "--nsight-runs=2", body=body)

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["SUBFAILED*test_dtypes*no support*"])
    result.stdout.no_fnmatch_line("*test_dtypes *SAVED*")


RENAMED = """
@pytest.mark.nsight
def test_{}():
    square(torch.ones(100))
"""


@pytest.mark.slow
def test_a_save_names_what_it_leaves_out_and_fails_strict(gate: Gate) -> None:
    gate("--nsight-save", "--nsight-runs=1", "--nsight-collector=torch", body=ONE + RENAMED.format("two"))

    save = ("--nsight-save", "--nsight-runs=1", *STRICT)
    strict = gate(*save, body=ONE + RENAMED.format("second") + UNMARKED)

    said = say(strict)
    assert strict.ret == pytest.ExitCode.TESTS_FAILED
    assert "test_unmarked; add @pytest.mark.nsight" in said
    assert "1 stored case has no test any more, so nothing checks it: test_case.py::test_two" in said
    assert gate(*save, body=SKIPPED).ret == pytest.ExitCode.TESTS_FAILED


@pytest.mark.long
@pytest.mark.slow
def test_a_stored_case_without_a_test_is_named_when_a_session_is_judged_again(
    gate: Gate, pytester: pytest.Pytester
) -> None:
    elsewhere = "--nsight-baselines=other folder"
    gate("--nsight-save", "--nsight-runs=1", STRICT[1], elsewhere, body=ONE + RENAMED.format("two"))
    gate("--nsight-keep", STRICT[1], elsewhere, "--nsight-band=90%")
    session = max((pytester.path / ".nsight").glob("2*"))

    judged = gate("--nsight-replay", str(session), elsewhere, "--nsight-strict", "--nsight-band=90%", body=ONE)

    said = say(judged)
    assert judged.ret == pytest.ExitCode.TESTS_FAILED
    assert "nothing checks it: test_case.py::test_two; if that is intended, remove it with:" in said
    assert "pytest-nsight baselines prune --delete --baselines 'other folder'" in said


BY_NAME = """
def test_by_name(request):
    request.getfixturevalue("nsight")(square, torch.ones(10))
"""


def test_a_test_without_the_mark_that_asks_for_the_fixture_by_name_is_named(gate: Gate) -> None:
    sentence = "1 test uses the fixture nsight without the mark*test_case.py::test_by_name*"

    strict = gate(*STRICT, body=ONE + BY_NAME)
    assert strict.ret == pytest.ExitCode.TESTS_FAILED
    strict.stdout.fnmatch_lines([f"FAILED --nsight-strict: {sentence}"])
    lenient = gate("--nsight-collector=torch", body=ONE + BY_NAME)
    assert lenient.ret == pytest.ExitCode.OK
    lenient.stdout.fnmatch_lines([f"nsight: {sentence}"])


def test_a_test_that_asks_for_the_marked_fixture_by_name_is_named(gate: Gate) -> None:
    body = """
def test_one(benchmark):
    benchmark(square, torch.ones(10))

@pytest.fixture
def bench(request):
    return request.getfixturevalue("benchmark")

def test_by_fixture(bench):
    bench(square, torch.ones(10))
"""
    result = gate(*STRICT, "-o", "nsight_mark=benchmark", body=body)

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    named = "1 test uses the fixture benchmark without the mark*test_case.py::test_by_fixture*"
    result.stdout.fnmatch_lines([f"FAILED --nsight-strict: {named}"])


def test_a_failing_verdict_fails_a_session_that_a_test_ends_before_its_report(gate: Gate) -> None:
    ends = "def test_first(): pytest.exit('done', returncode=0)\n"
    assert gate("--nsight-collector=torch", "--nsight-save", body=ONE).ret == pytest.ExitCode.OK

    changed = ONE.replace("square(", "square(square(").replace("1000))", "1000)))")
    result = gate("--nsight-collector=torch", body=ends + changed)

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["ERROR: 1 marked test failed, and pytest did not report it: *::test_one*"])


RAISES_LATER = """
import contextlib

@pytest.mark.nsight
def test_one(nsight):
    calls = []
    def work():
        calls.append(1)
        if len(calls) > int(os.environ["SOUND_CALLS"]):
            raise RuntimeError("out of workspace")
        square(torch.ones(1000))
    with contextlib.suppress(RuntimeError):
        nsight(work)
"""


@pytest.mark.parametrize("calls", [0, 8], ids=["first call", "later call"])
def test_a_test_that_goes_on_after_an_exception_of_what_it_measures_fails(
    gate: Gate, monkeypatch: pytest.MonkeyPatch, calls: int
) -> None:
    monkeypatch.setenv("SOUND_CALLS", "1000")
    assert gate("--nsight-collector=torch", "--nsight-save", body=RAISES_LATER).ret == pytest.ExitCode.OK

    monkeypatch.setenv("SOUND_CALLS", str(calls))
    result = gate("--nsight-collector=torch", "--nsight-no-identity")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["what this test measures raised RuntimeError: out of workspace, and the test*"])


def test_a_removed_test_is_named_where_a_test_of_a_file_of_the_same_name_is_chosen(
    gate: Gate, pytester: pytest.Pytester
) -> None:
    package = {"a/__init__": "", "b/__init__": ""}
    pytester.makepyfile(**package, **{"a/test_ops": HEAD + ONE + OTHER, "b/test_ops": HEAD + ONE + OTHER})
    assert gate("--nsight-collector=torch", "--nsight-save").ret == pytest.ExitCode.OK

    pytester.makepyfile(**{"b/test_ops": HEAD + ONE})
    result = gate(*STRICT, "a/test_ops.py::test_one", "b/test_ops.py")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*1 stored case has no test any more*b/test_ops.py::test_other*"])
    assert gate(*STRICT, "b/test_ops.py::test_one").ret == pytest.ExitCode.OK


IN_A_CLASS = """
import contextlib
import unittest

class TestOne(unittest.TestCase):
    @pytest.fixture(autouse=True)
    def prepare(self, nsight):
        self.nsight = nsight

    @pytest.mark.nsight
    def test_one(self):
        def work():
            raise RuntimeError("out of workspace")
        with contextlib.suppress(RuntimeError):
            self.nsight(work)
"""


def test_a_method_of_unittest_that_goes_on_after_an_exception_fails(gate: Gate) -> None:
    result = gate("--nsight-collector=torch", body=IN_A_CLASS)

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["what this test measures raised RuntimeError: out of workspace, and the test*"])


RUNS_TESTS_ITSELF = """
import pytest
from _pytest.runner import runtestprotocol

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    runtestprotocol(item, nextitem=nextitem, log=False)
    return True
"""


def test_a_failing_verdict_fails_a_session_whose_plugin_runs_the_test_in_its_own_way(
    gate: Gate, pytester: pytest.Pytester
) -> None:
    assert gate("--nsight-collector=torch", "--nsight-save", body=ONE).ret == pytest.ExitCode.OK

    pytester.makepyfile(own_way=RUNS_TESTS_ITSELF)
    changed = ONE.replace("square(", "square(square(").replace("1000))", "1000)))")
    pytester.makeconftest(
        "import pytest\n"
        "def pytest_collection_finish(session):\n"
        "    if session.config.pluginmanager.hasplugin('nsight-controller'):\n"
        "        import own_way\n"
        "        session.config.pluginmanager.register(own_way, 'own-way')\n"
    )
    result = gate("--nsight-collector=torch", "-p", "no:cacheprovider", body=changed)

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["ERROR: 1 marked test failed, and pytest did not report it: *::test_one*"])
    result.stdout.no_fnmatch_line("*without the mark*")
