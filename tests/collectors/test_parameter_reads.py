"""Which bytes of its arguments a kernel reads, in code that NVRTC compiles for several architectures."""

from __future__ import annotations

import pytest

from pytest_nsight.collectors.cupti.machine_code import KernelCode, Parameter, read_kernels
from pytest_nsight.collectors.cupti.parameter_reads import (
    find_disassembler,
    find_reads,
    has_padding,
    list_reads,
    mask_unread,
)
from pytest_nsight.worker.nvrtc import compile_source
from tests.toolchain import lack, require_nvrtc

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
"""


@pytest.fixture(scope="module", params=[(8, 0), (9, 0), (10, 0)], ids=["sm_80", "sm_90", "sm_100"])
def compiled(request: pytest.FixtureRequest) -> tuple[bytes, dict[str, KernelCode]]:
    if find_disassembler() is None:
        lack("there is no nvdisasm: it comes with Triton or the CUDA toolkit")
    cubin = compile_source(require_nvrtc(), SOURCE, request.param).image
    return cubin, read_kernels(cubin)


def unread(compiled: tuple[bytes, dict[str, KernelCode]], name: str) -> set[tuple[int, int]]:
    """(ordinal, byte) of what the kernel does not read."""
    cubin, kernels = compiled
    reads = find_reads(cubin, kernels[name])
    assert reads is not None
    return {
        (one.ordinal, at)
        for one in kernels[name].parameters
        for at in range(one.size)
        if one.offset + at not in reads
    }


@pytest.mark.slow
def test_an_empty_functor_is_not_read(compiled: tuple[bytes, dict[str, KernelCode]]) -> None:
    assert unread(compiled, "empty") == {(1, 0)}


@pytest.mark.slow
def test_padding_and_members_of_no_use_are_not_read(compiled: tuple[bytes, dict[str, KernelCode]]) -> None:
    assert unread(compiled, "add_scalar") == {(1, 0), (1, 1), (1, 2), (1, 3)}


@pytest.mark.slow
def test_a_number_of_eight_bytes_is_read_whole(compiled: tuple[bytes, dict[str, KernelCode]]) -> None:
    assert unread(compiled, "wide") == set()


@pytest.mark.slow
def test_of_a_table_that_is_indexed_all_is_read_or_nothing_is_known(
    compiled: tuple[bytes, dict[str, KernelCode]],
) -> None:
    cubin, kernels = compiled
    reads = find_reads(cubin, kernels["indexed"])

    assert reads is None or reads >= set(range(16))


@pytest.mark.parametrize(
    ("instruction", "reads"),
    [
        ("LDC R1, c[0x0][0x214] ;", {4, 5, 6, 7}),
        ("@!P0 LDC.U8 R1, c[0x0][0x214] ;", {4}),
        ("ULDC.64 UR4, c[0x0][0x210] ;", set(range(8))),
        ("IMAD.WIDE R2, R2, R3, c[0x0][0x218] ;", set(range(8, 16))),
        ("FADD R7, R2, c[0x0][0x218] ;", {8, 9, 10, 11}),
        ("DADD R2, R2, c[0x0][0x210] ;", set(range(16))),
        ("SOMENEW R2, c[0x0][0x210] ;", set(range(16))),
        ("LDC R1, c[0x0][0x28] ;", set()),
        ("LDC R1, c[0x3][0x214] ;", set()),
        ("LDC R1, c[0x0][R2+0x210] ;", None),
        ("LDC R1, cx[UR4][0x210] ;", None),
        ("LDC R1, c[UR4][0x210] ;", None),
        ("CALL.ABS.NOINC `(f) ;", None),
    ],
)
def test_an_instruction_reads_what_its_operand_says_and_the_most_where_it_is_unknown(
    instruction: str, reads: set[int] | None
) -> None:
    found = list_reads(f"        /*0010*/                   {instruction}\n", 0x210, 16)

    assert found == reads


def test_what_does_not_look_like_an_instruction_hides_no_operand() -> None:
    text = "        /*0000*/ EXIT ;\n        { LDC R1, c[0x0][0x210] }\n"

    assert list_reads(text, 0x210, 16) is None
    assert list_reads("", 0x210, 16) is None


def test_only_what_is_read_stays_of_an_argument() -> None:
    parameter = Parameter(1, 8, 8)

    assert mask_unread(b"\x07\x01\x02\x03abcd", parameter, frozenset(range(12, 16))) == b"\0\0\0\0abcd"
    assert has_padding(parameter)
    assert not has_padding(Parameter(0, 0, 4))
    assert not has_padding(Parameter(0, 0, 128))
