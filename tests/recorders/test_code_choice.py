"""Which of several codes of one name a launch runs: by registers, and by what the kernel can read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_nsight.model.identity import MachineCode
from pytest_nsight.recorders.launch_identity.code_choice import UnidentifiedError, choose_code, choose_recorded
from pytest_nsight.recorders.machine_code.disassembly import find_disassembler
from pytest_nsight.recorders.machine_code.machine_code import KernelCode, read_kernels
from pytest_nsight.worker.nvrtc import compile_source
from tests.toolchain import lack, require_nvrtc

SOURCE = """
__constant__ float table[8] = {%s};
extern "C" __global__ void scale(float* x, int n) { if (threadIdx.x < n) x[threadIdx.x] *= 2.0f; }
extern "C" __global__ void look_up(float* x, int n) { x[threadIdx.x] = table[n + threadIdx.x %% 4]; }
"""


def known(digest: str, registers: int = 20) -> KernelCode:
    return KernelCode("k", MachineCode(digest, 8, registers), ())


@pytest.fixture(scope="module")
def modules() -> list[dict[str, KernelCode]]:
    """The same kernels in two modules with other constants."""
    if find_disassembler() is None:
        lack("there is no nvdisasm: pip install triton")
    library = require_nvrtc()
    return [
        read_kernels(compile_source(library, SOURCE % values, (9, 0), ()).image) for values in ("1, 2", "3, 4, 5")
    ]


@pytest.mark.parametrize(("own", "recorded"), [(20, 20), (8, 16), (8, 8), (24, 32), (33, 33)])
def test_a_record_may_say_the_least_that_the_driver_gives(own: int, recorded: int) -> None:
    assert choose_code("k", [known("a", own), known("a", own)], recorded).code.digest == "a"
    assert choose_recorded([known("a", own)], recorded).code.digest == "a"


@pytest.mark.parametrize(("own", "recorded"), [(22, 16), (16, 24), (32, 16), (33, 32), (40, 48)])
def test_a_code_that_is_not_what_the_record_says_is_not_taken(own: int, recorded: int) -> None:
    with pytest.raises(UnidentifiedError, match=f"^no loaded module has a kernel k with {recorded} registers$"):
        choose_code("k", [known("a", own)], recorded)
    with pytest.raises(UnidentifiedError, match=f"k says {recorded} registers, and its machine code says {own}$"):
        choose_recorded([known("a", own)], recorded)


def test_of_several_calls_the_last_one_that_fits_the_record_is_taken() -> None:
    called = [known("a", 40), known("b", 40), known("c", 64)]

    assert choose_recorded(called, 40).code.digest == "b"
    assert choose_recorded(called, 64).code.digest == "c"
    assert choose_recorded(called, None).code.digest == "c"
    with pytest.raises(UnidentifiedError, match=r"says 50 registers, and its machine code says 40 or 40 or 64$"):
        choose_recorded(called, 50)


def test_registers_choose_and_records_say_16_of_fewer() -> None:
    found = [known("a", 12), known("b", 40)]

    assert choose_code("k", found, 40).code.digest == "b"
    assert choose_code("k", found, 16).code.digest == "a"


@pytest.mark.parametrize(
    ("found", "registers", "reason"),
    [
        ([], 16, "the machine code of k was not seen"),
        ([known("a"), known("b", 24)], 40, "no loaded module has a kernel k with 40 registers"),
        ([known("a"), known("b")], 20, "2 loaded modules have a kernel k, each with different code"),
        ([known("a"), known("b", 24)], None, "2 loaded modules have a kernel k, each with different code"),
    ],
)
def test_what_cannot_be_chosen_is_said(found: list[KernelCode], registers: int | None, reason: str) -> None:
    with pytest.raises(UnidentifiedError, match=f"^{reason}$"):
        choose_code("k", found, registers)


def test_codes_that_differ_in_constants_that_the_kernel_does_not_read_are_one(
    modules: list[dict[str, KernelCode]],
) -> None:
    first, second = (module["scale"] for module in modules)
    assert first.code.digest != second.code.digest

    chosen = choose_code("scale", [first, second], 16)

    assert chosen == choose_code("scale", [second, first], 16)
    assert chosen.text == first.text


def test_a_kernel_that_reads_its_modules_constants_has_two_codes(modules: list[dict[str, KernelCode]]) -> None:
    first, second = (module["look_up"] for module in modules)
    assert first.text == second.text

    with pytest.raises(UnidentifiedError, match="each with different code"):
        choose_code("look_up", [first, second], 16)


@pytest.mark.parametrize(
    ("before", "now"),
    [("__cluster_dims__(2)", "__cluster_dims__(4)"), ("__cluster_dims__(2)", ""), ("", "__launch_bounds__(128)")],
)
def test_codes_that_are_compiled_for_other_launches_are_two(before: str, now: str) -> None:
    if find_disassembler() is None:
        lack("there is no nvdisasm: pip install triton")
    source = """extern "C" __global__ void %s count(unsigned* x) {
      unsigned rank;
      asm("mov.u32 %%0, %%%%cluster_ctarank;" : "=r"(rank));
      x[rank] = 1;
    }"""
    library = require_nvrtc()
    images = [compile_source(library, source % bounds, (9, 0), ()).image for bounds in (before, now)]
    first, second = (read_kernels(image)["count"] for image in images)
    assert first.text == second.text

    with pytest.raises(UnidentifiedError, match="each with different code"):
        choose_code("count", [first, second], 16)


@pytest.mark.parametrize("change", ["text", "frame_bytes", "shared_bytes", "parameters", "attributes"])
def test_codes_that_differ_in_the_kernels_own_are_two(modules: list[dict[str, KernelCode]], change: str) -> None:
    first = modules[0]["scale"]
    code = replace(first.code, digest="other")
    other = {
        "text": replace(first, code=code, text=first.text[:-16] + bytes(16)),
        "frame_bytes": replace(first, code=replace(code, frame_bytes=8)),
        "shared_bytes": replace(first, code=replace(code, shared_bytes=2048)),
        "parameters": replace(first, code=code, parameters=first.parameters[:1]),
        "attributes": replace(first, code=code, attributes="others"),
    }[change]

    with pytest.raises(UnidentifiedError, match="each with different code"):
        choose_code("scale", [first, other], 16)
