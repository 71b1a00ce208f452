"""What limits kernels, and which words the remedy has, on traces of a few lines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_nsight.analysis.bottleneck import Bottleneck, classify
from pytest_nsight.analysis.idle_causes import HOST_GAP_NS, IdleCause
from pytest_nsight.analysis.kernel_mix import KernelMix
from pytest_nsight.analysis.limit_classes import BottleneckClass, RecordedProgram
from pytest_nsight.analysis.picture import analyse
from pytest_nsight.analysis.timeline import DeviceWork
from pytest_nsight.collectors.nsys.read import read
from pytest_nsight.show.page import View, render
from tests.trace.trace_builder import TraceBuilder

MS = 1_000_000


def bottleneck_of(builder: TraceBuilder, folder: Path) -> Bottleneck:
    found = analyse(read(builder.write(folder / "trace.sqlite"))).bottleneck
    assert found is not None
    return found


def h100(multiprocessors: int | None = 114) -> TraceBuilder:
    return TraceBuilder().board("aaaa", "NVIDIA H100", process=100, multiprocessors=multiprocessors)


def test_a_launch_of_one_block_does_not_use_the_device(tmp_path: Path) -> None:
    found = bottleneck_of(h100().launch("matmul_naive", 0, 9 * MS, api_at=0, grid=(1, 1, 1)), tmp_path)

    assert found.limit is BottleneckClass.LATENCY
    assert "100 % in launches with blocks for less than half of the device's multiprocessors" in found.evidence
    assert found.remedy == "launch more blocks: split the work over the whole device"


@pytest.mark.parametrize(
    ("multiprocessors", "grid", "limit"),
    [
        (None, (1, 1, 1), BottleneckClass.COMPUTE),
        (114, (8, 7, 1), BottleneckClass.LATENCY),
        (114, (57, 1, 1), BottleneckClass.COMPUTE),
        (114, (2**31 - 1, 65535, 65535), BottleneckClass.COMPUTE),
        (114, (0, 0, 0), BottleneckClass.COMPUTE),
    ],
    ids=["unknown device", "half empty", "half full", "full", "unknown grid"],
)
def test_blocks_are_compared_with_a_known_number_of_multiprocessors(
    multiprocessors: int | None, grid: tuple[int, int, int], limit: BottleneckClass, tmp_path: Path
) -> None:
    trace = h100(multiprocessors).launch("gemm", 0, 9 * MS, api_at=0, grid=grid)

    assert bottleneck_of(trace, tmp_path).limit is limit


def test_small_launches_that_run_together_fill_the_device(tmp_path: Path) -> None:
    trace = h100()
    for stream in range(4):
        trace.launch("gemm", stream, 9 * MS, api_at=stream, stream=stream, grid=(20, 1, 1))

    assert bottleneck_of(trace, tmp_path).limit is BottleneckClass.COMPUTE


def test_few_blocks_for_less_than_half_of_the_kernel_time_limit_nothing(tmp_path: Path) -> None:
    trace = h100().launch("gemm", 0, 4 * MS, api_at=0).launch("gemm", 4 * MS, 9 * MS, api_at=1, grid=(500, 1, 1))

    assert bottleneck_of(trace, tmp_path).limit is BottleneckClass.COMPUTE


def test_a_board_that_may_be_any_of_several_has_the_number_that_they_share(tmp_path: Path) -> None:
    """An export before 2025 does not say which board a process calls 0."""
    trace = TraceBuilder("2024.2")
    for uuid in ("aaaa", "bbbb"):
        trace.board(uuid, "NVIDIA H100", multiprocessors=114)
    trace.launch("gemm", 0, 9 * MS, api_at=0)

    assert bottleneck_of(trace, tmp_path).limit is BottleneckClass.LATENCY


@pytest.mark.parametrize(("moved_ns", "limit"), [(7 * MS, BottleneckClass.TRANSFER), (MS, BottleneckClass.MEMORY)])
def test_a_kernel_that_waits_for_pages_of_managed_memory_is_a_transfer(
    moved_ns: int, limit: BottleneckClass, tmp_path: Path
) -> None:
    trace = TraceBuilder().launch("reduce_kernel", 0, 10 * MS, api_at=0)
    for number in range(10):
        trace.migration(number * MS, number * MS + moved_ns // 10, 65536)
    found = bottleneck_of(trace, tmp_path)

    assert found.limit is limit
    assert ("70 % while pages of managed memory move" in found.evidence) is (limit is BottleneckClass.TRANSFER)
    assert ("cudaMemPrefetchAsync" in found.remedy) is (limit is BottleneckClass.TRANSFER)


@pytest.mark.parametrize(
    ("copied_ns", "limit"), [(12 * MS, BottleneckClass.TRANSFER), (10 * MS, BottleneckClass.COMPUTE)]
)
def test_kernels_that_hide_behind_longer_copies_are_not_the_limit(
    copied_ns: int, limit: BottleneckClass, tmp_path: Path
) -> None:
    """Kernels run for 10 ms, 8 of them beside a copy: without the kernels the program would take as long."""
    trace = TraceBuilder().launch("gemm", 0, 10 * MS, api_at=0)
    trace.copy(2 * MS, 2 * MS + copied_ns, 1 << 20, api_at=1)
    found = bottleneck_of(trace, tmp_path)

    assert found.limit is limit
    assert ("80 % of what computes runs beside copies" in found.evidence) is (limit is BottleneckClass.TRANSFER)
    assert ("keep the data on the device" in found.remedy) is (limit is BottleneckClass.TRANSFER)


@pytest.mark.parametrize(("is_python", "words"), [(True, ".item()"), (False, "cudaMemcpyAsync")])
def test_waits_for_short_copies_are_no_reason_to_overlap_copies(words: str, *, is_python: bool) -> None:
    """`.item()` copies 4 bytes: the device is idle since the host waits, not since it copies."""
    states = {DeviceWork.KERNEL: 30, DeviceWork.COPY: 5, IdleCause.BLOCKING_COPY: 65}
    found = classify(states, KernelMix(30, 0, {"GEMM": 30}), RecordedProgram(is_python=is_python))

    assert found is not None
    assert (found.limit, found.share) == (BottleneckClass.TRANSFER, 0.7)
    assert words in found.remedy
    assert "overlap copies" not in found.remedy


@pytest.mark.parametrize("kernel_ns", [2 * MS, 30 * MS], ids=["mostly graphs", "mostly kernels"])
def test_graphs_that_are_recorded_whole_are_to_be_recorded_by_nodes(kernel_ns: int, tmp_path: Path) -> None:
    """No category of yours and no counter gives a graph's kernels names: the recording lacks them."""
    trace = TraceBuilder().graph(0, 9 * MS, api_at=0).launch("mine", 10 * MS, 10 * MS + kernel_ns, api_at=1)
    found = bottleneck_of(trace, tmp_path)

    assert found.limit is BottleneckClass.KERNELS
    is_mostly_graphs = kernel_ns < 9 * MS
    assert ("82 % in CUDA graphs that are recorded without their kernels" in found.evidence) is is_mostly_graphs
    assert ("--cuda-graph-trace=node" in found.remedy) is is_mostly_graphs
    assert ("--category" in found.remedy) is not is_mostly_graphs


