"""The timeline for Perfetto: read again by the reader of the PyTorch profiler's traces, it says the same."""

from __future__ import annotations

import fcntl
import gzip
import json
import os
import shutil
from collections import Counter
from pathlib import Path

import pytest

from pytest_nsight.analysis.picture import analyse
from pytest_nsight.cli import main
from pytest_nsight.collectors.open_recording import load_trace
from pytest_nsight.compare.changes import Group
from pytest_nsight.compare.compare_command import compare
from pytest_nsight.model.errors import TraceError, UsageError
from pytest_nsight.model.trace import Trace
from pytest_nsight.show.trace_events import write_trace_events
from tests.trace.trace_builder import TraceBuilder

DATA = Path(__file__).parents[1] / "data"
RECORDING = DATA / "recordings" / "h200_nsys_2025_3.sqlite.xz"
RUN = DATA / "sessions" / "slow" / "run-001"


@pytest.fixture(scope="module")
def trace() -> Trace:
    return load_trace(RECORDING)


def kinds(trace: Trace) -> Counter[tuple[str, int, int, int]]:
    """Kind, length, device and stream of every launch."""
    launches = trace.launches
    columns = (launches.shape, launches.end_ns - launches.start_ns, launches.device, launches.stream)
    return Counter(
        (trace.shapes[shape].kind, length, device, stream)
        for shape, length, device, stream in zip(*(column.tolist() for column in columns), strict=True)
    )


def costs(shown: Trace) -> list[tuple[tuple[str, ...], int, int]]:
    return sorted((one.path, one.count, one.kernel_ns) for one in analyse(shown).ranges)


@pytest.mark.slow
def test_all_that_was_recorded_is_read_again_to_the_nanosecond(trace: Trace, tmp_path: Path) -> None:
    write_trace_events(trace, tmp_path / "out.json")

    again = load_trace(tmp_path / "out.json")
    before, after = analyse(trace), analyse(again)

    assert len(again.launches) == len(trace.launches) > 200
    assert len(again.calls) == len(trace.calls)
    assert len(again.ranges) == len(trace.ranges)
    assert kinds(again) == kinds(trace)
    assert [(one.state, one.total_ns) for one in after.states] == [
        (one.state, one.total_ns) for one in before.states
    ]
    assert [(one.name, one.calls, one.total_ns) for one in after.kernels] == [
        (one.name, one.calls, one.total_ns) for one in before.kernels
    ]


def test_ranges_keep_the_launches_inside_them(trace: Trace, tmp_path: Path) -> None:
    write_trace_events(trace, tmp_path / "out.json.gz")

    assert len({path[0].partition(":")[0] for path, _, _ in costs(trace)}) > 1
    assert costs(load_trace(tmp_path / "out.json.gz")) == costs(trace)


def test_ranges_keep_their_domain_and_those_of_no_thread_are_read_again(tmp_path: Path) -> None:
    built = TraceBuilder()
    for at in (0, 10_000):
        built.range("step", at, at + 9000, domain="").range("norm", at + 100, at + 4000)
        # Start/end ranges, which cross.
        built.range("request", at + 50, at + 9500, domain="server", is_pushed=False)
        built.range("request", at + 5000, at + 12_000, domain="server", is_pushed=False)
        built.launch("a", at + 200, at + 700, api_at=at + 150).launch("b", at + 6000, at + 6100, api_at=at + 5500)
    recorded = load_trace(built.write(tmp_path / "a.sqlite"))
    write_trace_events(recorded, tmp_path / "out.json")
    again = load_trace(tmp_path / "out.json")

    def list_ranges(shown: Trace) -> list[tuple[str, str, int, int, int, int]]:
        ranges, texts = shown.ranges, shown.strings
        zero = int(ranges.start_ns.min())
        columns = (ranges.domain, ranges.name, ranges.process, ranges.thread, ranges.start_ns, ranges.end_ns)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return sorted((texts[a], texts[b], c, d, start - zero, end - zero) for a, b, c, d, start, end in rows)

    assert list_ranges(again) == list_ranges(recorded)
    assert costs(again) == costs(recorded)


def test_a_trace_and_its_own_timeline_have_the_same_ranges(tmp_path: Path) -> None:
    write_trace_events(load_trace(RECORDING), tmp_path / "out.json")

    changes = compare(RECORDING, tmp_path / "out.json")
    rows = [row for row in changes.rows if row.group is Group.RANGE]
    assert {row.name for row in rows} > {"pytest_nsight:mm#*"}
    assert all(row.ratio == 1 and row.verdict == "UNCHANGED" for row in rows)


@pytest.mark.parametrize("end", [{"ph": "i"}, {"ts": "late"}, {"ts": 10**400}, {"id": 99}, {"id": [1]}])
def test_a_range_of_no_thread_that_has_no_end_is_an_error(tmp_path: Path, end: dict[str, object]) -> None:
    built = TraceBuilder().range("request", 50, 9500, is_pushed=False).launch("a", 200, 700, api_at=150)
    write_trace_events(load_trace(built.write(tmp_path / "a.sqlite")), tmp_path / "out.json")
    document = json.loads((tmp_path / "out.json").read_text())
    (half,) = [event for event in document["traceEvents"] if event["ph"] == "e"]
    half |= end
    (tmp_path / "out.json").write_text(json.dumps(document))

    with pytest.raises(TraceError, match="dur is 'None'"):
        load_trace(tmp_path / "out.json")


