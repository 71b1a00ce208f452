"""What a worker's manifest says of its run, whichever version wrote it, and what a hostile one gets: a refusal."""

from __future__ import annotations

import contextlib
import io
import json
import os
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_nsight.controller.outcomes import restore_warning
from pytest_nsight.model.errors import RecordingError
from pytest_nsight.model.values import Work
from pytest_nsight.protocol import json_files
from pytest_nsight.protocol.conditions import Conditions, NvmlSample
from pytest_nsight.protocol.journal import Journal
from pytest_nsight.protocol.manifest import FILE_NAME, Manifest
from pytest_nsight.protocol.manifest_events import CaseFault, CaseWarning, PairedRounds, Round, WrongImport
from pytest_nsight.protocol.manifest_reader import read_manifest
from pytest_nsight.protocol.phase_reports import PhaseReport, first_line_of

HEAD = {"event": "run", "format": 1, "run": "s/001", "session": "s", "pid": 7}
ROUND = {
    "event": "round", "id": 1, "case": "t.py::t", "parts": [[2, "forward"]], "start_ns": 10, "wall_ns": 20,
    "rest_ns": 30, "cold_cache": True, "reading": {"sm_mhz": 1980, "power_w": 106.5, "reasons": []},
}  # fmt: skip
CONDITIONS = {
    "event": "conditions", "case": "t.py::t", "busy_ns": 1, "settled_ns": 0, "rest_ns": 3, "last_rest_ns": 4,
    "error": None, "elapsed_ns": 5, "energy_mj": None, "foreign_processes": ["pid 123 (python)"],
}  # fmt: skip
REPORT = {"event": "report", "case": "t.py::t", "report": {"outcome": "passed", "when": "call"}}


def read(folder: Path, *events: Any) -> Manifest:
    path = folder / FILE_NAME
    path.write_text("".join(json.dumps(event) + "\n" for event in events), encoding="utf-8")
    return read_manifest(path)


@pytest.mark.parametrize(
    ("events", "seed"),
    [
        ([HEAD, {"event": "assignment", "seed": 7, "cases": []}], 7),
        ([HEAD, {"event": "assignment", "seed": None, "cases": []}], None),
        ([HEAD], None),
    ],
    ids=["in the assignment", "the user's order", "no assignment"],
)
def test_the_seed_of_the_order(tmp_path: Path, events: list[dict[str, Any]], seed: int | None) -> None:
    assert read(tmp_path, *events).seed == seed


def test_what_a_journal_writes_is_what_is_read(tmp_path: Path) -> None:
    measured = Round(1, "c", ((2, "forward"),), 3, 4, 5, cold_cache=True, reading=NvmlSample(1980, 1.5, -3, ("x",)))
    conditions = Conditions("c", 1, 2, 3, 4, 0.5, 6, None, ("pid 1",))
    journal = Journal(tmp_path / FILE_NAME)
    journal.write_round(measured)
    journal.write_conditions(conditions)
    journal.write_work("c", Work(3, 4))
    journal.write_fault("canary_fault", "k", ValueError("first\nsecond"))
    journal.write("wrong_import", module="ops", file="/ops.py")
    journal.write("pair", case="c", partner="d", own_rounds="e", partner_rounds="f")
    journal.write("end", code=1)

    manifest = read_manifest(tmp_path / FILE_NAME)

    assert manifest.rounds == (measured,)
    assert manifest.conditions == {"c": conditions}
    assert manifest.work == {"c": Work(3, 4)}
    assert manifest.canary_faults == (CaseFault("k", "ValueError: first"),)
    assert manifest.wrong_imports == (WrongImport("ops", "/ops.py"),)
    assert manifest.pairs == (PairedRounds("c", "d", "e", "f"),)
    assert manifest.exit_code == 1


def test_a_line_that_a_crash_cut_off_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    path.write_text(json.dumps(HEAD) + "\n" + json.dumps(ROUND)[:40], encoding="utf-8")

    assert read_manifest(path).rounds == ()


def test_a_line_that_is_written_during_the_read_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / FILE_NAME
    line = json.dumps(HEAD) + "\n"
    path.write_text(line + line[:10])

    class Growing(io.FileIO):
        """A file whose writer goes on as soon as a reader has come to its end."""

        def readline(self, size: int | None = -1, /) -> bytes:
            found = super().readline(size)
            if found == line[:10].encode():
                with path.open("a") as file:
                    file.write(line[10:] + line)
            return found

    monkeypatch.setattr(json_files, "_open", Growing)

    assert read_manifest(path).run == "s/001"


def test_a_case_is_not_over_in_an_attempt_that_another_one_follows(tmp_path: Path) -> None:
    """The plugin flaky runs one protocol inside of another, so each attempt has its end."""
    case, end = {"event": "case", "case": "t.py::t"}, {"event": "case_end", "case": "t.py::t"}
    again = {"event": "attempt", "case": "t.py::t"}
    cut_off = (HEAD, case, ROUND, CONDITIONS, end, case, again, {**ROUND, "id": 2})

    manifest = read(tmp_path, *cut_off)

    assert manifest.ended == ()
    assert [one.id for one in manifest.rounds] == [2]
    assert not manifest.conditions
    assert read(tmp_path, *cut_off, end, end).ended == ("t.py::t", "t.py::t")


def test_events_and_fields_of_a_newer_version_are_ignored(tmp_path: Path) -> None:
    manifest = read(tmp_path, HEAD, {"event": "aurora", "x": 1}, {**REPORT, "colour": "red"})

    assert manifest.reports == (PhaseReport("t.py::t", {"outcome": "passed", "when": "call"}),)


