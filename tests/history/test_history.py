"""`pytest-nsight history`: cases over commits, from baselines in git and from kept sessions."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_nsight.cli import main
from pytest_nsight.history.case_history import HistoryRun, PointSource, build_histories
from pytest_nsight.history.git_history import GitHistory
from pytest_nsight.history.history_report import draw_sparkline, write_commit
from pytest_nsight.model.values import Subject
from tests.history.saves import CASE, MODEL, OTHER, git, stored, write_baseline

pytestmark = pytest.mark.slow


def write_session(root: Path, day: int, middle_ns: int, commit: str, verdict: str = "UNCHANGED") -> Path:
    run = {
        "run": f"live{day:02}/001",
        "board": "GPU-1111",
        "recorded": f"2026-03-{day:02}T18:00:00+00:00",
        "commit": commit,
        "rounds": 40,
        "median_ns": float(middle_ns),
        "medians_ns": {"kernel": float(middle_ns), "wall": 90_000.0},
    }
    entry = {
        "case": CASE,
        "part": "",
        "verdict": verdict,
        "fails": False,
        "sentence": "",
        "metric": "kernel",
        "comparison": None,
        "environment": {"device": "NVIDIA H200"},
        "runs": [run],
    }
    benchmark = {"stats": {"median": middle_ns / 1e9}, "extra_info": {"nsight": entry}}
    ours = {"session": f"live{day:02}", "collector": "nsys", "unmeasured": []}
    result = {"datetime": run["recorded"], "nsight": ours, "benchmarks": [benchmark]}
    path = root / ".nsight" / f"live{day:02}" / "result.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(result), encoding="utf-8")
    return path


def run_history(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["history", *arguments]) == 0
    return capsys.readouterr().out


def test_runs_that_the_file_no_longer_holds_come_from_git(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = run_history(capsys, "[fused]")

    assert text.startswith(f"test_norm[fused], {MODEL}: 10 sessions\n")
    assert [line[:10] for line in text.splitlines() if line.startswith("2026-")] == [
        f"2026-03-{day:02}" for day in range(1, 11)
    ]
    assert "unfused" not in text


def test_a_part_is_found_by_the_name_that_the_table_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    git(tmp_path, "init", "-q", "-b", "main")
    for day in (1, 2):
        parts = [
            tuple(replace(run, subject=Subject(CASE, part)) for run in stored(day, 20_000, ""))
            for part in ("forward", "backward")
        ]
        write_baseline(tmp_path, *parts)
        git(tmp_path, "add", "-A")
        git(tmp_path, "commit", "-q", "-m", f"save {day}")
    assert "test_norm[fused]/forward" in run_history(capsys)

    text = run_history(capsys, "test_norm[fused]/forward")

    assert text.startswith(f"test_norm[fused]/forward, {MODEL}: 2 sessions\n")
    assert "backward" not in text


def test_a_change_names_the_commits_between_which_it_falls(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = run_history(capsys, "[fused]")

    (row,) = (line for line in text.splitlines() if "<- change" in line)
    assert row.startswith("2026-03-06")
    assert row.endswith("stored: clearer code")
    (change,) = (line for line in text.splitlines() if line.startswith("change: "))
    assert "20.0 -> 21.5 us (+7.5 %" in change
    # Between the two measured commits lie the save of the first and the second itself.
    assert change.endswith(": 2 commits")
    assert "kernel, version 6" in text.partition("change: ")[2]


def test_kept_sessions_join_the_history(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    head = git(repository, "rev-parse", "HEAD")
    write_session(repository, 11, 21_480, head + "+", verdict="UNCHANGED")

    text = run_history(capsys, "[fused]")

    assert "11 sessions" in text
    newest = next(line for line in text.splitlines() if line.startswith("2026-03-11"))
    assert f"{head[:7]}+" in newest
    assert newest.endswith("UNCHANGED")


def test_another_metric_is_that_of_the_sessions_alone_where_baselines_lack_it(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_session(repository, 11, 21_480, "")

    text = run_history(capsys, "[fused]", "--metric", "wall")

    assert "1 session\n" in text
    assert "change points need 8 sessions; 7 are missing" in text
    assert main(["history", "--metric", "speed"]) == 2
    assert "--metric speed is no duration; choose from kernel, busy" in capsys.readouterr().err


def test_without_a_case_all_have_a_line(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = run_history(capsys).splitlines()

    assert lines[0].split()[:3] == ["case", "model", "sessions"]
    assert [line.split()[0] for line in lines[1:]] == ["test_norm[fused]", "test_norm[unfused]"]


def test_cases_of_one_name_in_two_files_have_their_files_named(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    twin = CASE.replace("test_norm.py", "test_twin.py")
    write_baseline(repository, stored(1, 20_000, ""), stored(1, 20_000, "", twin), stored(1, 90_000, "", OTHER))

    overview = run_history(capsys).splitlines()
    chosen = run_history(capsys, "[fused]")
    run_history(capsys, "--html", "page.html")

    assert [line.split()[0] for line in overview[1:]] == [CASE, "test_norm[unfused]", twin]
    assert [line for line in chosen.splitlines() if line.startswith(f"{twin}, {MODEL}")]
    page = Path("page.html").read_text(encoding="utf-8")
    assert f"{CASE}, {MODEL}" in page
    assert f"{twin}, {MODEL}" in page


def test_a_case_that_nobody_measured_is_an_error_with_the_remedy(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["history", "softmax"]) == 2

    error = capsys.readouterr().err
    assert "no run of a case with 'softmax' in its id is stored in baselines or its git history" in error
    assert "pytest --nsight --nsight-save" in error


def test_without_git_the_present_baseline_counts_and_a_note_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_baseline(tmp_path, stored(1, 20_000, "abc"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))

    text = run_history(capsys, "fused")

    assert "1 session" in text
    assert "note: baselines is in no git repository; only the runs that baselines holds now are shown" in text


def test_a_folder_that_is_nowhere_is_an_error_and_shows_no_other_folders_runs(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in ("basline", "gone/deep"):
        assert main(["history", "fused", "--baselines", folder]) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert f"there is no folder {folder}, and no version of it in git" in said.err
        assert "--baselines" in said.err


def test_without_the_folder_the_sessions_are_shown_with_a_note(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_session(repository, 11, 21_480, "")

    text = run_history(capsys, "[fused]", "--baselines", "basline")

    assert "1 session" in text
    assert "note: there is no folder basline, and no version of it in git, so only sessions of .nsight are" in text


def test_a_folder_that_only_git_has_is_shown(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / "other").mkdir()
    shutil.move(repository / "baselines", repository / "other" / "baselines")
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "move")
    write_baseline(repository / "other", stored(20, 20_000, ""))
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "save elsewhere")

    text = run_history(capsys, "[fused]", "--baselines", "baselines")

    assert "10 sessions" in text


def test_a_repository_of_another_owner_is_noted_with_what_git_says(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")

    text = " ".join(run_history(capsys, "[fused]").split())

    assert "no git repository" not in text
    assert "detected dubious ownership in repository at" in text
    assert f"; type: git config --global --add safe.directory {repository}; only the runs that" in text


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"benchmarks": 7}',
        '{"benchmarks": [{}]}',
        '{"benchmarks": [{"extra_info": {"nsight": {}}}]}',
    ],
)
def test_a_damaged_result_is_noted_and_the_others_are_read(
    repository: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    write_session(repository, 11, 21_480, "")
    write_session(repository, 12, 21_480, "").write_text(content, encoding="utf-8")

    text = run_history(capsys, "[fused]")

    assert "11 sessions" in text
    assert "note: .nsight/live12/result.json is no result of pytest-nsight" in text


def test_an_older_version_that_cannot_be_read_is_noted(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = repository / "baselines" / MODEL / "perf.test_norm.json"
    sound = path.read_text(encoding="utf-8")
    for number, text in enumerate((f"<<<<<<< ours\n{CASE}\n{sound}", sound)):
        path.write_text(text, encoding="utf-8")
        git(repository, "commit", "-q", "-a", "-m", f"oops {number}")

    found = run_history(capsys, "[fused]")

    assert "10 sessions" in found
    assert "note: 1 older version of baselines cannot be read, the newest baselines/nvidia-h200" in found


def test_a_shallow_clone_is_noted(
    repository: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    clone = tmp_path_factory.mktemp("clone") / "shallow"
    git(repository, "clone", "-q", "--depth=1", repository.as_uri(), str(clone))

    text = run_history(capsys, "[fused]", "--baselines", str(clone / "baselines"))

    assert "2 sessions" in text
    assert "git fetch --unshallow" in text


def test_commits_that_git_does_not_know_have_no_commits_between(repository: Path) -> None:
    known = GitHistory(repository / "baselines")

    assert known.list_between("", "HEAD") is None
    assert known.list_between("--output=x", "HEAD") is None
    assert known.list_between("0" * 40, "HEAD") is None
    assert not (repository / "x").exists()
    between = known.list_between("HEAD~2", "HEAD+")
    assert between is not None
    assert between.number == 2


def make_run(run: str, recorded: str, time_ns: float, source: PointSource, remark: str = "") -> HistoryRun:
    session = run.partition("/")[0]
    return HistoryRun(MODEL, Subject(CASE), run, session, "GPU-1", recorded, "c", time_ns, source, remark)


def test_a_run_in_a_result_and_in_a_baseline_counts_once_as_stored() -> None:
    live = make_run("a/1", "2026-03-01", 100.0, PointSource.SESSION, "SAVED")
    saved = replace(live, source=PointSource.BASELINE, remark="why")

    (one,) = build_histories([live, saved, live])

    (point,) = one.points
    assert (point.runs, point.is_stored, point.remark) == (1, True, "why")


def test_points_are_sessions_in_order_of_time_with_the_typical_time_of_their_runs() -> None:
    runs = [
        make_run(f"{session}/{number}", f"2026-03-{day:02}", time, PointSource.SESSION)
        for session, day, times in (("z", 1, (100, 200, 400)), ("a", 2, (110,)))
        for number, time in enumerate(times)
    ]

    (one,) = build_histories(reversed(runs))

    assert [(point.session, point.runs) for point in one.points] == [("z", 3), ("a", 1)]
    assert [point.time_ns for point in one.points] == pytest.approx([200, 110])


def test_a_run_that_drifts_counts_only_where_all_of_its_session_do() -> None:
    still = make_run("a/1", "2026-03-01", 100.0, PointSource.SESSION)
    drifting = replace(make_run("a/2", "2026-03-01", 400.0, PointSource.SESSION), has_one_level=False)

    (both,), (alone,) = build_histories([still, drifting]), build_histories([drifting])

    assert (both.points[0].time_ns, both.points[0].runs) == (pytest.approx(100.0), 2)
    assert alone.points[0].time_ns == pytest.approx(400.0)


def test_a_duration_of_zero_has_a_history_without_change_points() -> None:
    runs = [make_run(f"s{day}/1", f"2026-03-{day:02}", 0.0, PointSource.SESSION) for day in range(1, 13)]

    (one,) = build_histories(runs)

    assert len(one.points) == 12
    assert one.changes == ()


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ([100.0], "_"),
        ([100.0, 100.5, 100.0], "___"),
        ([100.0, 200.0], "_#"),
        ([0.0, 100.0], "_#"),
        ([float(number) for number in range(1, 200)], None),
    ],
)
def test_a_sparkline_shows_changes_and_not_noise(values: list[float], line: str | None) -> None:
    drawn = draw_sparkline(values, unicode=False)

    assert drawn == line if line is not None else len(drawn) == 40


def test_commits_are_written_short() -> None:
    texts = [write_commit(one) for one in ("", "+", "0123456789ab", "0123456789ab+")]

    assert texts == ["unknown", "unknown", "0123456", "0123456+"]
