"""What two launches must have in common to be the same work, and what the machine code says of a kernel."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest

from pytest_nsight.recorders.cupti.activity import Activity
from pytest_nsight.recorders.launch_identity.code_choice import UnidentifiedError
from pytest_nsight.recorders.launch_identity.launch_arguments import (
    Allocation,
    alignment_of,
    describe_arguments,
    join_rounds,
)
from pytest_nsight.recorders.launch_identity.launch_capture import LaunchCapture
from pytest_nsight.recorders.launch_identity.launch_reader import LaunchReader
from pytest_nsight.recorders.machine_code.elf_file import CubinError, measure_cubin
from pytest_nsight.recorders.machine_code.machine_code import KernelCode, Parameter, read_kernels
from pytest_nsight.worker.nvrtc import CompilationError, compile_source, load_nvrtc

pytestmark = pytest.mark.slow

SCALE = """
extern "C" __global__ void scale(float* x, const float* y, int n, float factor) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = y[i] * factor + 1.0f;
}
"""
OTHERS = """
template <class T> __global__ void add(T* x) { x[threadIdx.x] += T(1); }
template __global__ void add<float>(float*);
template __global__ void add<double>(double*);
"""
HEAP = Allocation(0x7F0000000000, 4096)


def find(address: int) -> Allocation | None:
    return HEAP if HEAP.address <= address < HEAP.address + HEAP.size else None


def word(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}Q", *numbers)


@pytest.fixture(scope="module")
def cubin() -> Callable[..., bytes]:
    """Compiles CUDA C."""
    try:
        library = load_nvrtc()
    except CompilationError as error:
        pytest.skip(str(error))
    return lambda source, *options: compile_source(library, source, (9, 0), options).image


@pytest.fixture(scope="module")
def build(cubin: Callable[..., bytes]) -> Callable[..., dict[str, KernelCode]]:
    """Compiles CUDA C and reads its kernels."""
    return lambda source, *options: read_kernels(cubin(source, *options))


def test_parameters_registers_and_shared_memory(build: Callable[..., dict[str, KernelCode]]) -> None:
    source = """
    struct Two { float* p; int n; };
    extern "C" __global__ void first(Two two, char flag, double* out) {
      __shared__ float kept[64];
      kept[threadIdx.x % 64] = two.p[two.n];
      __syncthreads();
      out[flag] = kept[two.n % 64];
    }
    """
    kernel = build(source)["first"]

    assert kernel.parameters == (Parameter(0, 0, 16), Parameter(1, 16, 1), Parameter(2, 24, 8))
    assert kernel.code.shared_bytes >= 256
    assert kernel.code.registers > 0
    assert kernel.code.instructions > 10


@pytest.mark.parametrize(
    ("source", "options"),
    [
        pytest.param(SCALE.replace("int i =", "// A comment.\n\n  int i ="), (), id="comment"),
        pytest.param(SCALE.replace("factor", "by"), (), id="renamed-parameter"),
        pytest.param(SCALE, ("-lineinfo",), id="line-table"),
        pytest.param(OTHERS + SCALE, (), id="more-kernels-in-the-module"),
    ],
)
def test_what_does_not_change_the_code_has_the_same_digest(
    build: Callable[..., dict[str, KernelCode]], source: str, options: tuple[str, ...]
) -> None:
    assert build(source, *options)["scale"].code.digest == build(SCALE)["scale"].code.digest


@pytest.mark.parametrize(
    ("source", "options"),
    [
        pytest.param(SCALE.replace("1.0f", "2.0f"), (), id="constant"),
        pytest.param(SCALE.replace("+ 1.0f", "- y[0]"), (), id="operation"),
        pytest.param(SCALE.replace("int n", "long n"), (), id="type-of-a-parameter"),
        pytest.param(SCALE.replace("void scale", "void __launch_bounds__(64) scale"), (), id="launch-bounds"),
        pytest.param(SCALE, ("-fmad=false",), id="compiler-flag"),
        pytest.param(SCALE, ("-G",), id="debug-code"),
    ],
)
def test_what_changes_the_code_has_another_digest(
    build: Callable[..., dict[str, KernelCode]], source: str, options: tuple[str, ...]
) -> None:
    assert build(source, *options)["scale"].code.digest != build(SCALE)["scale"].code.digest


def test_a_change_in_a_called_function_or_a_constant_is_seen(build: Callable[..., dict[str, KernelCode]]) -> None:
    source = """
    __constant__ float table[4] = {1, 2, 3, 4};
    __device__ __noinline__ float step(float x, int n) { return n ? step(x * 2 + table[n & 3], n - 1) : x; }
    extern "C" __global__ void walk(float* x, int n) { x[0] = step(x[0], n); }
    """
    digests = {
        build(changed, "-rdc=true")["walk"].code.digest
        for changed in (source, source.replace("x * 2", "x * 3"), source.replace("{1, 2", "{5, 2"))
    }

    assert len(digests) == 3


def test_kernels_compiled_by_triton() -> None:
    triton: Any = pytest.importorskip("triton")
    from triton.backends.compiler import GPUTarget  # noqa: PLC0415 - only where Triton is
    from triton.compiler import ASTSource  # noqa: PLC0415

    from benchmarks.context.suite.tiny_cases import _tiny_scale_kernel  # noqa: PLC0415

    types = {"x_ptr": "*fp32", "y_ptr": "*fp32", "n_elements": "i32", "BLOCK": "constexpr"}

    def compile_(block: int) -> KernelCode:
        source = ASTSource(_tiny_scale_kernel, types, {(3,): block})
        compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32))
        return read_kernels(compiled.asm["cubin"])["_tiny_scale_kernel"]

    first, second = compile_(256), compile_(1024)

    assert [(one.offset, one.size) for one in first.parameters[:3]] == [(0, 8), (8, 8), (16, 4)]
    assert first.code.digest == compile_(256).code.digest != second.code.digest
    assert first.code.instructions != second.code.instructions


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"PK\x03\x04" + bytes(100), b"\x7fELF" + bytes(100)])
def test_what_is_no_cubin_is_refused(data: bytes) -> None:
    with pytest.raises(CubinError):
        read_kernels(data)


def test_a_cut_cubin_is_refused(cubin: Callable[..., bytes]) -> None:
    whole = cubin(SCALE)

    # Behind the section headers stands only what the loader needs.
    (headers,) = struct.unpack_from("<Q", whole, 0x28)

    for length in range(0, headers, 97):
        with pytest.raises(CubinError):
            read_kernels(whole[:length])


def test_a_pointer_counts_by_alignment_and_allocation_not_by_address() -> None:
    parameters = [Parameter(0, 0, 8), Parameter(1, 8, 8), Parameter(2, 16, 4)]

    def described(first: int, second: int) -> tuple[str, ...]:
        values = {0: word(HEAP.address + first), 1: word(HEAP.address + second), 2: struct.pack("<i", -7)}
        return describe_arguments(values, parameters, find, {})

    assert described(256, 512) == described(512, 1024)
    assert described(256, 512) != described(256, 520)
    assert described(256, 256) != described(256, 512), "in place is other work"
    assert described(0, 256)[2] == "-7"


def test_pointers_within_a_struct_are_found() -> None:
    parameters = [Parameter(0, 4, 20)]
    # The struct begins in the middle of a word, so its pointer lies 4 bytes behind its start.
    values = [{0: struct.pack("<iQQ", 5, HEAP.address + place, 99)} for place in (0, 256, 8)]

    first, second, misaligned = (describe_arguments(value, parameters, find, {}) for value in values)

    assert first == second != misaligned
    assert "99" in first[0]
    assert "5" in first[0]


def test_a_number_that_looks_like_no_address_counts_by_its_bytes() -> None:
    parameters = [Parameter(0, 0, 24)]
    one, other = ({0: word(1, number, 0)} for number in (4096, 4160))

    assert describe_arguments(one, parameters, find, {}) != describe_arguments(other, parameters, find, {})


def test_of_an_address_of_the_process_a_small_alignment_counts_and_which_are_equal() -> None:
    """Its heap and stack lie elsewhere in every process, aligned to 16 bytes at least."""
    parameters = [Parameter(0, 0, 8), Parameter(1, 8, 8)]

    def describe(first: int, second: int) -> tuple[str, ...]:
        values = {0: word(first), 1: word(second)}
        return describe_arguments(values, parameters, lambda address: Allocation(address, 0), {})

    found = describe(0x7FFD00000010, 0x7FFD00000014)

    assert found == ("pointer 0 aligned to 16 into the process", "pointer 1 aligned to 4 into the process")
    assert describe(0x7FFC00000020, 0x7FFC00000024) == found
    assert describe(0x7FFC00000020, 0x7FFC00000020) != found
    assert describe(0x7FFC00000020, 0x7FFC00000030) != found


def test_an_argument_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="argument 0 has 4 bytes instead of 8"):
        describe_arguments({0: bytes(4)}, [Parameter(0, 0, 8)], find, {})


POINTER = "pointer 0 aligned to 256 into 4096 bytes"
LONG = "00" * 40


@pytest.mark.parametrize(
    ("first", "later", "joined"),
    [
        ("1", "2", "1, then 2"),
        (f"{POINTER}, 1", f"{POINTER}, 0a", f"{POINTER}, 1, then #"),
        ("512 bytes", "1024 bytes", None),
        (POINTER, POINTER.replace("r 0", "r 1"), None),
        (POINTER, "0", None),
        ("1", "1, 2", None),
        ("cluster 2x1x1", "cluster 4x1x1", None),
    ],
)
def test_only_numbers_may_differ_from_round_to_round(first: str, later: str, joined: str | None) -> None:
    found = join_rounds(first, later)

    assert found is joined is None or str(found).startswith(str(joined))


def test_of_long_numbers_of_later_rounds_the_digest_is_kept() -> None:
    first = f"{POINTER}, {LONG}"
    one, other = (join_rounds(first, f"{POINTER}, {LONG[:-1]}{digit}") for digit in "12")

    assert one is not None
    assert one.startswith(f"{first}, then #")
    assert one != other
    assert len(one) < len(first) + 30


def test_alignment() -> None:
    assert [alignment_of(address) for address in (0x1000, 0x1008, 0x1010, 0x1001)] == [256, 8, 16, 1]


def test_a_launch_that_reads_what_the_one_before_it_wrote_differs_from_one_that_reads_something_else() -> None:
    parameters = [Parameter(0, 0, 8), Parameter(1, 8, 8)]

    def described(read: int) -> tuple[str, ...]:
        numbers: dict[int, int] = {}
        written = HEAP.address + 1024
        describe_arguments({0: word(HEAP.address), 1: word(written)}, parameters, find, numbers)
        return describe_arguments({0: word(read), 1: word(HEAP.address + 2048)}, parameters, find, numbers)

    assert described(HEAP.address + 1024) != described(HEAP.address + 3072)


def test_a_round_on_several_streams_has_no_identity() -> None:
    copies = [Activity("copy", "1", at, at + 5, at, stream=at, bytes_moved=8) for at in (7, 21)]
    reader = LaunchReader(LaunchCapture(None, object()))  # type: ignore[arg-type]

    assert len(reader.read(copies[:1], (), lambda _: "")) == 1
    with pytest.raises(UnidentifiedError, match="it uses 2 streams, and no record says which waits for which"):
        reader.read(copies, (), lambda _: "")


def test_the_size_of_a_cubin_in_memory_is_read_from_its_headers(cubin: Callable[..., bytes]) -> None:
    whole = cubin(SCALE)
    memory = whole + bytes(1000)

    assert measure_cubin(lambda offset, size: memory[offset : offset + size]) <= len(whole)
    measured = memory[: measure_cubin(lambda offset, size: memory[offset : offset + size])]
    assert read_kernels(measured) == read_kernels(whole)
