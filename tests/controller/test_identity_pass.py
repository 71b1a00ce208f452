"""How the cases of an identity pass are shared out to processes, and what gets ready beside it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_nsight.controller.identity_pass import IdentifyingSource, share_out
from pytest_nsight.protocol.job import OTHER_TREE, Assignment


def cases(number: int) -> list[str]:
    return [f"t.py::{place}" for place in range(number)]


@pytest.mark.parametrize(
    ("number", "processors", "shares"),
    [(78, 16, 8), (78, 2, 1), (78, 8, 4), (78, 128, 8), (16, 16, 2), (15, 16, 1), (1, 16, 1)],
)
def test_each_process_has_enough_to_do_and_processors_to_do_it_with(
    number: int, processors: int, shares: int
) -> None:
    found = share_out(cases(number), processors)

    assert len(found) == shares
    assert sorted(case for share in found for case in share) == sorted(cases(number))
    assert max(map(len, found)) - min(map(len, found)) <= 1


class Calls:
    """A source that notes what it is asked for."""

    def __init__(self, name: str, calls: list[tuple[object, ...]]) -> None:
        self._name, self._calls = name, calls

    def execute(self, assignment: Assignment, upcoming: Sequence[Assignment] = ()) -> tuple[()]:
        self._calls.append((self._name, assignment.tree, len(upcoming)))
        return ()

    def get_ready(self, upcoming: Sequence[Assignment]) -> None:
        self._calls.append((self._name, "get ready", [one.tree for one in upcoming]))

    def close(self) -> None:
        pass


def test_the_first_timed_process_gets_ready_beside_the_pass() -> None:
    calls: list[tuple[object, ...]] = []
    source = IdentifyingSource(Calls("pass", calls), Calls("timed", calls))
    passes = [Assignment(("a",), tree=tree, identifies=True) for tree in (OTHER_TREE, "")]

    source.execute(passes[0], [passes[1], Assignment((), tree=OTHER_TREE), Assignment(())])
    source.execute(Assignment(("a",)), [])

    assert calls == [
        ("timed", "get ready", [OTHER_TREE, ""]),
        ("pass", OTHER_TREE, 3),
        ("timed", "", 0),
    ]
