"""What one launch reads of its arguments: by rules on hand-written code, and in what NVRTC compiles."""

from __future__ import annotations

import random
import struct
import subprocess
import sys

import pytest

from pytest_nsight.model.identity import MachineCode
from pytest_nsight.recorders.machine_code.disassembly import find_disassembler
from pytest_nsight.recorders.machine_code.instructions import parse
from pytest_nsight.recorders.machine_code.machine_code import KernelCode, Parameter, read_kernels
from pytest_nsight.recorders.machine_code.parameter_reads import KernelReads, find_reads, read_code
from tests.toolchain import lack, require_nvrtc

FIRST = 0x210
SIZE = 128
"""More than 64 bytes: smaller structs are not followed."""

GRID = (1 << 20, 1, 1)


def read_texts(*texts: str) -> KernelReads:
    kernel = KernelCode("kernel", MachineCode("", len(texts)), (Parameter(0, 0, SIZE),), FIRST, is_whole=True)
    found = read_code([parse(text, 0) for text in texts], kernel)
    assert found is not None
    return found


def follow(reads: KernelReads, *numbers: int, grid: tuple[int, int, int] = GRID) -> frozenset[int] | None:
    """What a launch reads with these words at the beginning of its parameters; the others are of addresses."""
    known = b"".join(struct.pack("<I", number % 2**32) for number in numbers)
    others = [0xAB] * (SIZE - len(known))
    return reads.of_launch([*known, *others], range(len(known), SIZE), grid)


def words(*places: int) -> set[int]:
    """Bytes of these words of the parameters."""
    return {4 * place + at for place in places for at in range(4)}


LOAD = "LDC R5, c[0x0][0x210] ;"
IN_BOTH = "LDC R9, c[0x0][0x23c] ;"
"""Reads word 11."""

END = "EXIT ;"


JUMP = "@P0 BRA 0x60 ;"
EQUALS_0 = "ISETP.EQ.AND P0, PT, R5, RZ, PT ;"
UPPER_OF_ONE_LESS = ["IADD3 R6, P1, R5, -0x1, RZ ;", "IADD3.X R7, RZ, -0x1, RZ, P1, !PT ;"]
UPPER_OF_7_LESS = ["IADD3 R6, P1, 0x7, -R5, RZ ;", "IMAD.X R7, RZ, RZ, ~RZ, P1 ;"]
"""Upper halves of numbers of 64 bits: one less than word 0, and word 0 less than 7."""
LESS_THAN_5 = ["ISETP.LT.U32.AND P0, PT, R5, 0x5, PT ;", "ISETP.LT.AND.EX P0, PT, R7, RZ, PT, P0 ;"]
JUMPS, STAYS, BOTH = {0, 11}, {0, 7}, {0, 7, 11}
"""Words that are read of the code in the test below: the jump is certain to be taken, or not to be, or unknown."""


