"""Which bytes of its arguments a kernel reads, by its disassembly.

A struct has padding that nothing sets, and an empty one still takes a byte: torch's functors differ from launch to
launch in bytes that no kernel reads. The arguments lie in constant bank 0, behind words of the driver. Where a
kernel reads them, nvdisasm prints an operand such as c[0x0][0x210]. A kernel that takes the address of an argument
reads the address of all from one of the driver's words: where that is for descriptors of tensors only, it is known
which. What is not understood counts as read, so that no difference that may count is left out.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from pytest_nsight.recorders.machine_code.descriptor_reads import find_descriptors, takes_address
from pytest_nsight.recorders.machine_code.disassembly import disassemble
from pytest_nsight.recorders.machine_code.instructions import ControlFlow, Instruction
from pytest_nsight.recorders.machine_code.machine_code import ADDRESS_BYTES, KernelCode, Parameter
from pytest_nsight.recorders.machine_code.reached_reads import Program, find_reached
from pytest_nsight.recorders.machine_code.register_values import FindByte

MOST_INSTRUCTIONS = 20_000
"""Of a kernel that is disassembled; a larger one would take longer than a case is worth."""

_PLAIN_BYTES = 4
_SMALL_BYTES = 64
"""Of a struct: in smaller ones no room stays unset, but for padding, which no instruction reads."""

_OPERAND = re.compile(r"\bc\[([^\]]*)\]\s*\[([^\]]*)\]")
_SELECTOR = re.compile(r"\]\s*\.[BH]\d")
"""A byte or half of the word that is read, such as .B2: which ones is not looked at."""
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

_ADDRESS_WORDS: Mapping[int, int] = {0x210: 0x198, 0x380: 0x348}
"""Likewise -> the driver's word that holds the address of the parameters, where there are tensor descriptors: from
what ptxas makes of PTX for sm_90 and sm_100."""

_DESCRIPTOR_BYTES = 128
"""Of a CUtensorMap. cuDNN passes 64 bytes, with something else behind them: what is not in the same parameter is no
part of a descriptor."""


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


_Pair = tuple["int | None", "int | None"]


@dataclass(slots=True)
class KernelReads:
    """What a kernel reads of its arguments.

    Attributes:
        kernel: which one.
        anywhere: offsets, from the start of its parameters, of the bytes that some instruction reads; None where
            one reads at a place that it computes.
        described: of those that it reads as descriptors of tensors; None where it takes no address of them.
    """

    kernel: KernelCode
    anywhere: frozenset[int] | None
    _program: Program
    described: frozenset[int] | None = None
    _known: list[tuple[tuple[int, int, int], bool, frozenset[int], Sequence[_Pair]]] = field(default_factory=list)

    def of_launch(
        self, values: Sequence[int], addresses: Collection[int], grid: tuple[int, int, int]
    ) -> frozenset[int] | None:
        """The bytes that a launch reads; None where that is not known.

        Args:
            values: of the bytes of all parameters.
            addresses: places of those that differ from process to process. They decide nothing as long as the
                launch can be followed without; else they count as numbers where they are read as such: small
                numbers with unset room behind them may look like an address.
            grid: blocks of the launch.
        """
        if max(one.size for one in self.kernel.parameters) <= _SMALL_BYTES and self.anywhere is not None:
            return self.anywhere
        masked = [None if at in addresses else byte for at, byte in enumerate(values)]
        ways: list[tuple[bool, list[int | None]]] = [(False, masked)]
        if addresses:
            ways.append((True, list(values)))
        for decide, numbers in ways:
            for known_grid, known_decide, reads, read in self._known:
                # An address that decides as a number is no plain number.
                if (known_grid, known_decide) == (grid, decide) and read == _pick(masked, numbers, reads):
                    return reads
            found = self._follow(masked, numbers, grid)
            if found is not None:
                self._known.append((grid, decide, found, _pick(masked, numbers, found)))
                return found
        return self.anywhere

    def _follow(
        self, values: Sequence[int | None], numbers: Sequence[int | None], grid: tuple[int, int, int]
    ) -> frozenset[int] | None:
        """What is read; None where it is not known, or where an address has decided as a number.

        Args:
            values: of the bytes, None of those of an address.
            numbers: of those that are read as a number.
            grid: blocks of the launch.
        """
        first = self.kernel.parameters_at
        # Loops matter where a place is computed, as over the dimensions of a tensor.
        reached = find_reached(
            self._program,
            _reader(values, first),
            grid,
            _reader(numbers, first),
            unrolls=self.anywhere is None,
        )
        if reached is None:
            return None
        reads = _keep_parameters(reached.reads, self.kernel, self.described)
        if reads is None:
            return None
        # Bytes read as a number enter the argument's text. A whole address enters only by its index.
        hidden = {
            at - at % ADDRESS_BYTES for at, byte in enumerate(values) if byte is None and numbers[at] is not None
        }
        is_hidden = any(
            reads.issuperset(word) and not reached.narrow.isdisjoint(first + at for at in word)
            for word in (range(at, at + ADDRESS_BYTES) for at in hidden)
        )
        return None if is_hidden else reads


def _pick(masked: Sequence[int | None], numbers: Sequence[int | None], reads: frozenset[int]) -> list[_Pair]:
    """What is known of the bytes that are read: without those of addresses, and where these count as numbers."""
    return [(masked[at], numbers[at]) for at in sorted(reads)]


def _reader(values: Sequence[int | None], first: int) -> FindByte:
    """The value at an offset of constant bank 0, where the parameters begin at `first`."""

    def find_byte(place: int) -> int | None:
        return values[place - first] if 0 <= place - first < len(values) else None

    return find_byte


def find_reads(kernels: Sequence[KernelCode]) -> dict[KernelCode, KernelReads | None]:
    """What kernels read; None where it is not known.

    Args:
        kernels: each once; nvdisasm starts once for each architecture.
    """
    found: dict[KernelCode, KernelReads | None] = dict.fromkeys(kernels)
    wanted = [
        one for one in kernels if one.is_whole and one.parameters and one.code.instructions <= MOST_INSTRUCTIONS
    ]
    for architecture, group in groupby(sorted(wanted, key=_architecture), _architecture):
        same = list(group)
        for kernel, code in zip(same, disassemble(architecture, [one.text for one in same]), strict=True):
            found[kernel] = None if code is None else read_code(code, kernel)
    return found


def _architecture(kernel: KernelCode) -> int:
    return kernel.architecture


def read_code(code: Sequence[Instruction | None], kernel: KernelCode) -> KernelReads | None:
    """What instructions read of the parameters; None where one is not understood.

    Args:
        code: all instructions of the kernel, in order.
        kernel: that is whole. What it calls all the same is the driver's, as to report a failed assertion, and
            cannot know where a parameter lies.
    """
    if not (code and kernel.is_whole and kernel.parameters and kernel.parameters_at in _DRIVER_WORDS):
        return None
    instructions = [one for one in code if one is not None]
    if len(instructions) < len(code):
        return None
    word = _ADDRESS_WORDS.get(kernel.parameters_at)
    read: set[int] = set()
    is_computed = takes = False
    for one in instructions:
        operands = _OPERAND.findall(one.text) if one.constants else ()
        # What has an operand of another form may read anywhere.
        if len(operands) != one.constants:
            return None
        for bank, offset in operands:
            number, place = _find_literal(bank), _find_literal(offset)
            if number is None:
                return None
            is_computed = is_computed or (number == 0 and place is None)
            if number == 0 and place is not None:
                is_address = word is not None and takes_address(one, word)
                takes = takes or is_address
                read.update(() if is_address else _list_bytes(one, place))
    flow = ControlFlow(instructions)
    described = _find_described(instructions, flow, kernel) if takes and not is_computed else None
    found = None if takes and described is None else _keep_parameters(read, kernel)
    if found is None:
        return None
    anywhere = None if is_computed else found | (described or frozenset())
    return KernelReads(kernel, anywhere, Program(instructions, flow, _list_bytes), described)


def _find_described(
    instructions: Sequence[Instruction], flow: ControlFlow, kernel: KernelCode
) -> frozenset[int] | None:
    """Bytes of the parameters, from their start, that are descriptors; None where it is not known which."""
    offsets = find_descriptors(instructions, flow, _ADDRESS_WORDS[kernel.parameters_at])
    if offsets is None:
        return None
    found: set[int] = set()
    for offset in offsets:
        ends = [one.offset + one.size for one in kernel.parameters if one.offset <= offset < one.offset + one.size]
        if not ends:
            return None
        found.update(range(offset, min(offset + _DESCRIPTOR_BYTES, *ends)))
    return frozenset(found)


def _keep_parameters(
    read: Collection[int], kernel: KernelCode, described: frozenset[int] | None = None
) -> frozenset[int] | None:
    """Of offsets in the bank those of parameters, from their start; None where the bank's address may be read.

    Args:
        read: offsets in the bank.
        kernel: whose bank it is.
        described: those that are read as descriptors, where the parameters' address is taken for these only.
    """
    first = kernel.parameters_at
    word = _ADDRESS_WORDS.get(first)
    taken = range(word, word + ADDRESS_BYTES) if word is not None and described is not None else range(0)
    if not _DRIVER_WORDS[first].issuperset(one for one in read if one < first and one not in taken):
        return None
    size = max(one.offset + one.size for one in kernel.parameters)
    return frozenset(one - first for one in read if first <= one < first + size) | (described or frozenset())


def _find_literal(text: str) -> int | None:
    """The number in an operand's brackets, None where a register says it."""
    found = _LITERAL.fullmatch(text)
    return int(found[1] or "0", 16) if found and text else None


def _list_bytes(one: Instruction, place: int) -> range:
    """Bytes that an instruction reads from this place on."""
    if _SELECTOR.search(one.text):
        return range(place, place + _MOST_BYTES)
    widths = [_SUFFIX_BYTES[suffix] for suffix in one.suffixes if suffix in _SUFFIX_BYTES]
    size = max(widths, default=_PLAIN_BYTES) if one.name in _NARROW else _MOST_BYTES
    return range(place, place + size)
