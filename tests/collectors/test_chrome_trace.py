"""Traces of the PyTorch profiler: a written one field by field, a real one of this machine, and hostile ones."""

from __future__ import annotations

import gzip
import json
import lzma
import re
from pathlib import Path
from typing import Any

import pytest

from pytest_nsight.analysis.picture import analyse
from pytest_nsight.cli import main
from pytest_nsight.collectors.open_recording import load_trace
from pytest_nsight.model.errors import TraceError
from pytest_nsight.show.trace_events import write_trace_events

H100 = {
    "id": 0, "name": "NVIDIA H100", "computeMajor": 9, "computeMinor": 0, "maxThreadsPerMultiprocessor": 2048,
    "regsPerMultiprocessor": 65536, "sharedMemPerMultiprocessor": 233472,
}  # fmt: skip


def event(cat: str, name: str, ts: float, dur: float, **more: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "pid": 11, "tid": 11, **more}


def document() -> dict[str, Any]:
    """A step with a product and a copy; the profiler counts microseconds."""
    launch = {"correlation": 1}
    kernel = {
        "device": 0, "stream": 7, "correlation": 1, "grid": [4, 1, 1], "block": [256, 1, 1],
        "registers per thread": 32, "shared memory": 0,
    }  # fmt: skip
    copy = {"device": 0, "stream": 7, "correlation": 2, "bytes": 4096}
    return {
        "schemaVersion": 1,
        "baseTimeNanoseconds": 1_700_000_000_000_000_000,
        "deviceProperties": [H100],
        "traceEvents": [
            {"ph": "M", "name": "process_name", "pid": 11, "args": {"name": "python"}},
            event("user_annotation", "step", 0, 100),
            event("cpu_op", "aten::mm", 5, 20),
            event("cuda_runtime", "cudaLaunchKernel", 10, 5.5, args=launch),
            event("cuda_runtime", "cudaMemcpyAsync", 40, 5, args={"correlation": 2}),
            event("cuda_runtime", "cudaDeviceSynchronize", 60, 30, args={"correlation": 3}),
            {"ph": "s", "id": 1, "cat": "ac2g", "name": "ac2g", "ts": 10, "pid": 11, "tid": 11},
            event("kernel", "gemm_kernel", 20, 30.25, pid=0, tid=7, args=kernel),
            event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 50.25, 10, pid=0, tid=7, args=copy),
            event("python_function", "train.py(3): step", 0, 100),
        ],
    }


def write(folder: Path, content: object, name: str = "trace.json") -> Path:
    path = folder / name
    text = json.dumps(content)
    packers = {".gz": gzip.compress, ".xz": lzma.compress}
    path.write_bytes(packers.get(path.suffix.lower(), bytes)(text.encode()))
    return path


@pytest.mark.parametrize(
    "name",
    ["trace.json", "trace.json.gz", "TRACE.JSON.GZ", "trace.txt", "trace", "trace.json.xz", "trace.nsys-rep"],
)
def test_all_that_the_format_carries_is_in_the_trace(tmp_path: Path, name: str) -> None:
    trace = load_trace(write(tmp_path, document(), name))
    picture = analyse(trace)

    assert [(one.path, one.kernel_ns, one.copy_ns, one.sync_ns) for one in picture.ranges] == [
        (("step",), 30_250, 10_000, 30_000),
        (("step", "aten::mm"), 30_250, 0, 0),
    ]
    (kernel,) = picture.kernels
    assert (kernel.name, kernel.category, kernel.total_ns) == ("gemm_kernel", "GEMM", 30_250)
    assert [one.ratio for one in kernel.shapes[0].occupancies] == [1.0]
    (copy,) = picture.copies
    assert (copy.name, copy.memory, copy.bytes_moved, copy.is_pinned) == (
        "memcpy HtoD",
        "pinned to device",
        4096,
        True,
    )
    (device,) = picture.devices
    assert (device.device.name, device.wall_ns, device.idle_ns) == ("NVIDIA H100", 40_250, 0)
    assert {one.name for one in picture.calls} == {"cudaLaunchKernel", "cudaMemcpyAsync", "cudaDeviceSynchronize"}
    assert trace.epoch_ns == 1_700_000_000_000_000_000


@pytest.mark.parametrize("lost", ["registers per thread", "shared memory"])
def test_a_kernel_without_its_resources_has_no_occupancy(tmp_path: Path, lost: str) -> None:
    """Neither in the trace nor in what --perfetto makes of it."""
    content = document()
    (kernel,) = [one for one in content["traceEvents"] if one.get("cat") == "kernel"]
    whole = analyse(load_trace(write(tmp_path, content))).kernels[0].shapes[0]
    del kernel["args"][lost]
    trace = load_trace(write(tmp_path, content))
    write_trace_events(trace, tmp_path / "again.json")

    assert whole.occupancies
    for one in (trace, load_trace(tmp_path / "again.json")):
        (shape,) = analyse(one).kernels[0].shapes
        assert not shape.occupancies
        assert (shape.registers is None) == (lost == "registers per thread")
        assert (shape.shared_bytes is None) == (lost == "shared memory")