@pytest.mark.parametrize(
    ("texts", "number", "found"),
    [
        pytest.param(["ISETP.NE.AND P0, PT, R5, RZ, PT ;", "@!P0 BRA 0x50 ;"], 0, JUMPS, id="not-equal"),
        pytest.param(["ISETP.NE.AND P0, PT, R5, RZ, PT ;", "@!P0 BRA 0x50 ;"], 1, STAYS, id="equal"),
        pytest.param(["ISETP.LT.AND P0, PT, R5, RZ, PT ;", "@P0 BRA 0x50 ;"], -1, JUMPS, id="signed"),
        pytest.param(["ISETP.LT.U32.AND P0, PT, R5, 0x7, PT ;", "@P0 BRA 0x50 ;"], -1, STAYS, id="unsigned"),
        pytest.param(["ISETP.GE.OR P0, PT, R5, 0x7, PT ;", "@P0 BRA 0x50 ;"], 0, JUMPS, id="or-true"),
        pytest.param(["ISETP.GE.AND P0, PT, R7, 0x7, !PT ;", "@!P0 BRA 0x50 ;"], 9, JUMPS, id="and-false"),
        pytest.param(["ISETP.GE.AND P0, PT, R7, 0x7, PT ;", "@P0 BRA 0x50 ;"], 9, BOTH, id="unknown-register"),
        pytest.param(["ISETP.GE.AND.EX P0, PT, R5, 0x7, PT, P1 ;", "@P0 BRA 0x50 ;"], 9, BOTH, id="of-64-bits"),
        pytest.param(["ISETP.EQ.AND P1, P0, R5, RZ, PT ;", "@P0 BRA 0x50 ;"], 1, BOTH, id="second-result"),
        pytest.param(["ISETP.EQ.AND P0, PT, R5, RZ, PT ;", "@P0 BRA P1, 0x50 ;"], 0, BOTH, id="two-conditions"),
        pytest.param(
            ["ISETP.EQ.AND P0, PT, R5, RZ, PT ;", "@P1 BRA P0, 0x50 ;"], 1, STAYS, id="one-condition-is-false"
        ),
        pytest.param(["ISETP.EQ.AND P0, PT, R5, RZ, PT ;", "@P0 BRA.DIV UR4, 0x50 ;"], 0, BOTH, id="divergent"),
        pytest.param(
            ["SOMENEW R2 ;", EQUALS_0, JUMP],
            0,
            BOTH,
            id="unknown-instruction",
        ),
        pytest.param(
            ["LDG.E.64 R4, desc[UR4][R8.64] ;", EQUALS_0, JUMP],
            0,
            BOTH,
            id="half-of-a-pair",
        ),
        pytest.param(
            ["LDG.E.64 R6, desc[UR4][R8.64] ;", EQUALS_0, JUMP],
            0,
            JUMPS,
            id="beside-a-pair",
        ),
        pytest.param(
            ["@P3 MOV R5, RZ ;", EQUALS_0, JUMP],
            1,
            BOTH,
            id="perhaps-overwritten",
        ),
        pytest.param(
            ["IMAD R5, R5, 0x4, RZ ;", "ISETP.EQ.AND P0, PT, R5, 0xc, PT ;", JUMP],
            3,
            JUMPS,
            id="multiplied",
        ),
        pytest.param(
            ["IMAD.WIDE R4, R5, 0x4, RZ ;", "ISETP.EQ.AND P0, PT, R5, 0xc, PT ;", JUMP],
            3,
            BOTH,
            id="a-product-of-64-bits",
        ),
        pytest.param(
            ["IADD3 R5, -R5, 0x4, RZ ;", "ISETP.EQ.AND P0, PT, R5, 0x1, PT ;", JUMP],
            3,
            JUMPS,
            id="subtracted",
        ),
        pytest.param(
            ["IADD3 R5, P2, R5, 0x4, RZ ;", "ISETP.EQ.AND P0, PT, R5, 0x7, PT ;", JUMP],
            3,
            JUMPS,
            id="with-a-carry-out",
        ),
        *(
            pytest.param([*texts, "@P0 BRA 0x70 ;"], number, found, id=name)
            for name, texts, number, found in [
                ("carried", [*UPPER_OF_ONE_LESS, "ISETP.EQ.AND P0, PT, R7, RZ, PT ;"], 1, JUMPS),
                ("nothing-carried", [*UPPER_OF_ONE_LESS, "ISETP.EQ.AND P0, PT, R7, RZ, PT ;"], 0, STAYS),
                ("zero-borrows-nothing", [*UPPER_OF_7_LESS, "ISETP.EQ.AND P0, PT, R7, RZ, PT ;"], 0, JUMPS),
                ("nor-does-what-is-less", [*UPPER_OF_7_LESS, "ISETP.EQ.AND P0, PT, R7, RZ, PT ;"], 7, JUMPS),
                ("borrowed", [*UPPER_OF_7_LESS, "ISETP.EQ.AND P0, PT, R7, RZ, PT ;"], 8, STAYS),
                ("by-the-upper-half", ["MOV R7, 0x1 ;", *LESS_THAN_5], 9, STAYS),
                ("by-the-lower-half", ["MOV R7, RZ ;", *LESS_THAN_5], 4, JUMPS),
                ("by-the-lower-half-too-large", ["MOV R7, RZ ;", *LESS_THAN_5], 5, STAYS),
                ("by-a-negative-upper-half", ["MOV R7, 0xffffffff ;", *LESS_THAN_5], 9, JUMPS),
            ]
        ),
        *(
            pytest.param([text, f"ISETP.EQ.AND P0, PT, R5, {value}, PT ;", JUMP], number, JUMPS, id=name)
            for name, text, number, value in [
                ("the-greater", "VIMNMX R5, R5, -0x3, !PT ;", -5, "-0x3"),
                ("the-greater-on-blackwell", "VIMNMX R5, PT, PT, R5, -0x3, !PT ;", -5, "-0x3"),
                ("the-lesser", "VIMNMX R5, R5, -0x3, PT ;", -5, "-0x5"),
                ("the-greater-without-a-sign", "IMNMX.U32 R5, R5, 0x3, !PT ;", -5, "-0x5"),
            ]
        ),
        pytest.param(
            ["LEA R5, R5, 0x1, 0x2 ;", "ISETP.EQ.AND P0, PT, R5, 0xd, PT ;", JUMP],
            3,
            JUMPS,
            id="shifted-and-added",
        ),
        pytest.param(
            ["LOP3.LUT R5, R5, 0x6, RZ, 0xc0, !PT ;", "ISETP.EQ.AND P0, PT, R5, 0x2, PT ;", JUMP],
            3,
            JUMPS,
            id="some-bits",
        ),
        pytest.param(
            ["HFMA2.MMA R5, -RZ, RZ, 1.875, 0 ;", "ISETP.EQ.AND P0, PT, R5, 0x3f800000, PT ;", JUMP],
            3,
            JUMPS,
            id="two-halves",
        ),
        pytest.param(
            ["HFMA2.BF16_V2 R5, -RZ, RZ, 1.875, 0 ;", "ISETP.EQ.AND P0, PT, R5, 0x3f800000, PT ;", JUMP],
            3,
            BOTH,
            id="halves-of-another-format",
        ),
    ],
)
def test_what_lies_behind_a_jump_that_is_certain_is_not_read(
    texts: list[str], number: int, found: set[int]
) -> None:
    reads = read_texts(LOAD, *texts, "LDC R8, c[0x0][0x22c] ;", END, IN_BOTH, END)

    assert follow(reads, number) == words(*found)


