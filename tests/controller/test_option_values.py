"""Values of options that are none."""

from __future__ import annotations

import re

import pytest

from pytest_nsight.controller.option_values import refuse_empty, refuse_unknown
from pytest_nsight.controller.options import VALUES, given_options
from pytest_nsight.model.errors import UsageError

NAMES = (
    *("reason", "replay", "against", "pool", "pool-confirming", "pool-minutes", "affected", "affected-by", "shard"),
    *("report", *(name.replace("_", "-") for name in VALUES)),
)

UNREAD = " of pytest-nsight or of another plugin, so it has no effect"


def test_every_option_with_a_value_is_looked_at(pytester: pytest.Pytester) -> None:
    shown = pytester.runpytest_inprocess("--help").stdout.str()

    assert sorted(NAMES) == sorted(re.findall(r"^  --nsight-([a-z-]+)[ =][A-Z]", shown, re.MULTILINE))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("value", "sentence"), [("", "is empty"), (" ", "is empty"), ("--", "is --, which stands")]
)
def test_an_option_without_a_value_is_refused(
    pytester: pytest.Pytester, name: str, value: str, sentence: str
) -> None:
    config = pytester.parseconfig("--nsight", f"--nsight-{name}={value}")

    with pytest.raises(UsageError, match=f"--nsight-{name} {sentence}"):
        refuse_empty(config)


def test_dashes_count_as_given_without_the_gate_too(pytester: pytest.Pytester) -> None:
    assert given_options(pytester.parseconfig("--nsight-against=--")) == ("--nsight-against",)
    assert given_options(pytester.parseconfig()) == ()


def test_values_are_accepted(pytester: pytest.Pytester) -> None:
    refuse_empty(pytester.parseconfig("--nsight", "--nsight-report=html=a.html", "--nsight-affected-by=*.cu"))
    refuse_empty(pytester.parseconfig("--nsight"))


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("nsight_strct = true", f"{UNREAD}; write nsight_strict, if that is meant"),
        ("nsight-band = 3%", f"{UNREAD}; write nsight_band, if that is meant"),
        ("--nsight-strict = true", f"{UNREAD}; write nsight_strict, if that is meant"),
        ("nsight_no_canaries = true", f"{UNREAD}; write nsight_canaries, if that is meant"),
        ("nsight_xyz = 1", f"{UNREAD}; pytest --help lists all settings"),
        ("nsight_against = main", "; give --nsight-against on the command line, or in addopts"),
        ("nsight = true", "; give --nsight on the command line, or in addopts"),
    ],
)
def test_a_setting_that_nobody_reads_is_refused(pytester: pytest.Pytester, setting: str, sentence: str) -> None:
    pytester.makeini(f"[pytest]\n{setting}\n")

    with pytest.raises(UsageError) as caught:
        refuse_unknown(pytester.parseconfig("--nsight"))

    assert str(caught.value) == f"{setting.partition(' ')[0]} in tox.ini is no setting{sentence}"


def test_a_setting_of_the_command_line_that_nobody_reads_is_refused(pytester: pytest.Pytester) -> None:
    config = pytester.parseconfig("--nsight", "-o", "nsight_strct=true")

    with pytest.raises(UsageError, match=r"nsight_strct in -o is no setting .*; write nsight_strict, if"):
        refuse_unknown(config)


def test_settings_of_others_are_accepted(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nnsight_clock_speed = 3\nnsightly = 1\nother = 2\n")
    pytester.makeconftest(
        "def pytest_addoption(parser):\n    parser.addini('nsight_clock_speed', 'of a collector')\n"
    )

    refuse_unknown(pytester.parseconfig("--nsight", "-o", "nsight_strict=true", "-o", "unknown=1"))
