"""The machine code that this process has loaded, and which of it a function of the driver belongs to.

Two modules may hold kernels of the same name with different code: cuDNN compiles one for each problem. So a launch
leads to its code by the driver's handles, and to the name only where they do not help.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from ctypes import byref, c_char_p, c_size_t, c_uint32, c_void_p
from pathlib import Path
from typing import Any, ClassVar

from pytest_nsight.recorders.machine_code.elf_file import MAGIC, measure_cubin

_MOST_PARAMETERS = 256


class ModuleRecord(ctypes.Structure):
    """CUpti_ModuleResourceData."""

    _fields_: ClassVar = [("module_id", c_uint32), ("size", c_size_t), ("cubin", c_void_p)]


class LoadedModules:
    """Machine code by what the driver calls it.

    Threads may load, unload and launch at once; a compiler loads what it tries on threads of its own.

    Attributes:
        cubins: machine code of all modules that CUPTI has reported, in order.
    """

    def __init__(self, driver: Any) -> None:
        """Reads nothing yet; `driver` is CUDA's driver library."""
        self.cubins: list[bytes] = []
        self._driver = driver
        self._by_module: dict[int, bytes] = {}
        self._by_library: dict[int, bytes] = {}
        self._layouts: dict[int, list[tuple[int, int]]] = {}
        # No library is unloaded while the driver is asked about it; a question may load a module.
        self._lock = threading.RLock()

    def keep_reported(self, record: int) -> None:
        """Copies the code of a module that is loaded right now.

        Args:
            record: address of a ModuleRecord.

        Raises:
            ValueError: it has no code.
        """
        module = ModuleRecord.from_address(record)
        if not module.cubin:
            # ctypes would copy nothing and return bytes of no meaning.
            raise ValueError(f"module {module.module_id} was loaded without machine code")
        self.cubins.append(ctypes.string_at(module.cubin, module.size))
        # What is loaded may get a handle that something unloaded had, with other parameters.
        self._layouts.clear()

    def keep_module(self, handle: int, cubin: bytes) -> None:
        """Keeps the code that a module was loaded from.

        Args:
            handle: what the driver has named the module.
            cubin: the code; b"" where it is not known.
        """
        self._keep(self._by_module, handle, cubin)

    def keep_library(self, handle: int, cubin: bytes) -> None:
        """Keeps the code that a library was loaded from; arguments as for a module."""
        self._keep(self._by_library, handle, cubin)

    def _keep(self, known: dict[int, bytes], handle: int, cubin: bytes) -> None:
        with self._lock:
            # A handle may be that of something unloaded before.
            self._drop(known, handle)
            if handle and cubin:
                known[handle] = cubin

    def drop_module(self, handle: int) -> None:
        """Forgets a module that is about to be unloaded."""
        self._drop(self._by_module, handle)

    def drop_library(self, handle: int) -> None:
        """Forgets a library that is about to be unloaded: the driver crashes at a question about it."""
        self._drop(self._by_library, handle)

    def _drop(self, known: dict[int, bytes], handle: int) -> None:
        with self._lock:
            known.pop(handle, None)
            self._layouts.clear()

    def find_cubin(self, function: int) -> bytes:
        """The code of the module or library that a function or kernel belongs to, b"" where that is not known.

        Args:
            function: the driver's handle, as the launch names it.
        """
        owner = c_void_p()
        if not self._driver.cuFuncGetModule(byref(owner), c_void_p(function)):
            module = owner.value or 0
            return self._by_module.get(module) or self._find_in_libraries(module)
        for ask in self._calls("cuKernelGetLibrary"):
            if not ask(byref(owner), c_void_p(function)):
                return self._by_library.get(owner.value or 0, b"")
        return b""

    def _find_in_libraries(self, module: int) -> bytes:
        """The code of the library whose module for this context it is."""
        with self._lock:
            # The driver may load one meanwhile, on this very thread.
            known = list(self._by_library.items())
            for ask in self._calls("cuLibraryGetModule"):
                for library, cubin in known:
                    found = c_void_p()
                    if not ask(byref(found), c_void_p(library)) and found.value == module:
                        return cubin
        return b""

    def name_of(self, function: int) -> str:
        """The kernel's name behind the driver's handle, "" where the driver does not say."""
        name = c_char_p()
        found = any(
            not ask(byref(name), c_void_p(function)) for ask in self._calls("cuFuncGetName", "cuKernelGetName")
        )
        return (name.value or b"").decode() if found else ""

    def list_parameters(self, function: int) -> list[tuple[int, int]]:
        """Offset and size of each parameter as the driver knows them; none where it does not say."""
        known = self._layouts.get(function)
        if known is None:
            asked = (
                _list_parameters(ask, function) for ask in self._calls("cuFuncGetParamInfo", "cuKernelGetParamInfo")
            )
            known = self._layouts[function] = next(filter(None, asked), [])
        return known

    def _calls(self, *names: str) -> Iterator[Callable[..., int]]:
        """Those calls that the driver has: a library's kernel can be launched and is no function to it."""
        return (getattr(self._driver, name) for name in names if hasattr(self._driver, name))


def read_file(path: bytes) -> bytes:
    """The machine code that a file holds as it is; nothing of one that is still to be compiled or unpacked."""
    try:
        content = Path(os.fsdecode(path)).read_bytes()
    except OSError:
        return b""
    return content if content.startswith(MAGIC) else b""


def copy_image(image: int) -> bytes:
    """The machine code that an image in memory holds, as a file of it."""
    if not image or ctypes.string_at(image, 4) != MAGIC:
        return b""
    return ctypes.string_at(image, measure_cubin(lambda offset, size: ctypes.string_at(image + offset, size)))


def _list_parameters(ask: Callable[..., int], function: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    offset, size = c_size_t(), c_size_t()
    while len(found) < _MOST_PARAMETERS and not ask(
        c_void_p(function), c_size_t(len(found)), byref(offset), byref(size)
    ):
        found.append((offset.value, size.value))
    return found