@pytest.mark.parametrize(
    ("table", "found"),
    [
        pytest.param("PT, PT, P1, 0x80", STAYS, id="copied"),
        pytest.param("PT, PT, P1, 0x40", JUMPS, id="inverted"),
        pytest.param("!PT, P4, P1, 0x80", STAYS, id="unknown-but-not-needed"),
        pytest.param("PT, P4, P1, 0xe0", BOTH, id="unknown"),
        pytest.param("PT, P4, !P1, 0xe0", JUMPS, id="unknown-beside-a-true-one"),
    ],
)
def test_a_predicate_that_comes_of_others_by_a_table(table: str, found: set[int]) -> None:
    """P1 says whether the word is 0, which it is not."""
    texts = ["ISETP.EQ.AND P1, PT, R5, RZ, PT ;", f"PLOP3.LUT P0, PT, {table}, 0x0 ;", "@P0 BRA 0x60 ;"]
    reads = read_texts(LOAD, *texts, "LDC R8, c[0x0][0x22c] ;", END, IN_BOTH, END)

    assert follow(reads, 1) == words(*found)


@pytest.mark.parametrize("text", ["FRND.TRUNC R9, R8 ;", "BREV R9, R8 ;", "REDG.E.ADD.F32 desc[UR4][R2.64], R9 ;"])
def test_plain_instructions_leave_other_registers_as_they_are(text: str) -> None:
    reads = read_texts(LOAD, text, EQUALS_0, "@P0 BRA 0x50 ;", END, IN_BOTH, END)

    assert follow(reads, 1) == words(0)


def test_threads_that_have_waited_go_on_where_their_barrier_says() -> None:
    """The first barrier's place is not reached a second time, with a register that is no longer known."""
    texts = [
        "MOV R5, 0x1 ;", "BSSY B0, 0x40 ;", "@P4 BRA 0x30 ;", "BSYNC B0 ;",
        "ISETP.NE.AND P0, PT, R5, 0x1, PT ;", "@P0 BRA 0xc0 ;", "LDG.E R5, desc[UR4][R8.64] ;", "{}",
        "@P4 BRA 0x90 ;", "BSYNC B1 ;", END, END, IN_BOTH, END,
    ]  # fmt: skip

    def read(barrier: str) -> frozenset[int] | None:
        return follow(read_texts(*(text.format(barrier) for text in texts)))

    assert read("BSSY B1, 0xa0 ;") == words()
    assert read("@P4 BSSY B1, 0xa0 ;") == read("BMOV.32 B1, R7 ;") == words(11), "it may go on anywhere"


