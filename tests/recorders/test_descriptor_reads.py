"""Descriptors of tensors among the arguments: which bytes they are, and when it is not known."""

from __future__ import annotations

import pytest

from pytest_nsight.model.identity import MachineCode
from pytest_nsight.recorders.machine_code.descriptor_reads import find_descriptors
from pytest_nsight.recorders.machine_code.disassembly import find_disassembler
from pytest_nsight.recorders.machine_code.instructions import ControlFlow, parse
from pytest_nsight.recorders.machine_code.machine_code import KernelCode, Parameter, read_kernels
from pytest_nsight.recorders.machine_code.parameter_reads import find_reads, read_code
from pytest_nsight.worker.nvrtc import compile_source
from tests.toolchain import lack, require_nvrtc

WORD = 0x198

SOURCE = r"""
struct alignas(64) Map { char bytes[128]; };
struct Notes { const char* name; int used; int lines[7]; };
extern "C" __global__ void copy_tile(
    const __grid_constant__ Map from, Notes notes, const __grid_constant__ Map to, int n) {
  __shared__ alignas(128) char tile[1024];
  __shared__ unsigned long long barrier;
  unsigned place = __cvta_generic_to_shared(tile), bar = __cvta_generic_to_shared(&barrier);
  asm volatile("prefetch.tensormap [%0];" :: "l"(&from));
  asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(bar));
  for (int i = 0; i < n; i++)
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];"
                 :: "r"(place), "l"(&from), "r"(i), "r"(notes.used), "r"(bar) : "memory");
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %1}], [%2];"
               :: "l"(&to), "r"(n), "r"(place) : "memory");
}
extern "C" __global__ void copy_and_look(const __grid_constant__ Map from, const char** out, int n) {
  __shared__ alignas(128) char tile[1024];
  unsigned place = __cvta_generic_to_shared(tile);
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %1}], [%2];"
               :: "l"(&from), "r"(n), "r"(place) : "memory");
  *out = from.bytes;
}
"""

ADDRESS = "ULDC.64 UR4, c[0x0][0x198] ;"
LOW, HIGH = "UIADD3 UR6, UP0, UR4, 0x40, URZ ;", "UIADD3.X UR7, URZ, UR5, URZ, UP0, !UPT ;"
LOAD = "UTMALDG.2D [UR8], [UR6], desc[UR22] ;"
END = "EXIT ;"


@pytest.mark.slow
@pytest.mark.parametrize("architecture", [(9, 0), (10, 0)], ids=["sm_90", "sm_100"])
def test_of_a_compiled_kernel_the_descriptors_are_read_and_nothing_beside_them(
    architecture: tuple[int, int],
) -> None:
    if find_disassembler() is None:
        lack("there is no nvdisasm: it comes with Triton or the CUDA toolkit")
    kernels = read_kernels(compile_source(require_nvrtc(), SOURCE, architecture).image)
    reads = find_reads(list(kernels.values()))

    found = reads[kernels["copy_tile"]]
    assert found is not None
    assert found.anywhere is not None
    first, notes, second, number = kernels["copy_tile"].parameters
    places = {(one.ordinal, at) for one in (first, second) for at in range(one.size)}
    places |= {(notes.ordinal, at) for at in range(8, 12)} | {(number.ordinal, at) for at in range(4)}
    parameters = kernels["copy_tile"].parameters
    assert {
        (one.ordinal, at) for one in parameters for at in range(one.size) if one.offset + at in found.anywhere
    } == places
    assert reads[kernels["copy_and_look"]] is None, "its address is written to memory"


def find(*texts: str) -> set[int] | None:
    instructions = [one for one in (parse(text, 0) for text in texts) if one is not None]
    assert len(instructions) == len(texts)
    found = find_descriptors(instructions, ControlFlow(instructions), WORD)
    return None if found is None else set(found)


