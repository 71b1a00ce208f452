"""The package as a library: tables of launches that agree with the summaries, verdicts from files, clear errors."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from pytest_nsight import api
from pytest_nsight.trace.process_record import summarise_records

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
SESSIONS = ROOT / "tests/data/sessions"
GOLDEN = ROOT / "tests/report/golden/full.json"


@pytest.fixture(scope="module")
def session() -> api.Session:
    return api.load_session(SESSIONS / "slow")


@pytest.fixture(scope="module")
def launches(session: api.Session) -> pd.DataFrame:
    return api.launches(session)


def test_the_launches_of_a_round_add_up_to_its_kernel_time(session: api.Session, launches: pd.DataFrame) -> None:
    kernels = launches[launches["kind"] == "kernel"]
    sums = kernels.groupby(["run", "case", "round"])["duration_ns"].sum()
    compared = 0
    for process in summarise_records(session.processes):
        for summary in process.summaries:
            for number, kernel_ns in enumerate(summary.rounds["kernel"]):
                assert sums[summary.run, summary.subject.case, number] == kernel_ns
                compared += 1
    assert compared == 880


def test_a_launch_says_how_it_was_configured(launches: pd.DataFrame) -> None:
    fused = launches[launches["kernel"] == "_rms_norm_fused_kernel"].iloc[0]

    assert fused["registers"] > 0
    assert len(fused["grid"]) == len(fused["block"]) == 3
    assert fused["duration_ns"] > 0
    assert list(launches.columns[:4]) == ["run", "case", "part", "round"]
    assert api.copies(api.load_session(SESSIONS / "unchanged"))["kind"].isin(["memcpy", "memset"]).all()


def test_a_trace_gives_all_its_launches_and_ranges(session: api.Session, launches: pd.DataFrame) -> None:
    trace = session.processes[0].trace
    assert trace is not None

    table, ranges = api.launches(trace), api.ranges(trace)

    assert len(table) == len(trace.launches)
    assert table["start_ns"].is_monotonic_increasing
    assert table["duration_ns"].sum() == int((trace.launches.end_ns - trace.launches.start_ns).sum())
    assert len(table) > len(launches[launches["run"] == launches["run"].iloc[0]])
    assert len(ranges) == len(trace.ranges)


def test_the_picture_of_a_trace_is_a_table_for_each_question() -> None:
    recording = Path(__file__).parent / "data" / "recordings" / "h200_llama_block_graph_node.sqlite.xz"
    tables = api.picture(api.load_trace(str(recording)), name="train_step")

    categories, kernels = tables["categories"], tables["kernels"]
    assert categories["total_ns"].sum() == kernels["total_ns"].sum()
    assert tables["ranges"].iloc[0]["path"] == "train_step#*"
    assert tables["bottlenecks"].iloc[0]["limit"] == "latency"


@pytest.mark.parametrize("function", [api.launches, api.copies, api.ranges, api.picture])
@pytest.mark.parametrize("given", ["trace.sqlite", Path("trace.sqlite")])
def test_a_path_in_place_of_a_trace_is_told(function: Callable[[Any], object], given: object) -> None:
    with pytest.raises(TypeError, match=r"takes what load_trace\(path\) .*returns, not the path 'trace.sqlite'"):
        function(given)


def test_verdicts_are_rows_of_the_json_report() -> None:
    table = api.verdicts(GOLDEN)
    content = json.loads(GOLDEN.read_text(encoding="utf-8"))

    measured = [one["extra_info"]["nsight"] for one in content["benchmarks"]]
    stored = [*measured, *content["nsight"]["unmeasured"]]
    assert len(stored) > len(measured) > 0
    assert list(table["case"]) == [one["case"] for one in stored]
    assert list(table["verdict"]) == [one["verdict"] for one in stored]
    assert (table["now_ns"][: len(measured)] > 0).all()
    assert table["now_ns"][len(measured) :].isna().all()


def test_two_results_stand_side_by_side(tmp_path: Path) -> None:
    stored = json.loads(GOLDEN.read_text(encoding="utf-8"))
    gone = stored["benchmarks"].pop()["extra_info"]["nsight"]["case"]
    after = tmp_path / "after.json"
    after.write_text(json.dumps(stored), encoding="utf-8")

    table = api.compare(GOLDEN, after).set_index("case")

    assert table.loc[gone, "verdict_after"] != table.loc[gone, "verdict_after"]  # nan
    measured = table.drop(gone).dropna(subset=["before_ns"])
    assert len(measured) == len(stored["benchmarks"])
    assert (measured["ratio"] == 1).all()
    assert (table["verdict_before"].drop(gone) == table["verdict_after"].drop(gone)).all()


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"benchmarks": [{}]}', "[" * 100_000, '{"benchmarks": 7}'])
def test_a_file_that_is_no_result_is_refused_in_a_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)

    with pytest.raises(api.NsightError, match=r"x\.json is no result of pytest-nsight"):
        api.verdicts(path)


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(api.NsightError, match="holds no recorded run"):
        api.load_session(tmp_path)
    with pytest.raises(api.NsightError, match="cannot be read"):
        api.verdicts(tmp_path / "nothing.json")


def test_the_example_of_the_readme_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(from pytest_nsight import api\n.*?)```", text, re.DOTALL)
    for name in ("result.json", "before.json", "after.json"):
        example = example.replace(f'"{name}"', repr(str(GOLDEN)))
    monkeypatch.chdir(ROOT)

    exec(compile(example, "README.md", "exec"), {})

    assert "_rms_norm_fused_kernel" in capsys.readouterr().out
