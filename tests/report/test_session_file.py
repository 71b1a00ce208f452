"""A session is written and read back without loss, and several are joined."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_nsight.model.errors import RecordingError
from pytest_nsight.model.verdicts import SessionResult, VerdictKind
from pytest_nsight.report import terminal
from pytest_nsight.report.registry import REPORTS
from pytest_nsight.report.session_file import join_sessions, read_session, render
from tests.report import canned


def write(folder: Path, result: SessionResult) -> Path:
    (folder / "session.json").write_text(render(result), encoding="utf-8")
    return folder


@pytest.mark.parametrize("result", [canned.full(strict=True), canned.worked(), canned.saved_only()])
def test_what_is_read_is_what_was_written(result: SessionResult, tmp_path: Path) -> None:
    compared = canned.comparison(24_400, 1.02, 0.01, 0.1, basis=canned.basis(), mde=math.inf)
    extra = canned.verdict(VerdictKind.INCONCLUSIVE, "test_open", "open", compared)
    whole = dataclasses.replace(
        result, verdicts=(*result.verdicts, extra), baseline_runs=result.runs, lines={"a.py::test_a": 3}
    )

    assert read_session(write(tmp_path, whole)) == whole
    assert read_session(tmp_path / "session.json") == whole


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "session.json"),
        ("[]", "object"),
        ('{"format": 2}', "result"),
        ('{"format": 1, "result": {}}', "session"),
        (render(canned.quiet()).replace('"format":1', '"format":9'), "format 9"),
        (render(canned.quiet()).replace('"strict":false', '"strict":0'), "strict"),
        (render(canned.quiet()).replace('"UNCHANGED"', '"GOOD"'), "GOOD"),
    ],
)
def test_a_damaged_file_is_refused_with_its_place(text: str, fault: str, tmp_path: Path) -> None:
    (tmp_path / "session.json").write_text(text)

    with pytest.raises(RecordingError, match=fault):
        read_session(tmp_path)


TEXT = render(dataclasses.replace(canned.worked(), baseline_runs=canned.worked().runs))
TOKENS = [match.span() for match in re.finditer(r'-?\d+(?:\.\d+)?(?:e[-+]?\d+)?|"[^"]*"|true|false|null', TEXT)]
PIECES = ["", "null", "-1", "0", "1e999", "1e308", "[]", "{}", '"x"', '""', "true", "NaN"]


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(st.sampled_from(TOKENS) | st.integers(0, len(TEXT)).map(lambda at: (at, at + 9)), st.sampled_from(PIECES))
def test_damage_of_any_kind_is_refused_or_harmless(span: tuple[int, int], piece: str) -> None:
    with TemporaryDirectory() as folder:
        (Path(folder) / "session.json").write_text(TEXT[: span[0]] + piece + TEXT[span[1] :], "utf-8")
        try:
            result = read_session(Path(folder))
        except RecordingError:
            return

    for report in REPORTS.values():
        assert isinstance(report.render(result), str)
    assert terminal.render(result)


def test_a_folder_without_a_session_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=r"holds no session.json; give a session's folder below \.nsight/"):
        read_session(tmp_path)


def test_parts_of_a_suite_become_one() -> None:
    one, other = canned.full(), canned.worked()
    other = dataclasses.replace(other, session="later", recorded="2026-03-02T00:00:00+00:00", strict=True)

    joined = join_sessions([other, one])

    assert len(joined.verdicts) == len(one.verdicts) + len(other.verdicts)
    assert len(joined.runs) == len(one.runs) + len(other.runs)
    assert joined.session == "20260301-120000 + later"
    assert joined.strict
    assert joined.notes == one.notes
    assert joined.partners == other.partners
    assert join_sessions([one]) is one


def test_a_case_of_several_sessions_keeps_the_latest_verdict_and_all_runs() -> None:
    old = canned.quiet(1)
    verdict = dataclasses.replace(old.verdicts[0], kind=VerdictKind.REGRESSION)
    new = dataclasses.replace(
        old,
        session="later",
        recorded="2026-03-02T00:00:00+00:00",
        verdicts=(verdict,),
        runs=tuple(dataclasses.replace(run, run=f"later-{run.run}", session="later") for run in old.runs),
        baseline_runs=old.runs,
    )

    joined = join_sessions([new, old])

    assert [found.kind for found in joined.verdicts] == [VerdictKind.REGRESSION]
    assert joined.runs == new.runs
    assert joined.baseline_runs == old.runs, "once, though the old session and the baseline both hold them"


def test_the_file_is_json_of_one_line() -> None:
    text = render(canned.full())

    assert text.count("\n") == 1
    assert json.loads(text)["format"] == 1
