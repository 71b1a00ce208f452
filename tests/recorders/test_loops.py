"""The loops of a kernel, from its bytes: as nvdisasm shows them, for what NVRTC compiles."""

from __future__ import annotations

import struct

import pytest

from pytest_nsight.recorders.machine_code.disassembly import disassemble, find_disassembler
from pytest_nsight.recorders.machine_code.instructions import INSTRUCTION_BYTES
from pytest_nsight.recorders.machine_code.loops import MOST_LOOPS, find_loops
from pytest_nsight.recorders.machine_code.machine_code import read_kernels
from pytest_nsight.worker.nvrtc import compile_source
from tests.toolchain import lack, require_nvrtc

SOURCE = r"""
extern "C" __global__ void straight(float* x) { x[threadIdx.x] *= 2.0f; }
extern "C" __global__ void loops(float* x, int n, int m) {
  float sum = 0.0f;
  #pragma unroll UNROLLED
  for (int i = 0; i < n; i++) sum = sum * x[i * m] + x[i];
  #pragma unroll 1
  for (int i = 0; i < m; i++) {
    #pragma unroll 1
    for (int j = 0; j < n; j++) {
      if (x[j] > sum) continue;
      sum += x[j] * x[i];
    }
    x[i] = sum;
  }
  x[0] = sum;
}
"""

ARCHITECTURES = [(7, 5), (8, 0), (8, 9), (9, 0), (10, 0), (12, 0)]


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=lambda pair: f"sm_{pair[0]}{pair[1]}")
def test_the_loops_of_compiled_code_are_the_jumps_back_that_nvdisasm_shows(architecture: tuple[int, int]) -> None:
    if find_disassembler() is None:
        lack("there is no nvdisasm: it comes with Triton or the CUDA toolkit")
    found = {}
    for unrolled in (1, 4):
        image = compile_source(require_nvrtc(), SOURCE.replace("UNROLLED", str(unrolled)), architecture).image
        kernels = read_kernels(image)
        assert kernels["straight"].code.loops == ()
        kernel = kernels["loops"]
        (code,) = disassemble(kernel.architecture, [kernel.text])
        assert code is not None
        ends: dict[int, int] = {}
        for at, one in enumerate(code):
            if one is not None and one.name == "BRA" and one.target is not None:
                target = one.target // INSTRUCTION_BYTES
                if target < at:
                    ends[target] = at
        expected = tuple(end - start + 1 for start, end in sorted(ends.items(), key=lambda loop: loop[1]))
        assert kernel.code.loops == expected
        assert len(expected) >= 3
        found[unrolled] = kernel.code.loops
    assert max(found[4]) > max(found[1]), "an unrolled loop is longer"


def _jump_back(turns: int) -> bytes:
    """An instruction of SM 8.0 that jumps back over so many others."""
    offset = -(turns + 1) * INSTRUCTION_BYTES // 4 % 2**48
    whole = 0x947 | offset << 34
    return struct.pack("<QQ", whole % 2**64, whole >> 64)


def test_of_many_loops_the_longest_stay_in_their_order() -> None:
    nothing = bytes(INSTRUCTION_BYTES)
    lengths = [3, *range(5, 5 + MOST_LOOPS), 2]
    code = b"".join(nothing * length + _jump_back(length) for length in lengths)

    assert find_loops(code, 80) == tuple(length + 1 for length in lengths[1:-1])


def test_a_jump_to_itself_is_no_loop_and_neither_is_one_out_of_the_code() -> None:
    assert find_loops(_jump_back(0) + _jump_back(9), 80) == ()
    assert find_loops(b"cut off", 80) == ()
