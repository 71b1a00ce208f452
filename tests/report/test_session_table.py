"""Sessions of many days as one table: from sessions and results alike, as CSV and as Parquet."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pandas as pd
import pytest

from pytest_nsight import api
from pytest_nsight.cli import main
from pytest_nsight.model.verdicts import SessionResult
from pytest_nsight.report import pytest_benchmark_json, session_file
from pytest_nsight.report.session_table import COLUMNS
from tests.report import canned


def record(folder: Path, result: SessionResult) -> str:
    folder.mkdir()
    (folder / "session.json").write_text(session_file.render(result))
    return str(folder)


def later(result: SessionResult) -> SessionResult:
    return dataclasses.replace(result, session="20260401-090000", recorded="2026-04-01T09:00:00+00:00")


def test_every_verdict_of_every_session_is_a_row_with_typed_columns(tmp_path: Path) -> None:
    new, old = record(tmp_path / "new", later(canned.full())), record(tmp_path / "old", canned.quiet())

    table = api.sessions(new, old, old)

    full, quiet = canned.full(), canned.quiet()
    assert len(table) == len(full.verdicts) + len(quiet.verdicts)
    assert list(table["session"].unique()) == [quiet.session, "20260401-090000"]
    assert list(table.columns) == list(COLUMNS)
    assert table["now_ns"].dtype == "float64"
    assert table["fails"].dtype == "bool"
    regression = table[table["verdict"] == "REGRESSION"].iloc[0]
    (expected,) = [verdict for verdict in full.verdicts if verdict.kind.value == "REGRESSION"][:1]
    assert expected.comparison
    assert regression["ratio"] == expected.comparison.ratio
    assert regression["board"] == "GPU-5b7e7a4c"
    assert regression["runs"] == 2
    assert not table["commit"].isna().any()


def test_a_result_gives_the_rows_of_its_session(tmp_path: Path) -> None:
    result = canned.full()
    (tmp_path / "result.json").write_text(pytest_benchmark_json.render(result))
    of_session = api.sessions(record(tmp_path / "one", result))
    of_result = api.sessions(tmp_path / "result.json")

    in_order = {"by": ["case", "part"], "ignore_index": True}
    of_session, of_result = of_session.sort_values(**in_order), of_result.sort_values(**in_order)
    measured = of_session["rounds"] > 0
    pd.testing.assert_frame_equal(of_result[measured], of_session[measured], check_exact=False)
    columns = ["session", "recorded", "collector", "case", "part", "verdict", "fails", "sentence"]
    pd.testing.assert_frame_equal(of_result[columns], of_session[columns])


def test_the_command_writes_csv_and_no_verdict_on_many_sessions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [record(tmp_path / "a", canned.full()), record(tmp_path / "b", later(canned.full()))]

    assert main(["report", *folders, "--table", str(tmp_path / "out/all.csv")]) == 0
    assert capsys.readouterr().out.startswith("report written: ")
    assert len(pd.read_csv(tmp_path / "out/all.csv")) == 2 * len(canned.full().verdicts)


def test_parquet_keeps_the_types(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    folder = record(tmp_path / "a", canned.full())

    assert main(["report", folder, "--table", str(tmp_path / "all.parquet")]) == 0
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "all.parquet"), api.sessions(folder))


def test_without_the_extra_one_sentence_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyarrow"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    assert main(["report", record(tmp_path / "a", canned.quiet()), "--table", str(tmp_path / "x.parquet")]) == 2
    error = capsys.readouterr().err
    assert "Parquet needs pyarrow; pip install pyarrow" in error
    assert error.count("\n") == 1
    assert not (tmp_path / "x.parquet").exists()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("x.json", "{", "x.json is no result of pytest-nsight"),
        ("x.json", '{"benchmarks": [{}]}', "x.json is no result of pytest-nsight"),
        ("x.json", '{"format": 1}', "x.json"),
        ("y.json", "", "x.json does not exist"),
    ],
)
def test_a_path_that_holds_nothing_of_ours_is_named(tmp_path: Path, name: str, content: str, said: str) -> None:
    (tmp_path / name).write_text(content)

    with pytest.raises(api.NsightError, match=said):
        api.sessions(tmp_path / "x.json")


def test_another_ending_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", record(tmp_path / "a", canned.quiet()), "--table", "x.xlsx"]) == 2
    assert "must end in .parquet or .csv" in capsys.readouterr().err
