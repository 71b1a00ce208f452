"""Without --nsight a marked test is a plain test."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pytest_nsight.controller.options import VALUES
from pytest_nsight.controller.settings import Settings, read_settings
from pytest_nsight.model.values import Policy
from pytest_nsight.protocol.mark import read_mark

pytestmark = pytest.mark.slow

WITH_A_VALUE = (
    *("replay", "against", "pool", "pool-confirming", "pool-minutes"),
    *(name.replace("_", "-") for name in VALUES),
)

PYTEST = tuple(map(int, pytest.__version__.split(".")[:1]))

PLAIN = """
import pytest

from pytest_nsight.protocol.mark import read_mark

calls = []

@pytest.mark.nsight(rounds=50, band="2%", launches=3)
def test_fixture(nsight):
    assert nsight(lambda a, b: calls.append(a) or a + b, 1, b=2) == 3
    assert calls == [1]

@pytest.mark.nsight
def test_pedantic(nsight):
    made = []
    def setup():
        made.append(1)
        return (20,), {"b": 1}
    assert nsight.pedantic(lambda a, b: a + b, setup=setup, rounds=9, warmup=4) == 21
    assert made == [1]
    assert nsight.pedantic(pow, (2, 5)) == 32
    with pytest.raises(TypeError, match="returns \\(args, kwargs\\)"):
        nsight.pedantic(pow, setup=lambda: (2, 5))

@pytest.mark.nsight
def test_ranges(nsight):
    with nsight.range("forward"):
        calls.append("forward")
    assert calls.count("forward") == 1
    with pytest.raises(ValueError, match="printable"):
        nsight.range("two\\nlines")
