"""Each cause of idle time, and each bottleneck, on a trace of a few lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_nsight.analysis.bottleneck import classify
from pytest_nsight.analysis.idle_causes import HOST_GAP_NS, IdleCause
from pytest_nsight.analysis.kernel_mix import KernelMix
from pytest_nsight.analysis.limit_classes import BottleneckClass
from pytest_nsight.analysis.picture import Picture, analyse
from pytest_nsight.analysis.timeline import DeviceWork
from pytest_nsight.collectors.nsys.read import read
from pytest_nsight.trace.unattributed import UnattributedReason
from tests.trace.trace_builder import TraceBuilder

LONG = 10 * HOST_GAP_NS


def picture_of(builder: TraceBuilder, folder: Path) -> Picture:
    return analyse(read(builder.write(folder / "trace.sqlite")))


def causes(picture: Picture) -> dict[object, int]:
    return {one.state: one.total_ns for one in picture.states if one.total_ns}


def test_a_launch_that_was_queued_before_the_gap(tmp_path: Path) -> None:
    trace = TraceBuilder().launch("a", 100, 200, api_at=0).launch("b", 250, 300, api_at=10)

    assert causes(picture_of(trace, tmp_path)) == {DeviceWork.KERNEL: 150, IdleCause.QUEUED: 50}


@pytest.mark.parametrize(
    ("length_ns", "cause"), [(500, IdleCause.LAUNCH), (LONG + 500, IdleCause.LOADING)], ids=["short", "long"]
)
def test_a_launch_whose_call_returned_in_the_gap_was_not_queued(
    tmp_path: Path, length_ns: int, cause: IdleCause
) -> None:
    """A call that began while the device still worked may load a kernel for seconds."""
    trace = TraceBuilder().launch("a", 100, 200, api_at=0)
    trace.launch("b", length_ns + 100, length_ns + 150, api_at=150, api_ns=length_ns - 100)

    assert causes(picture_of(trace, tmp_path)) == {DeviceWork.KERNEL: 150, cause: length_ns - 100}


def test_a_host_that_comes_late_without_waiting_is_launching(tmp_path: Path) -> None:
    trace = TraceBuilder().launch("a", 100, 200, api_at=0).launch("b", 900, 950, api_at=800)

    assert causes(picture_of(trace, tmp_path)) == {DeviceWork.KERNEL: 150, IdleCause.LAUNCH: 700}


@pytest.mark.parametrize(("kernel_ns", "waited_ns"), [(100, 210), (590, 700), (5000, 700)])
def test_a_wait_costs_as_much_of_a_gap_as_it_lasted(kernel_ns: int, waited_ns: int, tmp_path: Path) -> None:
    """Without it the launch that ends the gap would come that much earlier."""
    end = 100 + kernel_ns
    trace = TraceBuilder().launch("a", 100, end, api_at=0).call("cudaStreamSynchronize_v3020", 50, end + 60)
    trace.launch("b", end + 700, end + 750, api_at=end + 600)

    expected = {DeviceWork.KERNEL: kernel_ns + 50, IdleCause.SYNCHRONISATION: waited_ns}
    if waited_ns < 700:
        expected[IdleCause.LAUNCH] = 700 - waited_ns
    assert causes(picture_of(trace, tmp_path)) == expected


def test_two_waits_in_a_row_cost_what_both_lasted(tmp_path: Path) -> None:
    """One that lasts until the device is done, and one that finds it done."""
    trace = TraceBuilder().launch("a", 100, 600, api_at=0).call("cudaEventSynchronize_v3020", 50, 610)
    trace.call("cudaStreamSynchronize_v3020", 620, 630).launch("b", 1300, 1350, api_at=1200)

    assert causes(picture_of(trace, tmp_path)) == {
        DeviceWork.KERNEL: 550,
        IdleCause.SYNCHRONISATION: 570,
        IdleCause.LAUNCH: 130,
    }


@pytest.mark.parametrize("pause_ns", [100, HOST_GAP_NS], ids=["short pauses", "long pauses"])
def test_a_thread_that_serves_another_device_waits_and_runs_no_python(pause_ns: int, tmp_path: Path) -> None:
    """Between two kernels of the first device it launches on the second one, and waits for it, five times."""
    trace = TraceBuilder().launch("a", 10, 100, api_at=0).call("cudaStreamSynchronize_v3020", 5, 110)
    at = 110
    for _ in range(5):
        at += pause_ns
        trace.launch("other", at + 10, at + 10 * LONG, api_at=at, device=1)
        trace.call("cudaStreamSynchronize_v3020", at + 5, at + 10 * LONG + 5)
        at += 10 * LONG + 5
    trace.launch("b", at + pause_ns + 10, at + pause_ns + 110, api_at=at + pause_ns)

    found = causes(picture_of(trace, tmp_path))
    # The second device waits as well, in each pause of the host.
    assert 50 * LONG <= found[IdleCause.SYNCHRONISATION] <= 50 * LONG + 4 * pause_ns + 2_000
    assert found.get(IdleCause.HOST, 0) == pytest.approx(0 if pause_ns == 100 else 6 * pause_ns, abs=2_000)


@pytest.mark.parametrize("call", ["cudaGraphLaunch_v10000", "cudaLaunchKernel_v7000"])
def test_idle_time_after_a_launch_that_left_no_kernel_is_unrecorded(call: str, tmp_path: Path) -> None:
    """As of a CUDA graph in an export of nsys 2023: until the process has waited, the device may have run it."""
    trace = TraceBuilder().launch("a", 10, 100, api_at=0).call(call, 300, 310)
    trace.call("cudaStreamSynchronize_v3020", 320, 9_000).launch("b", 9_600, 9_700, api_at=9_500)
    picture = picture_of(trace, tmp_path)

    assert causes(picture)[IdleCause.UNRECORDED] == 9_000 - 300
    assert picture.bottleneck is not None
    assert picture.bottleneck.limit is BottleneckClass.UNKNOWN
    assert "--cuda-graph-trace=node" in picture.bottleneck.remedy


def test_unrecorded_work_has_ended_when_recorded_work_begins(tmp_path: Path) -> None:
    """Nothing waits for the graph; the next kernel of the device comes behind it."""
    trace = TraceBuilder().launch("a", 10, 100, api_at=0).call("cudaGraphLaunch_v10000", 50, 60)
    trace.launch("b", 900, 950, api_at=70).launch("c", 1_100, 1_200, api_at=1_000)

    assert causes(picture_of(trace, tmp_path)) == {
        DeviceWork.KERNEL: 90 + 50 + 100,
        IdleCause.UNRECORDED: 800,
        IdleCause.LAUNCH: 150,
    }


def test_a_wait_of_another_thread_is_no_cause(tmp_path: Path) -> None:
    trace = TraceBuilder().launch("a", 100, 200, api_at=0).call("cudaStreamSynchronize_v3020", 50, 260, thread=7)
    trace.launch("b", 900, 950, api_at=800)

    assert IdleCause.SYNCHRONISATION not in causes(picture_of(trace, tmp_path))


def test_a_wait_of_the_thread_that_hands_over_is_the_cause(tmp_path: Path) -> None:
    """The main thread waits for the forward pass, as `loss.item()` does; then autograd's thread goes on."""
    trace = TraceBuilder().launch("forward", 100, 200, api_at=0).call("cudaStreamSynchronize_v3020", 50, 260)
    trace.launch("backward", 900, 950, api_at=800, thread=7)

    assert causes(picture_of(trace, tmp_path)) == {
        DeviceWork.KERNEL: 150,
        IdleCause.SYNCHRONISATION: 210,
        IdleCause.LAUNCH: 490,
    }


