"""`pytest-nsight compare`: traces and runs side by side, in every format, and what fails."""

from __future__ import annotations

import csv
import io
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_nsight.baselines.store import file_name, save
from pytest_nsight.cli import main
from pytest_nsight.compare.changes import Change, Group
from pytest_nsight.compare.compare_command import compare
from pytest_nsight.model.errors import UsageError
from pytest_nsight.model.verdicts import SessionResult, Verdict, VerdictKind
from pytest_nsight.report import session_file
from pytest_nsight.report.escapes import markdown_text
from tests.judge.runs import make_runs, rounds_around
from tests.trace.trace_builder import TraceBuilder


def steps(folder: Path, name: str, length: int, *, kernel: str = "gemm_kernel", jitter: int = 20) -> Path:
    """Ten steps of 10 us, each with a kernel of about `length` ns and a copy."""
    trace = TraceBuilder()
    for number in range(10):
        at = 10_000 * number
        trace.range(f"step#{number}", at, at + 9000)
        trace.launch(kernel, at + 100, at + 100 + length + jitter * (number % 3), api_at=at + 10)
        trace.copy(at + 5000, at + 5500, 1000, api_at=at + 20)
    return trace.write(folder / f"{name}.sqlite")


def row_of(rows: tuple[Change, ...], group: Group, name: str) -> Change:
    (found,) = [row for row in rows if (row.group, row.name) == (group, name)]
    return found


def test_a_slower_trace_is_a_regression_with_an_interval(tmp_path: Path) -> None:
    changes = compare(steps(tmp_path, "a", 2000), steps(tmp_path, "b", 3000))

    step = row_of(changes.rows, Group.RANGE, "step#*")
    assert step.ratio == pytest.approx((3000 + 18 + 500) / (2000 + 18 + 500), rel=1e-3)
    assert step.ratio is not None
    assert step.low is not None
    assert step.high is not None
    assert 1.3 < step.low < step.ratio < step.high < 1.5
    assert changes.regressions[0].startswith("step#*: +39.7 %")


def test_an_equal_trace_and_a_faster_one_are_no_regression(tmp_path: Path) -> None:
    slow, fast = steps(tmp_path, "a", 2000), steps(tmp_path, "b", 1500)

    assert compare(slow, slow).regressions == ()
    assert compare(slow, fast).regressions == ()


def test_each_row_that_is_judged_has_its_verdict(tmp_path: Path) -> None:
    def verdicts(before: int, after: int, *, jitters: tuple[int, int] = (20, 20)) -> dict[str, str]:
        paths = [
            steps(tmp_path, f"{ns}-{jitter}", ns, jitter=jitter)
            for ns, jitter in zip((before, after), jitters, strict=True)
        ]
        return {row.name: row.verdict for row in compare(*paths).rows if row.verdict}

    # The sum of the copies is not judged beside an interval, and neither is the wall time.
    assert verdicts(2000, 3000) == {"step#*": "REGRESSION", "kernel time": "REGRESSION"}
    assert verdicts(3000, 2000) == {"step#*": "IMPROVEMENT", "kernel time": "IMPROVEMENT"}
    assert verdicts(2000, 2020) == {"step#*": "UNCHANGED", "kernel time": "UNCHANGED"}
    # Steps that are up to 400 ns longer: the interval reaches beyond the band, and the sum is left to it.
    assert verdicts(2000, 2000, jitters=(0, 120)) == {"step#*": "INCONCLUSIVE", "kernel time": "INCONCLUSIVE"}


def test_a_range_without_an_interval_has_a_verdict_where_it_is_judged(tmp_path: Path) -> None:
    def verdicts(*lengths: int, kernels: int = 1) -> dict[str, str]:
        paths = []
        for side, length in enumerate(lengths):
            trace = TraceBuilder().range("whole step", 0, 90_000).range("warm-up", 100_000, 190_000)
            for number in range(kernels if side else 1):
                trace.launch("k", 100 + 10_000 * number, 100 + 10_000 * number + length, api_at=10 + number)
            trace.launch("k", 100_100, 100_110 if side else 100_200, api_at=100_010)
            paths.append(trace.write(tmp_path / f"{side}.sqlite"))
        return {row.name: row.verdict for row in compare(*paths).rows if row.group is Group.RANGE}

    assert verdicts(5000, 6000) == {"whole step": "REGRESSION", "warm-up": "INCONCLUSIVE"}
    assert verdicts(6000, 5000) == {"whole step": "IMPROVEMENT", "warm-up": "INCONCLUSIVE"}
    assert verdicts(5000, 5010) == {"whole step": "UNCHANGED", "warm-up": "INCONCLUSIVE"}
    # It may hold another number of steps.
    assert verdicts(5000, 6000, kernels=2) == {"whole step": "", "warm-up": "INCONCLUSIVE"}