@pytest.mark.parametrize(
    ("texts", "offsets"),
    [
        pytest.param([ADDRESS, LOW, HIGH, LOAD, END], {0x40}, id="loaded"),
        pytest.param([ADDRESS, LOW, HIGH, "UTMASTG.2D [UR8], [UR6] ;", END], {0x40}, id="stored"),
        pytest.param([ADDRESS, LOW, HIGH, "UTMACCTL.PF [UR6] ;", END], {0x40}, id="prefetched"),
        pytest.param([ADDRESS, "UTMALDG.2D [UR8], [UR4] ;", END], {0}, id="the-first-parameter"),
        pytest.param(
            [ADDRESS, LOW, HIGH, "UMOV UR14, UR6 ;", "UMOV UR15, UR7 ;", "UTMALDG.2D [UR8], [UR14] ;", END],
            {0x40},
            id="copied",
        ),
        pytest.param(
            ["LDC.64 R4, c[0x0][0x198] ;", "IADD3 R4, P0, R4, 0x80, RZ ;", "IADD3.X R5, RZ, R5, RZ, P0, !PT ;",
             "R2UR UR6, R4 ;", "R2UR UR7, R5 ;", LOAD, END],
            {0x80},
            id="by-way-of-other-registers",
        ),
        pytest.param(
            [ADDRESS, LOW, HIGH, "@P0 UIADD3 UR6, UP0, UR4, 0x80, URZ ;", LOAD, END], {0x40, 0x80}, id="one-of-two"
        ),
        pytest.param(["ULDC.64 UR6, c[0x0][0x250] ;", LOAD, END], set(), id="in-global-memory"),
        pytest.param([ADDRESS, LOW, HIGH, LOAD, "UMOV UR6, 0x1 ;", "FMUL R1, R1, UR6 ;", END], {0x40}, id="reused"),
        pytest.param(
            ["BSSY B0, 0x60 ;", "@P0 BRA 0x50 ;", ADDRESS, LOW, HIGH, "BSYNC B0 ;", "BSSY B1, 0x90 ;",
             "FMUL R1, R1, R2 ;", "BSYNC B1 ;", "LDG.E R1, desc[UR4][R2.64] ;", END],
            set(),
            id="a-descriptor-of-memory-is-no-address",
        ),
        pytest.param([ADDRESS, LOW, HIGH, "STG.E desc[UR20][R2.64], UR6 ;", END], None, id="written-to-memory"),
        pytest.param([ADDRESS, "IMAD.U32 R2, RZ, RZ, UR4 ;", END], None, id="moved-in-another-way"),
        pytest.param([ADDRESS, "UIADD3 UR6, UP0, UR4, UR9, URZ ;", END], None, id="an-offset-that-is-computed"),
        pytest.param([ADDRESS, LOW, LOAD, END], None, id="half-an-address"),
        pytest.param([ADDRESS, "UTMALDG.2D [UR4], [UR6] ;", END], None, id="as-a-coordinate"),
        pytest.param([ADDRESS, "STL.64 [R1], R2 ;", "@P0 R2UR UR4, R2 ;", "SEL R3, R2, UR4, P0 ;", END], None,
                     id="kept-where-a-guard-is-false"),
        pytest.param([ADDRESS, LOW, HIGH, LOAD, "CALL.ABS.NOINC R20 ;", END], None, id="held-at-a-call"),
        pytest.param(["CALL.ABS.NOINC R20 ;", ADDRESS, LOW, HIGH, LOAD, END], {0x40}, id="taken-after-the-call"),
        pytest.param(["CALL.REL.NOINC 0x20 ;", END, ADDRESS, "RET.REL.NODEC R4 0x0 ;"], None, id="functions"),
    ],
)  # fmt: skip
def test_an_address_of_parameters_is_followed_to_where_it_is_used(
    texts: list[str], offsets: set[int] | None
) -> None:
    assert find(*texts) == offsets


READ = "LD.E R0, desc[UR10][R6.64+0x80] ;"


