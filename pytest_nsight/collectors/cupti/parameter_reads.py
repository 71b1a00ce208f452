"""Which bytes of its arguments a kernel reads, by its disassembly.

A struct has padding that nothing sets, and an empty one still takes a byte: torch's functors differ from launch to
launch in bytes that no kernel reads. The arguments lie in constant bank 0, behind words of the driver. Where a
kernel reads them, nvdisasm prints an operand such as c[0x0][0x210]. A kernel that takes the address of an argument
reads the address of the bank from one of the driver's words. What is not understood counts as read, so that no
difference that may count is left out.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby

from pytest_nsight.collectors.cupti.disassembly import disassemble
from pytest_nsight.collectors.cupti.machine_code import KernelCode, Parameter

MOST_INSTRUCTIONS = 20_000
"""Of a kernel that is disassembled; a larger one would take longer than a case is worth."""

_PLAIN_BYTES = 4
_INSTRUCTION = re.compile(r"(?:@!?U?P\w+\s+)?([A-Z][\w.]*)\s*([^;]*);")
_ANY_OPERAND = re.compile(r"\bcx?\[")
_OPERAND = re.compile(r"\bc\[([^\]]*)\]\s*\[([^\]]*)\]")
_LITERAL = re.compile(r"(?:U?RZ(?:\+|$))?(0x[0-9a-f]+)?")
"""What an operand says itself: a number, perhaps beside the register that is always 0."""

_SUFFIX_BYTES = {
    "U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "U64": 8, "S64": 8, "F64": 8, "WIDE": 8, "128": 16,
}  # fmt: skip
_NARROW = frozenset((
    "BMSK", "FADD", "FCHK", "FFMA", "FLO", "FMNMX", "FMUL", "FSEL", "FSET", "FSETP", "HADD2", "HFMA2", "HMUL2",
    "HSETP2", "I2F", "I2FP", "IABS", "IADD", "IADD3", "IMAD", "IMNMX", "ISETP", "LDC", "LDCU", "LEA", "LOP3", "MOV",
    "MUFU", "POPC", "PRMT", "R2UR", "SEL", "SGXT", "SHF", "UIADD3", "UIMAD", "UISETP", "ULDC", "ULEA", "ULOP3",
    "UMOV", "USEL", "USHF", "VIADD", "VIADDMNMX", "VIMNMX",
))  # fmt: skip
"""Instructions whose constant operand is one word, unless a suffix says otherwise; any other may read the most."""

_MOST_BYTES = 16

_SHAPE_AND_STACK = (*range(0x18), *range(0x20, 0x2C))
_DRIVER_WORDS: Mapping[int, frozenset[int]] = {
    0x160: frozenset((*_SHAPE_AND_STACK, *range(0x118, 0x120))),
    0x210: frozenset((*_SHAPE_AND_STACK, *range(0x208, 0x210))),
    0x380: frozenset((*range(0x2F8, 0x300), *range(0x358, 0x36C), *range(0x370, 0x380))),
}
"""First byte of the parameters -> the driver's bytes that lead to no parameter: sizes of grid and block, where
local memory and the stack are, the descriptor of global memory. Any other may be the address of the bank."""


def has_padding(parameter: Parameter) -> bool:
    """Whether a parameter may be a struct: a plain number of 4 bytes has no padding."""
    return parameter.size != _PLAIN_BYTES


def mask_unread(value: bytes, parameter: Parameter, reads: frozenset[int]) -> bytes:
    """An argument with zeros for the bytes that its kernel does not read.

    Args:
        value: of the argument.
        parameter: that it is for.
        reads: offsets from the start of all parameters.
    """
    return bytes(byte if parameter.offset + at in reads else 0 for at, byte in enumerate(value))


def find_reads(kernels: Sequence[KernelCode]) -> dict[KernelCode, frozenset[int] | None]:
    """Kernel -> offsets, from the start of its parameters, of the bytes that it reads; None where not known.

    Args:
        kernels: each once; nvdisasm starts once for each architecture.
    """
    found: dict[KernelCode, frozenset[int] | None] = dict.fromkeys(kernels)
    wanted = [
        one for one in kernels if one.is_whole and one.parameters and one.code.instructions <= MOST_INSTRUCTIONS
    ]
    for architecture, group in groupby(sorted(wanted, key=_architecture), _architecture):
        same = list(group)
        for kernel, texts in zip(same, disassemble(architecture, [one.text for one in same]), strict=True):
            found[kernel] = None if texts is None else list_reads(texts, kernel)
    return found


def _architecture(kernel: KernelCode) -> int:
    return kernel.architecture


def list_reads(instructions: Collection[str], kernel: KernelCode) -> frozenset[int] | None:
    """Offsets of the parameters' bytes that instructions read; None where one may read anywhere.

    Args:
        instructions: of the kernel, as nvdisasm prints them, in any order.
        kernel: that is whole. What it calls all the same is the driver's, as to report a failed assertion, and
            cannot know where a parameter lies.
    """
    first = kernel.parameters_at
    if not (instructions and kernel.is_whole and kernel.parameters and first in _DRIVER_WORDS):
        return None
    size = max(one.offset + one.size for one in kernel.parameters)
    found: set[int] = set()
    for text in instructions:
        instruction = _INSTRUCTION.fullmatch(text)
        operands = _OPERAND.findall(text)
        # What does not look like an instruction, or has an operand of another form, may read anywhere.
        if instruction is None or len(operands) != len(_ANY_OPERAND.findall(text)):
            return None
        for bank, offset in operands:
            number, place = _find_literal(bank), _find_literal(offset)
            if number is None or (number == 0 and place is None):
                return None
            if number or place is None:
                continue
            read = range(place, place + _count_bytes(instruction[1]))
            if not _DRIVER_WORDS[first].issuperset(one for one in read if one < first):
                return None
            found.update(one - first for one in read if first <= one < first + size)
    return frozenset(found)


def _find_literal(text: str) -> int | None:
    """The number in an operand's brackets, None where a register says it."""
    found = _LITERAL.fullmatch(text)
    return int(found[1] or "0", 16) if found and text else None


def _count_bytes(instruction: str) -> int:
    name, *suffixes = instruction.split(".")
    widths = [_SUFFIX_BYTES[suffix] for suffix in suffixes if suffix in _SUFFIX_BYTES]
    if name in _NARROW:
        return max(widths, default=_PLAIN_BYTES)
    return _MOST_BYTES