def test_a_value_that_differs_from_process_to_process_decides_nothing() -> None:
    reads = read_texts(LOAD, "ISETP.NE.AND P0, PT, R5, RZ, PT ;", "@P0 BRA 0x40 ;", IN_BOTH, END)

    assert follow(reads) == words(0, 11)


def test_of_two_ways_that_meet_only_what_both_know_is_known() -> None:
    reads = read_texts(
        "MOV R5, 0x1 ;",
        "@P4 BRA 0x30 ;",
        "MOV R5, 0x2 ;",
        "ISETP.EQ.AND P0, PT, R5, 0x1, PT ;",
        "@P0 BRA 0x60 ;",
        IN_BOTH,
        END,
    )

    assert follow(reads) == words(11)


COUNTED = (
    LOAD, "LDC R9, c[0x0][R5+0x218] ;", "IADD3 R5, R5, -0x4, RZ ;", "ISETP.GT.AND P0, PT, R5, RZ, PT ;",
    "@P0 BRA 0x10 ;",
)  # fmt: skip
"""A loop as over the dimensions of a tensor; word 0 says how many bytes its list takes."""


def test_what_a_loop_counts_is_known_in_each_iteration() -> None:
    reads = read_texts(*COUNTED, IN_BOTH, END)

    assert reads.anywhere is None
    assert follow(reads, 12) == words(0, 3, 4, 5, 11)
    assert follow(reads, 4) == words(0, 3, 11)


@pytest.mark.parametrize(
    ("text", "found"),
    [("CS2R R8, SRZ ;", {0, 1}), ("CS2R.32 R8, SRZ ;", None), ("CS2R R8, SR_CLOCKLO ;", None)],
)
def test_a_pair_of_registers_that_is_cleared(text: str, found: set[int] | None) -> None:
    reads = read_texts(text, "LDC R4, c[0x0][R8+0x210] ;", "LDC R5, c[0x0][R9+0x214] ;", END)

    assert follow(reads) == (None if found is None else words(*found))


def test_a_shift_of_a_long_number_changes_one_half_of_it() -> None:
    reads = read_texts("MOV R5, 0x4 ;", "SHF.L.U64.HI R4, R10, 0x3, R11 ;", "LDC R6, c[0x0][R5+0x210] ;", END)

    assert follow(reads) == words(1)


def test_a_loop_whose_end_is_not_known_may_read_anywhere() -> None:
    reads = read_texts(
        LOAD,
        "LDC R9, c[0x0][R5+0x218] ;",
        "IADD3 R5, R5, -0x4, RZ ;",
        "LDG.E R8, desc[UR4][R2.64] ;",
        "ISETP.GT.AND P0, PT, R8, RZ, PT ;",
        "@P0 BRA 0x10 ;",
        END,
    )

    assert follow(reads, 12) is None


def test_more_iterations_than_are_unrolled_may_read_anywhere() -> None:
    reads = read_texts(*COUNTED, END)

    assert follow(reads, 4 * 60) is not None
    assert follow(reads, 4 * 100) is None


def test_a_call_of_the_drivers_code_changes_nothing_that_its_caller_still_reads_but_the_result() -> None:
    def after(register: str) -> frozenset[int] | None:
        place = f"LDC R9, c[0x0][{register}+0x210] ;"
        reads = read_texts(f"MOV {register}, 0x8 ;", "LEPC R20, 0x30 ;", "CALL.ABS.NOINC R14 ;", place, "EXIT ;")
        return follow(reads)

    assert after("R24") == words(2)
    assert after("R4") is None


def test_a_loop_ends_and_its_counter_is_not_known() -> None:
    reads = read_texts(
        "MOV R5, RZ ;",
        "IADD3 R5, R5, 0x1, RZ ;",
        "ISETP.LT.AND P0, PT, R5, 0x4, PT ;",
        "@P0 BRA 0x10 ;",
        IN_BOTH,
        END,
    )

    assert follow(reads) == words(11)


def test_a_place_that_the_number_of_the_block_says_is_found_block_by_block() -> None:
    reads = read_texts("S2R R8, SR_CTAID.X ;", "LDC.U8 R0, c[0x0][R8+0x214] ;", END)

    assert reads.anywhere is None
    assert follow(reads, grid=(3, 1, 1)) == {4, 5, 6}
    assert follow(reads) is None