def test_a_change_inside_the_band_does_not_count(tmp_path: Path) -> None:
    before, after = steps(tmp_path, "a", 2000), steps(tmp_path, "b", 2080)

    assert compare(before, after).regressions == ()
    assert [text.partition(":")[0] for text in compare(before, after, band=0.01).regressions] == [
        "step#*",
        "kernel time",
    ]


def test_the_seeds_table_has_times_idle_time_and_bandwidth(tmp_path: Path) -> None:
    rows = compare(steps(tmp_path, "a", 2000, jitter=0), steps(tmp_path, "b", 1000, jitter=0)).rows

    kernel = row_of(rows, Group.WHOLE, "kernel time")
    assert (kernel.before, kernel.after, kernel.ratio) == (20_000, 10_000, 0.5)
    assert row_of(rows, Group.WHOLE, "copy bandwidth").before == pytest.approx(2e9)
    idle = row_of(rows, Group.WHOLE, "idle time")
    assert idle.after is not None
    assert idle.before is not None
    assert idle.after - idle.before == 10_000
    assert row_of(rows, Group.CATEGORY, "GEMM").ratio == 0.5


def test_what_the_host_does_has_the_name_that_show_gives_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def traced(name: str, range_name: str) -> Path:
        trace = TraceBuilder().range(range_name, 0, 9_000_000, domain="")
        for at in (0, 5_000_000):
            trace.launch("k", at + 100, at + 1000, api_at=at)
        return trace.write(tmp_path / name)

    python, other = traced("python.sqlite", "aten::mm"), traced("other.sqlite", "step")

    def name_host(before: Path, after: Path) -> list[str]:
        rows = compare(before, after).rows
        names = {row.name for row in rows if row.group is Group.STATE}
        return sorted(names & {"host code", "Python or data loading"})

    assert name_host(python, python) == ["Python or data loading"]
    assert name_host(other, other) == ["host code"]
    assert name_host(python, other) == name_host(other, python) == ["host code"]
    main(["show", str(other)])
    assert "idle: host code" in capsys.readouterr().out


def test_the_copy_bandwidth_is_that_of_copies_without_sets(tmp_path: Path) -> None:
    def traced(name: str, *, has_copy: bool) -> Path:
        trace = TraceBuilder().launch("k", 0, 1000, api_at=0).memset(2000, 3000, 4, api_at=1)
        if has_copy:
            trace.copy(4000, 5000, 3000, api_at=2)
        return trace.write(tmp_path / name)

    sets, copies = traced("sets.sqlite", has_copy=False), traced("copies.sqlite", has_copy=True)

    assert "copy bandwidth" not in [row.name for row in compare(sets, sets).rows]
    assert row_of(compare(sets, sets).rows, Group.WHOLE, "copy time").before == 1000
    row = row_of(compare(sets, copies).rows, Group.WHOLE, "copy bandwidth")
    assert (row.before, row.after) == (None, pytest.approx(3e9))


def test_a_changed_wall_time_is_not_judged_and_a_note_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def record(name: str, apart: int) -> str:
        trace = TraceBuilder()
        for number in range(10):
            at = apart * number
            trace.range(f"step#{number}", at, at + 5000).launch("k", at + 100, at + 2100, api_at=at + 10)
        return str(trace.write(tmp_path / name))

    before, same, slower = record("a.sqlite", 10_000), record("b.sqlite", 10_100), record("c.sqlite", 40_000)

    assert main(["compare", before, slower, "--format", "json"]) == 0
    (note,) = [note for note in json.loads(capsys.readouterr().out)["notes"] if "wall time" in note]
    assert note == (
        "wall time: +293 %, band 5 %; not judged, as it depends on the host and on the number of steps; "
        "idle time: +375 %, whose causes are among the shares of the wall time"
    )
    assert any("wall time: -74.6 %, " in note for note in compare(Path(slower), Path(before)).notes)
    assert not any("wall time" in note for note in compare(Path(before), Path(same)).notes)
    assert not any("wall time" in note for note in compare(Path(before), Path(slower), band=4.0).notes)


def test_kernels_gained_and_lost_are_named(tmp_path: Path) -> None:
    changes = compare(steps(tmp_path, "a", 2000), steps(tmp_path, "b", 2000, kernel="fused_kernel"))

    assert row_of(changes.rows, Group.KERNEL, "gemm_kernel").after is None
    assert "kernels gained: fused_kernel" in changes.notes
    assert "kernels lost: gemm_kernel" in changes.notes


