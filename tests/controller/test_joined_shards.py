"""`pytest-nsight report SHARD...`: all shards of one session are judged once, and nothing else passes for that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from pytest_nsight.cli import main
from pytest_nsight.gate.measured_shard import MeasuredShard, Shard, ShardBy, ShardIdentity
from pytest_nsight.gate.shard_file import FILE_NAME, render_shard
from pytest_nsight.gate.state import GateState
from pytest_nsight.gate.stored_runs import StoredRuns, group_by_subject
from pytest_nsight.model.values import Subject
from pytest_nsight.model.verdicts import AffectedCases
from tests.gate.test_joining import NAMES, SLOWER, cases, runs, state, stored

pytestmark = pytest.mark.slow

IDENTITY = ShardIdentity(Shard(1, 2), "f1", "s", "2026-01-01", "nsys 2025.1", {"--nsight-strict": "off"}, "b1")


@dataclass(frozen=True)
class Made:
    """How one of two shards differs from what it should be."""

    identity: Mapping[str, object] = field(default_factory=dict)
    state: Mapping[str, object] = field(default_factory=dict)
    gaps: tuple[str, ...] = ()
    affected: AffectedCases | None = None
    lost_part_of: str = ""
    unstored: bool = False


def unslowed() -> GateState:
    kept = [case for case in cases() if case.id not in SLOWER and case.id != NAMES[10]]
    return state(kept)


def write(folder: Path, number: int, made: Made = Made(), *, slower: bool = False) -> str:
    of = state(cases()) if slower else unslowed()
    own = state(of.plan.cases[number - 1 :: 2])
    identity = replace(IDENTITY, shard=Shard(number, 2), session=f"s{number}")
    identity = replace(identity, **dict(made.identity))  # type: ignore[arg-type]
    own = replace(own, **dict(made.state))  # type: ignore[arg-type]
    path = folder / f"{number}-{len(list(folder.iterdir()))}"
    path.mkdir()
    known = StoredRuns({}) if made.unstored else stored()
    if made.lost_part_of:
        part = Subject(made.lost_part_of, "fused")
        known = StoredRuns(
            group_by_subject([*known.all, *(replace(run, subject=part) for run in runs(part.case, "old", 5))])
        )
    (path / FILE_NAME).write_text(render_shard(MeasuredShard(identity, own, known, made.gaps, made.affected)))
    return str(path)


def test_the_union_is_judged_and_exits_as_the_gate_would(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.mkdir()
    bad.mkdir()

    assert main(["report", write(good, 2), write(good, 1)]) == 0
    assert "9 verdicts: 0 regressions, 0 improvements, 9 unchanged" in capsys.readouterr().out
    reports = ["--html", "out.html", "--report", "json=out.json", "--table", "out.csv"]
    assert main(["report", write(bad, 1, slower=True), write(bad, 2, slower=True), *reports]) == 1
    said = capsys.readouterr().out
    assert "12 verdicts: 2 regressions" in said
    assert "joined from 2 shards and judged together" in said
    assert all((tmp_path / name).exists() for name in ("out.html", "out.json", "out.csv"))
    assert "2 regressions" in (tmp_path / "summary.md").read_text()


@pytest.mark.parametrize(
    ("made", "code", "said"),
    [
        (Made(state={"problems": {NAMES[0]: "nothing was measured"}}), 1, "nothing was measured"),
        (
            Made(state={"reports": {NAMES[0]: ({"outcome": "failed", "longrepr": "AssertionError: boom"},)}}),
            1,
            f"{NAMES[0]}: AssertionError: boom",
        ),
        (Made(gaps=("1 stored case has no test any more",)), 0, "note: 1 stored case has no test any more"),
        (Made(affected=AffectedCases("v1 (abc)", {NAMES[0]: "t.py"}, ("t.py::x",))), 0, "1 case not affected"),
    ],
)
def test_what_a_shard_says_beside_its_measurements_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], made: Made, code: int, said: str
) -> None:
    assert main(["report", write(tmp_path, 1, made), write(tmp_path, 2)]) == code
    assert said in " ".join(capsys.readouterr().out.split())


def test_a_gap_fails_a_strict_union(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    strict = {"options": {"--nsight-strict": "on"}}
    one = write(tmp_path, 1, Made(strict, gaps=("1 stored case has no test any more",)))

    assert main(["report", one, write(tmp_path, 2, Made(strict))]) == 1
    assert "FAILED --nsight-strict: 1 stored case has no test any more" in capsys.readouterr().out


SKIPPED = ({"outcome": "skipped", "longrepr": ["test.py", 3, "Skipped: no time"]},)


def test_a_skipped_case_with_stored_runs_fails_a_strict_union(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    strict = {"options": {"--nsight-strict": "on"}}
    left = tuple(run for run in unslowed().summaries if run.subject.case != NAMES[0])
    one = write(tmp_path, 1, Made(strict, {"reports": {NAMES[0]: SKIPPED}, "summaries": left}))

    assert main(["report", one, write(tmp_path, 2, Made(strict))]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert (
        f"FAILED --nsight-strict: not checked: 1 case with stored runs of this model was skipped ({NAMES[0]})"
        in said
    )


def test_a_stored_part_without_a_range_fails_a_strict_union(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    strict = {"options": {"--nsight-strict": "on"}}
    one = write(tmp_path, 1, Made(strict, lost_part_of=NAMES[0]))

    assert main(["report", one, write(tmp_path, 2, Made(strict))]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "FAILED --nsight-strict: 1 stored part has no range any more, so nothing checks it: " in said


def test_a_failing_verdict_that_xfail_expects_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reports = state(cases()).reports
    expected = {case: ({"outcome": "passed", "when": "call", "wasxfail": "known"},) for case in SLOWER}
    shards = []
    for number in (1, 2):
        own = {case: (reports | expected)[case] for case in NAMES[number - 1 :: 2]}
        shards.append(write(tmp_path, number, Made(state={"reports": own}), slower=True))

    assert main(["report", *shards]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "2 cases with a failing verdict did not fail, as their tests are marked xfail" in said


def test_an_empty_shard_is_one_of_them(tmp_path: Path) -> None:
    nothing = replace(unslowed().plan, cases=())
    empty = {"plan": nothing, "summaries": (), "canaries": (), "reports": {}, "device": "", "environment": {}}

    assert main(["report", write(tmp_path, 1, Made(state=empty)), write(tmp_path, 2)]) == 0


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (Made({"shard": Shard(1, 2), "session": "other"}), "shard 1/2 is there twice, in s1 and other"),
        (Made({"shard": Shard(2, 3)}), "different divisions, into 2 and 3"),
        (Made({"fingerprint": "f2"}), "different divisions of the tests (1/2: duration f1, 2/2: duration f2)"),
        (Made({"shard": Shard(2, 2, ShardBy.SELECTION)}), "different divisions of the tests"),
        (Made({"baselines": "b2"}), "different baselines (1/2: b1, 2/2: b2); check out one commit"),
        (Made({"options": {"--nsight-strict": "on"}}), "different values of --nsight-strict (1/2: off, 2/2: on)"),
        (Made({"options": {"--nsight-band": "0.5"}}), "different values of --nsight-band (1/2: none, 2/2: 0.5)"),
        (Made(state={"device": "NVIDIA A100"}), "different GPU models (1/2: NVIDIA H200, 2/2: NVIDIA A100)"),
        (
            Made(state={"summaries": tuple(replace(run, commit="abc") for run in unslowed().summaries)}),
            "different commits (1/2: none, 2/2: abc)",
        ),
        (Made(state={"plan": unslowed().plan}), f"shards 1/2 and 2/2 both hold {NAMES[0]}"),
    ],
)
def test_shards_that_do_not_fit_are_refused_in_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], made: Made, said: str
) -> None:
    assert main(["report", write(tmp_path, 1), write(tmp_path, 2, made)]) == 2

    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_a_missing_shard_and_an_interrupted_one_are_refused_with_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = write(tmp_path, 1)
    (tmp_path / "interrupted").mkdir()

    assert main(["report", one]) == 2
    assert (
        "1 of 2 shards given, 2/2 missing; measure it with --nsight-shard 2/2 on the same commit, and give all "
        "sessions" in capsys.readouterr().err
    )
    assert main(["report", write(tmp_path, 2, Made({"shard": Shard(2, 4)}))]) == 2
    assert (
        "1 of 4 shards given, 1/4, 3/4, 4/4 missing; measure each on the same commit, such as with "
        "--nsight-shard 1/4, and give all sessions" in capsys.readouterr().err
    )
    assert main(["report", one, str(tmp_path / "interrupted")]) == 2
    assert "holds no shard.json, and stands beside shards; a shard that was interrupted" in capsys.readouterr().err
