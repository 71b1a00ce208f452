"""Shards, written, read and joined, give the verdicts that one session with all cases would give."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_nsight.gate.joining import join_states, join_stored
from pytest_nsight.gate.judging import judge_state
from pytest_nsight.gate.measured_shard import MeasuredShard, Shard, ShardIdentity
from pytest_nsight.gate.own_failures import expects_failure, find_own_failures
from pytest_nsight.gate.shard_file import FILE_NAME, read_shard, render_shard
from pytest_nsight.gate.state import GateState, SessionPlan
from pytest_nsight.gate.stored_runs import StoredRuns
from pytest_nsight.model.errors import RecordingError
from pytest_nsight.model.values import CANARIES, Case, Policy, RunSummary, Subject
from pytest_nsight.model.verdicts import VerdictKind
from tests.judge.runs import make_runs, uses, wobble

NAMES = [f"t.py::test[{number:02}]" for number in range(12)]
CANARY_NAMES = [f"{CANARIES}::{name}" for name in ("copy", "matmul", "add", "sum")]
SLOWER = {"t.py::test[03]": 1.08, "t.py::test[07]": 1.03}
BEATS = Case("t.py::test[10]", Policy(band=0.01, faster_than="t.py::test[11]", by=1.5), line=10)


def runs(case: str, session: str, count: int, factor: float = 1.0) -> tuple[RunSummary, ...]:
    middles = wobble(20_000 * factor, count)
    return make_runs(middles, session, subject=Subject(case), shapes=uses("k"), recorded=f"2026-01-0{count}T00:00Z")


def cases() -> tuple[Case, ...]:
    plain = [Case(name, Policy(band=0.01), line=number) for number, name in enumerate(NAMES)]
    return tuple(BEATS if case.id == BEATS.id else case for case in plain)


def stored() -> StoredRuns:
    return StoredRuns({Subject(name): runs(name, "old", 5) for name in (*NAMES, *CANARY_NAMES)})


def state(chosen: Sequence[Case], *, canaries: bool = True) -> GateState:
    factors = {**SLOWER, "t.py::test[10]": 0.5}
    return GateState(
        SessionPlan(tuple(chosen), 9),
        summaries=tuple(one for case in chosen for one in runs(case.id, "new", 9, factors.get(case.id, 1.0))),
        reports={case.id: ({"outcome": "passed", "when": "call"},) for case in chosen},
        canaries=tuple(one for name in CANARY_NAMES for one in runs(name, "new", 9)) if canaries else (),
        device="NVIDIA H200",
        environment={"board": "GPU-a"},
        notes=("a note",),
    )


def through_file(folder: Path, number: int, of: int, shard: GateState) -> GateState:
    identity = ShardIdentity(Shard(number, of), "f", f"s{number}", "2026-01-01", "nsys", {}, "b")
    (folder / f"{number}").mkdir()
    (folder / f"{number}" / FILE_NAME).write_text(render_shard(MeasuredShard(identity, shard, stored())))
    return read_shard(folder / f"{number}").state


def test_the_verdicts_of_the_union_are_those_of_one_session(tmp_path: Path) -> None:
    whole = judge_state(state(cases()), stored())
    # The canaries are those of one shard, as if all had run in one process.
    parts = [state(cases()[number::3], canaries=number == 0) for number in range(3)]
    files = [through_file(tmp_path, number, 3, part) for number, part in enumerate(parts, 1)]

    joined = join_states(files)
    found = judge_state(joined, join_stored([stored()] * 3))

    assert found == whole
    assert {v.subject.case: v.kind for v in found if v.kind.fails} == dict.fromkeys(SLOWER, VerdictKind.REGRESSION)
    assert {v.comparison.basis.compared_subjects for v in found if v.comparison and v.comparison.basis} == {12}
    assert joined.notes == ("a note",)
    assert joined.plan.case_ids == tuple(NAMES)


def test_multiplicity_is_that_of_all_cases_and_not_of_a_shard() -> None:
    (alone,) = [v for v in judge_state(state(cases()[3:4]), stored()) if v.subject.case == NAMES[3]]
    together = {
        v.subject.case: v for v in judge_state(join_states([state(cases()[3:4]), state(cases()[4:])]), stored())
    }

    assert alone.comparison
    assert alone.comparison.basis
    assert alone.comparison.basis.compared_subjects == 1
    comparison = together[NAMES[3]].comparison
    assert comparison
    assert comparison.basis
    assert comparison.basis.compared_subjects == 9


@pytest.mark.parametrize(("by", "kind"), [(1.5, VerdictKind.IMPROVEMENT), (2.5, VerdictKind.CLAIM)])
def test_a_claim_on_a_case_of_another_shard_is_judged_in_the_union(by: float, kind: VerdictKind) -> None:
    claim = replace(BEATS, policy=replace(BEATS.policy, by=by))
    mine, other = state([claim]), state(cases()[11:])
    other = replace(
        other,
        summaries=tuple(
            replace(run, session="new 2", run=f"{run.run} 2", board="GPU-b") for run in other.summaries
        ),
    )

    alone = judge_state(mine, stored())
    joined = {verdict.subject.case: verdict for verdict in judge_state(join_states([mine, other]), stored())}

    assert alone[0].kind is not VerdictKind.CLAIM
    assert "which was not measured" in alone[0].sentence or alone[0].kind is VerdictKind.IMPROVEMENT
    assert joined[BEATS.id].kind is kind
    if kind is VerdictKind.CLAIM:
        assert "2.00x as fast as test[11], 2.5x claimed" in joined[BEATS.id].sentence
        assert "in two sessions" in joined[BEATS.id].sentence


def test_a_test_that_failed_without_a_verdict_fails_the_union() -> None:
    broken = replace(
        state(cases()[:3]),
        reports={
            NAMES[0]: ({"outcome": "failed", "longrepr": "AssertionError: boom"},),
            NAMES[1]: ({"outcome": "passed", "wasxfail": "known"},),
        },
        problems={NAMES[1]: "nothing was measured"},
    )

    assert find_own_failures(broken) == {
        NAMES[0]: "AssertionError: boom",
        NAMES[1]: "nothing was measured",
        NAMES[2]: "no worker process came to this test",
    }
    assert expects_failure(broken, NAMES[1])
    assert not find_own_failures(state(cases()))


def test_numbers_that_json_has_no_sign_for_survive(tmp_path: Path) -> None:
    odd = replace(
        state(cases()[:1]),
        plan=SessionPlan(
            (Case(NAMES[0], Policy(band=math.inf, kernels=("a", "b"), max_time_ns=5), timeout_s=1.5),), 1
        ),
    )

    assert through_file(tmp_path, 1, 1, odd).plan.cases == odd.plan.cases


@pytest.mark.parametrize("text", ["", "{}", '{"format": 1}', "[]"])
def test_a_damaged_file_is_one_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE_NAME).write_text(text)

    with pytest.raises(RecordingError, match="damaged"):
        read_shard(tmp_path)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"environment": {"gpu": "x"}}, "environment has no board"),
        ({"reports": {"t.py::a": [{"when": "call"}]}}, "reports have one without an outcome"),
    ],
)
def test_a_file_without_what_joining_reads_is_damaged(tmp_path: Path, changed: dict[str, Any], said: str) -> None:
    through_file(tmp_path, 1, 1, GateState(SessionPlan(cases=(), runs=1)))
    file = tmp_path / "1" / FILE_NAME
    file.write_text(json.dumps({**json.loads(file.read_text()), **changed}))

    with pytest.raises(RecordingError, match=said):
        read_shard(file)


def test_captured_output_is_not_kept(tmp_path: Path) -> None:
    said = {
        "outcome": "failed",
        "sections": [["stdout", "secret"]],
        "longrepr": {"reprcrash": {"message": "boom\nx"}},
    }
    shard = replace(state(cases()[:1]), reports={NAMES[0]: (said,)})

    found = through_file(tmp_path, 1, 1, shard)

    assert found.reports == {NAMES[0]: ({"outcome": "failed", "longrepr": "boom"},)}
    assert "secret" not in (tmp_path / "1" / FILE_NAME).read_text()


def test_of_a_skip_the_reason_is_kept_and_no_path(tmp_path: Path) -> None:
    skip = {
        "outcome": "skipped",
        "when": "setup",
        "longrepr": ["/home/me/project/test_a.py", 12, "Skipped: no time"],
    }
    shard = replace(state(cases()[:1]), reports={NAMES[0]: (skip,)})

    found = through_file(tmp_path, 1, 1, shard)

    assert found.reports == {NAMES[0]: ({**skip, "longrepr": "Skipped: no time"},)}
    assert "/home/me" not in (tmp_path / "1" / FILE_NAME).read_text()
