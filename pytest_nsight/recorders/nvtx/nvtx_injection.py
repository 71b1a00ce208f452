"""NVTX ranges sent straight to an attached tool, without an NVTX library in between.

A tool such as Nsight Systems names its library in $NVTX_INJECTION64_PATH. An NVTX client loads it and calls
its `InitializeInjectionNvtx2` with a function that hands out tables of empty slots; the tool fills the slots
it serves. Layouts and numbers are those of NVTX version 3, from the headers that Nsight Systems ships in
`target-linux-x64/nvtx/include/nvtx3` (`nvToolsExt.h`, `nvtxDetail/nvtxTypes.h`, `nvtxDetail/nvtxInit.h`).

This is needed because the nvtx package (0.2.12 and later) emits nothing under an Nsight Systems that cannot say
whether a domain is enabled, which none up to 2024.2 can.
"""

from __future__ import annotations

import ctypes
from typing import Any, ClassVar

_NVTX_VERSION = 3
_TABLE_CALLBACKS, _TABLE_VERSION = 1, 3
_CORE2 = 5
_PUSH, _POP, _CREATE_DOMAIN = 4, 5, 12
# Module id -> slots of its table: core, CUDA, OpenCL, CUDA runtime, core 2 (domains), synchronisation.
# A tool may give up on a client that lacks one of them, so all are offered though only core 2 is used.
_SLOTS = {1: 16, 2: 9, 3: 15, 4: 7, _CORE2: 16, 6: 7}

_MESSAGE_TEXT = 1
_PAYLOAD_INT64 = 2


class _EventAttributes(ctypes.Structure):
    """`nvtxEventAttributes_v2`: 48 bytes on every 64-bit platform."""

    _fields_: ClassVar[list[Any]] = [
        ("version", ctypes.c_uint16),
        ("size", ctypes.c_uint16),
        ("category", ctypes.c_uint32),
        ("color_type", ctypes.c_int32),
        ("color", ctypes.c_uint32),
        ("payload_type", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
        ("payload", ctypes.c_int64),
        ("message_type", ctypes.c_int32),
        ("message", ctypes.c_char_p),
    ]


_ATTRIBUTES_BYTES = ctypes.sizeof(_EventAttributes)

_GetModuleTable = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_uint)
)
_SetToolVersion = ctypes.CFUNCTYPE(None, ctypes.c_uint32)
_GetExportTable = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)

_CreateFunction = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)
_PushFunction = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(_EventAttributes))
_PopFunction = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)


class _Callbacks(ctypes.Structure):
    """`NvtxExportTableCallbacks`."""

    _fields_: ClassVar[list[Any]] = [("struct_size", ctypes.c_size_t), ("get_module_table", _GetModuleTable)]


class _VersionInfo(ctypes.Structure):
    """`NvtxExportTableVersionInfo`."""

    _fields_: ClassVar[list[Any]] = [
        ("struct_size", ctypes.c_size_t),
        ("version", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("set_tool_version", _SetToolVersion),
    ]


class _Client:
    """Our side of the handshake: the tables that a tool asks for and fills."""

    def __init__(self) -> None:
        self.slots = {module: (ctypes.c_void_p * (count + 1))() for module, count in _SLOTS.items()}
        self._tables = {module: _pointers_to(slots) for module, slots in self.slots.items()}
        self._callbacks = _Callbacks(ctypes.sizeof(_Callbacks), _GetModuleTable(self._module_table))
        self._version = _VersionInfo(
            ctypes.sizeof(_VersionInfo), _NVTX_VERSION, 0, _SetToolVersion(lambda _version: None)
        )
        self.get_export_table = _GetExportTable(self._export_table)

    def _module_table(self, module: int, table: Any, size: Any) -> int:
        found = self._tables.get(module)
        if found is None:
            return 0
        if table:
            table[0] = ctypes.addressof(found)
        if size:
            size[0] = len(found) - 1
        return 1

    def _export_table(self, table: int) -> int | None:
        if table == _TABLE_CALLBACKS:
            return ctypes.addressof(self._callbacks)
        if table == _TABLE_VERSION:
            return ctypes.addressof(self._version)
        return None


def _pointers_to(slots: ctypes.Array[ctypes.c_void_p]) -> ctypes.Array[ctypes.c_void_p]:
    table = (ctypes.c_void_p * len(slots))()
    # Slot 0 stands for no function, and the one past the end is a guard: both stay null.
    for i in range(1, len(slots) - 1):
        table[i] = ctypes.addressof(slots) + i * ctypes.sizeof(ctypes.c_void_p)
    return table


def find_entry(library: str) -> Any:
    """The function through which NVTX clients attach to a tool.

    Args:
        library: path of the tool's library, the value of $NVTX_INJECTION64_PATH.

    Raises:
        OSError: the library cannot be loaded, or is no NVTX tool; the text says which.
    """
    try:
        return ctypes.CDLL(library).InitializeInjectionNvtx2
    except AttributeError as error:
        raise OSError(f"{library} has no InitializeInjectionNvtx2") from error


class InjectedDomain:
    """One NVTX domain of the attached tool.

    Attributes:
        name: name of the domain.
    """

    def __init__(self, library: str, name: str) -> None:
        """Attaches to the tool and creates the domain; once per process.

        Args:
            library: path of the tool's library, the value of $NVTX_INJECTION64_PATH.
            name: name of the domain.

        Raises:
            OSError: the library cannot be loaded, is not an NVTX tool, or refuses; the text says which.
        """
        self.name = name
        initialise = find_entry(library)
        client = _Client()
        # The tool keeps pointers into these tables and clears them as the process exits, after Python has
        # freed its own objects: they must never be freed.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(client))
        initialise.restype, initialise.argtypes = ctypes.c_int, [_GetExportTable]
        if not initialise(client.get_export_table):
            raise OSError(f"{library} refused to attach")
        slots = client.slots[_CORE2]
        push, pop, create = slots[_PUSH], slots[_POP], slots[_CREATE_DOMAIN]
        if not (push and pop and create):
            raise OSError(f"{library} does not record NVTX domains")
        self._push = _PushFunction(push)
        self._pop = _PopFunction(pop)
        self._domain = ctypes.c_void_p(_CreateFunction(create)(name.encode()))

    def push(self, text: bytes, payload: int) -> None:
        """Opens a range on this thread.

        Args:
            text: its name, UTF-8 without NUL. Copied by the tool.
            payload: a signed 64-bit number.
        """
        # By position: keywords would make this call, which is timed with the round, twice as slow.
        attributes = _EventAttributes(
            _NVTX_VERSION, _ATTRIBUTES_BYTES, 0, 0, 0, _PAYLOAD_INT64, 0, payload, _MESSAGE_TEXT, text
        )
        self._push(self._domain, ctypes.byref(attributes))

    def pop(self) -> None:
        """Closes the range that this thread opened last in the domain."""
        self._pop(self._domain)