@pytest.mark.parametrize("kind", ["DtoD", "HtoD"])
def test_copies_from_a_device_to_itself_are_not_to_be_pinned(kind: str, tmp_path: Path) -> None:
    trace = TraceBuilder().copy(0, 9 * MS, 1 << 30, api_at=0, kind=kind).copy(9 * MS, 10 * MS, 64, api_at=1)
    found = bottleneck_of(trace.launch("gemm", 10 * MS, 11 * MS, api_at=2), tmp_path)

    assert found.limit is BottleneckClass.TRANSFER
    assert ("from the device to itself" in found.remedy) is (kind == "DtoD")
    assert ("pin memory" in found.remedy) is (kind == "HtoD")


def test_kernels_that_hide_behind_longer_communication_are_not_the_limit(tmp_path: Path) -> None:
    trace = TraceBuilder().launch("gemm", 0, 10 * MS, api_at=0)
    trace.launch("ncclDevKernel_AllReduce", 4 * MS, 16 * MS, api_at=1, stream=8)
    found = bottleneck_of(trace, tmp_path)

    assert found.limit is BottleneckClass.COMMUNICATION
    assert found.share == 1.0
    assert "60 % of what computes runs beside communication, which takes longer" in found.evidence


def test_kernels_without_a_category_are_not_asserted_to_be_bound_by_memory() -> None:
    found = classify({DeviceWork.KERNEL: 100}, KernelMix(100, 0, {"other": 60, "elementwise": 40}))

    assert found is not None
    assert found.limit is BottleneckClass.KERNELS
    assert "not known from their names" in found.evidence
    for words in ("--nsight-gpu-metrics", "Nsight Compute", "--category"):
        assert words in found.remedy


def test_a_program_without_pytest_reads_counters_with_nsys() -> None:
    mix = KernelMix(100, 0, {"other": 100})
    found = classify({DeviceWork.KERNEL: 100}, mix, RecordedProgram(is_python=False))

    assert found is not None
    assert "nsys profile --gpu-metrics-device=all" in found.remedy
    assert "--nsight-gpu-metrics" not in found.remedy