def test_a_thread_that_makes_calls_meanwhile_was_handed_nothing(tmp_path: Path) -> None:
    """Two threads work side by side: that one of them waits keeps the other from nothing."""
    trace = TraceBuilder().launch("a", 100, 200, api_at=0).call("cudaStreamSynchronize_v3020", 50, 260)
    trace.call("cudaEventRecord_v3020", 300, 320, thread=7).launch("b", 900, 950, api_at=800, thread=7)

    assert causes(picture_of(trace, tmp_path)) == {DeviceWork.KERNEL: 150, IdleCause.LAUNCH: 700}


def test_a_launch_that_waits_for_another_device_is_not_launching(tmp_path: Path) -> None:
    """Two stages of a pipeline: both are launched at once, and the second one begins when the first has ended."""
    trace = TraceBuilder().launch("early", 0, 100, api_at=0).launch("early", 0, 100, api_at=0, device=1)
    trace.launch("stage 1", 200, LONG, api_at=150).launch("stage 2", LONG, LONG + 500, api_at=160, device=1)
    picture = picture_of(trace, tmp_path)

    assert causes(picture) == {
        DeviceWork.KERNEL: 200 + LONG - 200 + 500,
        IdleCause.LAUNCH: 100 + 62,
        IdleCause.DEPENDENCY: LONG - 162,
        IdleCause.FINISHED: 500,
    }


