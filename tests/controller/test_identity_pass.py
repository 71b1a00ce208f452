"""How the cases of an identity pass are shared out, what gets ready beside it, and what is tried again."""

from __future__ import annotations

import json
import os
import random
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_nsight.controller.workers.followed_worker import FollowedWorker
from pytest_nsight.controller.workers.identity_folders import read_identity_passes
from pytest_nsight.controller.workers.identity_pass import IdentifyingSource, IdentityPass
from pytest_nsight.controller.workers.identity_retries import (
    count_repeats,
    count_retries,
    identify_left,
    list_repeats,
)
from pytest_nsight.controller.workers.identity_shares import (
    PartQueue,
    count_early,
    count_processes,
    divide,
    share_out,
)
from pytest_nsight.controller.workers.prewarmed import PrewarmedWorker
from pytest_nsight.controller.workers.spare_workers import SpareWorkers
from pytest_nsight.controller.workers.time_limits import TimeLimits, read_overdue
from pytest_nsight.model.errors import CollectorError
from pytest_nsight.model.identity import SHORT_OF_MEMORY, Identity, LaunchIdentity, make_identity
from pytest_nsight.protocol.job import INTERRUPTED_FILE, OTHER_TREE, Assignment
from pytest_nsight.protocol.manifest import Manifest
from pytest_nsight.protocol.manifest_events import CaseFault
from pytest_nsight.trace.process_record import MeasuredProcess, ProcessEnd


def cases(number: int) -> list[str]:
    return [f"t.py::{place}" for place in range(number)]


@pytest.mark.parametrize(
    ("number", "cpus", "processes"),
    [(78, 16, 8), (78, 2, 1), (78, 8, 4), (78, 128, 8), (16, 16, 2), (15, 16, 1), (1, 16, 1)],
)
def test_each_process_has_enough_to_do_and_cpus_to_do_it_with(number: int, cpus: int, processes: int) -> None:
    assert count_processes(cases(number), cpus) == processes

    shares = share_out(cases(number), processes)

    assert len(shares) == processes
    assert sorted(case for share in shares for case in share) == sorted(cases(number))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


NAMES = ("fused-1", "fused-2", "fused-3", "plain-1", "plain-2", "plain-3")
COLLECTED = [f"t.py::test_{function}[{name}]" for function in "abcdefghijklm" for name in NAMES]


def test_neighbouring_cases_of_a_function_stay_together_and_those_of_a_long_one_do_not_fill_a_share() -> None:
    found = share_out(COLLECTED, 8)

    assert sorted(case for share in found for case in share) == sorted(COLLECTED)
    assert {len(share) for share in found} == {9, 12}
    for share in found:
        parts = [share[at : at + 3] for at in range(0, len(share), 3)]
        assert all(len({case.rpartition("-")[0] for case in part}) == 1 for part in parts)
        assert not any(
            {f"t.py::test_{function}[fused-1]", f"t.py::test_{function}[plain-1]"} <= set(share)
            for function in "abcdefghijklm"
        )


def test_functions_whose_distance_is_the_number_of_shares_do_not_all_meet_in_one() -> None:
    collected = [f"t.py::test_{function}[{place}]" for function in range(24) for place in range(3)]

    found = share_out(collected, 8)

    slow = {"t.py::test_0[0]", "t.py::test_8[0]"}
    assert not any(slow <= set(share) for share in found)
    assert sorted(map(len, found)) == [9] * 8


def test_a_part_is_of_one_function_and_no_part_is_long() -> None:
    parts = divide(COLLECTED, 8)

    assert [case for part in parts for case in part] == COLLECTED
    assert {len(part) for part in parts} == {3}
    assert all(len({case.partition("[")[0] for case in part}) == 1 for part in parts)