@pytest.mark.parametrize(
    ("mix", "limit"),
    [
        ({"other": 30, "GEMM": 60, "memory": 10}, BottleneckClass.COMPUTE),
        ({"other": 30, "GEMM": 25, "softmax": 45}, BottleneckClass.MEMORY),
        ({"MoE": 70, "GEMM": 30}, BottleneckClass.KERNELS),
        ({"GEMV": 60, "GEMM": 40}, BottleneckClass.MEMORY),
    ],
)
def test_what_most_of_the_time_is_known_to_need_is_the_limit(mix: dict[str, int], limit: BottleneckClass) -> None:
    found = classify({DeviceWork.KERNEL: 100}, KernelMix(100, 0, mix))

    assert found is not None
    assert found.limit is limit


def test_a_program_of_products_with_vectors_is_limited_by_memory(tmp_path: Path) -> None:
    """As where a language model decodes: each weight is loaded for 2 FLOP."""
    trace = TraceBuilder().launch("void gemvNSP_kernel<float, 1, 32>(cublasGemvParamsEx)", 0, 9 * MS, api_at=0)
    found = bottleneck_of(trace, tmp_path)

    assert found.limit is BottleneckClass.MEMORY
    assert found.remedy.startswith("increase the batch size")


def test_memory_that_is_set_is_no_transfer(tmp_path: Path) -> None:
    """Nothing crosses the bus: the memory of the device limits it."""
    found = bottleneck_of(TraceBuilder().memset(0, 9 * MS, 1 << 30, api_at=0), tmp_path)

    assert found.limit is BottleneckClass.MEMORY
    assert found.evidence == "100.0 % of the wall time: memory is set and nothing else runs 100.0 %"
    assert found.remedy == "set less memory, or set it in the kernel that writes there"


def test_sets_of_memory_are_a_state_behind_kernels_and_copies(tmp_path: Path) -> None:
    trace = TraceBuilder().launch("gemm", 0, 100, api_at=0).copy(50, 300, 64, api_at=1)
    picture = analyse(read(trace.memset(80, 500, 64, api_at=2).write(tmp_path / "trace.sqlite")))

    totals = {one.state: one.total_ns for one in picture.states if one.total_ns}
    assert totals == {DeviceWork.KERNEL: 100, DeviceWork.COPY: 200, DeviceWork.SET: 200}
    assert picture.devices[0].copy_ns == 450


def test_a_range_has_its_own_sets_of_memory(tmp_path: Path) -> None:
    trace = TraceBuilder().range("clear", 0, 10).range("move", 20, 30)
    trace.memset(5, 9 * MS, 64, api_at=5).copy(9 * MS, 10 * MS, 64, api_at=25)
    trace.write(tmp_path / "trace.sqlite")
    clear, move = (analyse(read(tmp_path / "trace.sqlite"), name=name) for name in ("clear", "move"))

    assert clear.bottleneck is not None
    assert move.bottleneck is not None
    assert (clear.bottleneck.limit, move.bottleneck.limit) == (BottleneckClass.MEMORY, BottleneckClass.TRANSFER)


def late(*, domain: str = "", name: str = "solve") -> TraceBuilder:
    """The host works for a long time between two launches."""
    trace = TraceBuilder().range(name, 0, 10, domain=domain).launch("step", 100, 200, api_at=0)
    return trace.launch("step", 20 * HOST_GAP_NS, 20 * HOST_GAP_NS + 100, api_at=20 * HOST_GAP_NS - 10)


def waiting(threads: int, *, launches: bool) -> TraceBuilder:
    """Ten ranges of 9 ms around waits of 8 ms in so many threads, for kernels that were launched before them."""
    trace = TraceBuilder()
    for at in range(0, 10 * 10_000_000, 10_000_000):
        trace.range("item", at + 100_000, at + 9_100_000, domain="")
        for thread in range(threads):
            place = {"stream": 7 + thread, "thread": 100 + thread}
            trace.launch("gemm", at + 10_000, at + 8_000_000, api_at=at + thread, **place)
            trace.call("cudaStreamSynchronize_v3020", at + 110_000, at + 8_110_000, thread=100 + thread)
        if launches:
            trace.copy(at + 8_200_000, at + 8_210_000, 4, api_at=at + 8_150_000, kind="DtoH")
    return trace


@pytest.mark.parametrize("launches", [True, False])
def test_chosen_ranges_that_wait_for_other_work_synchronise(tmp_path: Path, *, launches: bool) -> None:
    picture = analyse(read(waiting(1, launches=launches).write(tmp_path / "a.sqlite")), name="item")

    assert picture.bottleneck is not None
    assert picture.bottleneck.limit is BottleneckClass.SYNCHRONISATION
    assert picture.bottleneck.share == pytest.approx(8 / 9)