def test_a_trace_without_repeated_ranges_is_judged_by_its_sums_and_says_so(tmp_path: Path) -> None:
    before = TraceBuilder().launch("k", 0, 1000, api_at=0).write(tmp_path / "a.sqlite")
    after = TraceBuilder().launch("k", 0, 1200, api_at=0).write(tmp_path / "b.sqlite")
    changes = compare(before, after)

    (sentence,) = changes.regressions
    assert sentence == "kernel time: +20.0 %, band 5 %; judged by one launch, without an interval"
    assert any("no change has an interval" in note for note in changes.notes)


def test_a_time_that_was_zero_is_described_by_both_times(tmp_path: Path) -> None:
    trace = TraceBuilder().launch("k", 0, 1000, api_at=0)
    before = trace.write(tmp_path / "a.sqlite")
    for at in range(2000, 22_000, 1000):
        trace.copy(at, at + 500, 1000, api_at=at)

    (sentence,) = compare(before, trace.write(tmp_path / "b.sqlite")).regressions

    assert sentence.startswith("copy time: 0 ns -> 10.0 us, band 5 %; judged by ")
    assert "0 %," not in sentence


def baselines(folder: Path, name: str, times_us: list[float]) -> Path:
    """A baseline file with one run of about each time."""
    runs = make_runs([1000 * time for time in times_us], name)
    home = folder / name
    save(home, "h200", runs)
    return home / "h200" / file_name(runs[0].subject.case)


def test_baseline_files_are_judged_as_the_gate_judges(tmp_path: Path) -> None:
    before = baselines(tmp_path, "before", [20.0, 20.02, 19.98, 20.01, 19.99])
    after = baselines(tmp_path, "after", [22.0, 22.02, 21.98, 22.01, 21.99])
    changes = compare(before, after)

    (row,) = [row for row in changes.rows if row.group is Group.CASE]
    assert row.verdict == "REGRESSION"
    assert row.ratio == pytest.approx(1.1, rel=0.01)
    assert row.low is not None
    assert row.low > 1.05
    assert len(changes.regressions) == 1
    assert compare(after, before).regressions == ()
    assert compare(before.parent, after.parent).regressions == changes.regressions


def test_the_folder_of_all_baselines_is_that_of_its_only_model(tmp_path: Path) -> None:
    before = baselines(tmp_path, "before", [20.0, 20.02, 19.98]).parents[1]
    after = baselines(tmp_path, "after", [22.0, 22.02, 21.98]).parents[1]

    assert compare(before, after).rows == compare(before / "h200", after / "h200").rows

    shutil.copytree(after / "h200", after / "h100")
    with pytest.raises(UsageError, match=r"baselines of 2 models; give the folder of one: .*/h100, .*/h200"):
        compare(before, after)


def test_sessions_are_compared_by_the_metric_and_the_band_that_judged_them(tmp_path: Path) -> None:
    def write(name: str, wall_us: float) -> Path:
        middles = [1000 * wall_us * factor for factor in (1.0, 1.001, 0.999, 1.0005, 0.9995)]
        runs = [
            replace(run, rounds={**run.rounds, "kernel": rounds_around(10_000)})
            for run in make_runs(middles, name, metric="wall")
        ]
        verdict = Verdict(runs[0].subject, VerdictKind.NO_BASELINE, "", 1000 * wall_us, metric="wall")
        result = SessionResult(name, "2026-01-01T00:00:00Z", "nsys", {}, (verdict,), tuple(runs))
        (tmp_path / name).mkdir()
        (tmp_path / name / session_file.FILE_NAME).write_text(session_file.render(result))
        return tmp_path / name

    changes = compare(write("before", 100), write("after", 130))

    (row,) = changes.rows
    assert row.name.endswith(" (wall)")
    assert row.ratio == pytest.approx(1.3, rel=0.01)
    assert row.verdict == "REGRESSION"


def test_runs_of_one_kept_session_are_compared_as_traces(tmp_path: Path) -> None:
    recorded = Path(__file__).parents[1] / "data/sessions/slow"
    for name in ("run-002", "run-003"):
        shutil.copytree(recorded / name, tmp_path / name)
        # What a controller leaves there beside them.
        for file in ("job.json", "assignment.json"):
            (tmp_path / name / file).write_text("{}")

    rows = compare(tmp_path / "run-002", tmp_path / "run-003").rows

    assert row_of(rows, Group.WHOLE, "kernel time").ratio == pytest.approx(1, abs=0.05)


