"""Identities of cases that are kept until there are many kernels to disassemble."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest

from pytest_nsight.recorders.cupti.activity import Activity
from pytest_nsight.recorders.launch_identity import identity_recorder, launch_reader
from pytest_nsight.recorders.launch_identity.identity_recorder import IdentityRecorder
from pytest_nsight.recorders.launch_identity.launch_capture import LaunchCapture, ObservedLaunch
from pytest_nsight.recorders.machine_code.disassembly import find_disassembler
from pytest_nsight.recorders.machine_code.machine_code import KernelCode, read_kernels
from pytest_nsight.recorders.machine_code.parameter_reads import KernelReads, find_reads
from pytest_nsight.worker.nvrtc import compile_source
from tests.toolchain import lack, require_nvrtc

pytestmark = pytest.mark.slow

SOURCE = """
struct AddScalar { bool is_set; float scalar; };
extern "C" __global__ void add(float* x, AddScalar f) { x[threadIdx.x] += f.scalar; }
extern "C" __global__ void scale(float* x, int n) { x[threadIdx.x] *= n; }
"""
MEMORY = 0x7F0000010000


class Cupti:
    """A CUPTI that has a clock, and agrees to all."""

    def __init__(self) -> None:
        self._clock = count()

    def call(self, name: str, *arguments: object) -> None:
        pass

    def now_ns(self) -> int:
        return next(self._clock)

    def call_name(self, domain: int, number: int) -> str:
        return {(2, 311): "cudaGraphLaunch_v10000", (1, 514): "cuGraphLaunch"}.get((domain, number), "another call")


class Driver:
    """A driver with 4 KiB of memory."""

    def cuMemGetAddressRange_v2(self, base: Any, size: Any, address: Any) -> int:  # noqa: N802 - CUDA's
        base._obj.value, size._obj.value = MEMORY, 4096
        return 0 if MEMORY <= address.value < MEMORY + 4096 else 1

    def cuPointerGetAttribute(self, value: Any, attribute: Any, address: Any) -> int:  # noqa: N802
        value._obj.value = 0
        return 0


class Process:
    """Runs cases of two rounds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, cubin: bytes) -> None:
        self._cupti = Cupti()
        self._capture = LaunchCapture(self._cupti, Driver())  # type: ignore[arg-type]
        self.recorder = IdentityRecorder(self._cupti, self._capture)  # type: ignore[arg-type]
        self._capture.modules.cubins.append(cubin)
        self._kernels = read_kernels(cubin)
        self._activities: list[Activity] = []
        monkeypatch.setattr(identity_recorder, "list_activities", lambda *_: self._activities)

    def run(
        self,
        case: str,
        kernel: str,
        *second_arguments: bytes,
        kernels: Sequence[str] = (),
        lengths: Sequence[int] = (1, 1),
        ahead_ns: int = 0,
        has_calls: bool = True,
    ) -> None:
        """Runs a case; its launches differ in the second argument, and in the kernel where several are named.

        Each round has as many of them as `lengths` says.
        With `ahead_ns` the device's clock is ahead of the host's, and calls are recorded if it has them.
        """
        self.recorder.start()
        self._activities = []
        begins = [sum(lengths[:number]) for number in range(len(lengths))]
        for correlation, argument in enumerate(second_arguments):
            kernel = kernels[correlation] if kernels else kernel
            if correlation in begins:
                self.recorder.push("round", 0)
            values = {0: struct.pack("<Q", MEMORY), 1: argument}
            self._capture.launches[correlation] = ObservedLaunch(correlation, 0, kernel, values)
            now = self._cupti.now_ns()
            registers = self._kernels[kernel].code.registers
            if ahead_ns and has_calls:
                self._activities.append(Activity("runtime", "211", now, now, correlation))
            start = now + ahead_ns
            self._activities.append(Activity("kernel", kernel, start, start + 1, correlation, registers=registers))
            if correlation + 1 in (*begins, sum(lengths)):
                self.recorder.pop()
        self.recorder.stop()
        self.recorder.keep(case, "round")
        self.recorder.forget()

    def run_graph(self, case: str, kernel: str, shown: int) -> None:
        """Runs a case that replays a graph of one kernel, whose record has the number `shown`."""
        self.recorder.start()
        values = {0: struct.pack("<Q", MEMORY), 1: struct.pack("<i", 3)}
        self._capture.launches[1] = ObservedLaunch(1, 0, kernel, values)  # The call that was captured.
        registers = self._kernels[kernel].code.registers
        for first in (0, 10):
            self.recorder.push("round", 0)
            begins = [self._cupti.now_ns() for _ in GRAPH_CALLS]
            at, *ends = (self._cupti.now_ns() for _ in range(3))
            for (kind, name, number), begin, end in zip(GRAPH_CALLS, begins, reversed(ends), strict=True):
                self._activities.append(Activity(kind, name, begin, end, first + number))
            node = Activity("kernel", kernel, at, at + 1, first + shown, graph_node=5, registers=registers)
            self._activities.append(node)
            self.recorder.pop()
        self.recorder.stop()
        self.recorder.keep(case, "round")
        self.recorder.forget()


