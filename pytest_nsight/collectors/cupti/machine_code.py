"""The kernels of a cubin: a hash of each one's machine code, its parameters, registers and memory. Pure.

A cubin is an ELF file. Of a kernel NAME it holds `.text.NAME` (code), `.nv.info.NAME` (attributes, among them a
record per parameter), `.nv.constant2.NAME` and so on (constants), `.rel[a].text.NAME` (what the loader fills in).
The layout of the attributes is not documented by NVIDIA; the numbers used here can be read in what `cuobjdump -elf`
prints. Debug sections do not enter the hash, so line tables and the place of the source make no difference.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

from pytest_nsight.model.identity import MachineCode

MAGIC = b"\x7fELF"
INSTRUCTION_BYTES = 16
"""Of every architecture from Volta on."""

ADDRESS_BYTES = 8

_HEADER_BYTES = 64
_CUDA_MACHINE = 190
_SYMBOL_TABLE, _RELOCATIONS_WITH_ADDEND, _RELOCATIONS, _WITHOUT_CONTENT = 2, 4, 9, 8
_NEW_LAYOUT = 8
"""Version of the ABI, of CUDA 13, that keeps the architecture in the flags' second byte instead of the first."""

_LONG_VALUE = 4
_PARAMETER, _PARAMETER_BANK, _TOOLKIT_VERSION = 0x17, 0x0A, 0x37
_REGISTERS, _FRAME = 0x2F, 0x11
_IGNORED = (_PARAMETER_BANK, _TOOLKIT_VERSION)
"""Attributes that do not change what runs: one holds a symbol's number, the other the compiler's version."""