def test_a_long_gap_between_queued_launches_is_no_latency(tmp_path: Path) -> None:
    """A CUDA graph holds both kernels; no launch takes 2 ms."""
    trace = TraceBuilder().graph_nodes([("a", 100, 200), ("b", LONG + 200, LONG + 300)], api_at=0)
    picture = picture_of(trace, tmp_path)

    assert causes(picture) == {DeviceWork.KERNEL: 200, IdleCause.DEPENDENCY: LONG}
    assert picture.bottleneck is not None
    assert picture.bottleneck.limit is BottleneckClass.DEPENDENCY


def test_kernels_of_graphs_are_not_advised_to_use_graphs(tmp_path: Path) -> None:
    trace = TraceBuilder().graph_nodes([("a", 100, 200), ("b", 900, 1000)], api_at=0)
    picture = picture_of(trace, tmp_path)

    assert picture.bottleneck is not None
    assert picture.bottleneck.limit is BottleneckClass.LATENCY
    assert picture.bottleneck.remedy.startswith("fuse small kernels")


def test_a_device_without_further_work_is_no_loss_of_the_recording(tmp_path: Path) -> None:
    trace = TraceBuilder().launch("gemm_kernel", 0, 9000, api_at=0)
    trace.launch("gemm_kernel", 0, 1000, api_at=0, device=1)
    picture = picture_of(trace, tmp_path)

    assert causes(picture) == {DeviceWork.KERNEL: 10_000, IdleCause.FINISHED: 8000}
    assert classify({IdleCause.FINISHED: 60, DeviceWork.KERNEL: 40}, KernelMix(40, 0, {"GEMM": 40})).limit is (
        BottleneckClass.IMBALANCE
    )


def test_a_slow_launch_of_a_kernel_that_has_run_loads_nothing(tmp_path: Path) -> None:
    """As under remote GPUs: every call takes as long."""
    trace = TraceBuilder().launch("a", 100, 200, api_at=0)
    trace.launch("a", LONG + 900, LONG + 950, api_at=300, api_ns=LONG)

    assert causes(picture_of(trace, tmp_path)) == {DeviceWork.KERNEL: 150, IdleCause.LAUNCH: LONG + 700}


def test_a_long_time_outside_of_cuda_is_python_or_data_loading(tmp_path: Path) -> None:
    """The host waits 60 ns for the device, works for a long time, and launches 100 ns before the kernel."""
    trace = TraceBuilder().launch("a", 100, 200, api_at=0).call("cudaStreamSynchronize_v3020", 50, 260)
    trace.launch("b", LONG + 100, LONG + 150, api_at=LONG)

    assert causes(picture_of(trace, tmp_path)) == {
        DeviceWork.KERNEL: 150,
        IdleCause.SYNCHRONISATION: 60,
        IdleCause.HOST: LONG - 260,
        IdleCause.LAUNCH: 100,
    }


def test_a_long_cuda_call_is_not_python(tmp_path: Path) -> None:
    trace = TraceBuilder().launch("a", 100, 200, api_at=0).call("cudaMalloc_v3020", 300, LONG - 100)
    trace.launch("b", LONG + 100, LONG + 150, api_at=LONG)

    assert IdleCause.HOST not in causes(picture_of(trace, tmp_path))


def test_a_wait_for_an_idle_device_is_no_cause_of_what_came_before(tmp_path: Path) -> None:
    """The host works for a long time, then waits for a device that has nothing to do, then launches."""
    trace = TraceBuilder().launch("a", 100, 200, api_at=0).call("cudaDeviceSynchronize_v3020", LONG, LONG + 40)
    trace.launch("b", LONG + 100, LONG + 150, api_at=LONG + 50)

    assert causes(picture_of(trace, tmp_path)) == {
        DeviceWork.KERNEL: 150,
        IdleCause.HOST: LONG - 200 + 10,
        IdleCause.SYNCHRONISATION: 40,
        IdleCause.LAUNCH: 50,
    }


def test_time_outside_of_cuda_counts_on_both_sides_of_a_late_wait(tmp_path: Path) -> None:
    """Neither side is long, both together are; the wait itself, for an idle device, takes 40 ns."""
    half = 3 * HOST_GAP_NS // 4
    trace = TraceBuilder().launch("a", 100, 200, api_at=0).call("cudaDeviceSynchronize_v3020", half, half + 40)
    trace.launch("b", 2 * half + 10, 2 * half + 60, api_at=2 * half)

    assert causes(picture_of(trace, tmp_path)) == {
        DeviceWork.KERNEL: 150,
        IdleCause.HOST: 2 * half - 240,
        IdleCause.SYNCHRONISATION: 40,
        IdleCause.LAUNCH: 10,
    }