@pytest.fixture(scope="module")
def cubin() -> bytes:
    if find_disassembler() is None:
        lack("there is no nvdisasm: it comes with Triton or the CUDA toolkit")
    return compile_source(require_nvrtc(), SOURCE, (9, 0)).image


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch, cubin: bytes) -> Process:
    monkeypatch.setattr("atexit.register", lambda _: None)
    return Process(monkeypatch, cubin)


def with_padding(padding: int, scalar: float = 1.0) -> bytes:
    return struct.pack("<If", padding, scalar)


def test_rounds_and_cases_that_differ_in_padding_only_are_identical(process: Process) -> None:
    process.run("first", "add", with_padding(1), with_padding(2))
    process.run("second", "add", with_padding(3), with_padding(3))
    process.run("other", "add", with_padding(1, 2.0), with_padding(1, 2.0))

    found = process.recorder.identify()

    assert list(found) == ["first", "second", "other"]
    assert found["first"].digest == found["second"].digest != ""
    assert found["other"].digest not in ("", found["first"].digest)
    assert process.recorder.identify() == {}


def test_a_kernel_belongs_to_the_round_that_calls_it_whatever_the_device_s_clock_says(process: Process) -> None:
    process.run("sound", "scale", bytes(4), bytes(4))
    process.run("ahead", "scale", bytes(4), bytes(4), ahead_ns=1000)

    found = process.recorder.identify()

    assert found["ahead"].digest == found["sound"].digest != ""


def test_a_launch_whose_call_has_no_record_is_not_lost_without_a_word(process: Process) -> None:
    process.run("lost", "scale", bytes(4), bytes(4), ahead_ns=1000, has_calls=False)

    assert "outside of the round" in process.recorder.identify()["lost"].why_none


def test_numbers_that_go_on_from_round_to_round_are_identical_where_they_go_on_alike(process: Process) -> None:
    process.run("counting", "add", with_padding(1, 1.0), with_padding(2, 2.0))
    process.run("again", "add", with_padding(3, 1.0), with_padding(4, 2.0))
    process.run("otherwise", "add", with_padding(5, 1.0), with_padding(6, 3.0))
    process.run("constant", "add", with_padding(5, 1.0), with_padding(6, 1.0))

    found = process.recorder.identify()

    assert found["counting"].digest == found["again"].digest != ""
    assert len({found[case].digest for case in ("counting", "otherwise", "constant")}) == 3


def test_other_kernels_in_the_next_round_are_no_identity(process: Process) -> None:
    process.run("changing", "add", with_padding(1), bytes(4), kernels=("add", "scale"))

    assert "its rounds differ: kernel of launch 1" in process.recorder.identify()["changing"].why_none


def test_another_number_of_launches_in_the_next_round_is_no_identity(process: Process) -> None:
    process.run("changing", "add", *[with_padding(1)] * 3, lengths=(1, 2))

    assert process.recorder.identify()["changing"].why_none == "its rounds differ: number of launches (1, then 2)"


def test_cases_are_kept_until_there_are_many_kernels_to_disassemble(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def find_counted(kernels: Sequence[KernelCode]) -> dict[KernelCode, KernelReads | None]:
        calls.append(len(kernels))
        return find_reads(kernels)

    monkeypatch.setattr(launch_reader, "find_reads", find_counted)

    process.run("plain", "scale", bytes(4), bytes(4))
    assert process.recorder.is_due, "there is nothing to wait for"
    assert process.recorder.identify()["plain"].digest
    assert calls == []

    process.run("struct", "add", with_padding(1), with_padding(2))
    process.run("plain", "scale", bytes(4), bytes(4))
    assert not process.recorder.is_due
    monkeypatch.setattr(identity_recorder, "_KERNELS_AT_ONCE", 1)
    assert process.recorder.is_due
    assert all(identity.digest for identity in process.recorder.identify().values())
    assert calls == [1]

    process.run("again", "add", with_padding(5), with_padding(6))
    assert process.recorder.is_due, "what it reads is known"


def test_a_case_without_two_rounds_says_so_beside_the_others(process: Process) -> None:
    process.run("short", "scale", bytes(4))
    process.run("whole", "scale", bytes(4), bytes(4))

    found = process.recorder.identify()

    assert found["short"].why_none == "1 of 2 rounds came to their end"
    assert found["whole"].digest


GRAPH_CALLS = (("runtime", "311", 7), ("driver", "514", 8))
"""A call of the runtime, and the one of the driver in it, with their numbers."""


@pytest.mark.parametrize("shown", [7, 8])
def test_a_graph_that_shows_its_kernels_has_an_identity(process: Process, shown: int) -> None:
    process.run_graph("graph", "scale", shown)

    assert process.recorder.identify()["graph"].why_none == ""


def test_a_graph_that_was_made_before_the_recorder_is_not_taken_for_nothing(process: Process) -> None:
    """Beside a launch that is seen the case would be IDENTICAL, whatever the graph does."""
    process.run_graph("graph", "scale", 99)

    assert process.recorder.identify()["graph"].why_none == (
        "a CUDA graph of it shows no kernel: it was made where launches are not observed"
    )