class CubinError(ValueError):
    """These bytes are no cubin, or one of a layout that is not understood."""


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
    """

    name: str
    code: MachineCode
    parameters: tuple[Parameter, ...]
    parameters_at: int = 0
    architecture: int = 0
    text: bytes = field(default=b"", repr=False)
    is_whole: bool = False


@dataclass(frozen=True, slots=True)
class _ElfSection:
    name: str
    kind: int
    content: bytes
    size: int
    link: int
    info: int


@dataclass(frozen=True, slots=True)
class _Symbol:
    name: str
    section: int


@dataclass(frozen=True, slots=True)
class _Attribute:
    number: int
    payload: bytes


def read_kernels(cubin: bytes, only: Collection[str] | None = None) -> dict[str, KernelCode]:
    """Name -> kernel.

    Args:
        cubin: the file's bytes.
        only: names that are wanted, None for all; a library's cubin holds thousands.

    Raises:
        CubinError: no cubin, or a damaged one.
    """
    try:
        return _Cubin(cubin).kernels(only)
    except (struct.error, IndexError, ValueError) as error:
        if isinstance(error, CubinError):
            raise
        raise CubinError(f"this cubin of {len(cubin)} bytes is cut or damaged: {error}") from error


def measure_cubin(read: Callable[[int, int], bytes]) -> int:
    """How many bytes a cubin in memory takes: to the end of its last section or header.

    Args:
        read: gives the bytes at an offset, of a size.
    """
    (table,) = struct.unpack("<Q", read(0x28, 8))
    entry_bytes, count, _ = struct.unpack("<HHH", read(0x3A, 6))
    ends = [table + count * entry_bytes]
    for index in range(count):
        _, kind, _, _, offset, size, *_ = struct.unpack("<IIQQQQIIQQ", read(table + index * entry_bytes, 64))
        ends.append(0 if kind == _WITHOUT_CONTENT else offset + size)
    return int(max(ends))


class _Cubin:
    def __init__(self, data: bytes) -> None:
        if len(data) < _HEADER_BYTES or not data.startswith(MAGIC):
            raise CubinError(f"{len(data)} bytes that begin with {data[:4]!r} are no ELF file")
        machine = struct.unpack_from("<H", data, 18)[0]
        if machine != _CUDA_MACHINE:
            raise CubinError(f"this ELF file is for machine {machine}, not for CUDA ({_CUDA_MACHINE})")
        self._architecture = _read_architecture(data)
        self._sections = _read_sections(data)
        self._symbols = self._read_symbols()
        self._by_name = {section.name: section for section in self._sections}
        self._numbers = self._read_numbers()
        functions = [one.name.removeprefix(".text.") for one in self._sections if one.name.startswith(".text.")]
        self._is_closed = all(f".nv.constant0.{name}" in self._by_name for name in functions)

    def kernels(self, only: Collection[str] | None) -> dict[str, KernelCode]:
        prefix = ".nv.info."
        names = [section.name[len(prefix) :] for section in self._sections if section.name.startswith(prefix)]
        # A device function that is linked but not inlined has attributes, too, but no parameters in a bank.
        kernels = [name for name in names if f".nv.constant0.{name}" in self._by_name]
        return {name: self._kernel(name) for name in kernels if only is None or name in only}

    def _kernel(self, name: str) -> KernelCode:
        attributes = list(_read_attributes(self._by_name[f".nv.info.{name}"].content))
        code = MachineCode(
            digest=self._digest(name, attributes),
            instructions=len(self._content(f".text.{name}")) // INSTRUCTION_BYTES,
            registers=self._numbers.get((_REGISTERS, name), 0),
            frame_bytes=self._numbers.get((_FRAME, name), 0),
            shared_bytes=self._by_name[f".nv.shared.{name}"].size if f".nv.shared.{name}" in self._by_name else 0,
        )
        banks = [one.payload for one in attributes if one.number == _PARAMETER_BANK and len(one.payload) == 8]
        first = struct.unpack("<IHH", banks[0])[1] if banks else 0
        return KernelCode(
            name=name,
            code=code,
            parameters=_read_parameters(attributes),
            parameters_at=first,
            architecture=self._architecture,
            text=self._content(f".text.{name}"),
            is_whole=self._is_closed and not any(True for _ in self._relocations(f".text.{name}")),
        )

    def _digest(self, name: str, attributes: Sequence[_Attribute]) -> str:
        hashed = hashlib.sha256()
        for attribute in attributes:
            if attribute.number not in _IGNORED:
                hashed.update(struct.pack("<BI", attribute.number, len(attribute.payload)))
                hashed.update(attribute.payload)
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
            yield "text", self._content(f".text.{function}")
            for target, relocation in self._relocations(f".text.{function}"):
                yield "" if target == name else target, relocation
                if target not in seen and f".text.{target}" in self._by_name:
                    seen.add(target)
                    pending.append(target)
        for section in self._sections:
            bank, _, owner = section.name.removeprefix(".nv.constant").partition(".")
            # Bank 0 is where the launch writes its arguments.
            if section.name.startswith(".nv.constant") and bank != "0" and owner in ("", *seen):
                yield f"constant{bank}", section.content
        if shared := self._by_name.get(f".nv.shared.{name}"):
            yield "shared", struct.pack("<Q", shared.size)
        yield "initial", self._content(".nv.global.init")

    def _relocations(self, of: str) -> Iterator[tuple[str, bytes]]:
        for prefix, layout in ((".rel", "<QQ"), (".rela", "<QQq")):
            for fields in struct.iter_unpack(layout, self._content(prefix + of)):
                offset, info, *addend = fields
                symbol = self._symbols[info >> 32]
                place = symbol.name or self._sections[symbol.section].name
                yield place, struct.pack("<QIq", offset, info & 0xFFFFFFFF, *(addend or [0]))

    def _read_numbers(self) -> dict[tuple[int, str], int]:
        """The numbers that `.nv.info` keeps for each function: (attribute, function) -> number."""
        found = {}
        for attribute in _read_attributes(self._content(".nv.info")):
            if len(attribute.payload) == 8:
                symbol, value = struct.unpack("<II", attribute.payload)
                found[attribute.number, self._symbols[symbol].name] = int(value)
        return found

    def _content(self, name: str) -> bytes:
        section = self._by_name.get(name)
        return section.content if section else b""

    def _read_symbols(self) -> list[_Symbol]:
        tables = [section for section in self._sections if section.kind == _SYMBOL_TABLE]
        if len(tables) != 1:
            raise CubinError(f"this cubin has {len(tables)} symbol tables; one is expected")
        names = self._sections[tables[0].link].content
        return [
            _Symbol(_text_at(names, name), section)
            for name, _, _, section, _, _ in struct.iter_unpack("<IBBHQQ", tables[0].content)
        ]


def _read_architecture(data: bytes) -> int:
    (flags,) = struct.unpack_from("<I", data, 0x30)
    return int(flags >> 8 if data[8] >= _NEW_LAYOUT else flags) & 0xFF


def _read_sections(data: bytes) -> list[_ElfSection]:
    (table,) = struct.unpack_from("<Q", data, 0x28)
    entry_bytes, count, names_index = struct.unpack_from("<HHH", data, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, table + index * entry_bytes) for index in range(count)]
    names = _bytes_at(data, headers[names_index][4], headers[names_index][5])
    sections = []
    for name, kind, _, _, offset, size, link, info, _, _ in headers:
        content = b"" if kind in (0, _WITHOUT_CONTENT) else _bytes_at(data, offset, size)
        sections.append(_ElfSection(_text_at(names, name), kind, content, size, link, info))
    return sections


def _bytes_at(data: bytes, offset: int, size: int) -> bytes:
    if offset + size > len(data):
        raise CubinError(f"this cubin ends at byte {len(data)}, before one of its sections ({offset} + {size})")
    return data[offset : offset + size]


def _text_at(names: bytes, offset: int) -> str:
    return names[offset : names.index(b"\0", offset)].decode()


def _read_attributes(content: bytes) -> Iterator[_Attribute]:
    """Attributes in order: a byte for the layout, one for the number, two for the value or its length."""
    offset = 0
    while offset + 4 <= len(content):
        layout, number, value = struct.unpack_from("<BBH", content, offset)
        offset += 4
        if layout == _LONG_VALUE:
            yield _Attribute(number, _bytes_at(content, offset, value))
            offset += value
        else:
            yield _Attribute(number, struct.pack("<H", value))


def _read_parameters(attributes: Sequence[_Attribute]) -> tuple[Parameter, ...]:
    found = []
    for attribute in attributes:
        if attribute.number == _PARAMETER and len(attribute.payload) == 12:
            _, ordinal, offset, bits = struct.unpack("<IHHI", attribute.payload)
            found.append(Parameter(ordinal, offset, bits >> 18))
    return tuple(sorted(found))
