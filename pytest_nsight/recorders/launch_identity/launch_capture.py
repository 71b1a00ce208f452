"""Sees every kernel launch of this process from inside: its arguments, and the machine code behind it.

CUPTI calls back at the entry and exit of each launching function of the runtime and the driver, and whenever a
module with machine code is loaded. The callbacks only copy bytes; all looking up happens afterwards, because they
run within the user's calls.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from ctypes import byref, c_char_p, c_int, c_uint32, c_void_p
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pytest_nsight.recorders.cupti.library import Cupti
from pytest_nsight.recorders.launch_identity.call_parameters import (
    COOPERATIVE,
    Layout,
    read_arguments,
    read_attributes,
    read_packed,
    read_shape,
    word,
)
from pytest_nsight.recorders.launch_identity.loaded_modules import LoadedModules, copy_image, read_file
from pytest_nsight.recorders.launch_identity.pointed_memory import PointedMemory

_DRIVER_DOMAIN, _RUNTIME_DOMAIN, _RESOURCE_DOMAIN = 1, 2, 3
_MODULE_LOADED = 6
_ENTRY = 0
_RUNTIME_PLAIN = (211, 214, 269, 270, 505, 506)
_RUNTIME_CONFIGURED = (430, 431)
_DRIVER_PLAIN = (307, 442)
_DRIVER_COOPERATIVE = (477, 478)
_DRIVER_CONFIGURED = (652, 653)
_DRIVER_LAUNCHES = (*_DRIVER_PLAIN, *_DRIVER_COOPERATIVE, *_DRIVER_CONFIGURED)
_RUNTIME_COOPERATIVE = (269, 270)
_LOAD_MODULE = (19, 20, 21)
"""cuModuleLoadData, its form with options, and the one for fat binaries: they begin with handle and image."""
_LOAD_LIBRARY = (678,)
"""cuLibraryLoadData, which begins likewise."""
_LOAD_MODULE_FILE, _LOAD_LIBRARY_FILE = 18, 679
"""cuModuleLoad and cuLibraryLoadFromFile, which begin with handle and path."""
_UNLOAD_MODULE, _UNLOAD_LIBRARY = 22, 680
"""cuModuleUnload and cuLibraryUnload, whose only parameter is the handle."""

_LOADS = (*_LOAD_MODULE, *_LOAD_LIBRARY, _LOAD_MODULE_FILE, _LOAD_LIBRARY_FILE)
_LAUNCHES = (
    *((_RUNTIME_DOMAIN, number) for number in (*_RUNTIME_PLAIN, *_RUNTIME_CONFIGURED)),
    *((_DRIVER_DOMAIN, number) for number in _DRIVER_LAUNCHES),
)
_MODULE_CALLS = tuple((_DRIVER_DOMAIN, number) for number in (*_LOADS, _UNLOAD_MODULE, _UNLOAD_LIBRARY))


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


FindLayout = Callable[[str], "Layout | None"]


@dataclass(frozen=True, slots=True)
class ObservedLaunch:
    """One call that launches a kernel.

    Attributes:
        correlation: CUPTI's number of the call.
        function: the driver's handle, 0 where the runtime launched.
        symbol: the kernel's name where the runtime launched, else "".
        arguments: ordinal -> bytes, read at once, by the layout that the driver gives for the function; empty where
            there is none.
        cubin: machine code of the module that the function is of, b"" where it is not known.
        attributes: of the launch, as text.
        unread_attributes: those whose value is not known to mean the same in every process.
        grid: blocks.
        block: threads of each.
    """

    correlation: int
    function: int
    symbol: str
    arguments: dict[int, bytes] = field(default_factory=dict)
    cubin: bytes = b""
    attributes: tuple[str, ...] = ()
    unread_attributes: tuple[int, ...] = ()
    grid: tuple[int, int, int] = (0, 0, 0)
    block: tuple[int, int, int] = (0, 0, 0)


_Callback = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_uint32, c_void_p)


class LaunchCapture:
    """Subscribes to CUPTI's callbacks.

    Attributes:
        launches: correlation -> the launch.
        modules: what the process has loaded.
        memory: what addresses point into.
        layouts: kernel -> offset and size of each parameter, for the runtime's calls, which do not say it.
        problems: what went wrong in callbacks, where nothing may be raised.
    """

    def __init__(self, cupti: Cupti, driver: Any = None) -> None:
        """Prepares; `driver` stands for CUDA's driver library, which is loaded if none is given."""
        self.launches: dict[int, ObservedLaunch] = {}
        self.problems: list[str] = []
        self.layouts: dict[str, Layout] = {}
        self._find_layout: FindLayout = self.layouts.get
        self._cupti = cupti
        self._driver = driver or ctypes.CDLL("libcuda.so.1")
        self._subscriber = c_void_p()
        self._callback = _Callback(self._called)
        self._runtime_calls = threading.local()
        self.modules = LoadedModules(self._driver)
        self.memory = PointedMemory(self._driver)

    def start(self, find_layout: FindLayout | None = None) -> None:
        """Begins.

        Args:
            find_layout: kernel -> offset and size of its parameters, None where it is not known. Looks up what is
                not in `layouts`, when a call is over that may have loaded the kernel.

        Raises:
            CuptiError: CUPTI refuses, as where there is another subscriber.
        """
        self._find_layout = find_layout or self._find_layout
        self._cupti.call("cuptiSubscribe", byref(self._subscriber), self._callback, None)
        self._enable(((_RESOURCE_DOMAIN, _MODULE_LOADED), *_MODULE_CALLS, *_LAUNCHES), wanted=True)

    def stop(self) -> None:
        """Ends."""
        self._cupti.call("cuptiUnsubscribe", self._subscriber)

    def pause(self) -> None:
        """Ignores the launches of all threads, and delays none, until `resume`; what is loaded is still seen.

        Raises:
            CuptiError: CUPTI refuses.
        """
        self._observe_launches(wanted=False)

    def resume(self) -> None:
        """Observes launches again.

        Raises:
            CuptiError: CUPTI refuses.
        """
        self._observe_launches(wanted=True)

    def _observe_launches(self, *, wanted: bool) -> None:
        # Another thread may be inside a call whose beginning or end is not seen.
        self._runtime_calls = threading.local()
        self._enable(_LAUNCHES, wanted=wanted)

    def _enable(self, callbacks: Sequence[tuple[int, int]], *, wanted: bool) -> None:
        for domain, number in callbacks:
            self._cupti.call("cuptiEnableCallback", c_uint32(wanted), self._subscriber, domain, c_uint32(number))

    def _called(self, _: int | None, domain: int, number: int, data: int) -> None:
        try:
            if domain == _RESOURCE_DOMAIN:
                self.modules.keep_reported(_ResourceData.from_address(data).descriptor)
                return
            call = _CallbackData.from_address(data)
            if domain == _DRIVER_DOMAIN and number in _LOADS:
                self._keep_image(number, call)
                return
            if domain == _DRIVER_DOMAIN and number in (_UNLOAD_MODULE, _UNLOAD_LIBRARY):
                self._drop_image(number, call)
                return
            depth = getattr(self._runtime_calls, "depth", 0)
            if domain == _RUNTIME_DOMAIN:
                self._runtime_calls.depth = max(0, depth + (1 if call.site == _ENTRY else -1))
                if call.site != _ENTRY:
                    self._complete(number, call)
            elif depth:
                # What the runtime asks of the driver is the same launch once more, with handles of another kind.
                return
            if call.site == _ENTRY:
                self._keep(domain, number, call)
        except Exception as error:  # An exception must not cross C.
            self.problems.append(f"{type(error).__name__} in callback {number} of domain {domain}: {error}")

    def _complete(self, number: int, call: Any) -> None:
        """Reads the arguments that could not be read when the call began: it was the first one of its kernel."""
        launch = self.launches.get(call.correlation)
        if launch is None or launch.symbol in self.layouts:
            return
        layout = self._find_layout(launch.symbol)
        if layout is not None:
            self.layouts[launch.symbol] = layout
            self._keep(_RUNTIME_DOMAIN, number, call)

    def _keep(self, domain: int, number: int, call: Any) -> None:
        if domain == _RUNTIME_DOMAIN:
            arguments = word(call.parameters, 16 if number in _RUNTIME_CONFIGURED else 32)
            symbol = (call.symbol or b"").decode()
            known = self.layouts.get(symbol, [])
            attributes = read_attributes(call.parameters if number in _RUNTIME_CONFIGURED else 0)
            attributes = ((COOPERATIVE,), ()) if number in _RUNTIME_COOPERATIVE else attributes
            values = read_arguments(arguments, known)
            shape = read_shape(call.parameters, is_configured=number in _RUNTIME_CONFIGURED)
            self.launches[call.correlation] = ObservedLaunch(
                call.correlation, 0, symbol, values, b"", *attributes, *shape
            )
            return
        is_configured = number in _DRIVER_CONFIGURED
        function = word(call.parameters, 8 if is_configured else 0)
        arguments = word(call.parameters, 16 if is_configured else 48)
        layout = self._layout(function)
        if arguments:
            values = read_arguments(arguments, layout)
        elif number in _DRIVER_COOPERATIVE:
            values = {}
        else:
            values = read_packed(word(call.parameters, 24 if is_configured else 56), layout)
        attributes = read_attributes(call.parameters if is_configured else 0)
        attributes = ((COOPERATIVE,), ()) if number in _DRIVER_COOPERATIVE else attributes
        self.launches[call.correlation] = ObservedLaunch(
            call.correlation, function, "", values, self.modules.find_cubin(function), *attributes,
            *read_shape(call.parameters, is_configured=is_configured),
        )  # fmt: skip

    def _keep_image(self, number: int, call: Any) -> None:
        if call.site == _ENTRY or not call.parameters:
            return
        handle, source = word(word(call.parameters, 0), 0), word(call.parameters, 8)
        is_file = number in (_LOAD_MODULE_FILE, _LOAD_LIBRARY_FILE)
        cubin = read_file(ctypes.string_at(source)) if is_file and source else copy_image(source)
        if number in (*_LOAD_LIBRARY, _LOAD_LIBRARY_FILE):
            self.modules.keep_library(handle, cubin)
        else:
            self.modules.keep_module(handle, cubin)

    def _drop_image(self, number: int, call: Any) -> None:
        if call.site != _ENTRY or not call.parameters:
            return
        handle = word(call.parameters, 0)
        if number == _UNLOAD_LIBRARY:
            self.modules.drop_library(handle)
        else:
            self.modules.drop_module(handle)

    def _layout(self, function: int) -> Layout:
        """Offset and size of each parameter, as the driver knows them."""
        # The machine code says it, too, as soon as it is loaded.
        return self.modules.list_parameters(function) or self._find_layout(self.modules.name_of(function)) or ()