@pytest.mark.parametrize(
    "text",
    ["LDC R0, c[0x0][R8+0x214] ;", "LDC R0, c[0x0][UR8+0x214] ;", "FADD R0, R1, c[0x0][R8+0x214] ;"],
)
def test_a_place_that_nothing_says_may_be_anywhere(text: str) -> None:
    assert follow(read_texts("LDG.E R8, desc[UR4][R2.64] ;", text, END), grid=(3, 1, 1)) is None


@pytest.mark.parametrize(
    "text", ["BRX R2 -0x10 ;", "JMP 0x20 ;", "BRA 0x7 ;", "BRA 0x900 ;", "RET.ABS R2 ;", "KILL ;"]
)
def test_control_flow_that_is_not_understood_is_not_followed(text: str) -> None:
    reads = read_texts(LOAD, "ISETP.NE.AND P0, PT, R5, RZ, PT ;", "@!P0 BRA 0x50 ;", IN_BOTH, text, END)

    assert follow(reads, 0) == reads.anywhere == words(0, 11)


def test_a_function_of_the_kernel_returns_behind_its_calls() -> None:
    reads = read_texts(
        LOAD, "MOV R20, 0x30 ;", "CALL.REL.NOINC 0x60 ;", IN_BOTH, END, END, "LDC R8, c[0x0][0x22c] ;",
        "RET.REL.NODEC R20 0x0 ;",
    )  # fmt: skip

    assert follow(reads, 0) == words(0, 7, 11)


def test_what_a_function_changes_is_known_behind_each_of_its_calls() -> None:
    """R7 is another number in each call; R5 is one in both, and the function changes neither."""
    reads = read_texts(
        LOAD, "MOV R7, 0x1 ;", "MOV R20, 0x40 ;", "CALL.REL.NOINC 0xc0 ;",
        "ISETP.EQ.AND P0, PT, R7, 0x1, PT ;", "@!P0 BRA 0xa0 ;", "MOV R7, 0x2 ;", "MOV R20, 0x90 ;",
        "CALL.REL.NOINC 0xc0 ;", END, IN_BOTH, END, "LDC R8, c[0x0][0x22c] ;", "RET.REL.NODEC R20 0x0 ;",
    )  # fmt: skip

    assert follow(reads, 0) == words(0, 7)


@pytest.mark.parametrize("address", ["MOV R20, 0x40 ;", "LDG.E R20, desc[UR4][R8.64] ;"])
def test_a_function_that_returns_elsewhere_is_not_followed(address: str) -> None:
    reads = read_texts(
        LOAD, address, "CALL.REL.NOINC 0x50 ;", END, IN_BOTH, "LDC R8, c[0x0][0x22c] ;", "RET.REL.NODEC R20 0x0 ;"
    )

    assert follow(reads, 0) == reads.anywhere == words(0, 7, 11)


@pytest.mark.parametrize("text", ["EXIT P4 ;", "EXIT !P4 ;", "@P4 EXIT ;"])
def test_threads_of_which_some_may_end_go_on(text: str) -> None:
    assert follow(read_texts(text, IN_BOTH, END)) == words(11)


@pytest.mark.parametrize(
    "text",
    [
        "RET.REL.NODEC P4, R20 0x0 ;", "RET.REL.NODEC R20 0x20 ;", "RET.ABS.NODEC R20 0x0 ;",
        "CALL.REL.NOINC P4, 0x70 ;", "CALL.REL.NOINC R4 0x70 ;", "BSSY P4, B0, 0x40 ;", "BSYNC !P4, B0 ;",
    ],
)  # fmt: skip
def test_control_flow_of_a_form_that_is_not_known_is_not_followed(text: str) -> None:
    reads = read_texts(
        LOAD, "MOV R20, 0x30 ;", "CALL.REL.NOINC 0x70 ;", "@P0 BRA 0x60 ;", END, text, END,
        "RET.REL.NODEC R20 0x0 ;", IN_BOTH, END,
    )  # fmt: skip

    assert follow(reads, 0) == reads.anywhere == words(0, 11)


def test_a_call_in_the_last_place_is_not_followed() -> None:
    reads = read_texts(LOAD, "MOV R20, 0x40 ;", "BRA 0x40 ;", "RET.REL.NODEC R20 0x0 ;", "CALL.REL.NOINC 0x30 ;")

    assert follow(reads, 0) == reads.anywhere


