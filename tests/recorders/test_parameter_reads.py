"""Which bytes of its arguments a kernel reads: in torch's kernels, and in what NVRTC compiles."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_nsight.model.identity import MachineCode
from pytest_nsight.recorders.machine_code.disassembly import find_disassembler
from pytest_nsight.recorders.machine_code.instructions import INSTRUCTION_BYTES, parse
from pytest_nsight.recorders.machine_code.machine_code import KernelCode, Parameter, read_kernels
from pytest_nsight.recorders.machine_code.parameter_reads import (
    MOST_INSTRUCTIONS,
    KernelReads,
    find_reads,
    has_padding,
    mask_unread,
    read_code,
)
from pytest_nsight.worker.nvrtc import compile_source
from tests.toolchain import lack, require_nvrtc

TORCH = json.loads((Path(__file__).parents[1] / "data" / "torch_operands.json").read_text())
"""Of six kernels of torch 2.11 for sm_90: their parameters, and each different instruction that calls or reads a
constant, with all registers named 4."""

Compiled = dict[str, tuple[KernelCode, "frozenset[int] | None"]]
"""Name -> kernel, what it reads."""

SOURCE = r"""
struct Pointers { char* data[2]; };
struct Empty { __device__ float operator()(float a) const { return a * 2; } };
struct AddScalar { bool is_set; float scalar; __device__ float operator()(float a) const { return a + scalar; } };
struct Wide { double factor; __device__ float operator()(float a) const { return a * factor; } };
template <class Function> __device__ void apply(int n, Function function, Pointers pointers) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) ((float*)pointers.data[0])[i] = function(((float*)pointers.data[1])[i]);
}
extern "C" __global__ void empty(int n, Empty f, Pointers p) { apply(n, f, p); }
extern "C" __global__ void add_scalar(int n, AddScalar f, Pointers p) { apply(n, f, p); }
extern "C" __global__ void wide(int n, Wide f, Pointers p) { apply(n, f, p); }
struct Table { short entries[8]; };
extern "C" __global__ void indexed(Table table, short* out) { *out = table.entries[threadIdx.x % 8]; }
struct Padded { char small; double large; };
extern "C" __global__ void asserting(Padded padded, double* out) {
  if (padded.small > 5) printf("%f", padded.large);
  *out = padded.large;
}
struct Strides { int sizes[25]; AddScalar f; };
extern "C" __global__ void unrolled(Strides strides, int* out) {
  int sum = 0;
  #pragma unroll
  for (int i = 0; i < 25; i++) { if (i == out[0]) break; sum += strides.sizes[i] * out[i]; }
  out[1] = strides.f(sum);
}
__device__ __noinline__ int follow(const short* entries, int i) { return entries[i] + entries[0]; }
extern "C" __global__ void addressed(const __grid_constant__ Table table, int n, int* out) {
  *out = follow(table.entries, n);
}
extern "C" __global__ void handed_on(const __grid_constant__ Table table, const short** out) {
  *out = table.entries;
}
"""


@pytest.fixture(scope="module", params=[(8, 0), (9, 0), (10, 0)], ids=["sm_80", "sm_90", "sm_100"])
def compiled(request: pytest.FixtureRequest) -> Compiled:
    if find_disassembler() is None:
        lack("there is no nvdisasm: it comes with Triton or the CUDA toolkit")
    kernels = read_kernels(compile_source(require_nvrtc(), SOURCE, request.param).image)
    reads = find_reads(list(kernels.values()))
    return {name: (kernel, list_anywhere(reads[kernel])) for name, kernel in kernels.items()}


def list_anywhere(reads: KernelReads | None) -> frozenset[int] | None:
    return None if reads is None else reads.anywhere


def list_reads(instructions: Sequence[str], kernel: KernelCode) -> frozenset[int] | None:
    return list_anywhere(read_code([parse(text, 0) for text in instructions], kernel))


def unread(compiled: Compiled, name: str) -> set[tuple[int, int]]:
    """(ordinal, byte) of what the kernel does not read."""
    kernel, reads = compiled[name]
    assert reads is not None
    return list_unread(kernel, reads)


def list_unread(kernel: KernelCode, reads: frozenset[int]) -> set[tuple[int, int]]:
    return {
        (one.ordinal, at) for one in kernel.parameters for at in range(one.size) if one.offset + at not in reads
    }


def kernel_of(*parameters: Parameter, first: int = 0x210, is_whole: bool = True) -> KernelCode:
    return KernelCode("kernel", MachineCode("", 1), parameters, first, is_whole=is_whole)


@pytest.mark.slow
def test_an_empty_functor_is_not_read(compiled: Compiled) -> None:
    assert unread(compiled, "empty") == {(1, 0)}


@pytest.mark.slow
def test_padding_and_members_of_no_use_are_not_read(compiled: Compiled) -> None:
    assert unread(compiled, "add_scalar") == {(1, 0), (1, 1), (1, 2), (1, 3)}


@pytest.mark.slow
def test_a_number_of_eight_bytes_is_read_whole(compiled: Compiled) -> None:
    assert unread(compiled, "wide") == set()


@pytest.mark.slow
def test_of_a_table_that_is_indexed_all_is_read_or_nothing_is_known(compiled: Compiled) -> None:
    _, reads = compiled["indexed"]

    assert reads is None or reads >= set(range(16))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["addressed", "handed_on"])
def test_a_struct_whose_address_is_taken_may_be_read_anywhere(compiled: Compiled, name: str) -> None:
    assert compiled[name][1] is None


@pytest.mark.slow
def test_what_the_driver_does_for_an_assertion_reads_no_argument(compiled: Compiled) -> None:
    assert unread(compiled, "asserting") == {(0, at) for at in range(1, 8)}


@pytest.mark.slow
def test_padding_of_a_large_struct_is_not_read(compiled: Compiled) -> None:
    assert unread(compiled, "unrolled") == {(0, at) for at in range(100, 104)}


@pytest.mark.slow
def test_code_that_the_disassembler_does_not_know_hides_no_other(compiled: Compiled) -> None:
    known, reads = compiled["add_scalar"]
    damaged = replace(known, text=bytes(INSTRUCTION_BYTES) + known.text)
    missing = replace(known, text=b"")

    assert reads, "as it is read beside all others"
    found = find_reads([damaged, known, missing])

    assert {kernel: list_anywhere(found[kernel]) for kernel in found} == {
        damaged: None,
        known: reads,
        missing: None,
    }


@pytest.mark.slow
def test_a_kernel_with_functions_of_its_module_or_of_many_instructions_is_not_known() -> None:
    if find_disassembler() is None:
        lack("there is no nvdisasm: it comes with Triton or the CUDA toolkit")
    linked = read_kernels(compile_source(require_nvrtc(), SOURCE, (9, 0), ("-rdc=true",)).image)["addressed"]
    alone = read_kernels(compile_source(require_nvrtc(), SOURCE, (9, 0)).image)["empty"]
    large = replace(alone, code=replace(alone.code, instructions=MOST_INSTRUCTIONS + 1))

    assert (linked.is_whole, alone.is_whole) == (False, True)
    assert find_reads([linked, large]) == {linked: None, large: None}


@pytest.mark.parametrize(
    ("name", "unread"),
    [
        pytest.param("exp", {1: {0}}, id="an-empty-functor"),
        pytest.param("multiply by a scalar", {1: set(range(4))}, id="an-empty-functor-before-a-float"),
        # Two empty calculators and a functor; then, twice, a byte for the type and behind its padding an int.
        pytest.param("copy", {1: {0}, 3: {0}, 4: {0}, 5: {1, 2, 3}, 6: {1, 2, 3}}, id="types-of-a-copy"),
        # 604 bytes of sizes and strides, 3 pointers from 608 on, an empty functor.
        pytest.param("multiply", {1: {*range(604, 608), *range(632, 648)}}, id="sizes-and-strides"),
        # The element's size, the block's, a constant, padding, a second result, a first index, padding.
        pytest.param(
            "mean",
            {0: {*range(8, 12), *range(52, 64), *range(65, 72), *range(980, 984), *range(1000, 1008)}
                | {*range(1032, 1040), 1042, 1043}},
            id="a-reduction",
        ),
    ],
)  # fmt: skip
def test_of_torchs_structs_all_members_in_use_are_read_and_no_padding(
    name: str, unread: dict[int, set[int]]
) -> None:
    parameters = [Parameter(ordinal, *place) for ordinal, place in enumerate(TORCH[name]["parameters"])]
    kernel = kernel_of(*parameters)

    reads = list_reads(TORCH[name]["instructions"], kernel)

    assert reads is not None
    assert list_unread(kernel, reads) == {(ordinal, at) for ordinal, places in unread.items() for at in places}


def test_of_torchs_list_of_tensors_which_is_indexed_nothing_is_known() -> None:
    parameters = [Parameter(ordinal, *place) for ordinal, place in enumerate(TORCH["add to many"]["parameters"])]

    assert list_reads(TORCH["add to many"]["instructions"], kernel_of(*parameters)) is None


@pytest.mark.parametrize(
    ("instruction", "reads"),
    [
        ("LDC R1, c[0x0][0x214] ;", {4, 5, 6, 7}),
        ("@!P0 LDC.U8 R1, c[0x0][0x214] ;", {4}),
        ("ULDC.64 UR4, c[0x0][0x210] ;", set(range(8))),
        ("IMAD.WIDE R2, R2, R3, c[0x0][0x218] ;", set(range(8, 16))),
        ("FADD R7, R2, c[0x0][0x218] ;", {8, 9, 10, 11}),
        ("FADD R7, -c[0x0][0x210], |c[0x0][0x218]| ;", {0, 1, 2, 3, 8, 9, 10, 11}),
        ("DADD R2, R2, c[0x0][0x210] ;", set(range(16))),
        ("SOMENEW R2, c[0x0][0x210] ;", set(range(16))),
        ("LDC R1, c[0x0][0x28] ;", set()),
        ("LDC R1, c[0x0][RZ] ;", set()),
        ("LDC.64 R1, c[0x0][RZ+0x210] ;", set(range(8))),
        ("ULDC UR4, c[0x0][URZ+0x210] ;", {0, 1, 2, 3}),
        ("LDC R1, c[0x3][0x214] ;", set()),
        ("LDC R1, c[0x3][R4+0x214] ;", set()),
        ("CALL.ABS.NOINC R4 ;", set()),
        ("LDC.64 R4, c[0x0][0x198] ;", set()),
        ("LDC.64 R4, c[0x0][0x190] ;", None),
        ("LDC.128 R4, c[0x0][0x204] ;", None),
        ("LDC R1, c[0x0][R2+0x210] ;", None),
        ("ULDC UR4, c[0x0][UR2+0x210] ;", None),
        ("LDC R1, cx[UR4][0x210] ;", None),
        ("LDC R1, c[UR4][0x210] ;", None),
        ("{ LDC R1, c[0x0][0x210] }", None),
        ("LDC R1, c[][0x210] ;", None),
    ],
)
def test_an_instruction_reads_what_its_operand_says_and_the_most_where_it_is_unknown(
    instruction: str, reads: set[int] | None
) -> None:
    assert list_reads(["EXIT ;", instruction], kernel_of(Parameter(0, 0, 16))) == reads


def test_without_instructions_or_in_an_unknown_layout_nothing_is_known() -> None:
    parameter = Parameter(0, 0, 16)

    assert list_reads([], kernel_of(parameter)) is None
    assert list_reads(["EXIT ;"], kernel_of(parameter, is_whole=False)) is None
    assert list_reads(["EXIT ;"], kernel_of(parameter, first=0x220)) is None


def test_only_what_is_read_stays_of_an_argument() -> None:
    parameter = Parameter(1, 8, 8)

    assert mask_unread(b"\x07\x01\x02\x03abcd", parameter, frozenset(range(12, 16))) == b"\0\0\0\0abcd"
    assert has_padding(parameter)
    assert has_padding(Parameter(0, 0, 128))
    assert not has_padding(Parameter(0, 0, 4))
