"""How the cases of an identity pass are shared out, what gets ready beside it, and what is tried again."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_nsight.controller.identity_pass import IdentifyingSource, identify_left, share_out
from pytest_nsight.model.identity import Identity
from pytest_nsight.protocol.job import OTHER_TREE, Assignment
from pytest_nsight.protocol.manifest import Manifest
from pytest_nsight.trace.process_record import MeasuredProcess, ProcessEnd


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


class Passes:
    """Identifies what it is given, but for cases that end their process."""

    def __init__(self, *deadly: str, slow: str = "") -> None:
        self._deadly, self._slow = deadly, slow
        self.assigned: list[tuple[str, ...]] = []

    def __call__(self, assignments: Sequence[Assignment]) -> tuple[MeasuredProcess, ...]:
        self.assigned += [assignment.cases for assignment in assignments]
        return tuple(self._run(assignment.cases) for assignment in assignments)

    def _run(self, given: tuple[str, ...]) -> MeasuredProcess:
        ends = {*self._deadly, self._slow}
        ending = next((place for place, case in enumerate(given) if case in ends), len(given))
        done, left = given[:ending], given[ending:]
        manifest = Manifest(
            "", "", "", "", 1, "", "", {}, given[: ending + 1], done, (), (), (), None if left else 0,
            identities={case: Identity(case) for case in done},
        )  # fmt: skip
        if not left:
            return MeasuredProcess(manifest)
        overdue = left[0] if left[0] == self._slow else ""
        return MeasuredProcess(
            manifest, end=ProcessEnd.FAILED, failure=f"died at {left[0]}", overdue=overdue, cases=left
        )


def identify(passes: Passes, *shares: str) -> tuple[set[str], list[tuple[str, tuple[str, ...] | None]]]:
    """The cases that have an identity in the end, and the failures that are reported with the cases they cost."""
    whole = Assignment(tuple("".join(sorted("".join(shares)))), identifies=True)
    first = passes([Assignment(tuple(share), identifies=True) for share in shares])
    found = identify_left(whole, first, passes, shares=len(shares))
    failures = [(process.failure, process.cases) for process in found if process.failure]
    return {case for process in found for case in process.manifest.identities}, failures


def test_a_case_that_ends_its_process_costs_no_other_case_its_identity() -> None:
    passes = Passes("b", "e")

    assert identify(passes, "ace", "bdf") == (set("acdf"), [("died at b", ("b",)), ("died at e", ("e",))])
    assert passes.assigned == [tuple("ace"), tuple("bdf"), tuple("df"), tuple("b"), tuple("e")]


def test_so_does_one_of_a_single_process() -> None:
    passes = Passes("b")

    assert identify(passes, "abc") == (set("ac"), [("died at b", ("b",))])
    assert passes.assigned[1:] == [("c",), ("b",)]


def test_a_case_that_dies_beside_others_only_is_identified() -> None:
    class OnlyBeside(Passes):
        def _run(self, given: tuple[str, ...]) -> MeasuredProcess:
            return Passes()._run(given) if given == ("b",) else super()._run(given)

    assert identify(OnlyBeside("b"), "abc") == (set("abc"), [])


def test_a_case_that_takes_too_long_is_not_tried_again() -> None:
    passes = Passes(slow="b")

    assert identify(passes, "abc") == (set("ac"), [("died at b", ("b",))])
    assert passes.assigned[1:] == [("c",)]


def test_processes_that_fail_at_their_start_are_followed_by_one_alone() -> None:
    class RefusesTwo(Passes):
        def __call__(self, assignments: Sequence[Assignment]) -> tuple[MeasuredProcess, ...]:
            if len(assignments) == 1:
                return super().__call__(assignments)
            nothing = Manifest("", "", "", "", 0, "", "", {}, (), (), (), (), (), None)
            return tuple(
                MeasuredProcess(nothing, end=ProcessEnd.FAILED, failure="one process only", cases=one.cases)
                for one in assignments
            )

    assert identify(RefusesTwo(), "ac", "bd") == (set("abcd"), [])
    assert identify(RefusesTwo("c"), "ac", "bd") == (set("abd"), [("died at c", ("c",))])