"""


def test_a_marked_test_runs_once_and_gets_its_result(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(PLAIN)

    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")

    result.assert_outcomes(passed=3)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("band='5 percent'", "*test_it: nsight(band=...) is '5 percent'; give a percentage such as 2%*"),
        ("rounds=0", "*nsight(rounds=...) is 0; give a whole number of at least 1*"),
        ("rounds=True", "*nsight(rounds=...) is True; give a whole number*"),
        ("max_time=5", "*nsight(max_time=...) is 5; give a duration with its unit*"),
        ("metric='speed'", "*nsight(metric=...) is 'speed'; choose one of kernel, busy*"),
        ("max_time='0us'", "*nsight(max_time=...) is '0us', and no kernel is that fast; give a longer time*"),
        ("by=1.2", "*nsight(by=...) needs faster_than=*"),
        ("faster_than='other'", "*nsight(faster_than='other') names *, and the test has no parameters*"),
        ("kernels='one'", "*nsight(kernels=...) is 'one'; give a list of kernel names*"),
        ("kernels=[]", "*nsight(kernels=...) is []; give a list of kernel names*"),
        ("typo=1", "*test_it: nsight has no argument 'typo'; allowed are rounds, warmup,*"),
        ("3", "*nsight takes keyword arguments only, got 3; allowed are rounds*"),
    ],
)
def test_a_wrong_mark_ends_the_collection_with_a_sentence(
    pytester: pytest.Pytester, arguments: str, sentence: str
) -> None:
    pytester.makepyfile(f"import pytest\n@pytest.mark.nsight({arguments})\ndef test_it(): pass\n")

    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {sentence}"])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--nsight", "--nsight-band=abc"], "*--nsight-band is 'abc'; give a percentage*"),
        (["--nsight", "--nsight-runs=0"], "*--nsight-runs is '0'; give a whole number*"),
        (["--nsight", "--nsight-collector=ncu"], "*'ncu'; choose one of auto, nsys, cupti, torch*"),
        *((["--nsight", f"--nsight-{name}="], f"*--nsight-{name} is empty; *") for name in WITH_A_VALUE),
        (["--nsight", "--nsight-pool-minutes=3"], "*--nsight-pool-minutes fills a pool; give it with *"),
        (["--nsight", "--nsight-pool-confirming=3"], "*--nsight-pool-confirming fills a pool; give it with *"),
        (["--nsight", "--nsight-pool=p", "--nsight-pool-confirming=0"], "*give a whole number of at least 1*"),
        (["--nsight", "--nsight-replay=nowhere"], "*--nsight-replay nowhere: no such folder*"),
        (["--nsight-save"], "*--nsight-save needs --nsight, too*"),
    ],
)
def test_a_wrong_option_is_a_usage_error(pytester: pytest.Pytester, options: list[str], sentence: str) -> None:
    pytester.makepyfile("def test_it(): pass")

    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", *options)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {sentence}"])


def test_a_switch_in_the_ini_file_that_is_neither_is_named(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nnsight_strict = maybe\n")

    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "--nsight")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: nsight_strict in the ini file: *'maybe'; give true or false"])


@pytest.mark.skipif(PYTEST < (9,), reason="pytest 9 was the first with the table [tool.pytest]")
@pytest.mark.parametrize(
    ("setting", "remedy"),
    [
        ("nsight_rounds = 5", 'write it in quotes: nsight_rounds = "5"'),
        ('nsight_affected_by = "a"', 'write a list of texts in quotes: nsight_affected_by = ["..."]'),
        ("nsight_affected_by = [1]", 'write a list of texts in quotes: nsight_affected_by = ["..."]'),
        ('nsight_strict = "true"', "give true or false"),
    ],
)
def test_a_value_of_another_type_in_a_toml_table_is_refused_with_what_to_write(
    pytester: pytest.Pytester, setting: str, remedy: str
) -> None:
    pytester.makepyprojecttoml(f"[tool.pytest]\n{setting}\n")

    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "--nsight")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (said,) = [line for line in result.stderr.lines if line.startswith("ERROR: ")]
    assert said.startswith(f"ERROR: {setting.partition(' ')[0]} in the ini file: ")
    assert said.endswith(f"; {remedy}")


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ('nsight_band = "1%"', 'is "1%", with quotes, which only a .toml file needs; write: nsight_band = 1%'),
        (
            "nsight_baselines = 'stored'",
            "is 'stored', with quotes, which only a .toml file needs; write: nsight_baselines = stored",
        ),
        ("nsight_band = abc", "is 'abc'; give a percentage such as 2%, or a ratio such as 0.02"),
        ("nsight_strct = true", "is no setting of *; write nsight_strict, if that is meant"),
        ("nsight_rounds = 0", "is '0'; give a whole number of at least 1"),
        ("nsight_collector = nvprof", "is 'nvprof'; choose one of *"),
        ("nsight_report = foo", "is 'foo'; give NAME=PATH, where NAME is json, *"),
        ("nsight_report = foo=bar", "asks for 'foo', and there is no such report; choose one of json, *"),
        *((f"nsight_{name} =", "is empty; give it a value, or leave it out") for name in VALUES),
    ],
)
def test_a_wrong_value_in_the_ini_file_names_the_setting(
    pytester: pytest.Pytester, setting: str, said: str
) -> None:
    pytester.makeini(f"[pytest]\n{setting}\n")

    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "--nsight")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {setting.split(maxsplit=1)[0]} in tox.ini {said}"])


def test_a_command_in_the_ini_file_may_begin_and_end_with_quoted_words(pytester: pytest.Pytester) -> None:
    pytester.makeini('[pytest]\nnsight_against_build = "my make" "all of it"\n')
    pytester.makepyfile("def test_it(): pass")

    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "--nsight")

    result.assert_outcomes(passed=1)


def test_a_case_cannot_claim_to_beat_itself_while_a_whole_function_may(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        own = pytest.mark.nsight(faster_than="fused")

        @pytest.mark.nsight
        @pytest.mark.parametrize("variant", [pytest.param("fused", marks=own, id="fused"), "unfused"])
        def test_own(variant): pass

        @pytest.mark.nsight(faster_than="unfused")
        @pytest.mark.parametrize("variant", ["fused", "unfused"])
        def test_all(variant): pass
        """
    )

    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    complaints = [line for line in result.errlines if "faster_than" in line]
    assert len(complaints) == 1
    assert "test_own[fused]: nsight(faster_than='fused') claims that the case beats itself" in complaints[0]


def test_who_says_nothing_gets_the_default_band_that_the_help_tells(pytester: pytest.Pytester) -> None:
    settings = read_settings(pytester.parseconfigure("--nsight"))

    assert settings.band == Settings(Path()).band == Policy().band == 0.01
    assert "such as 1% (default)" in pytester.runpytest_inprocess("--help").stdout.str().replace("\n", " ")


def test_loading_the_plugin_imports_nothing_heavy() -> None:
    heavy = "torch", "triton", "pandas", "scipy", "numpy", "nvtx", "sqlite3"
    code = f"import sys, pytest_nsight.plugin; print([m for m in {heavy!r} if m in sys.modules])"

    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert result.stdout.strip() == "[]"


def test_the_nearest_mark_wins_argument_by_argument(pytester: pytest.Pytester) -> None:
    item = pytester.getitem(
        """
        import pytest
        pytestmark = pytest.mark.nsight(band="3%", rounds=7, warmup=1)

        @pytest.mark.nsight(band="4%", rounds=8)
        @pytest.mark.parametrize("n", [pytest.param(1, marks=pytest.mark.nsight(band="5%"))])
        def test_it(n): pass
        """,
        "test_it[1]",
    )

    mark = read_mark(item)

    assert (mark.band, mark.rounds, mark.warmup) == (0.05, 8, 1)
