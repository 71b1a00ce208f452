"""CUPTI's library in this process, through ctypes: no package beside the CUDA runtime, every result checked."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from ctypes import POINTER, c_char_p, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any

from pytest_nsight.model.errors import CollectorError

VARIABLE = "CUPTI_LIBRARY"
DRIVER_DOMAIN, RUNTIME_DOMAIN = 1, 2
_END_OF_BUFFER = 12


class CuptiError(CollectorError):
    """A call of CUPTI failed; it is named with its result."""


def find_library() -> ctypes.CDLL:
    """The CUPTI of this process: torch's own if torch is loaded, so that there are not two.

    Raises:
        CuptiError: none is found.
    """
    tried = []
    for name in candidates():
        try:
            return ctypes.CDLL(name)
        except OSError as error:  # noqa: PERF203 - a few names
            tried.append(f"{name}: {error}")
    raise CuptiError(f"no libcupti found; set {VARIABLE} to its path (tried {'; '.join(tried)})")


def candidates() -> Iterator[str]:
    """Paths and names to try, best first: $CUPTI_LIBRARY, packages, the toolkit, the system's loader."""
    if named := os.environ.get(VARIABLE):
        yield named
        return
    for folder in map(Path, sys.path):
        yield from sorted(map(str, folder.glob("nvidia/*/lib/libcupti.so.1[0-9]")), reverse=True)
    for folder in map(Path, ("/usr/local/cuda/extras/CUPTI/lib64", "/usr/local/cuda/lib64")):
        yield from sorted(map(str, folder.glob("libcupti.so.1[0-9]")), reverse=True)
    yield from ("libcupti.so.13", "libcupti.so.12")


class Cupti:
    """The library, with every result checked."""

    def __init__(self, library: ctypes.CDLL | None = None) -> None:
        self._library = library or find_library()
        self._library.cuptiGetResultString.argtypes = [ctypes.c_int, POINTER(c_char_p)]

    def call(self, name: str, *arguments: Any) -> None:
        """Calls a function that returns a CUptiResult.

        Raises:
            CuptiError: it failed.
        """
        if code := getattr(self._library, name)(*arguments):
            raise CuptiError(f"{name}: {self.text_of(code)} ({code})")

    def text_of(self, code: int) -> str:
        """The name of a result."""
        text = c_char_p()
        self._library.cuptiGetResultString(code, ctypes.byref(text))
        return (text.value or b"unknown result").decode()

    def version(self) -> int:
        """CUPTI's API version, such as 130000."""
        found = c_uint32()
        self.call("cuptiGetVersion", ctypes.byref(found))
        return found.value

    def now_ns(self) -> int:
        """The time on the clock of the records."""
        found = c_uint64()
        self.call("cuptiGetTimestamp", ctypes.byref(found))
        return found.value

    def call_name(self, domain: int, number: int) -> str:
        """The name of a function of the runtime or the driver, with its version as in "cudaLaunchKernel_v7000".

        Args:
            domain: DRIVER_DOMAIN or RUNTIME_DOMAIN.
            number: of the function in its domain.
        """
        name = c_char_p()
        code = self._library.cuptiGetCallbackName(domain, c_uint32(number), ctypes.byref(name))
        return f"call {number}" if code or not name.value else name.value.decode()

    def record_addresses(self, buffer: int, valid_bytes: int) -> list[int]:
        """Where the records of a completed buffer begin.

        Args:
            buffer: its address.
            valid_bytes: how much of it holds records.

        Raises:
            CuptiError: there is a record that CUPTI itself does not know.
        """
        record, found = c_void_p(), list[int]()
        arguments = (c_void_p(buffer), c_size_t(valid_bytes), ctypes.byref(record))
        next_record = self._library.cuptiActivityGetNextRecord
        # There may be a million records: a method around each call would take seconds.
        while valid_bytes and not (code := next_record(*arguments)):
            found.append(record.value or 0)
        if valid_bytes and code != _END_OF_BUFFER:
            raise CuptiError(f"cuptiActivityGetNextRecord: {self.text_of(code)} ({code})")
        return found
