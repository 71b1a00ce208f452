"""Which stored runs may be compared, and what is only describe_changes."""

from __future__ import annotations

import pytest

from pytest_nsight.baselines.comparability import BLOCKING, comparable, describe_changes
from tests.baselines.examples import ENVIRONMENT, run


@pytest.mark.parametrize("field", BLOCKING)
def test_a_changed_machine_blocks_and_is_explained_with_both_values(field: str) -> None:
    stored = run(1, environment={**ENVIRONMENT, field: "old"})

    runs, why = comparable([stored], {**ENVIRONMENT, field: "new"})

    assert runs == ()
    assert why.startswith(f"the stored run differs from this machine or measurement: {field} old -> new;")
    assert "--nsight-save" in why


@pytest.mark.parametrize("field", ["torch", "triton", "nsys", "cuda", "python", "plugin", "anything"])
def test_a_changed_version_blocks_nothing_and_is_told(field: str) -> None:
    stored = run(1, environment={**ENVIRONMENT, field: "1.0"})
    now = {**ENVIRONMENT, field: "2.0"}

    assert comparable([stored], now) == ((stored,), "")
    assert describe_changes([stored], now) == f"changed since the baseline: {field} 1.0 -> 2.0"


@pytest.mark.parametrize(("old", "new"), [("570", ""), ("", "570"), ("570", None), (None, "570")])
def test_what_is_unknown_on_one_side_neither_blocks_nor_is_told(old: str | None, new: str | None) -> None:
    stored = run(1, environment={} if old is None else {"driver": old, "torch": old})
    now = {} if new is None else {"driver": new, "torch": new}

    assert comparable([stored], now) == ((stored,), "")
    assert describe_changes([stored], now) == ""


def test_every_differing_field_is_named() -> None:
    stored = [run(number, environment={"driver": "550", "mig": "off", "ecc": "on"}) for number in range(5)]

    _, why = comparable(stored, {"driver": "570", "mig": "on", "ecc": "on"})

    assert "all 5 stored runs differ" in why
    assert "driver 550 -> 570, mig off -> on;" in why
    assert "ecc" not in why


def test_runs_that_fit_are_kept_in_order_and_the_others_left_out() -> None:
    old, fits, newer = (run(n, environment={"driver": d}) for n, d in enumerate(["550", "570", "570"]))

    assert comparable([old, fits, newer], {"driver": "570"}) == ((fits, newer), "")


def test_the_explanation_is_about_the_nearest_run_and_the_newest_of_those() -> None:
    stored = [
        run(1, environment={"driver": "530", "mig": "off"}),
        run(2, environment={"driver": "550", "mig": "off"}),
        run(3, environment={"driver": "540", "mig": "on"}),
    ]

    _, why = comparable(stored, {"driver": "570", "mig": "off"})

    assert "driver 550 -> 570;" in why


def test_no_stored_run_is_not_a_difference() -> None:
    assert comparable([], ENVIRONMENT) == ((), "")
    assert describe_changes([], ENVIRONMENT) == ""


def test_another_board_is_told_unless_runs_of_its_like_are_stored() -> None:
    stored = [run(1, environment={"board_part": "001"}), run(2, environment={"board_part": "000"})]

    assert describe_changes(stored, {"board_part": "001"}) == ""
    assert describe_changes(stored, {"board_part": "041"}) == "changed since the baseline: board_part 000 -> 041"
