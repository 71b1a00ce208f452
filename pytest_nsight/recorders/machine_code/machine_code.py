"""The kernels of a cubin: a hash of each one's machine code, its parameters, registers and memory. Pure.

A cubin is an ELF file. Of a kernel NAME it holds `.text.NAME` (code), `.nv.info.NAME` (attributes, among them a
record per parameter), `.nv.constant2.NAME` and so on (constants), `.rel[a].text.NAME` (what the loader fills in).
The layout of the attributes is not documented by NVIDIA; the numbers used here can be read in what `cuobjdump -elf`
prints. Debug sections do not enter the hash, so line tables and the place of the source make no difference.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from pytest_nsight.model.identity import MachineCode
from pytest_nsight.recorders.machine_code.elf_file import ElfFile, ElfSection, bytes_at, explain_damage
from pytest_nsight.recorders.machine_code.instructions import INSTRUCTION_BYTES
from pytest_nsight.recorders.machine_code.loops import find_loops

ADDRESS_BYTES = 8

_LONG_VALUE = 4
_PARAMETER, _PARAMETER_BANK, _TOOLKIT_VERSION = 0x17, 0x0A, 0x37
_REGISTERS, _FRAME = 0x2F, 0x11
_IGNORED = (_PARAMETER_BANK, _TOOLKIT_VERSION)
"""Attributes that do not change what runs: one holds a symbol's number, the other the compiler's version."""


@dataclass(frozen=True, slots=True, order=True)
class Parameter:
    """One parameter of a kernel.

    Attributes:
        ordinal: its place among the parameters, from 0.
        offset: bytes from the start of the parameters.
        size: bytes.
    """

    ordinal: int
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class KernelCode:
    """One kernel of a cubin.

    Attributes:
        name: as the linker knows it.
        code: its machine code; the digest is of code, relocations, constants, attributes, and the functions that
            it calls.
        parameters: in order.
        parameters_at: where they begin in constant bank 0.
        architecture: that it is compiled for, such as 90.
        text: its machine code as bytes.
        is_whole: whether these bytes are all that it runs of its module: the loader fills nothing in, and there
            are no functions besides kernels.
        attributes: digest of its attributes, such as the cluster and the most threads that it is compiled for.
    """

    name: str
    code: MachineCode
    parameters: tuple[Parameter, ...]
    parameters_at: int = 0
    architecture: int = 0
    text: bytes = field(default=b"", repr=False)
    is_whole: bool = False
    attributes: str = ""


@dataclass(frozen=True, slots=True)
class _Attribute:
    number: int
    payload: bytes


def read_kernels(cubin: bytes, only: Collection[str] | None = None) -> dict[str, KernelCode]:
    """Name -> kernel.

    Args:
        cubin: the file's bytes.
        only: names that are wanted, None for all.

    Raises:
        CubinError: no cubin, or a damaged one.
    """
    opened = Cubin(cubin)
    return {name: opened.read(name) for name in opened.kernels if only is None or name in only}


class Cubin:
    """A cubin whose table of contents has been read; a library's holds thousands of kernels.

    Attributes:
        kernels: their names, as keys, in order.
    """

    def __init__(self, data: bytes) -> None:
        """Reads the table of contents.

        Raises:
            CubinError: no cubin, or a damaged one.
        """
        self._file = ElfFile(data)
        prefix = ".nv.info."
        named = (one.name[len(prefix) :] for one in self._file.sections if one.name.startswith(prefix))
        # A device function that is linked but not inlined has attributes, too, but no parameters in a bank.
        self.kernels = dict.fromkeys(name for name in named if self._file.find(f".nv.constant0.{name}"))

    def read(self, name: str) -> KernelCode:
        """One of its kernels.

        Raises:
            CubinError: the cubin is damaged.
        """
        with explain_damage(self._file.size):
            return self._kernel(name)

    @cached_property
    def _is_closed(self) -> bool:
        prefix = ".text."
        functions = [one.name[len(prefix) :] for one in self._file.sections if one.name.startswith(prefix)]
        return all(self._file.find(f".nv.constant0.{name}") for name in functions)

    @cached_property
    def _constants(self) -> list[ElfSection]:
        return [section for section in self._file.sections if section.name.startswith(".nv.constant")]

    def _kernel(self, name: str) -> KernelCode:
        attributes = list(_read_attributes(self._file.content(f".nv.info.{name}")))
        shared = self._file.find(f".nv.shared.{name}")
        text = self._file.content(f".text.{name}")
        code = MachineCode(
            digest=self._digest(name, attributes),
            instructions=len(text) // INSTRUCTION_BYTES,
            registers=self._numbers.get((_REGISTERS, name), 0),
            frame_bytes=self._numbers.get((_FRAME, name), 0),
            shared_bytes=shared.size if shared else 0,
            loops=find_loops(text, self._file.architecture),
        )
        banks = [one.payload for one in attributes if one.number == _PARAMETER_BANK and len(one.payload) == 8]
        first = struct.unpack("<IHH", banks[0])[1] if banks else 0
        return KernelCode(
            name=name,
            code=code,
            parameters=_read_parameters(attributes),
            parameters_at=first,
            architecture=self._file.architecture,
            text=text,
            is_whole=self._is_closed and not any(True for _ in self._relocations(f".text.{name}")),
            attributes=hashlib.sha256(_join_attributes(attributes)).hexdigest()[:32],
        )

    def _digest(self, name: str, attributes: Sequence[_Attribute]) -> str:
        hashed = hashlib.sha256()
        hashed.update(_join_attributes(attributes))
        for number in (_REGISTERS, _FRAME):
            hashed.update(struct.pack("<I", self._numbers.get((number, name), 0)))
        for label, content in self._what_runs(name):
            hashed.update(struct.pack("<II", len(label), len(content)))
            hashed.update(label.encode() + content)
        return hashed.hexdigest()[:32]

    def _what_runs(self, name: str) -> Iterator[tuple[str, bytes]]:
        """Code, relocations and constants of a kernel and of all that it calls, with labels free of its name."""
        pending, seen = [name], {name}
        while pending:
            function = pending.pop(0)
            yield "text", self._file.content(f".text.{function}")
            for target, relocation in self._relocations(f".text.{function}"):
                yield "" if target == name else target, relocation
                if target not in seen and self._file.find(f".text.{target}"):
                    seen.add(target)
                    pending.append(target)
        for section in self._constants:
            bank, _, owner = section.name.removeprefix(".nv.constant").partition(".")
            # Bank 0 is where the launch writes its arguments.
            if bank != "0" and owner in ("", *seen):
                yield f"constant{bank}", self._file.content_of(section)
        if shared := self._file.find(f".nv.shared.{name}"):
            yield "shared", struct.pack("<Q", shared.size)
        yield "initial", self._file.content(".nv.global.init")

    def _relocations(self, of: str) -> Iterator[tuple[str, bytes]]:
        for prefix, layout in ((".rel", "<QQ"), (".rela", "<QQq")):
            for fields in struct.iter_unpack(layout, self._file.content(prefix + of)):
                offset, info, *addend = fields
                symbol = self._file.symbols[info >> 32]
                place = symbol.name or self._file.sections[symbol.section].name
                yield place, struct.pack("<QIq", offset, info & 0xFFFFFFFF, *(addend or [0]))

    @cached_property
    def _numbers(self) -> dict[tuple[int, str], int]:
        """The numbers that `.nv.info` keeps for each function: (attribute, function) -> number."""
        found = {}
        for attribute in _read_attributes(self._file.content(".nv.info")):
            if len(attribute.payload) == 8:
                symbol, value = struct.unpack("<II", attribute.payload)
                found[attribute.number, self._file.symbols[symbol].name] = int(value)
        return found


def _read_attributes(content: bytes) -> Iterator[_Attribute]:
    """Attributes in order: a byte for the layout, one for the number, two for the value or its length."""
    offset = 0
    while offset + 4 <= len(content):
        layout, number, value = struct.unpack_from("<BBH", content, offset)
        offset += 4
        if layout == _LONG_VALUE:
            yield _Attribute(number, bytes_at(content, offset, value))
            offset += value
        else:
            yield _Attribute(number, struct.pack("<H", value))


def _join_attributes(attributes: Sequence[_Attribute]) -> bytes:
    """Those that change what runs."""
    return b"".join(
        struct.pack("<BI", one.number, len(one.payload)) + one.payload
        for one in attributes
        if one.number not in _IGNORED
    )


def _read_parameters(attributes: Sequence[_Attribute]) -> tuple[Parameter, ...]:
    found = []
    for attribute in attributes:
        if attribute.number == _PARAMETER and len(attribute.payload) == 12:
            _, ordinal, offset, bits = struct.unpack("<IHHI", attribute.payload)
            found.append(Parameter(ordinal, offset, bits >> 18))
    return tuple(sorted(found))