def test_a_mark_of_utf_8_before_the_text_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(document()), encoding="utf-8-sig")

    assert len(load_trace(path).launches) == 2


def test_handles_of_rocm_and_arguments_of_operators_do_no_harm(tmp_path: Path) -> None:
    """An operator's own argument may be called grid; ROCm writes streams in hexadecimal."""
    arguments = {"stream": "0x1f", "correlation": 1, "device": 0, "grid": [1, 1, 1], "block": [64, 1, 1]}
    events = [
        event("cpu_op", "triton_kernel", 5, 20, args={"grid": "grid(100,)", "stream": 0}),
        event("cuda_runtime", "hipLaunchKernel", 10, 5, args={"correlation": 1}),
        event("kernel", "gemm_kernel", 20, 30, args=arguments),
    ]
    trace = load_trace(write(tmp_path, {"traceEvents": events}))

    assert trace.launches.stream.tolist() == [31]
    assert [(one.path, one.kernel_ns) for one in analyse(trace).ranges] == [(("triton_kernel",), 30_000)]


def test_numbers_written_as_text_are_numbers(tmp_path: Path) -> None:
    """Kineto for ROCm writes the size of a copy as text."""
    copy = {"stream": "3", "correlation": "2", "device": "0", "bytes": "4096"}
    events = [
        event("cuda_runtime", "hipMemcpyAsync", 10, 5, args={"correlation": 2}),
        event("gpu_memcpy", "Memcpy HtoD (Host -> Device)", "20.5", "30", args=copy),
    ]
    trace = load_trace(write(tmp_path, {"traceEvents": events}))

    assert (trace.launches.bytes_moved.tolist(), trace.launches.stream.tolist()) == ([4096], [3])
    assert (trace.launches.end_ns - trace.launches.start_ns).tolist() == [30_000]


@pytest.mark.parametrize("vendor", ["cuda", "xpu", "mtia", "privateuse1"])
def test_calls_of_every_vendor_place_their_launches(tmp_path: Path, vendor: str) -> None:
    events = [
        event("cpu_op", "aten::mm", 5, 20),
        event(f"{vendor}_runtime", "launch", 10, 5, args={"correlation": 1}),
        event(f"{vendor}_driver", "launchDirectly", 16, 5, args={"correlation": 2}),
        *(event("kernel", "gemm", 20 * link, 10, args={"correlation": link, "device": 0}) for link in (1, 2)),
    ]
    picture = analyse(load_trace(write(tmp_path, {"traceEvents": events})))

    assert [(one.path, one.kernel_ns) for one in picture.ranges] == [(("aten::mm",), 20_000)]
    assert {one.name for one in picture.calls} == {"launch", "launchDirectly"}
    assert not picture.notes