def test_pairs_of_processes_take_what_is_next_and_both_of_a_pair_get_the_same() -> None:
    queue = PartQueue(COLLECTED, 8)
    parts = divide(COLLECTED, 8)

    firsts = [queue.list_cases(process) for process in range(16)]
    # The third process of either tree is the quickest.
    quick = [queue.take(2, 1), queue.take(10, 1), queue.take(10, 2), queue.take(2, 2)]
    slow = [queue.take(15, 1), queue.take(7, 1)]

    assert firsts == parts[:8] * 2
    assert quick == [parts[8], parts[8], parts[9], parts[9]]
    assert slow == [parts[10]] * 2
    assert queue.list_cases(2) == queue.list_cases(10) == (*parts[2], *parts[8], *parts[9])
    assert queue.total == 2 * len(COLLECTED)


def test_a_process_waits_for_its_counterpart_unless_that_has_ended() -> None:
    queue = PartQueue(COLLECTED, 8)
    parts = divide(COLLECTED, 8)

    assert queue.take(8, 1) == parts[8]
    assert queue.take(8, 2) is None
    assert queue.take(0, 1) == parts[8]
    assert queue.take(8, 2) == parts[9]
    assert queue.take(8, 3) is None

    queue.leave(0)

    left = [queue.take(8, number) for number in range(3, len(parts))]
    assert left[: len(parts) - 10] == parts[10:]
    assert set(left[len(parts) - 10 :]) == {()}
    assert [queue.take(at, 1) for at in (1, 9, 7, 15)] == [()] * 4


def test_cases_that_no_process_has_taken_are_not_forgotten() -> None:
    queue = PartQueue(COLLECTED, 8)
    queue.close()

    for tree in (range(8), range(8, 16)):
        assert sorted(case for process in tree for case in queue.list_cases(process)) == sorted(COLLECTED)


@pytest.mark.parametrize("shares", [1, 2, 3, 8])
def test_whoever_asks_first_every_case_is_done_once_in_each_tree(shares: int) -> None:
    chance = random.Random(shares)
    queue = PartQueue(COLLECTED, shares)
    done = [list(queue.list_cases(process)) for process in range(2 * shares)]
    numbers = [1] * len(done)
    asking = list(range(len(done)))
    while asking:
        process = chance.choice(asking)
        part = queue.take(process, numbers[process])
        if part is not None:
            done[process] += part
            numbers[process] += 1
            asking = [one for one in asking if one != process or part]

    assert done[:shares] == done[shares:]
    assert sorted(case for own in done[:shares] for case in own) == sorted(COLLECTED)


class Calls:
    """A source that notes what it is asked for."""

    def __init__(self, name: str, calls: list[tuple[str, str, int]]) -> None:
        self._name, self._calls = name, calls

    def execute(self, assignment: Assignment, upcoming: Sequence[Assignment] = ()) -> tuple[()]:
        self._calls.append((self._name, assignment.tree, len(upcoming)))
        return ()

    def close(self) -> None:
        self._calls.append((self._name, "close", 0))


def test_an_assignment_says_which_source_runs_it_and_both_are_closed() -> None:
    calls: list[tuple[str, str, int]] = []
    source = IdentifyingSource(Calls("pass", calls), Calls("timed", calls))

    source.execute(Assignment(("a",), tree=OTHER_TREE, identifies=True), [Assignment(())])
    source.execute(Assignment(("a",)))
    source.close()

    assert calls == [("pass", OTHER_TREE, 1), ("timed", "", 0), ("pass", "close", 0), ("timed", "close", 0)]


def test_where_a_process_cannot_be_started_every_case_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)))
    identity_pass = IdentityPass(SpareWorkers(NoStarter(), NO_COLLECTOR), TimeLimits(60.0), lambda _: None)
    this = Assignment(tuple(COLLECTED), identifies=True)

    own = identity_pass.execute(this, [replace(this, tree=OTHER_TREE)])
    others = identity_pass.execute(replace(this, tree=OTHER_TREE))

    for processes in (own, others):
        assert {case for process in processes if process.failure for case in process.cases or ()} == set(COLLECTED)
        assert "too many processes" in {process.failure for process in processes}