def test_a_late_wait_does_not_hide_an_earlier_one(tmp_path: Path) -> None:
    trace = TraceBuilder().launch("a", 100, 200, api_at=0).call("cudaEventSynchronize_v3020", 150, LONG)
    trace.call("cudaStreamSynchronize_v3020", 2 * LONG, 2 * LONG + 40)
    trace.launch("b", 2 * LONG + 60, 2 * LONG + 80, api_at=2 * LONG + 50)

    assert causes(picture_of(trace, tmp_path)) == {
        DeviceWork.KERNEL: 120,
        IdleCause.SYNCHRONISATION: LONG - 200 + 40,
        IdleCause.HOST: LONG + 10,
        IdleCause.LAUNCH: 10,
    }


def test_other_calls_after_a_wait_are_launching(tmp_path: Path) -> None:
    """The host waits 60 ns for the device, and then is in another call until it launches."""
    trace = TraceBuilder().launch("a", 100, 200, api_at=0).call("cudaStreamSynchronize_v3020", 50, 260)
    trace.call("cudaStreamCreate_v3020", 270, 790).launch("b", 900, 950, api_at=800)

    assert causes(picture_of(trace, tmp_path)) == {
        DeviceWork.KERNEL: 150,
        IdleCause.SYNCHRONISATION: 60,
        IdleCause.LAUNCH: 640,
    }


@pytest.mark.parametrize("wait", [True, False], ids=["after a wait", "without a wait"])
@pytest.mark.parametrize(
    ("call", "cause"),
    [
        ("cudaMalloc_v3020", IdleCause.ALLOCATION),
        ("cudaFree_v3020", IdleCause.ALLOCATION),
        ("cudaHostAlloc_v3020", IdleCause.ALLOCATION),
        ("cuMemAlloc_v2", IdleCause.ALLOCATION),
        ("cuMemCreate", IdleCause.ALLOCATION),
        ("hipHostMalloc", IdleCause.ALLOCATION),
        ("cuLibraryLoadData", IdleCause.LOADING),
        ("cuModuleLoadDataEx", IdleCause.LOADING),
        ("cuLinkComplete", IdleCause.LOADING),
        ("cuKernelGetFunction", IdleCause.LOADING),
    ],
)
def test_a_thread_that_allocates_or_loads_is_not_launching(
    call: str, cause: IdleCause, wait: bool, tmp_path: Path
) -> None:
    """It accounts for the time in such calls; a little is between calls."""
    trace = TraceBuilder().launch("a", 100, 200, api_at=0).call(call, 270, 790).launch("b", 900, 950, api_at=800)
    if wait:
        trace.call("cudaStreamSynchronize_v3020", 50, 260)

    waited = 60 if wait else 0
    expected = {
        DeviceWork.KERNEL: 150,
        IdleCause.SYNCHRONISATION: waited,
        cause: 520,
        IdleCause.LAUNCH: 180 - waited,
    }
    assert causes(picture_of(trace, tmp_path)) == {state: ns for state, ns in expected.items() if ns}


@pytest.mark.parametrize("share", [0.1, 0.45, 0.56, 0.9])
@pytest.mark.parametrize(
    ("call", "cause"), [("cudaMalloc_v3020", IdleCause.ALLOCATION), ("cuLibraryLoadData", IdleCause.LOADING)]
)
def test_python_and_calls_share_a_gap_by_their_times(
    call: str, cause: IdleCause, share: float, tmp_path: Path
) -> None:
    called = int(share * LONG)
    trace = TraceBuilder().launch("a", 100, 200, api_at=0).call(call, 200, 200 + called)
    trace.launch("b", LONG + 600, LONG + 650, api_at=LONG + 500)

    python = LONG + 300 - called
    expected = {DeviceWork.KERNEL: 150, cause: called, IdleCause.LAUNCH: 100, IdleCause.HOST: python}
    if python <= HOST_GAP_NS:
        expected[IdleCause.LAUNCH] += expected.pop(IdleCause.HOST)
    assert causes(picture_of(trace, tmp_path)) == expected