def test_boards_are_those_of_the_process(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = document()
    content["deviceProperties"] = [{**H100, "id": number} for number in range(8)]
    for one in content["traceEvents"]:
        if one.get("cat") == "kernel":
            one["args"]["device"] = 3
    path = write(tmp_path, content)

    assert [(one.device.ordinal, one.device.name) for one in analyse(load_trace(path)).devices] == [
        (0, "NVIDIA H100"),
        (3, "NVIDIA H100"),
    ]
    assert main(["show", str(path)]) == 0
    text = capsys.readouterr().out
    assert "device 0: NVIDIA H100\ndevice 3: NVIDIA H100\n" in text
    assert "3 NVIDIA H100 " in text
    assert "(process" not in text


def test_times_since_1970_lose_no_nanoseconds(tmp_path: Path) -> None:
    events = [
        event("kernel", "gemm_kernel", 1_690_000_000_000_001 + 20 * at, 7, args={"device": 0}) for at in range(9)
    ]
    trace = load_trace(write(tmp_path, {"traceEvents": events}))

    assert set((trace.launches.end_ns - trace.launches.start_ns).tolist()) == {7000}
    assert trace.epoch_ns == 1_690_000_000_000_001_000


def test_the_first_versions_of_kineto_are_read(tmp_path: Path) -> None:
    events = [
        event("Operator", "aten::mm", 5, 20),
        event("Runtime", "cudaLaunchKernel", 10, 5, args={"correlation": 1}),
        event("Kernel", "gemm_kernel", 20, 30, args={"correlation": 1, "device": 0, "stream": 7}),
    ]
    picture = analyse(load_trace(write(tmp_path, events)))

    assert [(one.path, one.kernel_ns) for one in picture.ranges] == [(("aten::mm",), 30_000)]


def test_threads_and_boards_of_the_first_versions_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """torch 1.8 wrote threads as text, streams in their place, and the boards under another name."""
    events = [
        event("Operator", "aten::mm", 5, 20, tid="24610"),
        event("Runtime", "cudaLaunchKernel", 10, 5, tid="24610", args={"correlation": 1}),
        event("Kernel", "gemm_kernel", 20, 30, tid="stream 7", pid=0, args={"correlation": 1, "device": 0}),
    ]
    boards = [{"id": 0, "name": "Tesla V100"}]
    named = write(tmp_path, {"computeProperties": boards, "traceEvents": events})
    unnamed = write(tmp_path, {"traceEvents": events}, "unnamed.json")
    trace = load_trace(named)

    assert set(trace.ranges.thread.tolist()) == {24610}
    assert [(one.path, one.kernel_ns) for one in analyse(trace).ranges] == [(("aten::mm",), 30_000)]
    assert [one.device.name for one in analyse(trace).devices] == ["Tesla V100"]
    assert main(["show", str(unnamed)]) == 0
    assert "None" not in capsys.readouterr().out


def test_a_trace_without_a_gpu_shows_operators(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, {"traceEvents": [event("cpu_op", "aten::softmax", 5, 20)]})

    assert main(["show", str(path)]) == 0
    assert "Operators: 1 call, 20.0 us" in capsys.readouterr().out


def test_a_trace_without_a_gpu_has_none_in_any_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = [event("cpu_op", "aten::mm", 100 * number, 50) for number in range(9)]
    path = write(tmp_path, {"traceEvents": [event("user_annotation", "step", 0, 900), *events]})

    assert main(["show", "--json", str(path)]) == 0
    tables = json.loads(capsys.readouterr().out)
    empty = ("devices", "states", "bottlenecks", "sequences", "critical_path")
    assert [tables[name] for name in empty] == [[]] * len(empty)
    assert [(one["name"], one["calls"]) for one in tables["kernels"]] == [("mm", 9)]
    assert main(["show", "--csv", "bottlenecks", str(path)]) == 0
    assert capsys.readouterr().out == "range,limit,share,evidence,remedy\n"


def test_a_trace_without_a_gpu_is_shown_by_what_there_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = (
        write(
            tmp_path,
            {"traceEvents": [event("cpu_op", name, 100, 50), event("cpu_op", "aten::mm", 0, length)]},
            file,
        )
        for name, length, file in (("aten::relu", 20, "a.json"), ("aten::gelu", 40, "b.json"))
    )
    with_device = write(tmp_path, document(), "device.json")

    assert main(["compare", str(one), str(other)]) == 1
    text = capsys.readouterr().out.partition("Whole recording")[2]
    assert not re.search("kernel|GPU|Device|copy|launch", text, re.IGNORECASE)
    assert re.search(r"operator time +70\.0 us +90\.0 us", text)
    assert re.search(r"wall time +150 us +150 us", text)
    assert "operators gained: gelu" in text
    assert main(["compare", str(one), str(with_device)]) == 2
    assert "holds operators of a CPU" in capsys.readouterr().err


def test_a_length_below_zero_counts_as_none(tmp_path: Path) -> None:
    content = document()
    content["traceEvents"].append(event("cpu_op", "aten::wrong", 30, -0.001))
    trace = load_trace(write(tmp_path, content))

    assert trace.notes == ("1 event ends before it starts; its length counts as 0",)
    assert {one.path: one.kernel_ns for one in analyse(trace).ranges}["step",] == 30_250


def test_a_length_that_is_missing_counts_as_none_and_is_noted(tmp_path: Path) -> None:
    content = document()
    for one in content["traceEvents"]:
        if one.get("cat") in ("kernel", "cuda_runtime"):
            del one["dur"]
    (note,) = load_trace(write(tmp_path, content)).notes

    assert note.startswith("4 events have no length (dur), such as the kernel gemm_kernel; it counts as 0, and ")


def test_kernels_that_lost_their_times_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """pytorch/kineto#109; the other events count from 1970."""
    content = document()
    for one in content["traceEvents"]:
        one["ts"] = one.get("ts", 0) + 1_610_366_000_000_000
    content["traceEvents"] += [event("kernel", f"lost_{number}", 0, 0, args={"device": 0}) for number in range(2)]
    del content["traceEvents"][-1]["dur"]
    path = write(tmp_path, content)

    assert load_trace(path).notes[0].startswith("2 kernels, copies or sets have the time 0 and no length")
    assert main(["show", str(path)]) == 0
    text = capsys.readouterr().out
    assert "over 100 us" in text
    assert "pytorch/kineto#109" in text
    assert "lost_" not in text


def test_launches_without_kernels_are_told(tmp_path: Path) -> None:
    content = document()
    content["traceEvents"] = [one for one in content["traceEvents"] if one.get("pid") != 0]
    (note,) = load_trace(write(tmp_path, content)).notes

    assert note.startswith("the trace holds 1 launch and no kernel: ")
    assert "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]" in note
    assert not load_trace(write(tmp_path, document())).notes


@pytest.mark.parametrize(
    "call", ["urEnqueueKernelLaunch", "zeCommandListAppendLaunchKernel", "piEnqueueKernelLaunch"]
)
def test_a_trace_of_an_intel_gpu_is_told_to_be_unsupported(tmp_path: Path, call: str) -> None:
    content = document()
    for one in content["traceEvents"]:
        if one.get("cat") == "cuda_runtime":
            one["cat"] = "xpu_runtime"
            one["name"] = {"cudaLaunchKernel": call, "cudaDeviceSynchronize": "urQueueFinish"}.get(
                one["name"], "urEnqueueUSMMemcpy"
            )
    (note,) = load_trace(write(tmp_path, content)).notes

    assert note.startswith("the trace is of an Intel GPU (it calls ")
    assert "does not support: calls that wait for it, such as urQueueFinish, are not recognised" in note
    assert note.endswith("use the times of kernels and copies only")


def test_idle_time_without_a_cause_gets_the_advice_of_the_profiler(tmp_path: Path) -> None:
    kernels = [event("kernel", "gemm", at, 10, pid=0, args={"device": 0}) for at in (0, 1000)]
    found = analyse(load_trace(write(tmp_path, {"schemaVersion": 1, "traceEvents": kernels}))).bottleneck

    assert found is not None
    assert found.limit.value == "unknown"
    assert "ProfilerActivity.CUDA" in found.remedy
    assert "--trace" not in found.remedy


@pytest.mark.slow
def test_a_real_trace_of_this_machine_is_shown(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    profile, name = torch.profiler.profile, torch.profiler.record_function
    with profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler, name("forward"):
        torch.mm(torch.ones(8, 8), torch.ones(8, 8))
    path = tmp_path / "trace.json.gz"
    profiler.export_chrome_trace(str(path))
    picture = analyse(load_trace(path))

    assert ("forward", "aten::mm") in {one.path for one in picture.ranges}
    assert "GEMM" in {one.category for one in picture.categories}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"{", "cannot be read"),
        (b"\x1f\x8bnot gzip", "cannot be read"),
        (b"[" * 100_000, "cannot be read"),
        (b'{"traceEvents": [{"ph": "X", "cat": "kernel", "name": 3, "ts": 1}]}', "name"),
        (b'{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": "soon"}]}', "ts"),
        (b'{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": -Infinity}]}', "dur"),
        (b'{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": NaN}]}', "ts"),
        (
            b'{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "k", "ts": 1, "pid": 9999999999999999999}]}',
            "pid",
        ),
    ],
)
def test_what_is_no_trace_is_one_sentence(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=words) as caught:
        load_trace(path)

    assert str(path) in str(caught.value)
    assert "export it again" in str(caught.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{}", "no list of traceEvents"),
        (b'"text"', "no list of traceEvents"),
        (b'{"traceEvents": 7}', "no list of traceEvents"),
        (b'{"traceEvents": []}', "nothing that it lists"),
        (b'{"traceEvents": [3, null, {"ph": "X"}]}', "nothing that it lists"),
        (b'[{"file": "rank0.json", "mode": "FULL"}]', "nothing that it lists"),
        (b'{"schema": "1.1.0-chakra.0.0.4", "pid": 3, "nodes": []}', "an execution trace of PyTorch"),
        (b'{"rocprofiler-sdk-tool": []}', "rocprofiler-sdk wrote it"),
    ],
)
def test_what_another_tool_wrote_need_not_be_exported_again(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "other.json"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=words) as caught:
        load_trace(path)

    assert f"{path} is no trace of the PyTorch profiler: " in str(caught.value)
    assert "again" not in str(caught.value)


def test_a_trace_of_the_profiler_without_operators_says_how_to_record(tmp_path: Path) -> None:
    events = [event("python_function", "train.py(3): step", 0, 100)]
    with pytest.raises(TraceError, match=r"record with `activities=\[ProfilerActivity.CPU"):
        load_trace(write(tmp_path, {"schemaVersion": 1, "traceEvents": events}))


@pytest.mark.parametrize("name", ["a.json", "a.json.gz", "a.sqlite", "a.sqlite.xz", "a.nsys-rep", "a.qdrep"])
def test_a_pointer_of_git_lfs_is_told(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / name
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 7\n", encoding="utf-8")

    assert (main(["show", str(path)]), main(["compare", str(path), str(path)])) == (2, 2)
    for line in capsys.readouterr().err.splitlines():
        assert f"{path} is a git LFS pointer" in line
        assert "`git lfs pull`" in line
