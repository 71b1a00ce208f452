"""Sees every kernel launch of this process from inside: its arguments, and the machine code behind it.

CUPTI calls back at the entry and exit of each launching function of the runtime and the driver, and whenever a
module with machine code is loaded. The callbacks only copy bytes; all looking up happens afterwards, because they
run within the user's calls.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass, field
from typing import Any, ClassVar

from benchmarks.cupti.launch_identity import Allocation
from pytest_nsight.collectors.cupti.library import Cupti

_DRIVER_DOMAIN, _RUNTIME_DOMAIN, _RESOURCE_DOMAIN = 1, 2, 3
_MODULE_LOADED = 6
_ENTRY = 0
_RUNTIME_PLAIN = (211, 214, 269, 270, 505, 506)
_RUNTIME_CONFIGURED = (430, 431)
_DRIVER_PLAIN = (307, 442)
_DRIVER_COOPERATIVE = (477, 478)
_DRIVER_CONFIGURED = (652, 653)
_DRIVER_LAUNCHES = (*_DRIVER_PLAIN, *_DRIVER_COOPERATIVE, *_DRIVER_CONFIGURED)
_MOST_PARAMETERS = 256
_PACKED_POINTER, _PACKED_SIZE = 1, 2
"""CU_LAUNCH_PARAM_BUFFER_POINTER and _SIZE, for arguments in one buffer."""


class _CallbackData(ctypes.Structure):
    _fields_: ClassVar = [
        ("site", c_uint32),
        ("function_name", c_char_p),
        ("parameters", c_void_p),
        ("returned", c_void_p),
        ("symbol", c_char_p),
        ("context", c_void_p),
        ("context_id", c_uint32),
        ("data", c_void_p),
        ("correlation", c_uint32),
    ]


class _ResourceData(ctypes.Structure):
    _fields_: ClassVar = [("context", c_void_p), ("handle", c_void_p), ("descriptor", c_void_p)]


class _ModuleData(ctypes.Structure):
    _fields_: ClassVar = [("module_id", c_uint32), ("size", c_size_t), ("cubin", c_void_p)]


@dataclass(frozen=True, slots=True)
class ObservedLaunch:
    """One call that launches a kernel.

    Attributes:
        correlation: CUPTI's number of the call.
        function: the driver's handle, 0 where the runtime launched.
        symbol: the kernel's name where the runtime launched, else "".
        arguments: address of the array of pointers to arguments, read at once; (ordinal -> bytes) by the layout
            that the driver gives for the function; empty where there is none.
    """

    correlation: int
    function: int
    symbol: str
    arguments: dict[int, bytes] = field(default_factory=dict)


_Callback = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_uint32, c_void_p)


class LaunchCapture:
    """Subscribes to CUPTI's callbacks.

    Attributes:
        launches: correlation -> the launch.
        cubins: machine code of the modules that were loaded, in order.
        layouts: kernel -> offset and size of each parameter, for the runtime's calls, which do not say it.
        problems: what went wrong in callbacks, where nothing may be raised.
        nested: calls of the driver within the runtime's.
    """

    def __init__(self, cupti: Cupti, driver: Any = None) -> None:
        """Prepares; `driver` stands for CUDA's driver library, which is loaded if none is given."""
        self.launches: dict[int, ObservedLaunch] = {}
        self.cubins: list[bytes] = []
        self.problems: list[str] = []
        self.layouts: dict[str, list[tuple[int, int]]] = {}
        self._cupti = cupti
        self._driver = driver or ctypes.CDLL("libcuda.so.1")
        self._subscriber = c_void_p()
        self._callback = _Callback(self._called)
        self.nested = 0
        self._runtime_calls = threading.local()
        self._by_handle: dict[int, list[tuple[int, int]]] = {}

    def start(self) -> None:
        """Begins.

        Raises:
            CuptiError: CUPTI refuses, as where there is another subscriber.
        """
        self._cupti.call("cuptiSubscribe", byref(self._subscriber), self._callback, None)
        wanted = [(_RESOURCE_DOMAIN, _MODULE_LOADED)]
        wanted += [(_RUNTIME_DOMAIN, number) for number in (*_RUNTIME_PLAIN, *_RUNTIME_CONFIGURED)]
        wanted += [(_DRIVER_DOMAIN, number) for number in _DRIVER_LAUNCHES]
        for domain, number in wanted:
            self._cupti.call("cuptiEnableCallback", c_uint32(1), self._subscriber, domain, c_uint32(number))

    def stop(self) -> None:
        """Ends."""
        self._cupti.call("cuptiUnsubscribe", self._subscriber)

    def name_of(self, function: int) -> str:
        """The kernel's name behind the driver's handle, "" where the driver does not say."""
        name = c_char_p()
        failed = self._driver.cuFuncGetName(byref(name), c_void_p(function))
        return "" if failed else (name.value or b"").decode()

    def find_allocation(self, address: int) -> Allocation | None:
        """The device memory that an address points into."""
        base, size = c_uint64(), c_size_t()
        failed = self._driver.cuMemGetAddressRange_v2(byref(base), byref(size), c_uint64(address))
        return None if failed else Allocation(base.value, size.value)

    def _called(self, _: int | None, domain: int, number: int, data: int) -> None:
        try:
            if domain == _RESOURCE_DOMAIN:
                module = _ModuleData.from_address(_ResourceData.from_address(data).descriptor)
                self.cubins.append(_copy_cubin(module))
                return
            call = _CallbackData.from_address(data)
            depth = getattr(self._runtime_calls, "depth", 0)
            if domain == _RUNTIME_DOMAIN:
                self._runtime_calls.depth = depth + (1 if call.site == _ENTRY else -1)
            elif depth:
                # What the runtime asks of the driver is the same launch once more, with handles of another kind.
                self.nested += call.site == _ENTRY
                return
            if call.site == _ENTRY:
                self._keep(domain, number, call)
        except Exception as error:  # An exception must not cross C.
            self.problems.append(f"{type(error).__name__} in callback {number} of domain {domain}: {error}")

    def _keep(self, domain: int, number: int, call: Any) -> None:
        if domain == _RUNTIME_DOMAIN:
            arguments = _word(call.parameters, 16 if number in _RUNTIME_CONFIGURED else 32)
            symbol = (call.symbol or b"").decode()
            known = self.layouts.get(symbol, [])
            launch = ObservedLaunch(call.correlation, 0, symbol, _read_arguments(arguments, known))
            self.launches.setdefault(call.correlation, launch)
            return
        is_configured = number in _DRIVER_CONFIGURED
        function = _word(call.parameters, 8 if is_configured else 0)
        arguments = _word(call.parameters, 16 if is_configured else 48)
        layout = self._layout(function)
        if arguments:
            values = _read_arguments(arguments, layout)
        elif number in _DRIVER_COOPERATIVE:
            values = {}
        else:
            values = _read_packed(_word(call.parameters, 24 if is_configured else 56), layout)
        self.launches[call.correlation] = ObservedLaunch(call.correlation, function, "", values)

    def _layout(self, function: int) -> list[tuple[int, int]]:
        """Offset and size of each parameter, as the driver knows them."""
        if function not in self._by_handle:
            found: list[tuple[int, int]] = []
            offset, size = c_size_t(), c_size_t()
            while len(found) < _MOST_PARAMETERS and not self._driver.cuFuncGetParamInfo(
                c_void_p(function), c_size_t(len(found)), byref(offset), byref(size)
            ):
                found.append((offset.value, size.value))
            self._by_handle[function] = found
        return self._by_handle[function]

    def layout_of(self, function: int) -> Sequence[tuple[int, int]]:
        """The layout of a function that was launched: offset and size of each parameter."""
        return self._by_handle.get(function, ())


def _copy_cubin(module: Any) -> bytes:
    if not module.cubin:
        # ctypes would copy nothing and return bytes of no meaning.
        raise ValueError(f"module {module.module_id} was loaded without machine code")
    return ctypes.string_at(module.cubin, module.size)


def _word(address: int, offset: int) -> int:
    return c_uint64.from_address(address + offset).value


def _read_arguments(array: int, layout: Sequence[tuple[int, int]]) -> dict[int, bytes]:
    if not array:
        return {}
    return {index: ctypes.string_at(_word(array, 8 * index), size) for index, (_, size) in enumerate(layout)}


def _read_packed(extra: int, layout: Sequence[tuple[int, int]]) -> dict[int, bytes]:
    """Arguments that lie in one buffer, behind a list of keys and pointers that ends with 0."""
    pointers: dict[int, int] = {}
    while extra and (key := _word(extra, 0)):
        pointers[key] = _word(extra, 8)
        extra += 16
    if _PACKED_POINTER not in pointers or _PACKED_SIZE not in pointers:
        return {}
    packed = ctypes.string_at(pointers[_PACKED_POINTER], _word(pointers[_PACKED_SIZE], 0))
    return {index: packed[offset : offset + size] for index, (offset, size) in enumerate(layout)}
