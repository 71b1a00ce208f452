"""Values of options that are none."""

from __future__ import annotations

import re

import pytest

from pytest_nsight.controller.option_values import refuse_empty
from pytest_nsight.controller.options import VALUES, given_options
from pytest_nsight.model.errors import UsageError

NAMES = (
    *("reason", "replay", "against", "pool", "pool-confirming", "pool-minutes", "affected", "affected-by", "shard"),
    *("report", *(name.replace("_", "-") for name in VALUES)),
)


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
