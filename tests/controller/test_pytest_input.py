"""What the hook of the environment may return."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pytest_nsight.controller.pytest_input import ask_environment
from pytest_nsight.model.errors import UsageError


def config(*answers: object) -> Any:
    return SimpleNamespace(hook=SimpleNamespace(pytest_nsight_environment=lambda config: answers))


def test_of_several_answers_the_first_registered_counts() -> None:
    # pluggy calls the last registered implementation first.
    assert ask_environment(config({"a": "1", "b": "2"}, None, {"a": "3"})) == {"a": "3", "b": "2"}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"a": 1}, "give names and values as text"),
        ({"driver": "x"}, "returns 'driver', which decides what runs may be compared; give it another name"),
    ],
)
def test_what_would_be_no_field_or_one_that_keeps_runs_apart_is_refused(answer: object, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        ask_environment(config(answer))
