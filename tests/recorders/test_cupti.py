"""CUPTI's records from the buffer to the trace, by a stand-in for libcupti that is compiled here."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from pytest_nsight.collectors.base import RecordingOptions
from pytest_nsight.collectors.cupti import availability, cupti_collector
from pytest_nsight.collectors.cupti.cupti_collector import FACTORY, CuptiCollector
from pytest_nsight.model.errors import TraceError
from pytest_nsight.model.trace import Trace
from pytest_nsight.processes.machine import Gpu
from pytest_nsight.recorders.cupti import activity as activities
from pytest_nsight.recorders.cupti import cupti_recorder as recorders
from pytest_nsight.recorders.cupti.activity import ActivityRecorder, list_activities
from pytest_nsight.recorders.cupti.cupti_recorder import CuptiRecorder
from pytest_nsight.recorders.cupti.library import VARIABLE, Cupti, CuptiError
from pytest_nsight.recorders.cupti.recorded_tables import demangle
from pytest_nsight.trace.measures import measure
from tests.collectors.real import environment
from tests.recorders.fake_cupti import ADD, FakeDevice

Body = Callable[[], object]


@contextmanager
def case(recorder: CuptiRecorder) -> Iterator[None]:
    recorder.start()
    try:
        yield
    finally:
        recorder.stop()


def run_round(recorder: CuptiRecorder, device: FakeDevice, body: Body, payload: int = 1) -> None:
    recorder.push("case", payload)
    try:
        body()
        device.synchronize()
    finally:
        recorder.pop()


def record(device: FakeDevice, folder: Path, *bodies: Body) -> Trace:
    """One case with a round of each body, as the collector reads it."""
    recorder = CuptiRecorder(folder)
    with case(recorder):
        for payload, body in enumerate(bodies, 1):
            run_round(recorder, device, body, payload)
    trace = FACTORY.read_kept(folder)
    assert trace is not None
    return trace


def counts(trace: Trace) -> list[int]:
    """Launches of each range, in order of its payload."""
    ranges = measure(trace).ranges.sort_values("id")
    found: list[int] = ranges["launches"].tolist()
    return found


def test_a_kernel_comes_back_as_it_was_launched(device, tmp_path):
    trace = record(device, tmp_path, lambda: device.launch(grid=12, length_ns=3000))

    (row,) = range(len(trace.launches))
    shape = trace.shapes[trace.launches.shape[row]]
    assert (shape.kind, shape.name, shape.full_name) == (
        "kernel",
        "add_kernel",
        "void add_kernel<float>(float*, float*, int)",
    )
    assert (shape.grid, shape.block, shape.registers, shape.shared_bytes) == ((12, 1, 1), (128, 1, 1), 32, 64)
    assert trace.launches.end_ns[row] - trace.launches.start_ns[row] == 3000
    assert trace.launches.stream[row] == 7
    assert (trace.tool, trace.damage, trace.notes) == ("CUPTI 130500", "", ())


def test_launches_belong_to_the_rounds_that_made_them(device, tmp_path):
    recorder = CuptiRecorder(tmp_path)
    device.launch(b"before_the_case")
    with case(recorder):
        device.launch(b"warm_up")
        run_round(recorder, device, lambda: [device.launch() for _ in range(3)], 11)
        device.launch(b"between")
        run_round(recorder, device, device.launch, 12)
    trace = FACTORY.read_kept(tmp_path)

    assert counts(trace) == [3, 1]
    assert measure(trace).ranges["id"].tolist() == [11, 12]
    assert "before_the_case" not in {shape.name for shape in trace.shapes}


def test_copies_sets_and_graphs_are_named_as_in_an_export(device, tmp_path):
    def body() -> None:
        device.copy(1, 4096)
        device.copy_to_peer(512)
        device.set(256)
        device.launch_graph(5)

    trace = record(device, tmp_path, body)

    found = [
        (trace.shapes[shape].full_name, int(moved))
        for shape, moved in zip(trace.launches.shape, trace.launches.bytes_moved, strict=True)
    ]
    assert ("memcpy HtoD (pinned to device)", 4096) in found
    assert ("memcpy PtoP (device to device)", 512) in found
    assert ("memset", 256) in found
    assert sorted(trace.launches.graph_node.tolist())[-5:] == [900, 901, 902, 903, 904]
    assert counts(trace) == [5]
    assert measure(trace).ranges["copies"].tolist() == [3]


def test_a_launch_through_the_runtime_is_one_call(device, tmp_path):
    """The driver's call within it has the correlation of the kernel."""
    trace = record(device, tmp_path, lambda: (device.launch(), device.launch(by_driver=True)))

    order = np.argsort(trace.calls.start_ns)
    names = [trace.strings[number] for number in trace.calls.name[order]]
    assert names == ["cudaLaunchKernel_v7000", "cuLaunchKernelEx", "cudaDeviceSynchronize_v3020"]
    assert counts(trace) == [2]
    assert set(trace.launches.correlation) == set(trace.calls.correlation[order[:2]])