class Passes:
    """Identifies what it is given, but for cases that end their process."""

    def __init__(self, *deadly: str, slow: str = "") -> None:
        self._deadly, self._slow = deadly, slow
        self.rounds: list[list[tuple[str, ...]]] = []

    @property
    def assigned(self) -> list[tuple[str, ...]]:
        return [cases for beside in self.rounds for cases in beside]

    def __call__(self, assignments: Sequence[Assignment]) -> tuple[MeasuredProcess, ...]:
        self.rounds.append([assignment.cases for assignment in assignments])
        found = [(assignment.tree, self._run(assignment.cases)) for assignment in assignments]
        return tuple(replace(one, manifest=replace(one.manifest, tree=tree)) for tree, one in found)

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
    found = identify_left([whole], first, passes, at_once=2)[""]
    failures = [(process.failure, process.cases) for process in found if process.failure]
    return {case for process in found for case in process.manifest.identities}, failures


def test_a_case_that_ends_its_process_costs_no_other_case_its_identity() -> None:
    passes = Passes("b", "e")

    assert identify(passes, "ace", "fbd") == (set("acdf"), [("died at b", ("b",)), ("died at e", ("e",))])
    assert passes.assigned == [tuple("ace"), tuple("fbd"), tuple("d"), tuple("b"), tuple("e")]


def test_so_does_one_of_a_single_process() -> None:
    passes = Passes("b")

    assert identify(passes, "abc") == (set("ac"), [("died at b", ("b",))])
    assert passes.assigned[1:] == [("c",), ("b",)]


class OutOfMemory(Passes):
    """Cases that run out of memory, which ends their process in order.

    In a retry they have enough beside few processes: as many as `few`, with their own. `dies` ends its process.
    """

    def __init__(self, *deadly: str, few: int = 4, dies: str = "") -> None:
        super().__init__(*deadly)
        self._few, self._dies = few, dies

    def _run(self, given: tuple[str, ...]) -> MeasuredProcess:
        if self._dies in given:
            return Passes(self._dies)._run(given)
        if len(self.rounds) > 1 and len(self.rounds[-1]) <= self._few:
            return Passes()._run(given)
        found = super()._run(given)
        if not found.cases:
            return found
        lost = CaseFault(found.cases[0], "out of memory")
        return replace(found, manifest=replace(found.manifest, process_failure=lost, exit_code=2))


@pytest.mark.parametrize("shares", [("abc", "def"), ("bac", "edf")])
def test_a_case_that_runs_out_of_memory_beside_others_is_identified_alone(shares: tuple[str, str]) -> None:
    assert identify(OutOfMemory("b", "e"), *shares) == (set("abcdef"), [])


def test_what_ran_out_of_memory_and_what_was_not_begun_run_beside_one_another_two_at_once() -> None:
    passes = OutOfMemory("b", "e", "h")

    assert identify(passes, "abc", "def", "ghi") == (set("abcdefghi"), [])
    assert passes.rounds[1:] == [[tuple("cfi"), ("b",)], [("e",), ("h",)]]


def test_so_do_those_of_two_trees() -> None:
    passes = OutOfMemory("b")
    trees = [Assignment(tuple("abc"), identifies=True), Assignment(tuple("abc"), tree=OTHER_TREE, identifies=True)]
    shares = [replace(tree, cases=cases) for tree in trees for cases in (tuple("ac"), tuple("b"))]

    found = identify_left(trees, passes(shares), passes, at_once=2)

    for processes in found.values():
        assert {case for process in processes for case in process.manifest.identities} == set("abc")
        assert not any(process.failure for process in processes)
    assert passes.rounds[1:] == [[("b",), ("b",)]]


def test_what_runs_out_of_memory_beside_few_others_again_is_identified_alone() -> None:
    passes = OutOfMemory("b", "c", "e", few=1)

    assert identify(passes, "abc", "def") == (set("abcdef"), [])
    assert passes.rounds[1:] == [[("c", "f"), ("b",)], [("f",)], [("b",)], [("c",)], [("e",)]]


def test_a_case_that_killed_its_process_runs_after_those_that_ran_out_of_memory_and_alone() -> None:
    passes = OutOfMemory("b", "e", dies="h")

    assert identify(passes, "abc", "def", "ghi") == (set("abcdefgi"), [("died at h", ("h",))])
    assert passes.rounds[1:] == [[tuple("cfi"), ("b",)], [("e",)], [("h",)]]


