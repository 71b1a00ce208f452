"""Which stored runs may be compared, and what is only describe_changes."""

from __future__ import annotations

import pytest

from pytest_nsight.baselines.comparability import BLOCKING, ComparableRuns, describe_changes, find_comparable
from tests.baselines.examples import ENVIRONMENT, run


@pytest.mark.parametrize("field", BLOCKING)
def test_a_changed_machine_blocks_and_is_explained_with_both_values(field: str) -> None:
    stored = run(1, environment={**ENVIRONMENT, field: "old"})

    found = find_comparable([stored], {**ENVIRONMENT, field: "new"})

    assert found.runs == ()
    expected = f"the stored run differs from this machine or measurement: {field} old -> new;"
    assert found.why_none.startswith(expected)
    assert "--nsight-save" in found.why_none


@pytest.mark.parametrize("field", ["torch", "triton", "nsys", "cuda", "python", "plugin", "anything"])
def test_a_changed_version_blocks_nothing_and_is_reported(field: str) -> None:
    stored = run(1, environment={**ENVIRONMENT, field: "1.0"})
    now = {**ENVIRONMENT, field: "2.0"}

    assert find_comparable([stored], now) == ComparableRuns((stored,))
    assert describe_changes([stored], now) == f"changed since the baseline: {field} 1.0 -> 2.0"


@pytest.mark.parametrize(("old", "new"), [("570", ""), ("", "570"), ("570", None), (None, "570")])
def test_what_is_unknown_on_one_side_neither_blocks_nor_is_reported(old: str | None, new: str | None) -> None:
    stored = run(1, environment={} if old is None else {"driver": old, "torch": old})
    now = {} if new is None else {"driver": new, "torch": new}

    assert find_comparable([stored], now) == ComparableRuns((stored,))
    assert describe_changes([stored], now) == ""


def test_every_differing_field_is_named() -> None:
    stored = [run(number, environment={"driver": "550", "mig": "off", "ecc": "on"}) for number in range(5)]

    why = find_comparable(stored, {"driver": "570", "mig": "on", "ecc": "on"}).why_none

    assert "all 5 stored runs differ" in why
    assert "driver 550 -> 570, mig off -> on;" in why
    assert "ecc" not in why


def test_runs_that_fit_are_kept_in_order_and_the_rest_left_out() -> None:
    old, fits, newer = (run(n, environment={"driver": d}) for n, d in enumerate(["550", "570", "570"]))

    assert find_comparable([old, fits, newer], {"driver": "570"}) == ComparableRuns((fits, newer))


def test_the_explanation_is_about_the_nearest_run_and_the_newest_of_those() -> None:
    stored = [
        run(1, environment={"driver": "530", "mig": "off"}),
        run(2, environment={"driver": "550", "mig": "off"}),
        run(3, environment={"driver": "540", "mig": "on"}),
    ]

    why = find_comparable(stored, {"driver": "570", "mig": "off"}).why_none

    assert "driver 550 -> 570;" in why


def test_no_stored_run_is_not_a_difference() -> None:
    assert find_comparable([], ENVIRONMENT) == ComparableRuns()
    assert describe_changes([], ENVIRONMENT) == ""


def test_another_board_is_reported_unless_runs_of_its_like_are_stored() -> None:
    stored = [run(1, environment={"board_part": "001"}), run(2, environment={"board_part": "000"})]

    assert describe_changes(stored, {"board_part": "001"}) == ""
    assert describe_changes(stored, {"board_part": "041"}) == "changed since the baseline: board_part 000 -> 041"