@pytest.mark.parametrize(
    "other",
    [
        "I2F.RP R5, R10 ;", "I2F.U64 R5, R10 ;", "F2I.U64.TRUNC R5, R10 ;", "F2F.F32.F64 R5, R10 ;",
        "CS2R.32 R5, SRZ ;", "SHF.L.U64.HI R5, R2, 0x1, R3 ;", "SHF.R.S64 R5, R2, 0x1, R3 ;",
        "MATCH.ANY.U64 R5, R2 ;",
    ],
)  # fmt: skip
def test_what_an_instruction_may_write_beside_its_result_keeps_its_address(other: str) -> None:
    """I2F.U64 writes one register; that it may write two is for those who ask what is known no longer."""
    assert find("LDC.64 R6, c[0x0][0x198] ;", other, READ, END) is None
    assert find("LDC.64 R6, c[0x0][0x198] ;", other, "MOV R6, RZ ;", READ, END) == set()


@pytest.mark.parametrize(
    "text",
    [
        "STG.E.ENL2.256 desc[UR8][R2.64], R20, R4 ;", "STG.E.128 desc[UR8][R2.64], R4 ;",
        "STSM.16.M88.4 [R0], R4 ;", "STTM.x8 tmem[UR4], R0 ;", "HMMA.16816.F32 R20, R4, R12, R20 ;",
    ],
)  # fmt: skip
def test_an_operand_of_several_registers_may_hold_an_address_in_each(text: str) -> None:
    assert find("LDC.64 R6, c[0x0][0x198] ;", text, END) is None


def test_a_barrier_that_is_moved_may_lead_to_any_join() -> None:
    # 0: jump to 3, 1: barrier for 5, 2: jump to 4, 3: moved, 4: wait; 5: an end, 8: the other join has an address.
    texts = ["@P0 BRA 0x30 ;", "BSSY B0, 0x50 ;", "BRA 0x40 ;", "BMOV.32 B0, R10 ;", "BSYNC B0 ;", END,
             "BSSY B1, 0x80 ;", END, ADDRESS, "UBLKPF [UR4], UR6 ;", END]  # fmt: skip

    assert find(*texts) is None


def test_ways_that_meet_hold_what_either_holds() -> None:
    other = ["UIADD3 UR6, UP0, UR4, 0x80, URZ ;", "UIADD3.X UR7, URZ, UR5, URZ, UP0, !UPT ;"]

    # 0: address, 1: jump to 5, 2 and 3: one descriptor, 4: jump to 7, 5 and 6: the other, 7: load.
    assert find(ADDRESS, "@P0 BRA 0x50 ;", LOW, HIGH, "BRA 0x70 ;", *other, LOAD, END) == {0x40, 0x80}


def read(parameters: tuple[Parameter, ...], *texts: str) -> set[int] | None:
    kernel = KernelCode("kernel", MachineCode("", len(texts)), parameters, 0x210, is_whole=True)
    found = read_code([parse(text, 0) for text in texts], kernel)
    return None if found is None or found.anywhere is None else set(found.anywhere)


def test_an_address_in_no_parameter_is_not_known() -> None:
    assert read((Parameter(0, 0, 64), Parameter(1, 128, 64)), ADDRESS, LOW, HIGH, LOAD, END) is None


def test_a_descriptor_ends_with_its_parameter() -> None:
    small = (Parameter(0, 0, 64), Parameter(1, 64, 64), Parameter(2, 128, 8))
    large = (Parameter(0, 0, 64), Parameter(1, 64, 192))

    assert read(small, ADDRESS, LOW, HIGH, LOAD, END) == set(range(64, 128))
    assert read(large, ADDRESS, LOW, HIGH, LOAD, END) == set(range(64, 192))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("ULDC UR9, c[0x0][0x198] ;", id="half-of-the-address"),
        pytest.param("ULDC.64 UR8, c[0x0][0x190] ;", id="another-word-of-the-driver"),
        pytest.param("LDC.64 R8, c[0x0][R3] ;", id="any-word"),
    ],
)
def test_what_else_reads_the_driver_s_words_may_read_any_parameter(text: str) -> None:
    assert read((Parameter(0, 0, 64), Parameter(1, 64, 64)), ADDRESS, LOW, HIGH, LOAD, text, END) is None