def test_times_on_the_host_are_those_of_its_calls(device, tmp_path):
    ranges = measure(record(device, tmp_path, device.launch)).ranges

    assert ranges["sync_ns"].iloc[0] >= 1000
    assert 0 < ranges["launch_ns"].iloc[0] < ranges["wall_ns"].iloc[0]


def test_a_part_and_calls_of_another_thread_belong_to_the_round(device, tmp_path):
    recorder = CuptiRecorder(tmp_path)

    def body() -> None:
        recorder.push("part", 2)
        device.launch()
        recorder.pop()
        thread = threading.Thread(target=device.launch)
        thread.start()
        thread.join()

    with case(recorder):
        run_round(recorder, device, body, 1)

    trace = FACTORY.read_kept(tmp_path)
    assert counts(trace) == [2, 1]
    assert len(set(trace.calls.thread)) == 2
    assert trace.strings[trace.ranges.name[np.argsort(trace.ranges.payload)[1]]] == "part"


def test_several_cases_become_one_trace(device, tmp_path):
    recorder = CuptiRecorder(tmp_path)
    for payload, name in ((1, b"first"), (2, b"second")):
        with case(recorder):
            run_round(recorder, device, lambda name=name: device.launch(name), payload)

    trace = FACTORY.read_kept(tmp_path)

    assert [path.name for path in sorted(tmp_path.glob("cupti-*"))] == ["cupti-0001.gz", "cupti-0002.gz"]
    kernels = measure(trace).kernels
    assert [trace.shapes[shape].name for shape in kernels["shape"]] == ["first", "second"]


def test_a_case_without_rounds_is_an_empty_record(device, tmp_path):
    trace = record(device, tmp_path)

    assert (len(trace.ranges), len(trace.launches), trace.damage) == (0, 0, "")


TAKEN = r"another profiler has taken CUPTI over \(torch.profiler.*; take it out of the test, or measure with"


