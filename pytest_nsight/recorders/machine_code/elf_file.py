"""The ELF file that a cubin is: its sections and symbols. Pure; nothing here knows kernels."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

MAGIC = b"\x7fELF"

_HEADER_BYTES = 64
_CUDA_MACHINE = 190
_SYMBOL_TABLE, _WITHOUT_CONTENT = 2, 8
_NEW_LAYOUT = 8
"""Version of the ABI, of CUDA 13, that keeps the architecture in the flags' second byte instead of the first."""


class CubinError(ValueError):
    """These bytes are no cubin, or one of a layout that is not understood."""


@dataclass(frozen=True, slots=True)
class ElfSection:
    """One section, without its content.

    Attributes:
        name: of it.
        kind: what ELF calls its type.
        offset: of its content in the file.
        size: of its content.
        link: number of a section that it needs.
    """

    name: str
    kind: int
    offset: int
    size: int
    link: int


@dataclass(frozen=True, slots=True)
class Symbol:
    """A name, and the number of the section that it stands for."""

    name: str
    section: int


@contextmanager
def explain_damage(size: int) -> Iterator[None]:
    """Makes a CubinError of what struct and slices raise where a file of `size` bytes is cut or damaged."""
    try:
        yield
    except (struct.error, IndexError, ValueError) as error:
        if isinstance(error, CubinError):
            raise
        raise CubinError(f"this cubin of {size} bytes is cut or damaged: {error}") from error


class ElfFile:
    """A cubin whose table of contents has been read; contents are read when they are asked for.

    Attributes:
        size: bytes of the file.
        architecture: that its code is for, such as 90.
        sections: in order.
    """

    def __init__(self, data: bytes) -> None:
        """Reads the table of contents.

        Raises:
            CubinError: no cubin, or a damaged one.
        """
        self.size = len(data)
        if self.size < _HEADER_BYTES or not data.startswith(MAGIC):
            raise CubinError(f"{self.size} bytes that begin with {data[:4]!r} are no ELF file")
        with explain_damage(self.size):
            machine = struct.unpack_from("<H", data, 18)[0]
            if machine != _CUDA_MACHINE:
                raise CubinError(f"this ELF file is for machine {machine}, not for CUDA ({_CUDA_MACHINE})")
            self._data = data
            self.architecture = _read_architecture(data)
            self.sections = _read_sections(data)
        self._by_name = {section.name: section for section in self.sections}

    def find(self, name: str) -> ElfSection | None:
        """The section of this name."""
        return self._by_name.get(name)

    def content(self, name: str) -> bytes:
        """Of the section of this name; nothing where there is none.

        Raises:
            CubinError: the file ends before it does.
        """
        section = self._by_name.get(name)
        return self.content_of(section) if section else b""

    def content_of(self, section: ElfSection) -> bytes:
        """Of a section.

        Raises:
            CubinError: the file ends before it does.
        """
        if section.kind in (0, _WITHOUT_CONTENT):
            return b""
        return bytes_at(self._data, section.offset, section.size)

    @cached_property
    def symbols(self) -> list[Symbol]:
        """Of its only symbol table."""
        tables = [section for section in self.sections if section.kind == _SYMBOL_TABLE]
        if len(tables) != 1:
            raise CubinError(f"this cubin has {len(tables)} symbol tables; one is expected")
        names = self.content_of(self.sections[tables[0].link])
        return [
            Symbol(_text_at(names, name), section)
            for name, _, _, section, _, _ in struct.iter_unpack("<IBBHQQ", self.content_of(tables[0]))
        ]


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


def bytes_at(data: bytes, offset: int, size: int) -> bytes:
    """A part of the data.

    Raises:
        CubinError: the data end before it does.
    """
    _demand(data, offset, size)
    return data[offset : offset + size]


def _read_architecture(data: bytes) -> int:
    (flags,) = struct.unpack_from("<I", data, 0x30)
    return int(flags >> 8 if data[8] >= _NEW_LAYOUT else flags) & 0xFF


def _read_sections(data: bytes) -> list[ElfSection]:
    (table,) = struct.unpack_from("<Q", data, 0x28)
    entry_bytes, count, names_index = struct.unpack_from("<HHH", data, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, table + index * entry_bytes) for index in range(count)]
    names = bytes_at(data, headers[names_index][4], headers[names_index][5])
    sections = []
    for name, kind, _, _, offset, size, link, *_ in headers:
        if kind not in (0, _WITHOUT_CONTENT):
            _demand(data, offset, size)
        sections.append(ElfSection(_text_at(names, name), kind, offset, size, link))
    return sections


def _demand(data: bytes, offset: int, size: int) -> None:
    if offset + size > len(data):
        raise CubinError(f"this cubin ends at byte {len(data)}, before one of its sections ({offset} + {size})")


def _text_at(names: bytes, offset: int) -> str:
    return names[offset : names.index(b"\0", offset)].decode()