def test_a_barrier_that_may_have_been_set_anew_leads_anywhere() -> None:
    texts = ["BSSY B0, 0x40 ;", "@P4 BSSY B0, 0x60 ;", "BSYNC B0 ;", END, END, END, IN_BOTH, END]

    assert follow(read_texts(*texts)) == words(11)


def test_a_load_of_256_bits_names_two_groups_of_registers() -> None:
    texts = ["MOV R8, 0x1 ;", "LDG.E.ENL2.256 R12, R8, desc[UR4][R2.64] ;", "ISETP.EQ.AND P0, PT, R8, 0x1, PT ;"]

    assert follow(read_texts(*texts, "@P0 BRA 0x60 ;", IN_BOTH, END, END)) == words(11)


def test_a_selected_byte_of_a_word_may_be_any() -> None:
    reads = read_texts("I2F.U8 R0, c[0x0][0x22c].B2 ;", END)

    assert reads.anywhere is not None
    assert words(7) <= reads.anywhere


def test_a_whole_address_that_decides_as_a_number_leaves_the_launch_unknown() -> None:
    """The text of the argument would have its alignment only."""
    texts = ["LDC{} R4, c[0x0][0x210] ;", "LDC R5, c[0x0][0x214] ;", "LDC R1, c[0x0][R4+0x220] ;", END]
    values = [4, *[0] * (SIZE - 1)]

    for width in ("", ".64"):
        reads = read_texts(*(text.format(width) for text in texts))
        assert reads.of_launch(values, (), GRID) is not None
        assert reads.of_launch(values, range(8), GRID) is None


def test_equal_bytes_with_another_address_among_them_are_another_launch() -> None:
    reads = read_texts(
        "LDC.64 R4, c[0x0][0x210] ;", "LDC R1, c[0x0][R4+0x220] ;", "LDC R6, c[0x0][0x218] ;",
        "LDC R7, c[0x0][R6+0x220] ;", END,
    )  # fmt: skip
    values = [4, *[0] * 7, 8, *[0] * (SIZE - 9)]

    assert reads.of_launch(values, range(8, 16), GRID) == words(0, 1, 2, 5, 6)
    assert reads.of_launch(values, range(16), GRID) is None


def test_a_function_that_calls_itself_is_not_followed_without_end() -> None:
    reads = read_texts(
        LOAD, "MOV R20, 0x30 ;", "CALL.REL.NOINC 0x40 ;", END, "MOV R20, 0x60 ;", "CALL.REL.NOINC 0x40 ;",
        "RET.REL.NODEC R20 0x0 ;", IN_BOTH,
    )  # fmt: skip

    assert follow(reads, 0) == reads.anywhere == words(0, 11)


def test_a_jump_back_beyond_where_nvdisasm_found_it_is_moved_to_its_place() -> None:
    """nvdisasm reads each different instruction once, so that a target may lie before its first."""
    moved = parse("@!P1 BRA P0, -0x7c0 ;", 0x2950)

    assert moved is not None
    assert moved.target == 0x2190


def test_a_computed_place_at_the_drivers_own_words_may_lead_anywhere() -> None:
    reads = read_texts("S2R R8, SR_CTAID.X ;", "LDC.64 R0, c[0x0][R8+0x198] ;", END)

    assert follow(reads, grid=(1, 1, 1)) is None


def test_launches_with_equal_numbers_are_followed_once() -> None:
    reads = read_texts(LOAD, "ISETP.NE.AND P0, PT, R5, RZ, PT ;", "@!P0 BRA 0x40 ;", IN_BOTH, END)

    first = follow(reads, 0, 1)

    assert follow(reads, 0, 2) is first
    assert follow(reads, 1, 2) == words(0, 11)