def profile_inside(device: FakeDevice) -> None:
    device.start_other_profiler()
    device.launch()
    device.end_other_profiler()


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda device: device.drop(3), r"CUPTI has dropped 6 records because its memory was full; measure fewer"),
        (profile_inside, rf"CUPTI has no record of any call in the last 2 of 2 rounds: {TAKEN}"),
        (
            lambda device: device.set_number("hides_kernels", 1) or device.launch(),
            rf"CUPTI has no kernel of 2 launches \(cudaLaunchKernel_v7000\): {TAKEN}",
        ),
        (
            lambda device: device.set_number("hides_kernels", 1) or device.launch_graph(3),
            r"CUPTI has no kernel of 2 launches of CUDA graphs; instantiate the graph in the test",
        ),
        (
            lambda device: device.set_number("has_no_times", 1) or device.launch(),
            rf"CUPTI could not time 2 launches: {TAKEN}",
        ),
    ],
    ids=["dropped", "other profiler", "no kernels", "no nodes", "no times"],
)
def test_what_is_lost_damages_its_own_case_only(spoil, words, device, tmp_path):
    recorder = CuptiRecorder(tmp_path)
    with case(recorder):
        run_round(recorder, device, device.launch, 1)
    with case(recorder):
        run_round(recorder, device, lambda: spoil(device), 2)
        run_round(recorder, device, lambda: spoil(device), 3)
    device.set_number("hides_kernels", 0)
    device.set_number("has_no_times", 0)
    with case(recorder):
        run_round(recorder, device, device.launch, 4)

    trace = FACTORY.read_kept(tmp_path)

    assert re.match(words, trace.damage)
    assert trace.notes == (trace.damage,)
    assert sorted(trace.ranges.payload) == [1, 4]
    assert counts(trace) == [1, 1]


def test_a_part_between_rounds_needs_no_call(device, tmp_path):
    """A set-up may open one."""
    recorder = CuptiRecorder(tmp_path)
    recorder.push("around the measurement", 1)
    with case(recorder):
        recorder.push("set-up", 2)
        recorder.pop()
        run_round(recorder, device, device.launch, 3)
    recorder.pop()

    trace = FACTORY.read_kept(tmp_path)

    assert trace.damage == ""
    assert counts(trace) == [0, 1]


def test_what_cannot_be_collected_damages_the_case_and_hides_no_error_of_the_test(device, tmp_path, monkeypatch):
    recorder = CuptiRecorder(tmp_path)

    def refuse():
        raise CuptiError("cuptiActivityFlushAll: CUPTI_ERROR_UNKNOWN (999)")

    recorder.start()
    monkeypatch.setattr(recorder._activity, "_flush", refuse)
    with pytest.raises(ZeroDivisionError):
        run_round(recorder, device, lambda: 1 / 0)
    recorder.stop()

    assert FACTORY.read_kept(tmp_path).damage == (
        "its records cannot be collected: cuptiActivityFlushAll: CUPTI_ERROR_UNKNOWN (999); measure it again"
    )


@pytest.mark.slow
def test_calls_after_the_interpreters_end_need_no_buffer(device, tmp_path):
    """The library calls CUDA in a destructor, as torch does."""
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from pytest_nsight.collectors.cupti.cupti_collector import FACTORY\n"
        "from tests.recorders.fake_cupti import FakeDevice\n"
        f"device = FakeDevice(Path({str(device.path)!r}))\n"
        f"recorder = FACTORY.make_recorder(Path({str(tmp_path)!r}))\n"
        "recorder.start()\n"
        "recorder.push('case', 1); device.launch(); device.synchronize(); recorder.pop()\n"
        "recorder.stop()\n"
    )
    environ = environment(FAKE_CUPTI_CALLS_AT_EXIT="1")
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "called at exit, 0 enabled\n")


def test_a_profiler_around_a_whole_case_loses_nothing(device, tmp_path):
    """It is there before the case begins, so the case takes the records over."""
    recorder = CuptiRecorder(tmp_path)
    device.start_other_profiler()
    device.launch()
    with case(recorder):
        run_round(recorder, device, device.launch)

    assert counts(FACTORY.read_kept(tmp_path)) == [1]


@pytest.mark.parametrize("quiet", ["launch_and_fail", "launch_into_capture"])
def test_a_launch_that_must_not_run_is_not_lost(quiet, device, tmp_path):
    trace = record(device, tmp_path, getattr(device, quiet))

    assert (trace.damage, counts(trace)) == ("", [0])