def test_what_one_takes_down_that_runs_beside_it_is_identified_alone() -> None:
    class TakesAllDown(OutOfMemory):
        def _run(self, given: tuple[str, ...]) -> MeasuredProcess:
            beside = self.rounds[-1] if len(self.rounds) > 1 else []
            return Passes(*given)._run(given) if len(beside) > 1 and ("b",) in beside else super()._run(given)

    passes = TakesAllDown("b")

    assert identify(passes, "abcd", "ef") == (set("abcdef"), [])
    assert passes.rounds[1:] == [[tuple("cd"), ("b",)], [("d",)], [("b",)], [("c",)]]


def test_on_a_device_that_always_fails_few_retries_follow() -> None:
    passes = OutOfMemory(*"abcdefgh", few=0)

    found, failures = identify(passes, "ab", "cd", "ef", "gh")

    assert found == set()
    assert [len(beside) for beside in passes.rounds[1:]] == [2, 1, 1, 1]
    assert sorted({case for _, cases in failures for case in cases or ()}) == list("abcdefgh")


def test_a_case_that_dies_beside_others_only_is_identified() -> None:
    class OnlyBeside(Passes):
        def _run(self, given: tuple[str, ...]) -> MeasuredProcess:
            return Passes()._run(given) if given == ("b",) else super()._run(given)

    assert identify(OnlyBeside("b"), "abc") == (set("abc"), [])


def test_a_case_that_takes_too_long_or_dies_first_is_not_tried_again() -> None:
    for passes in (Passes(slow="b"), Passes("a")):
        found, ((failure, cases),) = identify(passes, "abc")

        assert found == set("abc") - set(cases or ())
        assert failure == f"died at {cases[0] if cases else ''}"
        assert len(passes.assigned) == 2
    assert identify(alone := Passes("a"), "a") == (set(), [("died at a", ("a",))])
    assert alone.assigned == [("a",)]


def test_further_processes_end_after_three_that_identify_nothing() -> None:
    passes = Passes(*"abcdefghij")

    found, failures = identify(passes, "abcde", "fghij")

    assert found == set()
    assert len(passes.assigned) == 2 + 3
    assert sorted(case for _, cases in failures for case in cases or ()) == list("abcdefghij")


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


def test_an_interrupt_ends_all_further_processes() -> None:
    class Interrupted(Passes):
        def __call__(self, assignments: Sequence[Assignment]) -> tuple[MeasuredProcess, ...]:
            found = super().__call__(assignments)
            return found if len(self.assigned) < 3 else (replace(found[0], end=ProcessEnd.INTERRUPTED), *found[1:])

    passes = Interrupted("b", "e")

    identify(passes, "abc", "def")

    assert passes.assigned == [tuple("abc"), tuple("def"), tuple("cf")]


def recorded(folder: Path, identified: str, *, code: int | None) -> None:
    """The manifest of a process of the pass that was to identify a, b and c."""
    folder.mkdir(parents=True)
    cases = ["a", "b", "c"]
    events: list[dict[str, object]] = [{"event": "run", "format": 1}, {"event": "assignment", "cases": cases}]
    events += [{"event": "case", "case": case} for case in cases]
    events += [
        {"event": "identity", "case": case, "identity": {"digest": case}, "claims": ""} for case in identified
    ]
    events += [{"event": "end", "code": code}] if code is not None else []
    (folder / "manifest.jsonl").write_text("".join(f"{json.dumps(event)}\n" for event in events))


def test_a_recorded_process_has_failed_only_where_no_other_identified_its_cases(tmp_path: Path) -> None:
    recorded(tmp_path / "identity-001", "a", code=None)
    recorded(tmp_path / "identity-002", "c", code=0)

    assert [(one.failure, one.cases) for one in read_identity_passes(tmp_path)] == [
        ("the process of identity-001 died", ("b",)),
        ("", None),
    ]
    recorded(tmp_path / "identity-003", "b", code=0)
    assert [one.failure for one in read_identity_passes(tmp_path)] == ["", "", ""]


