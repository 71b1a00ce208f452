"""Which process measures what, and how the two sides of a pair are weighed."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence

import pytest

from pytest_nsight.gate import loop as gate
from pytest_nsight.gate.loop import Gate
from pytest_nsight.judge.contrast import contrast
from pytest_nsight.judge.judge import SubjectRuns, judge, suspects
from pytest_nsight.judge.noise import LONG_KERNELS, SHIPPED_PRIOR, estimate_noise
from pytest_nsight.model.values import Case, Subject
from pytest_nsight.model.verdicts import VerdictKind
from pytest_nsight.protocol.job import OTHER_TREE, THIS_TREE, Assignment
from pytest_nsight.protocol.manifest import Manifest
from pytest_nsight.trace.process_record import ProcessRecord, ProcessResults
from tests.judge.runs import make_evidence, make_runs, place

CASES = [Case("t.py::a"), Case("t.py::b"), Case("t.py::c")]


class Recorder:
    """Remembers assignments; the other tree lacks the cases in `missing`."""

    def __init__(self, missing: Sequence[str] = ()) -> None:
        self.assignments: list[Assignment] = []
        self.announced: list[Sequence[Assignment]] = []
        self._missing = missing

    def execute(self, assignment: Assignment, upcoming: Sequence[Assignment] = ()) -> tuple[ProcessRecord, ...]:
        self.assignments.append(assignment)
        self.announced.append(upcoming)
        ran = tuple(case for case in assignment.cases if assignment.tree == THIS_TREE or case not in self._missing)
        reports = tuple(PhaseReport(case, {"outcome": "passed", "when": "call"}) for case in ran)
        manifest = Manifest(
            *("run", "session", "", "0123456789", 1, "", "", {}, ran, ran, (), reports, (), 0), tree=assignment.tree
        )
        return (ProcessRecord(manifest, None),)

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def summaries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every case that came to its end has been measured; traces are another test's business."""

    def summarise(records: Sequence[ProcessRecord]) -> tuple[ProcessResults, ...]:
        return tuple(
            ProcessResults(
                tuple(make_runs([1000.0], "session", subject=Subject(case))[0] for case in one.manifest.ended)
            )
            for one in records
        )

    monkeypatch.setattr(gate, "summarise_records", summarise)


def test_sides_alternate_abba_and_a_pair_shares_one_order() -> None:
    source = Recorder()

    Gate(source, CASES, random.Random(1), is_paired=True).measure(5)

    other, this = OTHER_TREE, THIS_TREE
    expected = [other, this, this, other, other, this, this, other, other, this]
    assert [assignment.tree for assignment in source.assignments] == expected
    pairs = list(zip(source.assignments[::2], source.assignments[1::2], strict=True))
    assert all(one.cases == two.cases and one.seed == two.seed for one, two in pairs)
    assert len({one.seed for one, _ in pairs}) == 5


def test_what_the_other_tree_lacks_is_measured_in_one_pair_only() -> None:
    source = Recorder(missing=["t.py::b"])
    paired = Gate(source, CASES, None, is_paired=True)

    paired.measure(3)

    assert [len(assignment.cases) for assignment in source.assignments] == [3, 3, 2, 2, 2, 2]
    assert all("t.py::b" not in assignment.cases for assignment in source.assignments[2:])
    assert paired.harvest.other.absent["t.py::b"] == "not in 0123456"


def test_a_source_is_told_what_comes_next() -> None:
    source = Recorder()

    Gate(source, CASES, random.Random(1)).measure(3)

    assert [list(told) for told in source.announced] == [source.assignments[1:], source.assignments[2:], []]


def test_a_source_is_told_what_a_look_may_ask_for() -> None:
    source, many = Recorder(), [Case(f"t.py::{number}") for number in range(5)]
    unknown, other = Assignment(()), Assignment((), tree=OTHER_TREE)

    Gate(source, many, None).measure(2, is_judged=True)
    assert [list(told) for told in source.announced] == [
        [source.assignments[1], unknown, unknown],
        [unknown, unknown],
    ]

    source = Recorder()
    Gate(source, many, None, is_paired=True).measure(3, is_judged=True)
    assert [list(told) for told in source.announced] == [
        [*source.assignments[number:], unknown, other] for number in range(1, 7)
    ]

    source = Recorder()
    Gate(source, many, None).measure(9, is_judged=True)
    assert source.announced[-1] == ()


