"""What torch.profiler writes is read whatever names the tests and their programs give to ranges."""

from __future__ import annotations

import gzip
import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from pytest_nsight.collectors.base import RecordingOptions
from pytest_nsight.collectors.lookup import find_factory
from pytest_nsight.model.errors import TraceError
from pytest_nsight.recorders.torch.written_json import parse_written

torch = pytest.importorskip("torch")

NAMES = (
    "plain", 'a "quoted" id', "back\\slash", "percent %41 %", "new\nline", "tab\t", "emoji \U0001f600",
    "7:colons:8", '", "ph": "X", "name": "injected', "[0-1.5]", "", "\x01", "long" * 500,
)  # fmt: skip

WRITTEN = """{
  "traceEvents": [
  {
    "ph": "X",
    "cat": "user_annotation",
    "name": "%s",
    "pid": 1
  }
  ]
}"""


FOLDERS = (
    'a "quoted" folder',
    "back\\slash",
    "back\\\\slashes",
    'ends in "',
    "ends in \\",
    "new\nline",
    '", "pid": {',
)


@pytest.fixture
def record(tmp_path):
    """Records ranges of ours, with the given names, around what a program does; gives the trace."""

    def record(names, program=lambda: None):
        factory = find_factory("torch")
        recorder = factory.make_recorder(tmp_path)
        recorder.start()
        for payload, name in enumerate(names):
            recorder.push(name, payload)
            program()
            torch.ones(4) + 1
            recorder.pop()
        recorder.stop()
        return factory.read_kept(tmp_path)

    return record


@pytest.mark.slow
def test_every_name_comes_back(record):
    trace = record(NAMES)

    assert [trace.strings[number] for number in trace.ranges.name] == list(NAMES)
    assert trace.ranges.payload.tolist() == list(range(len(NAMES)))


@pytest.mark.slow
@pytest.mark.parametrize("name", FOLDERS)
def test_a_record_is_written_in_a_folder_of_every_name(tmp_path, name):
    folder = tmp_path / name
    folder.mkdir()
    factory = find_factory("torch")
    recorder = factory.make_recorder(folder)
    recorder.start()
    recorder.push('a "quoted" range', 0)
    with torch.profiler.record_function('the program\'s "own" range'):
        torch.ones(4) + 1
    recorder.pop()
    recorder.stop()

    trace = factory.read_kept(folder)

    assert [trace.strings[number] for number in trace.ranges.name] == ['a "quoted" range']
    assert "aten::add" in {shape.full_name for shape in trace.shapes}


@pytest.mark.slow
def test_a_test_that_replaces_functions_of_json_is_recorded_all_the_same(tmp_path, monkeypatch):
    factory = find_factory("torch")
    recorder = factory.make_recorder(tmp_path)
    recorder.start()
    with monkeypatch.context() as patched:
        for name in ("dump", "dumps", "loads"):
            patched.setattr(json, name, lambda *_given, **_named: {})
        recorder.push("replaced", 0)
        torch.ones(4) + 1
        recorder.pop()
        recorder.stop()

    trace = factory.read_kept(tmp_path)

    assert [trace.strings[number] for number in trace.ranges.name] == ["replaced"]


@pytest.mark.slow
def test_a_case_whose_file_a_test_has_damaged_costs_its_own_record_only(record, tmp_path):
    record(["first"])
    (first,) = tmp_path.glob("trace-*")
    first = first.rename(tmp_path / "trace-9999.json.gz")
    record(["second"])
    (second,) = {*tmp_path.glob("trace-*")} - {first}
    collector = find_factory("torch").make_collector(RecordingOptions())

    first.write_bytes(gzip.compress(b"{}"))
    trace = collector.collect(tmp_path)
    assert [trace.strings[number] for number in trace.ranges.name] == ["second"]

    second.write_bytes(b"")
    with pytest.raises(TraceError, match=second.name):
        collector.collect(tmp_path)


@pytest.mark.slow
def test_names_of_the_programs_own_ranges_do_no_harm(record):
    def program():
        with torch.profiler.record_function('the program\'s "own" \\ range'):
            torch.ones(2) * 2

    trace = record(["case"], program)

    assert len(trace.ranges) == 1
    assert {"aten::mul", "aten::add"} <= {shape.full_name for shape in trace.shapes}


@pytest.mark.slow
def test_operators_on_the_programs_own_threads_are_recorded(record):
    with ThreadPoolExecutor(1) as begun_before:
        begun_before.submit(lambda: None).result()

        def program():
            begun_before.submit(torch.exp, torch.ones(2)).result()
            with ThreadPoolExecutor(1) as begun_now:
                begun_now.submit(torch.sin, torch.ones(2)).result()

        trace = record(["case"], program)

    assert {"aten::exp", "aten::sin", "aten::add"} <= {shape.full_name for shape in trace.shapes}


@pytest.mark.slow
@pytest.mark.parametrize("profile", [torch.profiler.profile, torch.autograd.profiler.profile])
def test_a_profiler_of_the_programs_own_is_refused_within_and_works_after(record, profile):
    def program():
        with pytest.raises(RuntimeError, match=r"only one profiler works in a process: measure without"), profile():
            pass

    record(["case"], program)

    with profile() as own:
        torch.ones(2) * 2
        with pytest.raises(RuntimeError, match=r"only one profiler works"):
            record(["case"])
    assert "aten::mul" in {event.key for event in own.key_averages()}


@pytest.mark.parametrize("name", ['a "quoted" id', "back\\slash", '"', "\\", '"", ""'])
def test_a_name_that_torch_did_not_escape_is_read(name):
    (event,) = parse_written(WRITTEN % name)["traceEvents"]

    assert event["name"] == name
    assert (event["ph"], event["pid"]) == ("X", 1)


@pytest.mark.parametrize("name", ["plain", 'a "quoted" name', '"traceName": "'])
@pytest.mark.parametrize(
    "path", ['/a"b/trace.json', "/a\\ b/trace.json", '/ends in "', "/ends in \\", '/a", "pid": {/"']
)
def test_a_path_that_torch_did_not_escape_is_read(path, name):
    text = (WRITTEN % name).removesuffix("\n}") + f',"traceName": "{path}" }}'

    document = parse_written(text)

    assert document["traceName"] == path
    assert document["traceEvents"][0]["name"] == name


def test_valid_json_is_taken_as_it_is():
    name = 'escaped "properly" \\'

    (event,) = parse_written(WRITTEN % json.dumps(name)[1:-1])["traceEvents"]

    assert event["name"] == name


@pytest.mark.parametrize("text", ["", "[", '{"traceEvents": [}'])
def test_what_is_no_json_is_refused(text):
    with pytest.raises(ValueError, match=r".+"):
        parse_written(text)
