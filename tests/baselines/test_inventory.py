"""What is stored, save by save, and the removal of cases."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from pytest_nsight.baselines.inventory import (
    StoredCase,
    list_cases,
    list_models,
    list_saves,
    remove_cases,
    select_cases,
)
from pytest_nsight.baselines.store import load, save
from pytest_nsight.model.errors import BaselineError
from pytest_nsight.model.shapes import Shape, ShapeUse
from pytest_nsight.model.values import Subject
from pytest_nsight.report.stored_cases import render_list, render_saves
from tests.baselines.examples import CASE, run

MODEL = "nvidia-h200"
NEIGHBOUR = "perf_tests/test_rms_norm.py::test_rms_norm[unfused-4096]"
OTHER = "perf_tests/test_softmax.py::test_softmax"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save(tmp_path, MODEL, [run(1), run(2), run(1, CASE, "forward"), run(1, NEIGHBOUR), run(1, OTHER)])
    save(tmp_path, MODEL, [run(7)], reason="rounds in float32 now")
    return tmp_path


def test_runs_are_put_together_by_session_board_and_reason() -> None:
    runs = [
        run(0),
        run(1),
        dataclasses.replace(run(2), board="GPU-2222"),
        dataclasses.replace(run(3), reason="why"),
        run(5),
    ]

    saves = list_saves(runs)

    assert [(one.session, one.board, one.reason, one.runs) for one in saves] == [
        ("session-0", "GPU-1111", "", 2),
        ("session-0", "GPU-2222", "", 1),
        ("session-0", "GPU-1111", "why", 1),
        ("session-1", "GPU-1111", "", 1),
    ]


def test_a_save_has_its_runs_and_the_newest_commit() -> None:
    runs = [
        dataclasses.replace(run(number), rounds={"kernel": (10 * number, 11 * number, 90 * number)})
        for number in (1, 2, 4)
    ]

    (one,) = list_saves(runs)

    assert (one.metric, one.measured) == ("kernel", tuple(runs))
    assert (one.commit, one.recorded) == (runs[-1].commit, runs[-1].recorded)


def test_a_run_without_rounds_has_no_time() -> None:
    (one,) = list_saves([dataclasses.replace(run(1), rounds={"kernel": ()})])

    assert one.metric == ""


def test_cases_are_listed_and_selected(folder: Path) -> None:
    cases = list_cases(folder, MODEL)

    assert list_models(folder) == (MODEL,)
    assert [(case.subject, case.runs) for case in cases] == [
        (Subject(CASE), 3),
        (Subject(CASE, "forward"), 1),
        (Subject(NEIGHBOUR), 1),
        (Subject(OTHER), 1),
    ]
    assert [case.subject.part for case in select_cases(cases, ["norm[fused", "/forward"])] == ["forward"]
    assert select_cases(cases, ["norm", "softmax"]) == ()
    assert select_cases(cases, ["fused-4096]/"]) == (cases[1],), "a case without a part has no slash behind it"


def test_a_folder_without_baselines_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BaselineError, match="no such file"):
        list_models(tmp_path / "none")
    with pytest.raises(BaselineError, match="holds no baselines; store some with"):
        list_models(tmp_path)


def test_removing_a_case_removes_its_parts_and_nothing_else(folder: Path) -> None:
    kept = load(folder, MODEL)

    changed = remove_cases(folder, MODEL, {CASE, OTHER, "perf_tests/test_none.py::test_x"})

    assert changed == (
        folder / MODEL / "perf_tests.test_rms_norm.json",
        folder / MODEL / "perf_tests.test_softmax.json",
    )
    assert load(folder, MODEL).runs == {Subject(NEIGHBOUR): kept.of(Subject(NEIGHBOUR))}
    assert [path.name for path in (folder / MODEL).iterdir()] == ["perf_tests.test_rms_norm.json"]


def test_removing_what_is_not_stored_changes_nothing(folder: Path) -> None:
    before = {path: path.read_bytes() for path in (folder / MODEL).iterdir()}

    assert remove_cases(folder, MODEL, {"perf_tests/test_rms_norm.py::test_gone"}) == ()

    assert {path: path.read_bytes() for path in (folder / MODEL).iterdir()} == before


def test_the_list_has_a_line_for_each_case_with_its_newest_save(folder: Path) -> None:
    head, columns, first, *_ = render_list(list_cases(folder, MODEL), 120).splitlines()

    assert head == "nvidia-h200: 4 stored cases, 6 runs"
    assert columns.split() == ["case", "runs", "time", "launches", "stored", "commit", "boards"]
    assert first.split()[:2] == ["test_rms_norm[fused-4096]", "3"]
    assert "2026-03-01 19:00  0a1b2c3" in first


def test_copies_and_sets_are_no_launches_as_in_a_claim() -> None:
    shapes = tuple(
        ShapeUse(Shape(kind, kind), times, 1)
        for kind, times in (("kernel", 3), ("graph", 10), ("memcpy", 100), ("memset", 1000))
    )
    case = StoredCase(MODEL, Subject(CASE), list_saves([dataclasses.replace(run(1), shapes=shapes)]))

    for table in (render_list([case], 120), render_saves(case, 120)):
        _, columns, line = re.sub(r"  +", "\t", table).splitlines()
        assert dict(zip(columns.split("\t"), line.split("\t"), strict=True))["launches"] == "13"


def test_cases_of_one_name_in_two_files_are_listed_with_their_files(folder: Path) -> None:
    first, *others = list_cases(folder, MODEL)
    twin = dataclasses.replace(first, subject=Subject(CASE.replace("test_rms_norm.py", "test_twin.py")))

    lines = render_list([first, twin, *others], 120).splitlines()

    assert [line.split()[0] for line in lines[2:4]] == [CASE, twin.subject.case]
    assert lines[4].startswith("test_rms_norm[fused-4096]/forward ")


def test_the_saves_of_a_case_come_with_their_reasons(folder: Path) -> None:
    lines = render_saves(list_cases(folder, MODEL)[0], 120).splitlines()

    assert lines[0] == f"nvidia-h200: {CASE}, 3 runs"
    assert lines[-1].startswith("rounds in float32 now  2026-03-01 19:00  0a1b2c3  GPU-1111")
    assert len(lines) == 4


@pytest.mark.parametrize(
    ("boards", "shown"),
    [
        (["AMD EPYC, 2 threads"], ["AMD EPYC, 2 threads"]),
        (["GPU-0fd549ce-aaaa", "GPU-5085d9b6-aaaa"], ["GPU-0fd549ce", "GPU-5085d9b6"]),
        (["GPU-0fd549ce-aaaa", "GPU-0fd549ce-bbbb"], ["GPU-0fd549ce-a", "GPU-0fd549ce-b"]),
    ],
)
def test_a_board_has_its_whole_name_and_a_uuid_what_tells_it_apart(boards: list[str], shown: list[str]) -> None:
    saves = list_saves([dataclasses.replace(run(number), board=board) for number, board in enumerate(boards)])

    lines = render_saves(StoredCase(MODEL, Subject(CASE), saves), 120).splitlines()

    assert [name for name, line in zip(shown, lines[2:], strict=True) if f"  {name}  " in line] == shown


@pytest.mark.parametrize("width", [60, 80, 120])
def test_lines_fit_and_hostile_text_is_harmless(width: int) -> None:
    text = "\x1b[31m\n::stop-commands::\u202e" + "x" * 200
    hostile = dataclasses.replace(run(1), reason=text, board=text, commit=text, subject=Subject("t.py::" + text))
    case = StoredCase(MODEL, hostile.subject, list_saves([hostile]))

    for rendered in (render_list([case], width), render_saves(case, width)):
        assert all(line.isprintable() for line in rendered.splitlines())
        assert not any(line.startswith("::") for line in rendered.splitlines())
