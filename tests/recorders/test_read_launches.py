"""When two launches of one kernel are the same work: unread bytes of their arguments count for nothing."""

from __future__ import annotations

import struct
from collections.abc import Mapping

import pytest

from pytest_nsight.model.identity import LaunchIdentity, MachineCode
from pytest_nsight.recorders.launch_identity.launch_arguments import Allocation, find_pointers
from pytest_nsight.recorders.launch_identity.launch_reader import ReadLaunch
from pytest_nsight.recorders.machine_code.instructions import ControlFlow
from pytest_nsight.recorders.machine_code.machine_code import KernelCode, Parameter
from pytest_nsight.recorders.machine_code.parameter_reads import KernelReads
from pytest_nsight.recorders.machine_code.reached_reads import Program

HEAP = Allocation(0x7F0000000000, 4096)
STACK = 0x7FFF00000000
"""An address of the process, which CUDA does not know."""
KERNEL = KernelCode("add", MachineCode("code"), (Parameter(0, 0, 4), Parameter(1, 8, 24), Parameter(2, 32, 8)))
CODE = Program((), ControlFlow(()), lambda *_: range(0))
READS = KernelReads(KERNEL, frozenset({*range(4), *range(12, 24), *range(32, 40)}), CODE)
"""All but the first 4 bytes of the struct, and its last 8."""


def find(address: int) -> Allocation | None:
    if address == STACK:
        return Allocation(STACK, 0)
    return HEAP if HEAP.address <= address < HEAP.address + HEAP.size else None


def launch(padding: int = 0, number: int = 5, last: int = 0, pointer: int = HEAP.address) -> ReadLaunch:
    values: Mapping[int, bytes] = {
        0: struct.pack("<i", 100),
        1: struct.pack("<IIQQ", padding, number, HEAP.address + 256, last),
        2: struct.pack("<Q", pointer),
    }
    pointers = find_pointers(values, KERNEL.parameters, find)
    return ReadLaunch(
        LaunchIdentity("kernel", "add", KERNEL.code, arguments=("priority 1",)), KERNEL, values, pointers
    )


def test_bytes_that_are_not_read_make_no_difference_and_all_others_do() -> None:
    same = launch().describe(READS, {})

    assert launch(padding=0xFFFF, last=7).describe(READS, {}) == same
    assert launch(last=HEAP.address).describe(READS, {}) == same, "nobody follows an address that is not read"
    assert launch(number=6).describe(READS, {}) != same
    assert launch(pointer=HEAP.address + 8).describe(READS, {}) != same
    assert same.arguments[-1] == "priority 1"
    assert "pointer 0 aligned to 256 into 4096 bytes" in same.arguments[1]


def test_where_the_reads_are_not_known_all_bytes_count() -> None:
    assert launch().describe(None, {}) == launch().describe(None, {})
    assert launch(padding=1).describe(None, {}) != launch().describe(None, {})


def test_each_aligned_word_that_is_an_address_is_found() -> None:
    # The struct begins in the middle of a word, and its last bytes are none.
    parameters = [Parameter(0, 4, 24)]
    value = struct.pack("<IQQI", 1, HEAP.address + 16, 99, 5)

    assert find_pointers({0: value}, parameters, find) == {HEAP.address + 16: HEAP}
    with pytest.raises(ValueError, match="argument 0 has 23 bytes instead of 24"):
        find_pointers({0: value[1:]}, parameters, find)


@pytest.mark.parametrize(
    ("value", "is_struct"),
    [
        pytest.param(struct.pack("<Q", HEAP.address + 16), False, id="an-address"),
        pytest.param(struct.pack("<Q", STACK), True, id="a-stale-address-of-the-stack"),
        pytest.param(bytes(8), False, id="zeros"),
        pytest.param(struct.pack("<Q", 77), True, id="anything-else"),
    ],
)
def test_only_what_may_have_padding_is_worth_a_disassembly(value: bytes, is_struct: bool) -> None:
    code = KernelCode("scale", MachineCode("code"), (Parameter(0, 0, 4), Parameter(1, 8, 8)))
    values = {0: bytes(4), 1: value}

    seen = ReadLaunch(LaunchIdentity("kernel", "scale"), code, values, find_pointers(values, code.parameters, find))

    assert seen.structs == ([Parameter(1, 8, 8)] if is_struct else [])


def test_a_copy_has_the_identity_that_it_was_read_with() -> None:
    copy = LaunchIdentity("copy", "host to device", arguments=("64 bytes",))

    assert ReadLaunch(copy).describe(None, {}) == copy
    assert ReadLaunch(copy).structs == []