def test_many_launches_need_no_more_memory_than_some_rounds(device, tmp_path, monkeypatch):
    """100 rounds of 200 launches, in buffers for about 10 rounds: never more than two buffers."""
    monkeypatch.setattr(activities, "BUFFER_BYTES", 1 << 20)
    monkeypatch.setattr(recorders, "_FULL", 1 << 18)
    recorder = CuptiRecorder(tmp_path)
    with case(recorder):
        for payload in range(1, 101):
            run_round(recorder, device, lambda: [device.launch(by_driver=True) for _ in range(20)], payload)

    assert counts(FACTORY.read_kept(tmp_path)) == [20] * 100
    assert len(recorder._activity._buffers) <= 2


@pytest.mark.slow
def test_a_round_larger_than_a_buffer_is_whole(device, tmp_path):
    device.limit_buffers(4000)

    trace = record(device, tmp_path, lambda: [device.launch() for _ in range(100)])

    assert counts(trace) == [100]
    assert device.number("buffers_requested") > 5


def test_between_cases_nothing_is_kept(device, tmp_path):
    device.limit_buffers(4000)
    recorder = CuptiRecorder(tmp_path)
    for _ in range(200):
        device.launch()

    assert recorder._activity._completed == []
    assert len(recorder._activity._buffers) <= 3


def test_a_buffer_of_another_tool_is_left_alone(device, tmp_path):
    recorder = ActivityRecorder(Cupti())

    recorder._take_buffer(0, 0, 4096, 64, 64)

    assert (recorder._completed, recorder._spare) == ([], [])


@pytest.mark.parametrize(
    ("mangled", "text"),
    [
        ("_Z5scalePff", "scale(float*, float)"),
        (ADD.decode(), "void add_kernel<float>(float*, float*, int)"),
        ("triton_poi_fused_add_0", "triton_poi_fused_add_0"),
        ("_Zbroken", "_Zbroken"),
        ("", ""),
    ],
)
def test_names_are_demangled_as_cpp_has_them(mangled, text):
    assert demangle(mangled) == text


@pytest.mark.slow
def test_a_worker_gets_the_library_that_was_tried(device, tmp_path, monkeypatch):
    found = availability.find_working()
    started = {}
    monkeypatch.setattr(cupti_collector, "start", lambda *arguments: started.update(arguments[3]))

    CuptiCollector(found).start(("x",), tmp_path, tmp_path, {"A": "1"})

    assert (found.path, found.version) == (str(device.path), 130500)
    assert started == {"A": "1", VARIABLE: str(device.path), "TEARDOWN_CUPTI": "0"}


@pytest.mark.slow
def test_a_cupti_that_refuses_is_named_with_its_reason_and_a_remedy(device, monkeypatch):
    monkeypatch.setenv("FAKE_CUPTI_REFUSES", "1")

    with pytest.raises(CuptiError) as caught:
        availability.find_working()

    assert re.fullmatch(
        rf"no CUPTI can record here \({device.path}: cuptiActivityEnable: CUPTI_ERROR_NOT_COMPATIBLE \(40\)\); "
        r"install .* or set CUPTI_LIBRARY to its path",
        str(caught.value),
    )


@pytest.mark.slow
def test_a_library_that_is_none_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "no.so"))

    with pytest.raises(CuptiError, match=r"no CUPTI can record here \(.*no.so: .*cannot open shared object"):
        availability.find_working()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (RecordingOptions(gpu_metrics=True), "--nsight-gpu-metrics needs Nsight Systems"),
        (RecordingOptions(user_ranges=True), "--nsight-user-ranges needs Nsight Systems"),
        (RecordingOptions(keep_report=True), "--nsight-keep-report needs Nsight Systems"),
    ],
)
def test_what_it_does_not_record_is_refused(options, words, monkeypatch):
    monkeypatch.setattr(cupti_collector, "gpu_names", lambda: ("NVIDIA H200",))

    with pytest.raises(CuptiError, match=words):
        FACTORY.make_collector(options)


