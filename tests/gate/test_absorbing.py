"""What one test does may fail that test, and no other."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from pytest_nsight.gate.absorbing import MOST_FAILURES_ALONE, NOTHING_MEASURED, absorb
from pytest_nsight.gate.failed_tries import TryFailure
from pytest_nsight.gate.loop import plan, run_loop
from pytest_nsight.gate.state import GateState, SessionPlan
from pytest_nsight.gate.stored_runs import StoredRuns
from pytest_nsight.model.values import Case
from pytest_nsight.protocol.job import Assignment
from pytest_nsight.protocol.manifest_events import CaseFault
from pytest_nsight.protocol.phase_reports import FAILED_FIXTURE
from pytest_nsight.trace.process_record import MeasuredProcess, ProcessEnd
from tests.gate.processes import Machine, make_process

NAMES = tuple(f"t.py::{letter}" for letter in "abcdefgh")
CASES = tuple(Case(name) for name in NAMES)


def run(machine: Machine, runs: int = 1, *, is_paired: bool = False) -> GateState:
    session = SessionPlan(CASES, runs, is_paired=is_paired)
    return run_loop(GateState(session), machine, lambda _: StoredRuns())


def absorbed(process: MeasuredProcess, names: tuple[str, ...] = NAMES) -> GateState:
    state = plan(GateState(SessionPlan(tuple(Case(name) for name in names), 1)), StoredRuns())
    return absorb(state, (process,))


def measured(state: GateState) -> set[str]:
    return {summary.subject.case for summary in state.accepted}


@pytest.mark.parametrize("bad", NAMES)
def test_a_case_that_crashes_its_process_fails_alone(bad: str) -> None:
    machine = Machine(crashing=[bad])

    state = run(machine)

    assert measured(state) == set(NAMES) - {bad}
    assert dict(state.problems) == {bad: "died with SIGSEGV"}
    assert (bad,) in [assignment.cases for assignment in machine.assignments]


class DyingAtTheEnd(Machine):
    """A case makes its process die after the last test."""

    bad = NAMES[3]

    def execute(self, assignment: Assignment, upcoming: Sequence[Assignment] = ()) -> Sequence[MeasuredProcess]:
        (process,) = super().execute(assignment, upcoming)
        if self.bad not in assignment.cases:
            return (process,)
        return (replace(process, end=ProcessEnd.FAILED, failure="died late", has_died_after_tests=True),)


def test_a_process_that_dies_after_its_last_test_passes_nothing_and_its_culprit_is_found() -> None:
    machine = DyingAtTheEnd()

    state = run(machine)

    assert measured(state) == set(NAMES) - {machine.bad}
    assert dict(state.problems) == {machine.bad: "died late"}


class FailingAndDyingAtTheEnd(DyingAtTheEnd):
    """That case fails by itself, too."""

    def execute(self, assignment: Assignment, upcoming: Sequence[Assignment] = ()) -> Sequence[MeasuredProcess]:
        (process,) = super().execute(assignment, upcoming)
        reports = tuple(
            replace(one, report={**one.report, "outcome": "failed"}) if one.case == self.bad else one
            for one in process.manifest.reports
        )
        return (replace(process, manifest=replace(process.manifest, reports=reports)),)


def test_what_fails_in_a_process_that_dies_after_its_last_test_keeps_its_own_failure() -> None:
    machine = FailingAndDyingAtTheEnd()

    state = run(machine)

    assert measured(state) == set(NAMES) - {machine.bad}
    assert not state.problems
    assert not state.has_passed(machine.bad)
    others = tuple(name for name in NAMES if name != machine.bad)
    assert [assignment.cases for assignment in machine.assignments] == [NAMES, (machine.bad,), others]


def test_a_case_that_only_failed_because_of_another_in_its_process_passes_alone() -> None:
    first, *others = NAMES
    failing = make_process(NAMES, end=ProcessEnd.FAILED, failure="died late", failing=[first])

    state = absorbed(replace(failing, has_died_after_tests=True))
    assert [planned.assignment.cases for planned in state.pending] == [(first,), tuple(others)]
    state = absorb(state, [make_process([first])])

    assert measured(state) == {first}


@pytest.mark.parametrize("bad", NAMES)
def test_a_case_that_damages_the_record_of_its_process_fails_alone(bad: str) -> None:
    state = run(Machine(poisoning=[bad]))

    assert measured(state) == set(NAMES) - {bad}
    assert dict(state.problems) == {bad: "its record is lost"}


def test_two_that_crash_and_one_that_poisons_leave_the_others_whole() -> None:
    state = run(Machine(crashing=["t.py::b", "t.py::g"], poisoning=["t.py::d"]))

    assert set(state.problems) == {"t.py::b", "t.py::d", "t.py::g"}
    assert measured(state) == set(NAMES) - set(state.problems)


def test_a_case_that_failed_alone_is_not_measured_in_later_runs() -> None:
    machine = Machine(crashing=["t.py::c"])

    state = run(machine, runs=5)

    assert all(len([one for one in state.accepted if one.subject.case == name]) == 5 for name in measured(state))
    assert sum("t.py::c" in assignment.cases for assignment in machine.assignments) == 2


def test_a_machine_on_which_every_case_fails_is_given_up_after_a_few_processes() -> None:
    machine = Machine(crashing=NAMES)

    state = run(machine)

    assert set(state.problems) == set(NAMES)
    assert len(machine.assignments) <= 2 * MOST_FAILURES_ALONE + 1
    assert state.problems[NAMES[0]] == "died with SIGSEGV"
    assert state.problems[NAMES[-1]] == (
        "not measured, as 6 processes in a row failed with one case each, so the machine seems to be at fault; the "
        "last failure: died with SIGSEGV"
    )


def test_several_crashing_cases_before_all_others_fail_none_of_them() -> None:
    machine = Machine(crashing=NAMES[:MOST_FAILURES_ALONE])

    state = run(machine)

    assert measured(state) == set(NAMES[MOST_FAILURES_ALONE:])
    assert set(state.problems) == set(NAMES[:MOST_FAILURES_ALONE])


def test_one_more_that_crashes_before_all_others_gives_the_machine_up() -> None:
    state = run(Machine(crashing=NAMES[: MOST_FAILURES_ALONE + 1]))

    assert not measured(state)
    assert set(state.problems) == set(NAMES)


def test_a_process_that_ends_between_two_cases_is_repeated_in_halves() -> None:
    process = make_process(NAMES[:4], end=ProcessEnd.FAILED, failure="exited", has_trace=False)

    state = absorbed(process)

    assert [pending.assignment.cases for pending in state.pending] == [NAMES[:4], NAMES[4:]]
    assert not state.problems


def test_a_process_that_fails_before_its_first_case_fails_them_all() -> None:
    state = absorbed(make_process((), end=ProcessEnd.FAILED, failure="exited"))

    assert not state.pending
    assert dict(state.problems) == dict.fromkeys(NAMES, "exited")


def test_a_recording_that_ends_before_the_second_try_keeps_the_first_reason() -> None:
    state = absorbed(make_process(NAMES[:2], crashed=NAMES[2:3], end=ProcessEnd.FAILED, failure="died"))

    state = absorb(state, ())

    assert dict(state.problems) == {NAMES[2]: "died"}


def with_lost_device(process: MeasuredProcess, case: str) -> MeasuredProcess:
    failure = CaseFault(case, "CUDA error: an illegal memory access was encountered")
    return replace(process, manifest=replace(process.manifest, process_failure=failure))


def test_a_case_that_blames_the_device_is_measured_alone_and_what_follows_in_another_process() -> None:
    state = absorbed(with_lost_device(make_process(NAMES[:3], failing=[NAMES[2]]), NAMES[2]))

    assert [pending.assignment.cases for pending in state.pending] == [(NAMES[2],), NAMES[3:]]
    assert measured(state) == set(NAMES[:2])
    assert NAMES[2] not in state.reports


def test_a_case_that_loses_the_device_alone_fails_by_its_own_report() -> None:
    state = absorbed(with_lost_device(make_process(NAMES[:1], failing=NAMES[:1]), NAMES[0]), NAMES[:1])

    assert not state.pending
    assert not state.has_passed(NAMES[0])
    assert NAMES[0] in state.reports


def test_an_interrupt_suspects_nobody() -> None:
    state = absorbed(make_process(NAMES[:2], crashed=NAMES[2:3], end=ProcessEnd.INTERRUPTED))

    assert state.is_interrupted
    assert measured(state) == set(NAMES[:2])
    assert not state.problems


def test_a_test_that_fails_by_itself_needs_no_record() -> None:
    state = absorbed(make_process(NAMES, failing=NAMES[:1], problems={NAMES[0]: "no kernel ran"}))

    assert not state.pending
    assert not state.problems
    assert not state.has_passed(NAMES[0])


def test_a_test_that_measured_nothing_is_not_repeated() -> None:
    state = absorbed(make_process(NAMES, unmeasured=NAMES[:1]))

    assert not state.pending
    assert dict(state.problems) == {NAMES[0]: NOTHING_MEASURED}


def test_a_test_that_is_skipped_in_a_later_process_keeps_what_was_measured_and_has_no_problem() -> None:
    state = plan(GateState(SessionPlan(CASES, 2)), StoredRuns())

    for process in (make_process(NAMES), make_process(NAMES, run="later", skipped=NAMES[:1])):
        state = absorb(state, (process,))

    assert not state.problems
    counts = Counter(summary.subject.case for summary in state.accepted)
    assert [counts[name] for name in NAMES[:2]] == [1, 2]


def test_a_revision_whose_process_dies_never_ends_as_a_pass() -> None:
    state = run(Machine(crashing=["t.py::c"]), runs=3, is_paired=True)

    assert set(state.problems) == {"t.py::c"}
    assert state.problems["t.py::c"] == "nothing to compare with from 0123456: died with SIGSEGV"
    assert measured(state) == set(NAMES) - {"t.py::c"}


def test_the_next_process_keeps_the_cases_that_it_has_begun_with() -> None:
    state = plan(GateState(SessionPlan(CASES, 2)), StoredRuns())

    state = absorb(state, (make_process(NAMES, problems={NAMES[3]: "its record is lost"}),))

    assert [pending.assignment.cases for pending in state.pending] == [NAMES, (NAMES[3],)]


FIRST, SECOND, *OTHERS = NAMES


def test_a_test_that_fails_beside_others_is_tried_once_more_without_them() -> None:
    state = absorbed(make_process(NAMES, failing=[SECOND]))

    assert [planned.assignment.cases for planned in state.pending] == [(SECOND,)]
    assert measured(state) == {FIRST, *OTHERS}

    state = absorb(state, [make_process([SECOND])])
    assert measured(state) == set(NAMES)
    assert not state.pending
    assert not state.problems
    (note,) = state.notes
    assert note == (
        "t.py::b failed beside other tests of its process: no message; in a fresh process it does not: another "
        "test has changed what it depends on, or it fails at random"
    )


@pytest.mark.parametrize(
    ("crashed", "pending"),
    [
        (NAMES[3:4], [(NAMES[3],), NAMES[4:], (SECOND,)]),
        ((), [NAMES[3:6], NAMES[6:], (SECOND,)]),
    ],
    ids=["during a test", "between two"],
)
def test_what_failed_before_its_process_died_is_tried_once_more(
    crashed: tuple[str, ...], pending: list[tuple[str, ...]]
) -> None:
    state = absorbed(
        make_process(NAMES[:3], crashed=crashed, end=ProcessEnd.FAILED, failure="died", failing=[SECOND])
    )

    assert [planned.assignment.cases for planned in state.pending] == pending
    assert measured(state) == {FIRST, NAMES[2]}
    last = state.failed_tries[SECOND]
    assert (last.failure, last.number) == (TryFailure.TEST_FAILED, 1)
    assert last.describe() == "it failed beside other tests of its process: no message"


def test_a_worker_that_completed_and_whose_record_went_with_another_ones_is_measured_again() -> None:
    process = make_process(NAMES[:4], has_trace=False)

    state = absorbed(replace(process, trace_error="no report"), NAMES[:4])

    assert not state.problems
    assert [planned.assignment.cases for planned in state.pending] == [NAMES[:2], NAMES[2:4]]


def test_what_fails_in_each_of_its_processes_fails_for_good() -> None:
    pair = (SECOND, OTHERS[0])
    state = absorbed(make_process(NAMES, failing=pair))
    assert [planned.assignment.cases for planned in state.pending] == [pair]

    # The first of a process failed by itself there, but it may be the cause of the second one's failure.
    state = absorb(state, [make_process(pair, failing=pair)])
    assert [planned.assignment.cases for planned in state.pending] == [(OTHERS[0],)]
    state = absorb(state, [make_process(OTHERS[:1], failing=OTHERS[:1])])

    assert not state.pending
    assert not state.problems
    assert not state.notes
    assert not state.has_passed(SECOND)
    assert not state.has_passed(OTHERS[0])


class Shuffled(Machine):
    """Cases in random order: behind one that leaks all fail, and a broken one fails anywhere."""

    def __init__(self, seed: int, *, leaking: Sequence[str], broken: Sequence[str]) -> None:
        super().__init__()
        self._random = random.Random(seed)
        self._leaking, self._broken = leaking, broken

    def execute(self, assignment: Assignment, upcoming: Sequence[Assignment] = ()) -> Sequence[MeasuredProcess]:
        self.assignments.append(assignment)
        order = self._random.sample(assignment.cases, len(assignment.cases))
        first = next((number for number, case in enumerate(order) if case in self._leaking), len(order))
        return (make_process(order, failing={*order[first + 1 :], *set(order) & set(self._broken)}),)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(
    ("leaking", "broken"),
    [(NAMES[:1], NAMES[:1]), (NAMES[:2], ()), (NAMES[:1], NAMES[5:]), ((), NAMES[2:])],
    ids=["one that fails, too", "two that pass", "one, and three are broken", "none, and most are broken"],
)
def test_only_what_is_broken_fails_whoever_leaks(seed: int, leaking: Sequence[str], broken: Sequence[str]) -> None:
    machine = Shuffled(seed, leaking=leaking, broken=broken)

    state = run(machine)

    assert {name for name in NAMES if not state.has_passed(name)} == set(broken)
    assert not state.problems
    assert not state.pending
    assert len(machine.assignments) <= 8


def test_what_failed_for_good_is_in_no_process_that_has_not_begun() -> None:
    class Failing(Machine):
        def execute(self, assignment: Assignment, upcoming: Sequence[Assignment] = ()) -> Sequence[MeasuredProcess]:
            self.assignments.append(assignment)
            return (make_process(assignment.cases, failing=[one for one in assignment.cases if one == SECOND]),)

    machine = Failing()

    state = run(machine, runs=5)

    assert not state.has_passed(SECOND)
    # When the first try alone failed, the second one had begun already.
    assert [one.cases for one in machine.assignments].count((SECOND,)) == 2


def test_what_one_test_does_in_every_run_fails_no_other_in_any() -> None:
    class Leaking(Machine):
        def execute(self, assignment: Assignment, upcoming: Sequence[Assignment] = ()) -> Sequence[MeasuredProcess]:
            self.assignments.append(assignment)
            fails = SECOND in assignment.cases and FIRST in assignment.cases
            return (make_process(assignment.cases, failing=[SECOND] if fails else []),)

    machine = Leaking()

    state = run(machine, runs=4)

    assert measured(state) == set(NAMES)
    assert len([one for one in state.accepted if one.subject.case == SECOND]) == 4
    assert [one.cases for one in machine.assignments].count((SECOND,)) == 4


def test_the_case_that_made_its_process_unusable_is_tried_alone() -> None:
    *_, last = NAMES
    process = make_process(NAMES, failing=[SECOND, last])
    lost = replace(process.manifest, process_failure=CaseFault(last, "illegal memory access"))

    state = absorbed(replace(process, manifest=lost))

    assert [planned.assignment.cases for planned in state.pending] == [(last,), (SECOND,)]


def at_shared_fixture(process: MeasuredProcess) -> MeasuredProcess:
    """The same process, whose failure is that of a fixture of several tests."""
    reports = [
        replace(one, report={**one.report, FAILED_FIXTURE: "server"}) if one.report["outcome"] == "failed" else one
        for one in process.manifest.reports
    ]
    return replace(process, manifest=replace(process.manifest, reports=tuple(reports)))


@pytest.mark.parametrize(
    "process",
    [
        make_process(NAMES, failing=[FIRST]),
        at_shared_fixture(make_process(NAMES, failing=[NAMES[-1]])),
        make_process(NAMES[:2], failing=[SECOND]),
        replace(make_process(NAMES, failing=[SECOND]), is_ranked=True),
    ],
    ids=[
        "the first of its process",
        "of a fixture that several share",
        "after which pytest ended",
        "on several ranks",
    ],
)
def test_a_failure_that_no_other_test_can_have_caused_or_that_ends_all_counts_at_once(
    process: MeasuredProcess,
) -> None:
    state = absorbed(process)

    assert not state.pending
    assert [case for case in NAMES if case in state.reports and not state.has_passed(case)]


def test_of_a_recording_that_ends_before_the_second_try_the_failure_stays() -> None:
    state = absorb(absorbed(make_process(NAMES, failing=[SECOND])), ())

    assert dict(state.problems) == {SECOND: "it failed beside other tests of its process: no message"}