SOURCE = r"""
struct Divider { unsigned divisor, factor, shift; };
template <int N> struct Calculator { int dims; Divider sizes[25]; unsigned strides[25][N]; };
template <int N> __device__ void offsets(const Calculator<N>& c, unsigned linear, unsigned* out) {
  #pragma unroll
  for (int arg = 0; arg < N; arg++) out[arg] = 0;
  #pragma unroll
  for (int dim = 0; dim < 25; ++dim) {
    if (dim == c.dims) break;
    Divider d = c.sizes[dim];
    unsigned t = __umulhi(linear, d.factor);
    unsigned quotient = (t + linear) >> d.shift, rest = linear - quotient * d.divisor;
    linear = quotient;
    #pragma unroll
    for (int arg = 0; arg < N; arg++) out[arg] += rest * c.strides[dim][arg];
  }
}
extern "C" __global__ void strided(int n, Calculator<3> c, float* out, const float* a, const float* b) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned at[3];
  offsets(c, i, at);
  out[at[0]] = a[at[1]] / b[at[2]];
}
struct Info { float* data; unsigned sizes[25], strides[25]; int dims; };
extern "C" __global__ void counted(Info info, unsigned n) {
  unsigned linear = blockIdx.x * blockDim.x + threadIdx.x, offset = 0;
  if (linear >= n) return;
  for (int dim = info.dims - 1; dim > 0; --dim) {
    offset += linear % info.sizes[dim] * info.strides[dim];
    linear /= info.sizes[dim];
  }
  info.data[offset + linear * info.strides[0]] = 1.0f;
}
struct Indices { const long long* index[25]; long long sizes[25], strides[25]; float* out; };
extern "C" __global__ void indexed(Indices indices, long long many) {
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x, offset = 0;
  for (long long at = 0; at < many; ++at) {
    long long index = indices.index[at][i];
    if (index < -indices.sizes[at] || index >= indices.sizes[at]) __trap();
    offset += (index < 0 ? index + indices.sizes[at] : index) * indices.strides[at];
  }
  indices.out[offset] = 1.0f;
}
struct Lists { void* data[2][30]; long long sizes[30]; unsigned char tensor[320]; int chunk[320]; };
extern "C" __global__ void many(Lists lists, float factor) {
  int tensor = lists.tensor[blockIdx.x];
  long long first = (long long)lists.chunk[blockIdx.x] * 4096;
  const float* from = (const float*)lists.data[0][tensor];
  float* to = (float*)lists.data[1][tensor];
  for (long long i = first + threadIdx.x; i < first + 4096 && i < lists.sizes[tensor]; i += blockDim.x)
    to[i] = from[i] * factor;
}
"""


COMPILE = """
import sys
from pytest_nsight.worker.nvrtc import compile_source, load_nvrtc
architecture = tuple(map(int, sys.argv[1:]))
sys.stdout.buffer.write(compile_source(load_nvrtc(), sys.stdin.read(), architecture).image)
"""


@pytest.fixture(scope="module", params=[(8, 0), (9, 0), (10, 0)], ids=["sm_80", "sm_90", "sm_100"])
def compiled(request: pytest.FixtureRequest) -> dict[str, KernelReads]:
    if find_disassembler() is None:
        lack("there is no nvdisasm: it comes with Triton or the CUDA toolkit")
    require_nvrtc()
    # After a compilation for debugging in the same process NVRTC copies all arguments to the stack.
    command = (sys.executable, "-c", COMPILE, *map(str, request.param))
    image = subprocess.run(command, input=SOURCE.encode(), stdout=subprocess.PIPE, check=True).stdout
    kernels = read_kernels(image)
    found = find_reads(list(kernels.values()))
    reads = {name: found[kernel] for name, kernel in kernels.items()}
    assert all(reads.values())
    return {name: one for name, one in reads.items() if one is not None}


def draw(kernel: KernelCode, choose: random.Random) -> list[int]:
    size = max(one.offset + one.size for one in kernel.parameters)
    return [choose.randrange(256) for _ in range(size)]


def put(values: list[int], place: int, layout: str, number: int) -> None:
    packed = struct.pack(layout, number)
    values[place : place + len(packed)] = packed


@pytest.mark.slow
@pytest.mark.parametrize("dims", [1, 2, 5, 24, 25])
def test_sizes_and_strides_of_dimensions_that_there_are_not_are_not_read(
    compiled: dict[str, KernelReads], dims: int
) -> None:
    reads = compiled["strided"]
    count, calculator, *pointers = (one.offset for one in reads.kernel.parameters)
    values = draw(reads.kernel, random.Random(dims))
    put(values, count, "<i", 1000)
    put(values, calculator, "<i", dims)

    found = reads.of_launch(values, (), GRID)

    sizes, strides = calculator + 4, calculator + 4 + 25 * 12
    needed = set(range(count, count + 4)) | set(range(calculator, calculator + 4))
    needed |= set(range(sizes, sizes + 12 * dims)) | set(range(strides, strides + 12 * dims))
    needed |= {at for pointer in pointers for at in range(pointer, pointer + 8)}
    # A wider load may take in the number behind the last one that counts.
    assert found is not None
    assert needed <= found
    assert len(found - needed) <= 24
    assert reads.anywhere is not None
    assert dims > 20 or len(reads.anywhere - found) > 50


