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
_END_OF_BUFFER = 12


class CuptiError(CollectorError):
    """A call of CUPTI failed; it is named with its result."""


def find_library() -> ctypes.CDLL:
    """The CUPTI of this process: torch's own if torch is loaded, so that there are not two.

    Raises:
        CuptiError: none is found.
    """
    tried = []
    for name in _candidates():
        try:
            return ctypes.CDLL(name)
        except OSError as error:  # noqa: PERF203 - a few names
            tried.append(f"{name}: {error}")
    raise CuptiError(f"no libcupti found; set {VARIABLE} to its path (tried {'; '.join(tried)})")


def _candidates() -> Iterator[str]:
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

    def next_record(self, buffer: int, valid_bytes: int, record: c_void_p) -> bool:
        """Moves `record` to the next one of a buffer; whether there is one."""
        code = self._library.cuptiActivityGetNextRecord(
            c_void_p(buffer), c_size_t(valid_bytes), ctypes.byref(record)
        )
        if code and code != _END_OF_BUFFER:
            raise CuptiError(f"cuptiActivityGetNextRecord: {self.text_of(code)} ({code})")
        return bool(code == 0)