def test_a_recorded_process_that_died_before_its_assignment_has_failed_if_its_tree_has_no_other(
    tmp_path: Path,
) -> None:
    (tmp_path / "identity-001").mkdir()
    (tmp_path / "identity-001/manifest.jsonl").write_text('{"event": "run", "format": 1}\n')

    assert [one.failure for one in read_identity_passes(tmp_path)] == ["the process of identity-001 died"]

    recorded(tmp_path / "identity-002", "abc", code=0)
    assert [one.failure for one in read_identity_passes(tmp_path)] == ["", ""]


def place(allocation: int, grid: int = 1) -> Identity:
    pointer = f"pointer 0 aligned to 256 into {allocation} bytes"
    return make_identity([LaunchIdentity("kernel", "f", grid=(grid, 1, 1), arguments=(pointer,))])


def found(**identities: Identity) -> MeasuredProcess:
    ran = tuple(identities)
    manifest = Manifest("", "", "", "", 1, "", "", {}, ran, ran, (), (), (), 0, identities=identities)
    return MeasuredProcess(manifest)


SHORT = Identity(why_none=SHORT_OF_MEMORY)


def test_what_says_so_or_differs_in_addresses_alone_is_repeated_behind_the_cases_before_it() -> None:
    this = (found(a=place(4096), b=place(4096)), found(c=place(4096), d=place(4096), e=SHORT, f=place(4096)))
    other = (found(a=SHORT, b=place(8192, grid=2)), found(c=place(4096), d=place(8192), e=place(4096)))

    assert list_repeats([this, other], most=1) == [("a",), ("c", "d", "e")]
    assert list_repeats([other, this], most=1) == [("a",), ("c", "d", "e")]
    assert list_repeats([this], most=1) == [("c", "d", "e")]


def test_what_ran_behind_other_cases_in_the_other_tree_is_not_repeated() -> None:
    this = (found(a=place(1), b=place(1), c=place(4096), d=SHORT),)
    lacks_b = (found(a=place(1), c=place(8192), d=place(4096)),)
    b_died = (found(a=place(1)), found(c=place(8192)), found(d=place(4096)))

    assert list_repeats([this, lacks_b], most=1) == list_repeats([lacks_b, this], most=1) == []
    assert list_repeats([this, b_died], most=1) == list_repeats([b_died, this], most=1) == []


def test_many_cases_that_differ_in_addresses_alone_are_no_coincidence() -> None:
    this, other = (found(**{name: place(size) for name in "abc"}, d=SHORT, e=SHORT) for size in (4096, 8192))

    assert list_repeats([[this], [other]], most=3) == [tuple("abcde")]
    assert list_repeats([[found(**{name: place(1) for name in "abc"})], [other]], most=2) == []


def test_a_case_that_a_later_process_has_found_is_that_ones() -> None:
    assert list_repeats([(found(a=SHORT), found(a=place(4096)))], most=1) == []
    assert list_repeats([(found(a=place(1), b=SHORT), found(c=place(1), b=SHORT))], most=1) == [("c", "b")]


NO_COLLECTOR: Any = None


