"""What a save could not store is remembered beside the baselines until it is stored, or gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_nsight.baselines.failed_saves import FILE_NAME, FailedSave, load_failed_saves, store_failed_saves
from pytest_nsight.model.errors import BaselineError

A = FailedSave("t.py::a", "2026-11-25T10:00:00+00:00", "AssertionError: ä")
B = FailedSave("t.py::b", "2026-11-25T10:00:00+00:00", "its process died")


def test_failed_saves_are_kept_sorted_until_the_case_is_stored(tmp_path: Path) -> None:
    store_failed_saves(tmp_path, "h200", [B, A], settled=())
    again = FailedSave(B.case, "2026-11-26T10:00:00+00:00", "its process died again")
    store_failed_saves(tmp_path, "h200", [again], settled=())

    assert list(load_failed_saves(tmp_path, "h200").values()) == [A, again]
    assert load_failed_saves(tmp_path, "h100") == {}

    store_failed_saves(tmp_path, "h200", [], settled=[B.case])
    assert load_failed_saves(tmp_path, "h200") == {A.case: A}

    store_failed_saves(tmp_path, "h200", [], settled=[A.case])
    assert list((tmp_path / "h200").iterdir()) == []


def test_where_nothing_failed_no_folder_is_made(tmp_path: Path) -> None:
    store_failed_saves(tmp_path, "h200", [], settled=[A.case])

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"format": 1}', r"line 1 is damaged: .*; restore the file from git"),
        ("<<<<<<< ours", r"line 1 is damaged: .*; restore the file from git"),
        ('{"format": 2, "cases": []}', r"line 1 has format 2, 1 is known; use the version that wrote it"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_line_and_stays(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "h200" / FILE_NAME
    path.parent.mkdir()
    path.write_text(text)

    with pytest.raises(BaselineError, match=f"{FILE_NAME}, {message}"):
        load_failed_saves(tmp_path, "h200")
    with pytest.raises(BaselineError, match=FILE_NAME):
        store_failed_saves(tmp_path, "h200", [A], settled=())
    assert path.read_text() == text