@pytest.mark.parametrize(
    ("event", "words"),
    [
        ([1, 2], "expected an object"),
        ({"run": "s"}, 'no field "event"'),
        ({**ROUND, "wall_ns": "20"}, "wall_ns"),
        ({**ROUND, "wall_ns": -1}, "wall_ns"),
        ({**ROUND, "id": 2**63}, "id"),
        ({**ROUND, "id": True}, "id"),
        ({**ROUND, "parts": [[1]]}, "parts"),
        ({**ROUND, "reading": {"power_w": float("inf")}}, "Infinity"),
        ({**ROUND, "reading": {"power_w": -5}}, "power_w"),
        ({**ROUND, "reading": 3}, "reading"),
        ({key: value for key, value in ROUND.items() if key != "case"}, 'no field "case"'),
        ({**CONDITIONS, "error": "nan"}, "error"),
        ({**CONDITIONS, "foreign_processes": "pid"}, "foreign_processes"),
        ({"event": "work", "case": "c", "bytes_moved": -1, "flops": 0}, "bytes_moved"),
        ({"event": "work", "case": "c", "bytes_moved": 10**400, "flops": 0}, "bytes_moved"),
        ({"event": "device", "environment": {"gpu": 3}}, "environment"),
        ({"event": "report", "case": "c", "report": {}}, "outcome"),
        ({"event": "report", "case": "c", "report": []}, "report"),
        ({"event": "end", "code": None}, "code"),
    ],
)
def test_a_value_that_no_worker_writes_is_refused_with_its_place(tmp_path: Path, event: Any, words: str) -> None:
    with pytest.raises(RecordingError) as refusal:
        read(tmp_path, HEAD, event)

    (sentence,) = str(refusal.value).splitlines()
    assert f"{tmp_path / FILE_NAME}, line 2 is damaged" in sentence
    assert words in sentence
    assert "record it again" in sentence


def test_deep_nesting_is_refused(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    path.write_text("[" * 100_000 + "\n", encoding="utf-8")

    with pytest.raises(RecordingError, match="line 1"):
        read_manifest(path)


def test_what_is_no_regular_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / FILE_NAME)

    with pytest.raises(RecordingError, match="not a regular file"):
        read_manifest(tmp_path / FILE_NAME)
    with pytest.raises(RecordingError, match="not a regular file"):
        read_manifest(Path("/dev/zero"))


def test_a_newer_format_asks_for_an_upgrade(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="newer pytest-nsight"):
        read(tmp_path, {**HEAD, "format": 2, "run": ["of", "another", "shape"]})


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.sampled_from([HEAD, ROUND, CONDITIONS, REPORT]), st.data(), _values)
def test_whatever_stands_in_a_field_is_read_or_refused(
    tmp_path: Path, event: dict[str, Any], data: st.DataObject, value: object
) -> None:
    field = data.draw(st.sampled_from(sorted(event)))
    with contextlib.suppress(RecordingError):
        assert isinstance(read(tmp_path, {**event, field: value}), Manifest)


class OwnWarning(UserWarning):
    """Of a module that the controller does not have."""


@pytest.mark.parametrize("category", [DeprecationWarning, OwnWarning])
def test_a_warning_comes_back_as_python_shows_it(tmp_path: Path, category: type[Warning]) -> None:
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        warnings.warn(category("old :: \n news"), stacklevel=1)
    journal = Journal(tmp_path / FILE_NAME)
    journal.write("run", **{name: value for name, value in HEAD.items() if name != "event"})
    journal.write("warning", **asdict(CaseWarning.of("t.py::t", given[0])))

    (found,) = read_manifest(tmp_path / FILE_NAME).warnings
    restored = restore_warning(found)

    assert found.case == "t.py::t"
    assert (str(restored.message), restored.filename, restored.lineno) == (
        str(given[0].message),
        given[0].filename,
        given[0].lineno,
    )
    assert (restored.category.__name__, restored.category.__module__) == (category.__name__, category.__module__)
    assert isinstance(restored.message, Warning)


@pytest.mark.parametrize(
    ("found", "duration_s", "stop_s"),
    [
        (1.5, 1.5, 1.5),
        (-1, 0.0, 0.0),
        (10**400, 1e9, 1e12),
        (float("inf"), 1e9, 1e12),
        (float("nan"), 0.0, 0.0),
        ("1", 0.0, 0.0),
        (None, 0.0, 0.0),
    ],
)
def test_the_times_of_a_phase_are_bounded(found: object, duration_s: float, stop_s: float) -> None:
    report = PhaseReport("t.py::t", {"outcome": "passed", "duration": found, "stop": found})

    assert report.duration_s == duration_s
    assert report.stop_s == stop_s


@pytest.mark.parametrize(
    ("longrepr", "line"),
    [
        ({"reprcrash": {"message": "AssertionError: boom\nassert 1 == 2"}}, "AssertionError: boom"),
        ({"reprcrash": None}, ""),
        (["/home/me/test_a.py", 12, "Skipped: no time\nat all"], "Skipped: no time"),
        ([], ""),
        ("\n[XPASS(strict)] known\n", "[XPASS(strict)] known"),
        (
            '  File "bench.py", line 7, in f\n    g(1)\nTypeError: g() takes 0\nNote',
            "TypeError: g() takes 0",
        ),
        ("bench.py failed before this call\n  File ...\nOSError: full", "bench.py failed before this call"),
        ('  File "bench.py", line 7, in f', 'File "bench.py", line 7, in f'),
        (
            "file t.py, line 4\n  def test_a(size):\nE       fixture 'size' not found\n>       available: tmp_path",
            "fixture 'size' not found",
        ),
        (None, ""),
    ],
)
def test_why_a_phase_did_not_pass_is_one_line(longrepr: object, line: str) -> None:
    assert first_line_of(longrepr) == line