class NoStarter:
    """Starts nothing, and counts how often it is asked to."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, tree: str) -> PrewarmedWorker:
        self.asked.append(tree)
        raise CollectorError("too many processes")


class Starter:
    """Starts workers that only wait, and notes what they are to import."""

    def __init__(self) -> None:
        self.started: list[Any] = []
        self.ended: list[Any] = []

    def __call__(self, tree: str) -> Any:
        process = SimpleNamespace(poll=lambda: None)
        pipe = SimpleNamespace(is_open=True)
        pipe.close = lambda: setattr(pipe, "is_open", False)
        worker = SimpleNamespace(tree=tree, process=process, pipe=pipe, modules=set())
        worker.call_off = lambda _collector: self.ended.append(worker)
        worker.import_early = worker.modules.update
        self.started.append(worker)
        return worker


def test_as_many_processes_get_ready_as_are_wanted_but_at_most_three_of_a_tree() -> None:
    start = Starter()
    spare = SpareWorkers(start, NO_COLLECTOR)

    spare.get_ready({"": 1}, {"slow.module"})
    spare.get_ready({"": 2}, set())
    spare.get_ready({"": 17, OTHER_TREE: 1}, {"other.module"})

    assert [worker.tree for worker in start.started] == ["", "", "", OTHER_TREE]
    assert start.started[0].modules == {"slow.module", "other.module"}
    taken = [spare.take(""), spare.take(OTHER_TREE), spare.take(""), spare.take("")]
    assert taken == [start.started[place] for place in (0, 3, 1, 2)]

    spare.get_ready({"": 17}, set())
    fresh = spare.take("")

    assert start.started[4:] == [fresh]


def test_those_that_started_early_are_taken_first_and_the_others_end_when_all_are_there() -> None:
    start = Starter()
    spare = SpareWorkers(start, NO_COLLECTOR)

    spare.start_early(["", OTHER_TREE], 2)
    taken = [spare.take(OTHER_TREE), spare.take("")]
    spare.dismiss_early()
    later = spare.take("")

    assert [worker.tree for worker in start.started] == ["", OTHER_TREE, "", OTHER_TREE, ""]
    assert taken == [start.started[1], start.started[0]]
    assert later is start.started[4]
    assert [worker.pipe.is_open for worker in start.started] == [True, True, False, False, True]
    spare.close()
    assert start.ended == start.started[3:1:-1]


def test_no_more_are_started_early_than_can_be() -> None:
    start = NoStarter()
    spare = SpareWorkers(start, NO_COLLECTOR)

    spare.start_early(["", OTHER_TREE], 8)

    assert start.asked == [""]


@pytest.mark.parametrize(("cpus", "number"), [(16, 8), (4, 2), (1, 1), (128, 8)])
def test_where_many_cases_are_likely_each_tree_has_its_most_processes_early(cpus: int, number: int) -> None:
    assert count_early(cpus, is_narrowed=False) == number
    assert count_early(cpus, is_narrowed=True) == 1


def test_a_spare_process_that_has_died_is_not_taken() -> None:
    start = Starter()
    spare = SpareWorkers(start, NO_COLLECTOR)
    spare.get_ready({"": 2}, set())
    start.started[0].process.poll = lambda: 1

    assert [spare.take(""), spare.take("")] == start.started[1:]


def test_a_spare_process_that_cannot_be_started_is_not_tried_at_every_look() -> None:
    start = NoStarter()
    spare = SpareWorkers(start, NO_COLLECTOR)

    for _ in range(3):
        spare.get_ready({"": 1, OTHER_TREE: 1}, {"slow.module"})
    with pytest.raises(CollectorError, match="too many processes"):
        spare.take(OTHER_TREE)
    spare.close()

    assert start.asked == ["", OTHER_TREE]


def follow(folder: Path, tail: str, *, runs: bool) -> FollowedWorker:
    """A worker of the pass whose record ends with this event."""
    folder.mkdir()
    begin = ['{"event": "run", "pid": 1}', '{"event": "case", "case": "t.py::a"}', tail]
    (folder / "manifest.jsonl").write_text("".join(f"{event}\n" for event in begin))
    process = SimpleNamespace(poll=lambda: None if runs else 1)
    running: Any = SimpleNamespace(folder=folder, run="session/001", process=process)
    worker = FollowedWorker(running, 1, TimeLimits(60.0))
    worker.advance()
    return worker


def test_as_many_are_wanted_as_identify_again_what_failed_processes_of_the_tree_left(tmp_path: Path) -> None:
    ended, short = '{"event": "end", "code": 1}', '{"event": "identity", "identity": {"why_none": "%s"}}'
    lost = '{"event": "process_failure", "case": "t.py::a", "text": "out of memory"}'
    runs = follow(tmp_path / "runs", "", runs=True)
    has_ended = follow(tmp_path / "ended", ended, runs=False)
    is_unusable = follow(tmp_path / "unusable", lost, runs=True)
    has_died = follow(tmp_path / "died", "", runs=False)
    is_short = follow(tmp_path / "short", short % SHORT_OF_MEMORY, runs=True)

    assert not count_retries([runs, has_ended], ["", OTHER_TREE])
    assert count_retries([runs, is_unusable], ["", OTHER_TREE]) == {OTHER_TREE: 2}
    assert count_retries([is_unusable, has_died, runs], ["", "", OTHER_TREE]) == {"": 3}
    assert count_retries([is_short, runs], ["", OTHER_TREE]) == {"": 1, OTHER_TREE: 1}
    assert count_retries([is_short, is_unusable], ["", OTHER_TREE]) == {"": 1, OTHER_TREE: 3}


def test_one_of_each_of_two_trees_gets_ready_for_repeats_once_half_have_ended(tmp_path: Path) -> None:
    runs = follow(tmp_path / "runs", "", runs=True)
    has_ended = follow(tmp_path / "ended", '{"event": "end", "code": 0}', runs=False)
    trees = ["", "", OTHER_TREE, OTHER_TREE]

    assert not count_repeats([has_ended, runs, runs, runs], trees)
    assert count_repeats([has_ended, runs, has_ended, runs], trees) == {"": 1, OTHER_TREE: 1}
    assert not count_repeats([has_ended, has_ended], ["", ""])


def test_a_worker_that_died_in_a_case_is_not_overdue_while_its_profiler_writes(tmp_path: Path) -> None:
    process = SimpleNamespace(poll=lambda: None, pid=1)
    running: Any = SimpleNamespace(folder=tmp_path, run="session/001", process=process)
    worker = FollowedWorker(running, 1, TimeLimits(0.0))
    died = subprocess.Popen(["true"])
    died.wait()
    (tmp_path / "manifest.jsonl").write_text(f'{{"event": "run", "pid": {died.pid}}}\n{BEGUN}')

    for _ in range(3):
        worker.advance()

    assert read_overdue(tmp_path) is None


def test_an_interrupt_reaches_all_workers_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that ends slowly, or has left no record, keeps none of the others from being asked."""
    asked = threading.Barrier(3, timeout=10)

    def make(number: int) -> Any:
        folder = tmp_path / f"{number}"
        folder.mkdir()
        if number:
            (folder / "manifest.jsonl").write_text('{"event": "run", "pid": 1}\n' + BEGUN)
        process = SimpleNamespace(poll=lambda: None, pid=1, interrupt=lambda _pid: asked.wait())
        return SimpleNamespace(folder=folder, run="1", tree="", assignment=None, process=process)

    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupt)
    identity_pass = IdentityPass(SpareWorkers(NoStarter(), NO_COLLECTOR), TimeLimits(60.0), lambda _: None)

    with pytest.raises(KeyboardInterrupt):
        identity_pass._follow([make(number) for number in range(3)], None)

    assert [(tmp_path / f"{number}" / INTERRUPTED_FILE).exists() for number in range(3)] == [False, True, True]