def test_ranges_that_wait_while_the_device_does_only_other_work_synchronise(tmp_path: Path) -> None:
    """Other work keeps the device busy before, during and after the wait: no time is the range's own."""
    trace = TraceBuilder().launch("gemm", 0, 9 * MS, api_at=0)
    trace.range("finish", MS, 3 * MS, domain="").call("cudaStreamSynchronize_v3020", MS + 10, 3 * MS - 10)

    found = analyse(read(trace.write(tmp_path / "trace.sqlite")), name="finish").bottleneck

    assert found is not None
    assert found.limit is BottleneckClass.SYNCHRONISATION
    assert found.evidence == "100.0 % of its time: the host waits for work that was launched elsewhere"


def test_ranges_that_do_not_wait_while_the_device_does_only_other_work_have_no_limit(tmp_path: Path) -> None:
    trace = TraceBuilder().launch("gemm", 0, 9 * MS, api_at=0).range("prepare", MS, 3 * MS, domain="")

    assert analyse(read(trace.write(tmp_path / "trace.sqlite")), name="prepare").bottleneck is None


def test_waits_of_several_threads_in_one_range_count_once(tmp_path: Path) -> None:
    picture = analyse(read(waiting(3, launches=True).write(tmp_path / "a.sqlite")))

    (item,) = [one.bottleneck for one in picture.limits if one.label == "item"]
    assert (item.limit, item.share) == (BottleneckClass.SYNCHRONISATION, pytest.approx(8 / 9))


def test_steps_have_a_limit_however_deep_they_are(tmp_path: Path) -> None:
    trace = TraceBuilder().range("main", 0, 1_000_000, domain="").range("epoch", 10, 999_990, domain="")
    for at in range(1000, 901_000, 90_000):
        trace.range("step", at, at + 80_000, domain="").range("layer", at + 10, at + 70_000, domain="")
        trace.range("product", at + 20, at + 60_000, domain="").launch("gemm", at + 50, at + 50_000, api_at=at + 30)

    limits = analyse(read(trace.write(tmp_path / "a.sqlite"))).limits

    assert [one.label for one in limits] == ["main", "epoch", "step", "layer"]


def test_a_program_that_shows_no_python_gets_no_advice_for_python(tmp_path: Path) -> None:
    trace = late()
    trace.definitions["PROCESSES"] = "globalPid INTEGER, pid INTEGER, name TEXT"
    trace.row("PROCESSES", globalPid=1 << 56 | 100 << 24, pid=100, name="/opt/icon/solver")
    trace.row("PROCESSES", globalPid=1 << 56 | 7 << 24, pid=7, name="python3")
    found = bottleneck_of(trace, tmp_path)

    assert found.limit is BottleneckClass.HOST
    assert "idle, host code" in found.evidence
    text = render(read(tmp_path / "trace.sqlite"), 160, View())
    assert "idle: host code" in text
    assert not any(word in text for word in ("Python", "pin_memory", "torch"))


@pytest.mark.parametrize(("tool", "is_advised"), [("PyTorch profiler", False), ("NVIDIA Nsight Systems", True)])
def test_options_of_nsys_are_for_recordings_of_nsys(tool: str, *, is_advised: bool, tmp_path: Path) -> None:
    trace = TraceBuilder().launch("a", 0, 100, api_at=-10).call("cudaLaunchKernel_v7000", 200, 300)
    trace.call("cudaDeviceSynchronize_v3020", 400, 9 * MS).launch("a", 10 * MS, 10 * MS + 1, api_at=9 * MS + 10)

    found = analyse(replace(read(trace.write(tmp_path / "trace.sqlite")), tool=tool)).bottleneck

    assert found is not None
    assert "kernels run that were not recorded" in found.evidence
    assert "let the program wait for the device" in found.remedy
    assert ("--cuda-graph-trace=node" in found.remedy) == is_advised


@pytest.mark.parametrize("evidence", ["process", "thread", "aten", "own domain", "kernel"])
def test_any_sign_of_python_gives_python_s_words(evidence: str, tmp_path: Path) -> None:
    name, domain = ("aten::mm" if evidence == "aten" else "solve"), "pytest_nsight" * (evidence == "own domain")
    trace = late(domain=domain, name=name)
    trace.definitions["PROCESSES"] = "globalPid INTEGER, pid INTEGER, name TEXT"
    trace.definitions["ThreadNames"] = "nameId INTEGER, priority INTEGER, globalTid INTEGER"
    task = 1 << 56 | 100 << 24
    if evidence == "process":
        trace.row("PROCESSES", globalPid=task, pid=100, name="/usr/bin/python3.11")
    if evidence == "thread":
        trace.row("ThreadNames", nameId=trace.string("pt_main_thread"), globalTid=task | 100)
    if evidence == "kernel":
        trace.launch("void at::native::reduce_kernel<512>(int)", 300, 310, api_at=210)
    found = bottleneck_of(trace, tmp_path)

    assert "Python or data loading" in found.evidence
    assert "pin_memory=True" in found.remedy
