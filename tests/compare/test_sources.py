"""What a path given to `compare` holds: only what begins like a baseline file is taken for one."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from pytest_nsight.baselines.store import file_name, save
from pytest_nsight.compare.sources import RunSource, load_source
from pytest_nsight.model.errors import BaselineError, UsageError
from tests.judge.runs import make_runs
from tests.trace.trace_builder import TraceBuilder

TRACE = json.dumps({"schemaVersion": 1, "traceEvents": []})


@pytest.fixture
def baseline(tmp_path: Path) -> Path:
    runs = make_runs([20_000.0, 20_100.0], "now")
    save(tmp_path / "baselines", "h200", runs)
    return tmp_path / "baselines/h200" / file_name(runs[0].subject.case)


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("empty.json", "", "is empty"),
        ("page.json", "<!DOCTYPE html><html></html>", "neither a baseline file nor a trace"),
        ("changes.json", '{"format": 1, "before": "a", "rows": []}', "neither a baseline file nor a trace"),
        ("page.html", "<!DOCTYPE html><html></html>", "is no recording: it begins with"),
        ("empty.sqlite", "", "is empty"),
    ],
)
def test_a_file_of_another_kind_is_not_to_be_deleted(tmp_path: Path, name: str, text: str, what: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(UsageError, match=what) as found:
        load_source(path)

    assert "delete" not in str(found.value)
    assert "baseline file" in str(found.value)
    assert ".sqlite" in str(found.value)


def test_a_damaged_baseline_file_is_one_all_the_same(baseline: Path) -> None:
    text = baseline.read_text()
    baseline.write_text(text[: len(text) // 2])
    for path in (baseline, baseline.parent, baseline.parents[1]):
        with pytest.raises(BaselineError, match="delete it and save again"):
            load_source(path)

    conflict = f"<<<<<<< ours\n{text}=======\n{text}>>>>>>> theirs\n"
    baseline.write_text(conflict)
    with pytest.raises(BaselineError, match="merge-baselines"):
        load_source(baseline)


@pytest.mark.parametrize("text", ["{bad", "", "nothing like it"])
def test_a_baseline_file_that_is_damaged_at_its_beginning_is_named(baseline: Path, text: str) -> None:
    healthy = baseline.read_text()
    baseline.write_text(text)
    # Of the folder of all models, that of one, and that of one in which another file is sound.
    for path, others in ((baseline.parents[1], []), (baseline.parent, []), (baseline.parent, ["sound.json"])):
        for name in others:
            (baseline.parent / name).write_text(healthy)
        with pytest.raises(BaselineError, match=rf"^baseline file {baseline}: .*delete it and save again"):
            load_source(path)


def test_a_folder_of_recordings_is_named_as_such(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(TRACE)
    (tmp_path / "b.json.gz").write_bytes(gzip.compress(TRACE.encode()))
    TraceBuilder().launch("k", 0, 1000, api_at=0).write(tmp_path / "c.sqlite")
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(
        UsageError, match=r"folder with 3 recordings; give one of them: a.json, b.json.gz, c.sqlite"
    ):
        load_source(tmp_path)


def test_a_folder_of_baselines_with_another_file_names_it(baseline: Path) -> None:
    assert isinstance(load_source(baseline.parent), RunSource)

    (baseline.parent / "trace.json").write_text(TRACE)
    with pytest.raises(UsageError, match=r"holds baseline files, and others: trace.json; give"):
        load_source(baseline.parent)


def test_folders_of_traces_beside_baselines_are_no_models(baseline: Path) -> None:
    traces = baseline.parents[1] / "traces"
    traces.mkdir()
    (traces / "a.json").write_text(TRACE)

    assert isinstance(load_source(baseline.parents[1]), RunSource)
