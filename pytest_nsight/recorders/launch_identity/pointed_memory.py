"""What an address among the arguments points into: memory that CUDA knows, or the process's own.

Libraries pass addresses of the host that no kernel reads: of scalars that go by value as well, and stale ones in
the unset room of structs. They differ in every process.
"""

from __future__ import annotations

import bisect
import re
from ctypes import byref, c_int, c_size_t, c_uint32, c_uint64
from pathlib import Path
from typing import Any

from pytest_nsight.recorders.launch_identity.launch_arguments import Allocation

_MEMORY_TYPE, _IS_MANAGED, _HOST = 2, 8, 1
"""Two of CUpointer_attribute, and CU_MEMORYTYPE_HOST."""

_MAPS = Path("/proc/self/maps")
_MAPPING = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) (?!---)", re.MULTILINE)
"""A row of it. What nobody may access is room that CUDA reserves, hundreds of gigabytes."""

_LEAST_ADDRESS, _PAST_HOST = 2**40, 2**47
"""Where Linux puts programs, libraries, heaps and stacks, and CUDA most memory of devices.

Smaller words count as numbers: CUDA puts some large memory at 16 GiB and above, where two small numbers beside one
another, such as 16 and 4, look like an address. A number that counted as an address would not be compared.
"""

_PAGE_BYTES = 4096


class PointedMemory:
    """Looks addresses up, in this process."""

    def __init__(self, driver: Any) -> None:
        """Prepares; `driver` is CUDA's driver library."""
        self._driver = driver
        self._begins: list[int] = []
        self._ends: list[int] = []
        self._elsewhere: set[int] = set()

    def find(self, address: int) -> Allocation | None:
        """The memory that an address points into, None where it is none or too small to be known from a number."""
        if address < _LEAST_ADDRESS:
            return None
        base, size = c_uint64(), c_size_t()
        if self._driver.cuMemGetAddressRange_v2(byref(base), byref(size), c_uint64(address)):
            return Allocation(address, 0) if self._is_of_process(address) else None
        is_managed = self._ask_of_pointer(_IS_MANAGED, address)
        is_on_host = self._ask_of_pointer(_MEMORY_TYPE, address) == _HOST
        memory = " managed" if is_managed else " of the host" if is_on_host else ""
        return Allocation(base.value, size.value, memory)

    def _ask_of_pointer(self, attribute: int, address: int) -> int:
        value = c_uint32()
        self._driver.cuPointerGetAttribute(byref(value), c_int(attribute), c_uint64(address))
        return value.value

    def _is_of_process(self, address: int) -> bool:
        # Programs whose addresses are fixed have their stack right below 2**47, where the word of the two numbers
        # -32768 and 32767 lies, too. Limits are multiples of large powers of two; what CUDA's libraries leave
        # of their stack hardly ever lies where a page begins.
        if address >= _PAST_HOST or address % _PAGE_BYTES == 0 or address in self._elsewhere:
            return False
        if not self._is_mapped(address):
            # Memory has been mapped since they were read, or it is a number.
            self._read_mappings()
            if not self._is_mapped(address):
                self._elsewhere.add(address)
                return False
        return True

    def _is_mapped(self, address: int) -> bool:
        place = bisect.bisect_right(self._begins, address) - 1
        return place >= 0 and address < self._ends[place]

    def _read_mappings(self) -> None:
        try:
            found = _MAPPING.findall(_MAPS.read_text(encoding="utf-8", errors="replace"))
        except OSError:
            found = []
        self._begins = [int(begin, 16) for begin, _ in found]
        self._ends = [int(end, 16) for _, end in found]