BEGUN = '{"event": "case", "case": "t.py::a"}\n'
OVER = BEGUN + '{"event": "case_end", "case": "t.py::a"}\n'


@pytest.mark.parametrize("written", [BEGUN, OVER])
@pytest.mark.parametrize(("cpus", "begun"), [(1, [True]), (2, [False, False, True])])
def test_the_processes_of_timed_runs_do_not_start_while_as_many_others_do_as_there_are_cpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cpus: int, begun: list[bool], written: str
) -> None:
    journal, codes, seen = tmp_path / "manifest.jsonl", [None, None, None, 0], list[bool]()
    journal.write_text('{"event": "run", "pid": 1}\n')

    def sleep(_seconds: float) -> None:
        codes.pop(0)
        if len(codes) == 2:
            journal.write_text('{"event": "run", "pid": 1}\n' + written)

    process = SimpleNamespace(poll=lambda: codes[0])
    running: Any = SimpleNamespace(folder=tmp_path, run="1", tree="", assignment=None, process=process)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cpus)))
    monkeypatch.setattr(time, "sleep", sleep)
    identity_pass = IdentityPass(
        SpareWorkers(NoStarter(), NO_COLLECTOR),
        TimeLimits(60.0),
        lambda _: None,
        get_ready=lambda _assignments, _late_imports: seen.append("t.py::a" in journal.read_text()),
    )

    identity_pass._follow([running], None)

    assert seen == begun