def test_long_allocations_with_python_between_them_are_both(tmp_path: Path) -> None:
    """An export of an A100 had ten calls of cudaHostAlloc and cudaMalloc in a gap of 21 ms, 2 ms between them."""
    trace = TraceBuilder().launch("a", 100, 200, api_at=0)
    for number in range(10):
        trace.call("cudaHostAlloc_v3020", 1000 + number * LONG, 1000 + number * LONG + LONG * 9 // 10)
    trace.launch("b", 11 * LONG, 11 * LONG + 50, api_at=10 * LONG + 1000)

    assert causes(picture_of(trace, tmp_path)) == {
        DeviceWork.KERNEL: 150,
        IdleCause.ALLOCATION: 9 * LONG,
        IdleCause.HOST: LONG + 800,
        IdleCause.LAUNCH: 2,
        IdleCause.DEPENDENCY: LONG - 1002,
    }


@pytest.mark.parametrize(("kernel_ns", "waited_ns"), [(100, 210), (5000, 600)])
def test_a_short_allocation_behind_a_wait_keeps_its_time(kernel_ns: int, waited_ns: int, tmp_path: Path) -> None:
    """The wait accounts for as much as it lasted, and at most for what the allocation leaves of the gap."""
    end = 100 + kernel_ns
    trace = TraceBuilder().launch("a", 100, end, api_at=0).call("cudaStreamSynchronize_v3020", 50, end + 60)
    trace.call("cudaFree_v3020", end + 300, end + 400).launch("b", end + 700, end + 750, api_at=end + 600)

    expected = {
        DeviceWork.KERNEL: kernel_ns + 50,
        IdleCause.SYNCHRONISATION: waited_ns,
        IdleCause.ALLOCATION: 100,
        IdleCause.LAUNCH: 600 - waited_ns,
    }
    assert causes(picture_of(trace, tmp_path)) == {state: ns for state, ns in expected.items() if ns}


def test_a_kernel_that_an_allocation_loads_counts_once(tmp_path: Path) -> None:
    trace = TraceBuilder().launch("a", 100, 200, api_at=0).call("cudaMalloc_v3020", 270, 790)
    trace.call("cuLibraryLoadData", 300, 700).launch("b", 900, 950, api_at=800)

    assert causes(picture_of(trace, tmp_path)) == {
        DeviceWork.KERNEL: 150,
        IdleCause.ALLOCATION: 520,
        IdleCause.LAUNCH: 180,
    }


@pytest.mark.parametrize(
    ("api", "cause"),
    [("cudaLaunchKernel_v7000", IdleCause.LOADING), ("cudaGraphLaunch_v10000", IdleCause.LAUNCH)],
)
def test_a_kernel_whose_launch_takes_long_is_being_loaded(api: str, cause: IdleCause, tmp_path: Path) -> None:
    """As the first launch of a kernel does: removing the wait before it would not save that time."""
    trace = TraceBuilder().launch("a", 100, 200, api_at=0).call("cudaDeviceSynchronize_v3020", 50, 260)
    trace.launch("b", LONG + 900, LONG + 950, api_at=300, api_ns=LONG, api=api)

    expected = {DeviceWork.KERNEL: 150, IdleCause.SYNCHRONISATION: 60, cause: LONG + 640}
    if cause is IdleCause.LAUNCH:
        # Without the wait it would have been launched as much earlier as that lasted.
        expected = {DeviceWork.KERNEL: 150, IdleCause.SYNCHRONISATION: 210, IdleCause.LAUNCH: LONG + 490}
    assert causes(picture_of(trace, tmp_path)) == expected


def test_idle_time_before_pages_of_managed_memory_move(tmp_path: Path) -> None:
    """No call makes such a copy: that is no loss of the profiler."""
    trace = TraceBuilder().launch("a", 100, 200, api_at=0).migration(900, 1000, 4096)
    picture = picture_of(trace, tmp_path)

    assert causes(picture) == {DeviceWork.KERNEL: 100, DeviceWork.COPY: 100, IdleCause.MIGRATION: 700}
    assert picture.bottleneck is not None
    assert picture.bottleneck.limit is BottleneckClass.TRANSFER
    assert [one.is_pinned for one in picture.copies] == [None]
    assert {one.name: one.reason for one in picture.unattributed}["memcpy UVM HtoD"] is UnattributedReason.MIGRATION
    assert not any("lost" in note for note in picture.notes)


def test_a_long_time_before_managed_memory_moves_is_the_hosts(tmp_path: Path) -> None:
    trace = TraceBuilder().launch("a", 100, 200, api_at=0).migration(LONG, LONG + 100, 4096)

    assert causes(picture_of(trace, tmp_path))[IdleCause.HOST] == LONG - 200


def test_a_copying_call_that_blocks_the_host(tmp_path: Path) -> None:
    trace = TraceBuilder().launch("a", 100, 200, api_at=0).call("cudaMemcpy_v3020", 50, 260)
    trace.launch("b", 900, 950, api_at=800)

    assert causes(picture_of(trace, tmp_path)) == {
        DeviceWork.KERNEL: 150,
        IdleCause.BLOCKING_COPY: 210,
        IdleCause.LAUNCH: 490,
    }


def test_a_launch_without_a_call_leaves_the_cause_unknown(tmp_path: Path) -> None:
    trace = TraceBuilder().launch("a", 100, 200, api_at=0).launch("b", 900, 950)

    assert causes(picture_of(trace, tmp_path)) == {DeviceWork.KERNEL: 150, IdleCause.UNKNOWN: 700}


def test_a_copy_beside_a_kernel_is_not_exposed(tmp_path: Path) -> None:
    trace = TraceBuilder().launch("a", 0, 100, api_at=0).copy(50, 180, 64, api_at=1)
    picture = picture_of(trace, tmp_path)

    assert causes(picture) == {DeviceWork.KERNEL: 100, DeviceWork.COPY: 80}
    (device,) = picture.devices
    assert (device.copy_ns, device.overlap_ns, device.utilisation) == (130, 50, 1.0)
    assert picture.copies[0].overlapped_ns == 50


@pytest.mark.parametrize(
    ("state", "limit"),
    [
        (DeviceWork.COPY, BottleneckClass.TRANSFER),
        (IdleCause.LAUNCH, BottleneckClass.LATENCY),
        (IdleCause.SYNCHRONISATION, BottleneckClass.SYNCHRONISATION),
        (IdleCause.HOST, BottleneckClass.HOST),
        (IdleCause.UNKNOWN, BottleneckClass.UNKNOWN),
    ],
)
def test_the_largest_part_of_the_wall_time_is_the_bottleneck(
    state: DeviceWork | IdleCause, limit: BottleneckClass
) -> None:
    found = classify({DeviceWork.KERNEL: 30, state: 70}, KernelMix(30, 0, {"GEMM": 30}))

    assert found is not None
    assert (found.limit, found.share) == (limit, 0.7)
    assert "70.0 %" in found.evidence


@pytest.mark.parametrize(
    ("mix", "limit"),
    [
        (KernelMix(100, 0, {"GEMM": 60, "elementwise": 40}), BottleneckClass.COMPUTE),
        (KernelMix(100, 0, {"GEMM": 40, "elementwise": 60}), BottleneckClass.MEMORY),
        (KernelMix(100, 0, {"communication": 60, "GEMM": 40}), BottleneckClass.COMPUTE),
        (KernelMix(100, 0, {"communication": 37, "GEMM": 30, "memory": 33}), BottleneckClass.MEMORY),
        (KernelMix(100, 90, {"elementwise": 100}), BottleneckClass.LATENCY),
    ],
)
def test_busy_kernels_are_divided_by_what_they_need(mix: KernelMix, limit: BottleneckClass) -> None:
    found = classify({DeviceWork.KERNEL: 100}, mix)

    assert found is not None
    assert found.limit is limit


def test_communication_counts_while_no_other_kernel_runs(tmp_path: Path) -> None:
    """An all-reduce of 400 ns beside a product of 100 ns and a copy: 300 ns of it are exposed."""
    trace = TraceBuilder().launch("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 100, 500, api_at=0, stream=20)
    trace.launch("gemm", 200, 300, api_at=10).copy(450, 560, 4096, api_at=20)
    picture = picture_of(trace, tmp_path)

    assert causes(picture) == {DeviceWork.KERNEL: 100, DeviceWork.COMMUNICATION: 300, DeviceWork.COPY: 60}
    assert picture.bottleneck is not None
    assert picture.bottleneck.limit is BottleneckClass.COMMUNICATION
    assert "only communication runs 65.2 %" in picture.bottleneck.evidence


def test_communication_behind_kernels_limits_nothing(tmp_path: Path) -> None:
    """As where gradients are reduced during the backward pass: summed up, it takes more time than GEMMs do."""
    trace = TraceBuilder().launch("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 100, 90_100, api_at=0, stream=20)
    for number in range(10):
        trace.launch("gemm", 100 + 9000 * number, 8600 + 9000 * number, api_at=1 + number)
    picture = picture_of(trace, tmp_path)

    assert causes(picture) == {DeviceWork.KERNEL: 10 * 8500, DeviceWork.COMMUNICATION: 10 * 500}
    assert picture.bottleneck is not None
    assert picture.bottleneck.limit is BottleneckClass.COMPUTE


def test_the_communication_of_a_range_is_its_own(tmp_path: Path) -> None:
    trace = TraceBuilder().range("reduce", 0, 50).range("train", 60, 100)
    trace.launch("ncclDevKernel_AllGather_RING_LL", 100, 500, api_at=10, stream=20)
    trace.launch("gemm", 200, 300, api_at=70).launch("gemm", 600, 700, api_at=80)
    read_back = read(trace.write(tmp_path / "trace.sqlite"))

    reduced = {one.state: one.total_ns for one in analyse(read_back, name="reduce").states if one.total_ns}
    trained = {one.state: one.total_ns for one in analyse(read_back, name="train").states if one.total_ns}

    assert reduced[DeviceWork.COMMUNICATION] == 300
    assert DeviceWork.KERNEL not in reduced
    assert DeviceWork.COMMUNICATION not in trained
    assert trained[DeviceWork.KERNEL] == 200


def test_nothing_has_no_bottleneck() -> None:
    assert classify({DeviceWork.KERNEL: 0}, KernelMix(0, 0, {})) is None


def test_the_class_of_a_range_is_that_of_its_own_time(tmp_path: Path) -> None:
    """While `load` runs the device only copies; while `train` runs it multiplies matrices."""
    trace = TraceBuilder().range("load", 0, 10).copy(0, 90_000, 64, api_at=1)
    trace.range("train", 90_000, 90_010).launch("gemm_kernel", 90_001, 400_000, api_at=90_001)
    limits = {one.label: one.bottleneck.limit for one in picture_of(trace, tmp_path).limits}

    assert limits == {"train": BottleneckClass.COMPUTE, "load": BottleneckClass.TRANSFER}


def test_a_range_that_waits_for_the_work_of_others_synchronises(tmp_path: Path) -> None:
    """As `.item()`: nearly all of its time it waits for the product before its own copy of 20 ns."""
    trace = TraceBuilder().range("work", 0, 10).launch("gemm_kernel", 10, 100_000, api_at=5)
    trace.range("item", 20, 100_200).copy(100_010, 100_030, 4, api_at=30, kind="DtoH")
    trace.call("cudaStreamSynchronize_v3020", 40, 100_100)
    limits = {one.label: one.bottleneck for one in picture_of(trace, tmp_path).limits}

    assert limits["item"].limit is BottleneckClass.SYNCHRONISATION
    assert "waits for work that was launched elsewhere" in limits["item"].evidence


def test_the_waits_of_chosen_ranges_are_those_within_them(tmp_path: Path) -> None:
    trace = TraceBuilder().launch("a", 100, 1000, api_at=0).call("cudaDeviceSynchronize_v3020", 10, 1010)
    trace.range("chosen", 2000, 2600).launch("b", 2100, 2500, api_at=2010)
    trace.call("cudaDeviceSynchronize_v3020", 2020, 2520).launch("c", 3100, 3200, api_at=3000)
    path = trace.write(tmp_path / "trace.sqlite")

    assert [one.sync_ns for one in analyse(read(path)).devices] == [1500]
    assert [one.sync_ns for one in analyse(read(path), name="chosen").devices] == [500]


def test_work_that_was_queued_before_a_range_is_not_its_own(tmp_path: Path) -> None:
    """The matrix product of `linear` waits behind the elementwise kernel of `rest`, ten times as long."""
    trace = TraceBuilder().range("rest", 0, 10).range("linear", 20, 30)
    trace.launch("elementwise_kernel", 10, 100_000, api_at=5).launch("gemm_kernel", 100_000, 110_000, api_at=25)
    limits = {one.label: one.bottleneck for one in picture_of(trace, tmp_path).limits}

    assert limits["linear"].limit is BottleneckClass.COMPUTE
    assert limits["linear"].share == 1.0
    assert "GEMM 100 %" in limits["linear"].evidence
    assert "work launched elsewhere, 90.9 % of the window, is left out" in limits["linear"].evidence


def test_the_states_of_chosen_ranges_hold_the_work_of_others_apart(tmp_path: Path) -> None:
    trace = TraceBuilder().range("rest", 0, 10).range("linear", 20, 30)
    trace.launch("elementwise_kernel", 10, 100_000, api_at=5).launch("gemm_kernel", 100_100, 110_100, api_at=25)
    picture = analyse(read(trace.write(tmp_path / "trace.sqlite")), name="linear")

    assert causes(picture) == {DeviceWork.KERNEL: 10_000, DeviceWork.OTHER: 100_000 - 20, IdleCause.QUEUED: 100}
    assert sum(causes(picture).values()) == picture.devices[0].wall_ns


def test_a_launch_counts_once_for_ranges_of_two_threads_and_a_process(tmp_path: Path) -> None:
    """The product lies in a range of its thread and in one of the whole process; the other kernel in neither."""
    trace = TraceBuilder().range("work", 0, 1000).range("work", 100, 200, thread=200)
    trace.launch("gemm_kernel", 1000, 7000, api_at=150, thread=200)
    trace.launch("copy_kernel", 7000, 17_000, api_at=300).launch("add_kernel", 17_000, 117_000, api_at=2000)
    picture = picture_of(trace, tmp_path)

    (limit,) = picture.limits
    assert limit.bottleneck.limit is BottleneckClass.MEMORY
    assert "GEMM 38 %" in limit.bottleneck.evidence


def test_a_copy_behind_a_kernel_of_another_range_is_not_exposed(tmp_path: Path) -> None:
    trace = TraceBuilder().range("compute", 0, 10).range("prefetch", 20, 30)
    trace.launch("gemm_kernel", 10, 100_000, api_at=5, stream=8).copy(200, 90_000, 64, api_at=25)
    picture = analyse(read(trace.write(tmp_path / "trace.sqlite")), name="prefetch")

    assert set(causes(picture)) == {DeviceWork.OTHER}
    assert picture.bottleneck is None
    assert any("the devices did work launched elsewhere" in note for note in picture.notes)


def test_the_host_waits_in_a_copy_that_blocks_and_not_in_one_that_does_not(tmp_path: Path) -> None:
    trace = TraceBuilder().launch("a", 100, 200, api_at=0).call("cudaMemcpy2D_v3020", 300, 900)
    trace.call("cudaMemcpyAsync_v3020", 1000, 1400).call("cudaStreamSynchronize_v3020", 2000, 2050)

    picture = picture_of(trace, tmp_path)

    assert picture.devices[0].sync_ns == 650
    assert {one.name for one in picture.calls if one.waits} == {"cudaMemcpy2D", "cudaStreamSynchronize"}


@pytest.mark.parametrize(
    ("returned_ns", "is_pageable", "waits"),
    [(980_000, True, True), (1_010_000, True, True), (15_000, True, False), (1_010_000, False, False)],
    ids=["about with the copy", "behind the copy", "at its begin", "pinned"],
)
def test_the_host_waits_in_an_asynchronous_copy_of_pageable_memory_that_returns_with_it(
    returned_ns: int, is_pageable: bool, waits: bool, tmp_path: Path
) -> None:
    """The last part may be on its way when the call returns; a copy of pinned memory does not block."""
    trace = TraceBuilder().range("load", 0, 2_000_000)
    trace.copy(10_000, 1_000_000, 1 << 20, api_at=100, api_ns=returned_ns - 100, is_pageable=is_pageable)
    picture = picture_of(trace, tmp_path)

    waited = (returned_ns - 100) * waits
    assert (picture.devices[0].sync_ns, picture.ranges[0].sync_ns) == (waited, waited)
    (call,) = picture.calls
    assert (call.waits, call.waiting_calls, call.waiting_ns) == (waits, int(waits), waited)


@pytest.mark.parametrize(
    ("is_pageable", "idle"),
    [(True, {IdleCause.BLOCKING_COPY: 260, IdleCause.LAUNCH: 440}), (False, {IdleCause.LAUNCH: 700})],
)
def test_the_cause_of_idle_time_follows_the_same_rule(
    is_pageable: bool, idle: dict[IdleCause, int], tmp_path: Path
) -> None:
    trace = TraceBuilder().copy(100, 200, 64, api_at=0, api_ns=260, is_pageable=is_pageable)
    trace.launch("b", 900, 950, api_at=800)

    assert causes(picture_of(trace, tmp_path)) == {DeviceWork.COPY: 100, **idle, DeviceWork.KERNEL: 50}
    assert (picture_of(trace, tmp_path).devices[0].sync_ns > 0) is is_pageable


def test_only_the_calls_of_a_function_that_wait_are_counted(tmp_path: Path) -> None:
    trace = TraceBuilder().copy(10, 1000, 64, api_at=0, api_ns=1001, is_pageable=True)
    (call,) = picture_of(trace.copy(3000, 4000, 64, api_at=2000, api_ns=5, is_pageable=True), tmp_path).calls

    assert (call.calls, call.total_ns) == (2, 1006)
    assert (call.waits, call.waiting_calls, call.waiting_ns) == (True, 1, 1001)
