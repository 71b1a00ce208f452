"""In what words a change of launches is said, and that what is equal is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_nsight.judge.code_changes import describe_change, describe_proof
from pytest_nsight.model.identity import (
    MOST_LAUNCHES,
    Identity,
    LaunchIdentity,
    MachineCode,
    differ_in_addresses,
    make_identity,
)

CODE = MachineCode("c1", instructions=214, registers=39)
SCALE = LaunchIdentity("kernel", "scale", CODE, (8, 1, 1), (128, 1, 1), arguments=("pointer", "4096"))
COPY = LaunchIdentity("copy", "1", arguments=("4096 bytes",))


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (
            replace(SCALE, code=MachineCode("c2", 251, 48)),
            "machine code changed: registers 39 -> 48, instructions 214 -> 251",
        ),
        (
            replace(SCALE, code=MachineCode("c2", 214, 39)),
            "machine code changed: other instructions, as many (214), 39 registers",
        ),
        (replace(SCALE, code=MachineCode("c2", 214, 39, 16)), "machine code changed: local memory bytes 0 -> 16"),
        (replace(SCALE, arguments=("pointer", "4160")), "argument 1: 4096 -> 4160"),
        (replace(SCALE, arguments=("pointer", "3, then 4")), "argument 1: 4096 -> 3, then 4"),
        (replace(SCALE, arguments=("pointer",)), "arguments: 2 -> 1"),
        (replace(SCALE, arguments=("pointer", "00" * 20)), "argument 1 differs"),
        (replace(SCALE, name="scale_2"), "another kernel: scale -> scale_2"),
        (replace(SCALE, grid=(16, 1, 1)), "grid 8x1x1 -> 16x1x1"),
        (replace(SCALE, block=(64, 2, 1)), "block 128x1x1 -> 64x2x1"),
        (replace(SCALE, shared_bytes=64), "dynamic shared bytes 0 -> 64"),
        (replace(SCALE, stream=1), "stream 0 -> 1"),
        (replace(SCALE, part="forward"), "part  -> forward"),
        (COPY, "kind kernel scale -> copy 1"),
    ],
)
def test_each_change_of_a_launch_has_its_words(after: LaunchIdentity, words: str) -> None:
    assert describe_change(make_identity([SCALE]), make_identity([after])) == words


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ((96, 12), (51, 12), ", loop of 96 -> 51 instructions"),
        ((96, 12), (51, 14), ", loop of 96 -> 51, 12 -> 14 instructions"),
        ((96, 12), (12,), ", loops 2 -> 1"),
        ((96,), (), ", loops 1 -> 0"),
        ((), (96,), ""),
        ((96,), (96,), ""),
    ],
)
def test_loops_that_changed_are_said_where_both_are_known(
    before: tuple[int, ...], after: tuple[int, ...], words: str
) -> None:
    old, new = (
        make_identity([replace(SCALE, code=MachineCode(digest, instructions, 39, loops=loops))])
        for digest, instructions, loops in (("c1", 214, before), ("c2", 169, after))
    )

    assert describe_change(old, new) == f"machine code changed: instructions 214 -> 169{words}"


def test_loops_alone_make_no_difference() -> None:
    """Baselines of before know of none."""
    new = make_identity([replace(SCALE, code=replace(CODE, loops=(12,)))])

    assert describe_change(make_identity([SCALE]), new) == ""
    assert new.digest == make_identity([SCALE]).digest


def test_bytes_of_a_copy_and_the_kernel_among_several_are_named() -> None:
    before = make_identity([SCALE, replace(SCALE, name="add"), COPY])
    larger = replace(COPY, arguments=("8192 bytes",))
    after = make_identity([replace(SCALE, grid=(4, 1, 1)), replace(SCALE, name="add"), larger])

    assert describe_change(before, after) == "grid of scale 8x1x1 -> 4x1x1, copy 4096 bytes -> 8192 bytes"


def test_of_numbers_that_differ_from_round_to_round_no_values_are_shown() -> None:
    """They may be random, or unset bytes that the kernel reads for all that is known of it."""
    before, after = (
        make_identity([replace(SCALE, arguments=("pointer", text))]) for text in ("1, then 2", "1, then 3")
    )

    assert describe_change(before, after) == "argument 1 changes from round to round, in another way than before"


def test_a_long_argument_counts_whole_and_is_kept_and_shown_short() -> None:
    tensors = ", ".join(f"pointer {number} aligned to 256 into 2097152 bytes" for number in range(300))
    before, after = (make_identity([replace(SCALE, arguments=(tensors + end,))]) for end in ("", "0"))
    (kept,) = before.launches[0].arguments

    assert before.digest != after.digest
    assert len(kept) < 80
    assert describe_change(before, after) == "argument 0, which holds pointers, differs"


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("256 into 4096 bytes", "8 into 4096 bytes", ": alignment 256 -> 8"),
        ("256 into 4096 bytes", "256 into 8192 bytes managed", ": allocation 4096 bytes -> 8192 bytes managed"),
        ("16 into the process", "256 into 64 bytes", ": alignment 16 -> 256, allocation the process -> 64 bytes"),
    ],
)
def test_of_pointers_that_is_said_in_which_they_differ(before: str, after: str, words: str) -> None:
    old, new = (
        make_identity([replace(SCALE, arguments=(f"pointer 3 aligned to {text}",))]) for text in (before, after)
    )

    assert describe_change(old, new) == f"argument 0{words}"


def test_another_buffer_and_a_number_in_place_of_a_pointer_show_no_bytes() -> None:
    pointers = [f"pointer {number} aligned to 256 into 4096 bytes" for number in (1, 2)]
    one, other, number = (make_identity([replace(SCALE, arguments=(text,))]) for text in (*pointers, "7"))

    assert describe_change(one, other) == "argument 0 points to another buffer"
    assert describe_change(one, number) == "argument 0 differs"


def test_pointers_behind_one_that_points_elsewhere_have_new_numbers_and_are_not_listed() -> None:
    def launches(first: int) -> Identity:
        texts = [f"pointer {number} aligned to 256 into 4096 bytes" for number in range(first, first + 4)]
        return make_identity([replace(SCALE, arguments=(*texts, str(first)))])

    assert describe_change(launches(0), launches(1)) == "argument 0 points to another buffer, argument 4: 0 -> 1"


def test_kernels_are_named_as_people_name_them() -> None:
    mangled = "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfEEEvT0_"
    reduce = replace(SCALE, name=mangled)
    larger, wider = replace(reduce, grid=(4, 1, 1)), replace(reduce, name=mangled.replace("512", "256"))

    def change(before: list[LaunchIdentity], after: list[LaunchIdentity]) -> str:
        return describe_change(make_identity(before), make_identity(after))

    assert change([SCALE, reduce], [SCALE, larger]) == "grid of reduce_kernel 8x1x1 -> 4x1x1"
    assert change([SCALE], [SCALE, reduce]).endswith("+ 1 kernel reduce_kernel")
    assert change([SCALE], [reduce]) == "another kernel: scale -> reduce_kernel"
    assert " -> _ZN2at6native13reduce_kernelILi256E" in change([reduce], [wider])


def test_a_long_argument_that_changes_from_round_to_round_is_still_said_to() -> None:
    before, after = (
        make_identity([replace(SCALE, arguments=(f"{'00' * 50}, then #{last}",))]) for last in ("1", "2")
    )

    assert describe_change(before, after) == "argument 0 changes from round to round, in another way than before"


def test_launches_gained_and_lost_are_counted() -> None:
    before, after = make_identity([SCALE, SCALE]), make_identity([SCALE, replace(SCALE, name="add"), COPY])

    assert describe_change(before, after) == ("launches 2 -> 3, - 1 kernel scale, + 1 kernel add and 1 more")


def test_order_counts_and_repeats_are_kept_short() -> None:
    one, other = SCALE, replace(SCALE, name="add")
    many = make_identity([one] * 1000 + [other])

    assert many.order == ((0, 1000), (1, 1))
    assert len(list(many.expand())) == 1001
    assert make_identity([one, other]).digest != make_identity([other, one]).digest
    assert describe_proof(many.expand(), "ab12cd3").endswith("as ab12cd3 (1,001 launches)")


def test_of_very_many_different_launches_only_the_digest_is_kept() -> None:
    launches = [replace(SCALE, arguments=(str(number),)) for number in range(MOST_LAUNCHES + 1)]
    before, after = make_identity(launches), make_identity(launches[::-1])

    assert not before.launches
    assert before.digest != after.digest
    assert describe_change(before, after) == "other launches, too many to be stored one by one"
    assert "too many" not in describe_proof(before.expand(), "it")


def test_nothing_is_said_of_what_is_equal_or_not_known() -> None:
    known = make_identity([SCALE])

    assert describe_change(known, make_identity([SCALE])) == ""
    assert describe_change(known, None) == ""
    assert describe_change(Identity(why_none="its rounds differ"), known) == ""


@pytest.mark.parametrize("field", ["instructions", "registers"])
def test_the_numbers_of_a_kernel_do_not_make_an_identity(field: str) -> None:
    other = replace(SCALE, code=replace(CODE, **{field: 1}))

    assert make_identity([SCALE]).digest == make_identity([other]).digest


HERE = ("pointer 0 aligned to 256 into 4096 bytes, 7", "4096")


@pytest.mark.parametrize(
    ("arguments", "is_so"),
    [
        (("pointer 3 aligned to 16 into 8192 bytes of the host, 7", "4096"), True),
        (("pointer 0 aligned to 16 into the process, 7", "4096"), True),
        (("pointer 0 aligned to 256 into 4096 bytes, 8", "4096"), False),
        (("pointer 0 aligned to 16 into 4096 bytes, 7", "4160"), False),
        (("pointer 0 aligned to 16 into 4096 bytes", "4096"), False),
        (HERE, False),
    ],
)
def test_a_difference_in_addresses_alone_is_no_other_difference(arguments: tuple[str, ...], *, is_so: bool) -> None:
    here = make_identity([replace(SCALE, arguments=HERE)])

    assert differ_in_addresses(here, make_identity([replace(SCALE, arguments=arguments)])) is is_so


def test_digests_of_long_arguments_count_as_addresses_and_what_is_not_kept_does_not() -> None:
    long, other = (make_identity([replace(SCALE, arguments=(digits * 60,))]) for digits in ("01", "02"))

    assert differ_in_addresses(long, other)
    assert not differ_in_addresses(long, make_identity([replace(SCALE, arguments=("01",))]))
    assert not differ_in_addresses(long, replace(other, reading=1))
    assert not differ_in_addresses(long, replace(other, launches=(), order=()))
    assert not differ_in_addresses(long, Identity(why_none="rounds differ"))
    assert not differ_in_addresses(long, make_identity([replace(SCALE, arguments=("02" * 60,), grid=(9, 1, 1))]))