@pytest.mark.slow
@pytest.mark.parametrize("dims", [1, 2, 3, 6, 9, 25])
def test_of_dimensions_that_a_loop_counts_those_that_there_are_are_read(
    compiled: dict[str, KernelReads], dims: int
) -> None:
    reads = compiled["counted"]
    values = draw(reads.kernel, random.Random(dims))
    put(values, 208, "<i", dims)
    (_, many) = (one.offset for one in reads.kernel.parameters)

    found = reads.of_launch(values, range(8), GRID)

    needed = set(range(8)) | set(range(208, 212)) | set(range(many, many + 4)) | set(range(108, 112))
    needed |= set(range(8 + 4, 8 + 4 * dims)) | set(range(108 + 4, 108 + 4 * dims))
    # For Ampere the compiler keeps the place of the sizes among constants of its own, which are not read.
    assert found == (None if reads.kernel.architecture < 90 and dims > 1 else needed)


@pytest.mark.slow
@pytest.mark.parametrize("many", [0, 1, 2, 4, 5, 11])
def test_of_indices_that_a_long_number_counts_those_that_there_are_are_read(
    compiled: dict[str, KernelReads], many: int
) -> None:
    reads = compiled["indexed"]
    values = draw(reads.kernel, random.Random(many))
    (_, count) = (one.offset for one in reads.kernel.parameters)
    put(values, count, "<q", many)

    found = reads.of_launch(values, range(600, 608), GRID)

    needed = set(range(600, 608)) | set(range(count, count + 8))
    for first in (0, 200, 400):
        needed |= set(range(first, first + 8 * many))
    if reads.kernel.architecture < 90 and many > 3:
        assert found is None
        return
    assert found is not None
    assert needed <= found
    # Compilers load what the next turn may need.
    assert len(found - needed) <= 24


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [1, 7, 320])
def test_of_lists_of_tensors_those_of_the_launchs_blocks_are_read(
    compiled: dict[str, KernelReads], blocks: int
) -> None:
    reads, choose = compiled["many"], random.Random(blocks)
    values = draw(reads.kernel, choose)
    tensors = [choose.randrange(5) for _ in range(blocks)]
    sizes, tensor, chunk = 480, 480 + 240, 480 + 240 + 320
    for block, number in enumerate(tensors):
        put(values, tensor + block, "<B", number)
        put(values, chunk + 4 * block, "<i", block)

    found = reads.of_launch(values, (), (blocks, 1, 1))

    needed: set[int] = set()
    for block, number in enumerate(tensors):
        needed |= {tensor + block, *range(chunk + 4 * block, chunk + 4 * block + 4)}
        for place in (8 * number, 240 + 8 * number, sizes + 8 * number):
            needed |= set(range(place, place + 8))
    factor = reads.kernel.parameters[1].offset
    needed |= set(range(factor, factor + 4))
    # On sm_80 the compiler keeps a number of the place among the module's constants, which are not looked at.
    assert found == (None if reads.kernel.architecture == 80 else needed)


def test_bytes_of_an_address_count_as_not_known(compiled: dict[str, KernelReads]) -> None:
    reads = compiled["strided"]
    values = draw(reads.kernel, random.Random(1))
    put(values, reads.kernel.parameters[1].offset, "<i", 2)
    known = reads.of_launch(values, (), GRID)
    pointer = reads.kernel.parameters[-1].offset

    assert reads.of_launch(values, range(pointer, pointer + 8), GRID) == known


def test_a_number_that_looks_like_an_address_with_what_lies_behind_it_is_a_number() -> None:
    """The two tensors of two blocks, and stale bytes of an address: without them nothing says which is meant."""
    reads = read_texts("S2R R8, SR_CTAID.X ;", "LDC.U8 R0, c[0x0][R8+0x210] ;", "LDC R1, c[0x0][R0+0x220] ;", END)

    found = reads.of_launch([4, 8, *range(100, SIZE + 98)], range(8), (2, 1, 1))

    assert found == {0, 1} | words(5, 6)