def test_json_of_another_tool_is_no_damaged_baseline(tmp_path: Path) -> None:
    path = tmp_path / "board.json"
    path.write_text('{"name": "MI300X", "memory_gb": 192}', encoding="utf-8")
    with pytest.raises(UsageError, match="neither a baseline file nor a trace of the PyTorch profiler"):
        compare(path, path)


def test_runs_and_a_trace_cannot_be_compared(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="two of one kind"):
        compare(baselines(tmp_path, "before", [20.0, 20.1]), steps(tmp_path, "a", 2000))


@pytest.mark.parametrize("missing", ["x.sqlite", "x.json", "folder"])
def test_a_missing_path_is_one_sentence(tmp_path: Path, missing: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(tmp_path / missing), str(tmp_path / missing)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_command_fails_on_a_regression_in_every_format(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [str(steps(tmp_path, "a", 2000)), str(steps(tmp_path, "b", 3000))]
    texts = {}
    for form in ("text", "markdown", "json", "csv"):
        assert main(["compare", *paths, "--format", form]) == 1
        texts[form] = capsys.readouterr().out

    assert "REGRESSION step#*: +39.7 %" in texts["text"]
    assert "| `step#*` | " in texts["markdown"]
    assert "- **REGRESSION** step#\\*: +39.7 %" in texts["markdown"]
    document = json.loads(texts["json"])
    assert document["regressions"][0].startswith("step#*")
    rows = list(csv.DictReader(io.StringIO(texts["csv"])))
    assert len(rows) == len(document["rows"])
    assert {row["group"] for row in rows} == {"whole", "state", "range", "category", "kernel"}
    assert [row["name"] for row in rows if row["verdict"] == "REGRESSION"] == ["kernel time", "step#*"]
    assert [row["name"] for row in document["rows"] if row["verdict"] == "REGRESSION"] == ["kernel time", "step#*"]
    assert texts["markdown"].count("| REGRESSION |") == 2
    assert main(["compare", *reversed(paths)]) == 0


def test_names_cannot_break_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = steps(tmp_path, "a", 2000, kernel="k|\x1b[31m\n`<half>")

    assert main(["compare", str(path), str(path), "--format", "markdown"]) == 0
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert all(line.count("|") - line.count("\\|") in (0, 7) for line in text.splitlines())
    assert "| `` `<half> `` | " in text


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("Block.__init__", "`Block.__init__`"),
        ("a*b*c", "`a*b*c`"),
        ("[fix](http://evil)", "`[fix](http://evil)`"),
        ("~~x~~", "`~~x~~`"),
        ("`tick`", "`` `tick` ``"),
        ("a|b", "`a\\|b`"),
        ("&lt;T&gt;", "`&lt;T&gt;`"),
    ],
)
def test_markdown_shows_names_as_they_are(
    tmp_path: Path, name: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = []
    for folder, kernel in (("before", f"{name}_gone"), ("after", "kernel")):
        trace = TraceBuilder()
        for at in range(0, 60_000, 10_000):
            trace.range(name, at, at + 9000).launch(kernel, at + 100, at + 1100, api_at=at + 10)
        (tmp_path / folder).mkdir()
        paths.append(str(trace.write(tmp_path / folder / "a_b_*.sqlite")))

    assert main(["compare", *paths, "--format", "markdown"]) == 0
    text = capsys.readouterr().out
    assert f"| {shown} | 1.00 us | 1.00 us |" in text
    assert f"Baseline `{paths[0]}`, optimized `{paths[1]}`" in text
    assert "| `kernel` | - | 6.00 us | new |" in text
    assert f"- kernels lost: {markdown_text(name + '_gone')}" in text.splitlines()
    # What is no name stays plain.
    assert "| wall time | " in text


@pytest.mark.parametrize("band", ["-1", "many", "nan", "inf"])
def test_a_band_is_a_percentage(band: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["compare", "a", "b", f"--band={band}"])
    assert "percentage" in capsys.readouterr().err


def test_a_lost_fusion_in_a_trace_without_ranges_is_judged_by_the_sums(tmp_path: Path) -> None:
    fused, unfused = TraceBuilder(), TraceBuilder()
    for at in range(0, 50_000, 10_000):
        fused.launch("fused", at + 100, at + 1100, api_at=at)
        for part in range(3):
            unfused.launch("part", at + 1200 * part + 100, at + 1200 * part + 1100, api_at=at + 10 * part)

    changes = compare(fused.write(tmp_path / "fused.sqlite"), unfused.write(tmp_path / "unfused.sqlite"))

    assert changes.regressions == (
        "kernel time: +200 %, band 5 %; judged by the sums of 5 and 15 launches, without an interval",
    )