def test_what_the_other_tree_lacks_is_not_announced_beyond_the_first_pair() -> None:
    source = Recorder(missing=["t.py::b"])

    Gate(source, CASES, None, is_paired=True).measure(2)

    # What a assignment announces as the next one is the next one: a process may have begun with it.
    assert [told[0] for told in source.announced[:-1]] == source.assignments[1:]
    assert [len(assignment.cases) for assignment in source.assignments] == [3, 3, 2, 2]


def test_a_process_that_probably_nobody_needs_does_not_get_ready() -> None:
    source = Recorder()

    Gate(source, CASES, None).measure(1, is_judged=True)

    assert source.announced == [()]


def test_both_sides_grow_together() -> None:
    before, now = place([0.0, 0.001, -0.001]), place([0.0, 0.001, -0.001])
    noise = estimate_noise(before, now, SHIPPED_PRIOR, LONG_KERNELS)
    stored = contrast(before, now, noise)
    paired = dataclasses.replace(stored, is_paired=True)

    assert stored.variance_with(9) == pytest.approx(stored.run_variance * (1 / 3 + 1 / 9))
    assert paired.variance_with(9) == pytest.approx(paired.run_variance * 2 / 9)
    assert paired.variance_with(3) == stored.variance_with(3) == pytest.approx(stored.run_variance * 2 / 3)
    assert paired.degrees_with(9) - paired.degrees_with(3) == 2 * (stored.degrees_with(9) - stored.degrees_with(3))


@pytest.mark.parametrize(("ratio", "kind"), [(1.0, "UNCHANGED"), (1.03, "REGRESSION"), (0.97, "IMPROVEMENT")])
def test_a_verdict_says_against_what(ratio: float, kind: str) -> None:
    stored = make_evidence(ratio=ratio, stored=9, new=9)
    runs = tuple(dataclasses.replace(run, session="new") for run in stored.baseline)
    evidence = dataclasses.replace(stored, baseline=runs, against="1a2b3c4")

    (verdict,) = judge([evidence])

    assert verdict.kind is VerdictKind[kind]
    assert "kernel time against 1a2b3c4 200 -> " in verdict.sentence
    assert "baseline" not in verdict.sentence
    assert "--nsight-save" not in verdict.sentence


def test_three_pairs_clear_what_is_unchanged_and_suspect_what_is_slower() -> None:
    def pairs(ratio: float) -> SubjectRuns:
        stored = make_evidence(ratio=ratio, stored=3, new=3)
        return dataclasses.replace(
            stored,
            baseline=tuple(dataclasses.replace(run, session="new") for run in stored.baseline),
            against="1a2b3c4",
        )

    unchanged, slower = pairs(1.0), pairs(1.03)

    assert suspects([unchanged]) == ()
    assert suspects([slower]) == (slower.subject,)
    assert judge([unchanged])[0].kind is VerdictKind.UNCHANGED
    assert judge([slower])[0].kind is VerdictKind.INCONCLUSIVE


def test_further_pairs_stand_in_for_runs_that_are_set_aside() -> None:
    stored = make_evidence(stored=3, new=3)
    drifting = tuple(int(200_000 * (1 + 0.05 * index / 40 + 0.0002 * (-1) ** index)) for index in range(40))
    first = dataclasses.replace(stored.baseline[0], rounds={"kernel": drifting})
    aside = dataclasses.replace(stored, baseline=(first, *stored.baseline[1:]))

    assert suspects([aside]) == ()
    assert suspects([dataclasses.replace(aside, against="1a2b3c4")]) == (stored.subject,)


def test_a_case_that_only_one_side_has_is_told() -> None:
    evidence = dataclasses.replace(make_evidence(stored=0, new=1), against="1a2b3c4", absent="not in 1a2b3c4")

    (verdict,) = judge([evidence])

    assert verdict.kind is VerdictKind.NO_BASELINE
    assert verdict.sentence.endswith(": not in 1a2b3c4; nothing to compare with")