def test_without_a_gpu_it_is_refused():
    with pytest.raises(CuptiError, match="needs a CUDA device"):
        FACTORY.make_collector(RecordingOptions())


@pytest.mark.slow
def test_nothing_recorded_is_an_error_and_nothing_stays_but_what_is_kept(device, tmp_path, monkeypatch):
    collector = CuptiCollector(availability.find_working())
    with pytest.raises(TraceError, match=r"CUPTI left no trace in .*, where it writes one at the end"):
        collector.collect(tmp_path)
    record(device, tmp_path, device.launch)

    collector.tidy(tmp_path, keep=True)
    assert len(collector.collect(tmp_path).launches) == 1
    collector.tidy(tmp_path, keep=False)
    assert list(tmp_path.glob("cupti-*")) == []


def test_boards_are_those_of_the_driver(monkeypatch):
    from pytest_nsight.recorders.cupti import boards  # noqa: PLC0415

    class Driver:
        """An H200 by its attributes."""

        def cuDeviceGet(self, device, ordinal):  # noqa: N802 - CUDA's
            device._obj.value = 40 + ordinal
            return 0

        def cuDeviceGetAttribute(self, value, number, device):  # noqa: N802
            known = {16: 132, 36: 3201000, 37: 6016, 39: 2048, 10: 32, 106: 32, 82: 65536, 81: 233472, 75: 9, 76: 0}
            assert device.value == 40
            value._obj.value = known[number]
            return 0

    monkeypatch.setattr(boards, "gpus", lambda: (Gpu("NVIDIA H200", "GPU-1"),))
    monkeypatch.setattr(boards.ctypes, "CDLL", lambda name: Driver())

    (board,) = boards.read_boards(7)

    # As Nsight Systems has them of this board in tests/data/recordings.
    assert board.bytes_per_s == 4814304000000
    assert (board.limits.warps, board.limits.blocks, board.limits.registers) == (64, 32, 65536)
    assert (board.limits.shared_bytes, board.limits.capability) == (233472, (9, 0))
    assert (board.process, board.ordinal, board.uuid, board.name) == (7, 0, "GPU-1", "NVIDIA H200")
    assert board.multiprocessors == 132


def test_records_one_by_one_are_those_of_the_buffer(device):
    recorder = ActivityRecorder(Cupti())
    recorder.start()
    device.launch(grid=4, length_ns=250)
    device.copy(1, 64)

    kernel, copy = list_activities(recorder.collect())
    recorder.disable()

    assert (kernel.kind, kernel.name, kernel.end_ns - kernel.start_ns) == ("kernel", ADD.decode(), 250)
    assert (kernel.grid, kernel.block, kernel.shared_bytes) == ((4, 1, 1), (128, 1, 1), 48)
    assert (kernel.stream, kernel.graph_node, kernel.registers, kernel.cluster) == (7, 0, 32, (2, 0, 0))
    assert (copy.kind, copy.name, copy.bytes_moved, copy.is_on_device) == ("copy", "1", 64, True)
    device.launch()
    assert recorder.collect() == {}


def test_of_calls_those_in_some_times_and_those_that_the_device_works_for_are_listed(device):
    recorder = ActivityRecorder(Cupti())
    recorder.start(recorders.KINDS)
    device.synchronize()
    device.launch()
    for _ in range(3):
        device.synchronize()
    records = recorder.collect()
    recorder.disable()

    calls = [one for one in list_activities(records) if not one.is_on_device]
    (kernel,) = [one for one in list_activities(records) if one.is_on_device]
    (launch,) = [one for one in calls if one.correlation == kernel.correlation]
    second, third, fourth = calls[-3:]
    assert len(calls) > 4

    found = list_activities(records, [(second.start_ns, third.start_ns), (fourth.start_ns, fourth.end_ns)])
    assert [one for one in found if not one.is_on_device] == [launch, second, fourth]
    assert set(list_activities(records, [])) == {launch, kernel}