def test_only_the_timelines_own_argument_is_a_domain(tmp_path: Path) -> None:
    """The profiler lists the arguments of the program under any name that Python takes."""
    annotation = {"ph": "X", "cat": "user_annotation", "name": "step", "ts": 1.0, "dur": 9.0, "pid": 1, "tid": 1}
    operator = {**annotation, "cat": "cpu_op", "name": "aten::mul", "args": {"NVTX domain": "x"}}
    events = [{**annotation, "args": {"domain": "x"}}, {**annotation, "args": {"NVTX domain": 7}}, operator]
    (tmp_path / "t.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    read = load_trace(tmp_path / "t.json")

    assert {read.strings[number] for number in read.ranges.domain.tolist()} == {""}


def test_boards_and_processes_are_told_apart_when_read_again(tmp_path: Path) -> None:
    """Two boards that two processes both call 0; further processes use them, too."""
    recorded = load_trace(RECORDING.parent / "h200_two_gpus" / "trace.sqlite.xz")
    write_trace_events(recorded, tmp_path / "out.json")
    again = load_trace(tmp_path / "out.json")
    before, after = analyse(recorded), analyse(again)

    assert kinds(again) == kinds(recorded)
    assert sorted(again.launches.process.tolist()) == sorted(recorded.launches.process.tolist())
    assert [(one.device.uuid, one.device.multiprocessors, one.busy_ns, one.sync_ns) for one in after.devices] == [
        (one.device.uuid, one.device.multiprocessors, one.busy_ns, one.sync_ns) for one in before.devices
    ]
    assert [(one.state, one.total_ns) for one in after.states] == [
        (one.state, one.total_ns) for one in before.states
    ]
    assert not after.notes


def test_every_event_is_one_that_the_format_knows_and_arrows_have_both_ends(trace: Trace, tmp_path: Path) -> None:
    number = write_trace_events(trace, tmp_path / "out.json.gz")

    with gzip.open(tmp_path / "out.json.gz", "rt", encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    arrows = Counter(event["ph"] for event in events)

    assert len(events) == number
    assert set(arrows) <= {"M", "X", "s", "f", "b", "e"}
    assert {event["id"] for event in events if event["ph"] == "s"} == {
        event["id"] for event in events if event["ph"] == "f"
    }
    assert arrows["s"] == arrows["f"] == len(trace.launches), "each launch of this recording has its call"
    named = {event["pid"] for event in events if event["ph"] == "M"}
    assert {event["pid"] for event in events} == named


def test_an_empty_trace_is_a_file_without_events(tmp_path: Path) -> None:
    assert write_trace_events(Trace(), tmp_path / "out.json") == 0
    assert json.loads((tmp_path / "out.json").read_text())["traceEvents"] == []


def test_a_file_that_cannot_be_written_leaves_nothing(trace: Trace, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot be written .*choose another place"):
        write_trace_events(trace, tmp_path / "missing" / "out.json")

    assert list(tmp_path.iterdir()) == []


def test_a_link_and_a_pipe_stay_what_they_are(trace: Trace, tmp_path: Path) -> None:
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    os.mkfifo(tmp_path / "pipe")
    # Opened for both, it blocks neither side, and holds more than the events of this trace.
    reader = os.open(tmp_path / "pipe", os.O_RDWR | os.O_NONBLOCK)
    try:
        fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 1 << 20)
        write_trace_events(trace, tmp_path / "link.json")
        write_trace_events(trace, tmp_path / "pipe")
        written = os.read(reader, 1 << 20)
    finally:
        os.close(reader)

    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "pipe").is_fifo()
    assert written == (tmp_path / "real.json").read_bytes()
    with pytest.raises(UsageError, match=r"cannot be written \(No space left on device\)"):
        write_trace_events(trace, Path("/dev/full"))


def test_the_recording_itself_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recording = tmp_path / RECORDING.name
    recording.write_bytes(RECORDING.read_bytes())

    assert main(["show", str(recording), "--perfetto", str(recording)]) == 2

    assert "is the recording, which would be lost; choose another place" in capsys.readouterr().err
    assert recording.read_bytes() == RECORDING.read_bytes()


def test_no_file_of_a_run_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run-001"
    shutil.copytree(RUN, folder)
    files = {path: path.read_bytes() for path in folder.iterdir()}

    for path in files:
        for recording in (folder, folder / "trace.sqlite.xz"):
            assert main(["show", str(recording), "--perfetto", str(path)]) == 2
            assert "which would be lost; choose another place" in capsys.readouterr().err
    assert main(["show", str(folder), "--perfetto", str(folder / "timeline.json")]) == 0
    assert {path: path.read_bytes() for path in files} == files


def test_the_command_says_where_the_timeline_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(RECORDING), "--perfetto", str(tmp_path / "out.json")]) == 0

    assert "2,581 events; open it in https://ui.perfetto.dev" in capsys.readouterr().out
