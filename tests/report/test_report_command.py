"""`pytest-nsight report` shows recorded sessions again and exits as the gate would."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path

import pytest

from pytest_nsight.cli import main
from pytest_nsight.model.verdicts import SessionResult, VerdictKind
from pytest_nsight.report.session_file import render
from tests.report import canned


def record(folder: Path, result: SessionResult) -> str:
    folder.mkdir()
    (folder / "session.json").write_text(render(result))
    return str(folder)


def test_a_session_is_shown_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", record(tmp_path / "one", canned.quiet())]) == 0
    assert "3 verdicts: 0 regressions, 0 improvements, 3 unchanged" in capsys.readouterr().out


@pytest.mark.parametrize(("encoding", "shown"), [("utf-8", "test_x[μ]"), ("ascii", r"test_x[\u03bc]")])
def test_names_are_written_as_the_terminal_can(
    encoding: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding)
    monkeypatch.setattr("sys.stdout", out)

    main(
        ["report", record(tmp_path / "one", canned.session((canned.verdict(VerdictKind.SAVED, "test_x[μ]", ""),)))]
    )

    out.seek(0)
    assert shown in out.read()


def test_it_exits_as_the_gate_would(tmp_path: Path) -> None:
    lenient, strict = canned.session(canned.full().verdicts[6:7]), canned.full(strict=True)

    assert main(["report", record(tmp_path / "one", lenient)]) == 0
    assert main(["report", record(tmp_path / "two", dataclasses.replace(lenient, strict=True))]) == 1
    assert main(["report", record(tmp_path / "three", strict)]) == 1


def test_shards_given_as_sessions_are_said_to_be_unjudged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    verdicts = [dataclasses.replace(one, kind=VerdictKind.MEASURED) for one in canned.quiet().verdicts]
    files = [f"{record(tmp_path / str(n), canned.session((one,)))}/session.json" for n, one in enumerate(verdicts)]
    said = "NOT JUDGED: 3 cases of shards, which are judged together only; give the shard.json of each: "

    for more in ([], ["--html", "out.html"]):
        assert main(["report", *files, *more]) == 0
        assert f"{said}pytest-nsight report .nsight/*/shard.json\n" in capsys.readouterr().out


def test_sessions_are_joined_and_written_in_every_form_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folders = [record(tmp_path / "one", canned.full()), record(tmp_path / "two", canned.worked())]

    assert main(["report", *folders, "--html", "out.html", "--report", "otava=out.csv"]) == 1
    assert capsys.readouterr().out == "report written: out.html\nreport written: out.csv\n"
    page = (tmp_path / "out.html").read_text()
    assert "17 verdicts" in page
    assert "test_linear[fused-b32x2048]" in page
    assert (tmp_path / "out.csv").exists()

    assert main(["report", *folders, "--table", "all.csv"]) == 0
    assert capsys.readouterr().out == "report written: all.csv\n"


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["nowhere"], "holds no session.json"),
        ([__file__], "test_report_command.py is no session.json of a session; give a session's folder below"),
        (["one", "--report", "nosuch=x"], "no such report"),
        (["one", "--table", "x.csv", "--html", "x.csv"], "the reports table and html would both be written to"),
        (["one", "--table", "one/../x.csv", "--report", "otava=x.csv"], "the reports table and otava would both"),
        (["one", "--html", "one/session.json/x.html"], "was not written"),
    ],
)
def test_a_wrong_request_is_one_sentence(
    arguments: list[str],
    fault: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    record(tmp_path / "one", canned.quiet())
    monkeypatch.chdir(tmp_path)

    assert main(["report", *arguments]) == 2
    error = capsys.readouterr().err
    assert fault in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("given", ["", "/session.json"])
@pytest.mark.parametrize(
    "options",
    [
        ["--html", "one/session.json"],
        ["--report", "json=./one/result.json"],
        ["--report", "otava=one/run-001/ncu.csv"],
        ["--report", "otava=one/identity-001/new/a.csv"],
        ["--html", "one/first-pass/a.html"],
        ["--html", "one/drill/001/a.html"],
        # Not there yet.
        ["--report", "json=one/shard.json"],
        ["--html", "one/kept"],
        ["--table", "link.csv"],
    ],
)
def test_no_report_is_written_over_a_file_of_the_session(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    given: str,
    options: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = Path(record(tmp_path / "one", canned.quiet()))
    (folder / "run-001").mkdir()
    for name in ("result.json", "run-001/ncu.csv", "evidence.json"):
        (folder / name).write_text("own")
    (tmp_path / "link.csv").symlink_to(folder / "evidence.json")
    before = {path: path.read_text() for path in folder.rglob("*") if path.is_file()}

    assert main(["report", f"{folder}{given}", *options]) == 2

    assert "has files of its own" in capsys.readouterr().err
    assert {path: path.read_text() for path in folder.rglob("*") if path.is_file()} == before


def test_a_report_in_the_folder_of_the_session_may_be_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = record(tmp_path / "one", canned.quiet())

    for _ in range(2):
        more = ["--report", "markdown=one/pages/new/a.md", "--table", "one/runs/kept.csv"]
        assert main(["report", folder, "--html", "one/", "--report", "json=one/out.json", *more]) == 0
    written = [path.relative_to(folder).as_posix() for path in Path(folder).rglob("*") if path.is_file()]
    assert sorted(written) == ["nsight.html", "out.json", "pages/new/a.md", "runs/kept.csv", "session.json"]
