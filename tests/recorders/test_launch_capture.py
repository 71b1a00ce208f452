"""What CUPTI's callbacks say of a launch, by structures that are laid out as CUDA 13.0's headers do."""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
from pathlib import Path
from typing import Any

import pytest

from pytest_nsight.recorders.launch_identity import launch_capture, pointed_memory
from pytest_nsight.recorders.launch_identity.launch_arguments import Allocation
from pytest_nsight.recorders.launch_identity.launch_capture import LaunchCapture
from pytest_nsight.recorders.launch_identity.loaded_modules import ModuleRecord

DRIVER_DOMAIN, RUNTIME_DOMAIN, RESOURCE_DOMAIN, MODULE_LOADED = 1, 2, 3, 6
FUNCTION, MODULE = 77, 78
LIBRARY, KERNEL = 79, 80
"""A library that is loaded for all contexts, and a kernel of it, which is no function to the driver."""
MEMORY = 0x7F0000010000
NOTHING = ctypes.create_string_buffer(56)
"""A configuration without attributes."""

VALUES = {0: struct.pack("<Q", 0xABCDEF), 1: struct.pack("<i", -5)}


class Driver:
    """A driver that knows one function of two parameters, a kernel, 4 KiB of memory at MEMORY, and some lower."""

    def __init__(self) -> None:
        self.parameters = [(0, 8), (8, 4)]

    def cuFuncGetParamInfo(self, function: Any, index: Any, offset: Any, size: Any) -> int:  # noqa: N802 - CUDA's
        if function.value != FUNCTION or index.value >= len(self.parameters):
            return 1
        offset._obj.value, size._obj.value = self.parameters[index.value]
        return 0

    def cuFuncGetModule(self, module: Any, function: Any) -> int:  # noqa: N802
        module._obj.value = MODULE if function.value == FUNCTION else None
        return 0 if function.value == FUNCTION else 1

    def cuKernelGetLibrary(self, library: Any, kernel: Any) -> int:  # noqa: N802
        library._obj.value = LIBRARY
        return 0 if kernel.value == KERNEL else 1

    def cuLibraryGetModule(self, module: Any, library: Any) -> int:  # noqa: N802
        module._obj.value = MODULE
        return 0 if library.value == LIBRARY else 1

    def cuFuncGetName(self, _: Any, __: Any) -> int:  # noqa: N802
        return 1

    def cuMemGetAddressRange_v2(self, base: Any, size: Any, address: Any) -> int:  # noqa: N802
        base._obj.value, size._obj.value = MEMORY, 4096
        return 0 if MEMORY <= address.value < MEMORY + 4096 or address.value < 2**36 else 1

    def cuPointerGetAttribute(self, value: Any, attribute: Any, address: Any) -> int:  # noqa: N802
        is_device = address.value < MEMORY + 0x800
        value._obj.value = {2: 2 if is_device else 1, 8: address.value >= MEMORY + 0xC00}[attribute.value]
        return 0


class Cupti:
    """A CUPTI that takes every subscription; the tests call back themselves."""

    def call(self, *_: Any) -> None:
        pass


class Callbacks:
    """Calls back as CUPTI does."""

    def __init__(self) -> None:
        self.capture = LaunchCapture(Cupti(), Driver())  # type: ignore[arg-type]
        self._numbers = [ctypes.c_uint64(0xABCDEF), ctypes.c_int32(-5)]
        self._pointers = (ctypes.c_void_p * 2)(*map(ctypes.addressof, self._numbers))
        self.arguments = ctypes.addressof(self._pointers)

    def call(self, domain: int, number: int, parameters: bytes, *, site: int = 0, symbol: bytes = b"") -> None:
        kept = ctypes.create_string_buffer(parameters, len(parameters))
        data = launch_capture._CallbackData(
            site=site, parameters=ctypes.addressof(kept), symbol=symbol, correlation=5
        )
        self.capture._called(None, domain, number, ctypes.addressof(data))

    def launched(self) -> launch_capture.ObservedLaunch:
        assert self.capture.problems == []
        return self.capture.launches[5]


@pytest.fixture
def callbacks() -> Callbacks:
    return Callbacks()


def plain_runtime_call(arguments: int) -> bytes:
    return struct.pack("<Q6IQQQ", 1, 4, 1, 1, 128, 1, 1, arguments, 64, 0)


def plain_driver_call(arguments: int, extra: int = 0) -> bytes:
    return struct.pack("<Q6IIxxxxQQQ", FUNCTION, 4, 1, 1, 128, 1, 1, 0, 0, arguments, extra)


@pytest.mark.parametrize("number", [211, 505])
def test_a_launch_through_the_runtime_is_read_by_the_layout_in_the_machine_code(
    callbacks: Callbacks, number: int
) -> None:
    callbacks.capture.layouts["scale"] = [(0, 8), (8, 4)]

    callbacks.call(RUNTIME_DOMAIN, number, plain_runtime_call(callbacks.arguments), symbol=b"scale")

    assert callbacks.launched().arguments == VALUES
    assert callbacks.launched().symbol == "scale"


def test_a_launch_through_the_runtime_with_a_configuration(callbacks: Callbacks) -> None:
    callbacks.capture.layouts["scale"] = [(0, 8), (8, 4)]

    callbacks.call(
        RUNTIME_DOMAIN, 430, struct.pack("<QQQ", ctypes.addressof(NOTHING), 1, callbacks.arguments), symbol=b"scale"
    )

    assert callbacks.launched().arguments == VALUES


def test_the_first_launch_of_a_kernel_is_read_when_the_call_has_loaded_it(callbacks: Callbacks) -> None:
    runtime = plain_runtime_call(callbacks.arguments)
    callbacks.capture.start({"scale": [(0, 8), (8, 4)]}.get)

    callbacks.call(RUNTIME_DOMAIN, 211, runtime, symbol=b"scale")
    assert callbacks.launched().arguments == {}
    callbacks.call(RUNTIME_DOMAIN, 211, runtime, site=1, symbol=b"scale")

    assert callbacks.launched().arguments == VALUES


def test_attributes_of_a_launch_through_a_configuration(callbacks: Callbacks) -> None:
    attributes = ctypes.create_string_buffer(struct.pack("<I4xI60x", 6, 1) + struct.pack("<I4xi60x", 8, 3), 144)
    configuration = ctypes.create_string_buffer(
        struct.pack("<6IQQQI4x", *(1,) * 6, 0, 0, ctypes.addressof(attributes), 2), 56
    )
    parameters = struct.pack("<QQQQ", ctypes.addressof(configuration), FUNCTION, callbacks.arguments, 0)

    callbacks.call(DRIVER_DOMAIN, 652, parameters)

    assert callbacks.launched().attributes == ("overlap with the launch before 1", "priority 3")
    assert callbacks.launched().unread_attributes == ()


def test_of_an_attribute_only_what_it_sets_counts_and_one_that_is_not_understood_is_named(
    callbacks: Callbacks,
) -> None:
    garbage = 0x5A5A5A5A
    domains, window, waiting = (
        struct.pack("<I4x2BHI56x", 9, 0, 1, 0x5A5A, garbage),
        struct.pack("<I4xQQI44x", 1, 0xABCDEF, 4096, garbage),
        struct.pack("<I4xI60x", 3, 2),
    )
    attributes = ctypes.create_string_buffer(domains + window + waiting, 3 * 72)
    configuration = ctypes.create_string_buffer(
        struct.pack("<6IQQQI4x", *(1,) * 6, 0, 0, ctypes.addressof(attributes), 3), 56
    )
    parameters = struct.pack("<QQQQ", ctypes.addressof(configuration), FUNCTION, callbacks.arguments, 0)

    callbacks.call(DRIVER_DOMAIN, 652, parameters)

    assert callbacks.launched().attributes == ("memory domains 0 1",)
    assert callbacks.launched().unread_attributes == (1,)


CODE = (
    b"\x7fELF" + bytes(36) + struct.pack("<Q", 64) + bytes(10) + struct.pack("<HHH", 64, 1, 0)
    + struct.pack("<IIQQQQIIQQ", 0, 1, 0, 0, 128, 7, 0, 0, 0, 0) + b"machine"
)  # fmt: skip


def load(callbacks: Callbacks, number: int, handle: int) -> None:
    image = ctypes.create_string_buffer(CODE + b"beyond the end")
    kept = ctypes.c_uint64(handle)
    callbacks.call(
        DRIVER_DOMAIN, number, struct.pack("<QQ", ctypes.addressof(kept), ctypes.addressof(image)), site=1
    )


@pytest.mark.parametrize(
    ("number", "handle", "function"),
    [(19, MODULE, FUNCTION), (678, LIBRARY, FUNCTION), (678, LIBRARY, KERNEL)],
    ids=["module", "function of a library", "kernel of a library"],
)
def test_a_launch_leads_to_the_code_that_its_module_or_library_was_loaded_from(
    callbacks: Callbacks, number: int, handle: int, function: int
) -> None:
    load(callbacks, number, handle)
    launch = struct.pack("<Q", function) + plain_driver_call(callbacks.arguments)[8:]

    callbacks.call(DRIVER_DOMAIN, 307, launch)

    assert callbacks.launched().cubin == CODE


@pytest.mark.parametrize(("number", "handle"), [(18, MODULE), (679, LIBRARY)], ids=["module", "library"])
@pytest.mark.parametrize(
    ("content", "found"), [(CODE, CODE), (b"//\n// Generated by NVIDIA NVVM Compiler", b""), (None, b"")]
)
def test_code_that_is_loaded_from_a_file_is_read_unless_it_is_still_to_be_compiled(
    callbacks: Callbacks, number: int, handle: int, content: bytes | None, found: bytes, tmp_path: Path
) -> None:
    file = tmp_path / "kernel ü.cubin"
    if content is not None:
        file.write_bytes(content)
    path = ctypes.create_string_buffer(os.fsencode(file))
    kept = ctypes.c_uint64(handle)

    callbacks.call(
        DRIVER_DOMAIN, number, struct.pack("<QQ", ctypes.addressof(kept), ctypes.addressof(path)), site=1
    )
    callbacks.call(DRIVER_DOMAIN, 307, plain_driver_call(callbacks.arguments))

    assert callbacks.launched().cubin == found


def test_every_launch_has_its_grid_and_block(callbacks: Callbacks) -> None:
    """A node of a CUDA graph has a record of its shape, but no arguments; its capture has both."""
    configuration = ctypes.create_string_buffer(struct.pack("<6I", 4, 1, 1, 128, 1, 1), 56)
    at = ctypes.addressof(configuration)
    calls = [
        (RUNTIME_DOMAIN, 211, plain_runtime_call(callbacks.arguments)),
        (RUNTIME_DOMAIN, 430, struct.pack("<QQQ", at, 1, callbacks.arguments)),
        (DRIVER_DOMAIN, 307, plain_driver_call(callbacks.arguments)),
        (DRIVER_DOMAIN, 477, plain_driver_call(callbacks.arguments)[:-8]),
        (DRIVER_DOMAIN, 652, struct.pack("<QQQQ", at, FUNCTION, callbacks.arguments, 0)),
    ]
    for domain, number, parameters in calls:
        callbacks.capture.launches.clear()

        callbacks.call(domain, number, parameters, symbol=b"scale")
        if domain == RUNTIME_DOMAIN:
            callbacks.call(domain, number, parameters, symbol=b"scale", site=1)

        assert (callbacks.launched().grid, callbacks.launched().block) == ((4, 1, 1), (128, 1, 1))


@pytest.mark.parametrize(
    ("load_number", "handle", "unload_number"),
    [(19, MODULE, 22), (678, LIBRARY, 680)],
    ids=["module", "library"],
)
def test_what_is_unloaded_is_not_asked_for_again(
    callbacks: Callbacks, load_number: int, handle: int, unload_number: int
) -> None:
    asked: list[int] = []
    driver = callbacks.capture.modules._driver
    driver.cuLibraryGetModule = lambda _, library: asked.append(library.value) or 1
    load(callbacks, load_number, handle)

    callbacks.call(DRIVER_DOMAIN, unload_number, struct.pack("<Q", handle))
    callbacks.call(DRIVER_DOMAIN, unload_number, struct.pack("<Q", handle), site=1)
    callbacks.call(DRIVER_DOMAIN, 307, plain_driver_call(callbacks.arguments))

    assert callbacks.launched().cubin == b""
    assert asked == [], "the driver crashes at a handle that it has freed"


def test_calls_that_load_and_unload_are_asked_for() -> None:
    asked: list[tuple[int, int]] = []

    class Asked(Cupti):
        def call(self, name: str, *arguments: Any) -> None:  # type: ignore[override]
            if name == "cuptiEnableCallback":
                asked.append((arguments[2], arguments[3].value))

    LaunchCapture(Asked(), Driver()).start()  # type: ignore[arg-type]

    assert {(DRIVER_DOMAIN, 22), (DRIVER_DOMAIN, 680)} <= set(asked)
    assert {(DRIVER_DOMAIN, number) for number in (18, 19, 20, 21, 678, 679)} <= set(asked)


def test_a_call_whose_end_a_pause_has_hidden_hides_no_later_launch(callbacks: Callbacks) -> None:
    callbacks.capture.start()
    runtime = plain_runtime_call(callbacks.arguments)

    callbacks.call(RUNTIME_DOMAIN, 211, runtime, symbol=b"scale")
    callbacks.capture.pause()
    callbacks.capture.resume()
    # An end whose beginning was not seen.
    callbacks.call(RUNTIME_DOMAIN, 211, runtime, site=1, symbol=b"scale")
    callbacks.capture.launches.clear()
    callbacks.call(DRIVER_DOMAIN, 307, plain_driver_call(callbacks.arguments))

    assert callbacks.launched().function == FUNCTION


def test_what_is_loaded_while_the_driver_answers_spoils_no_search(callbacks: Callbacks) -> None:
    """The driver may load a module when it is asked for one, on this thread or meanwhile on another."""
    modules = callbacks.capture.modules
    load(callbacks, 678, LIBRARY)
    answer, numbers = modules._driver.cuLibraryGetModule, iter(range(1000, 1010))

    def load_one_more(module: Any, library: Any) -> int:
        modules.keep_library(next(numbers), CODE)
        return int(answer(module, library))

    modules._driver.cuLibraryGetModule = load_one_more
    callbacks.call(DRIVER_DOMAIN, 307, plain_driver_call(callbacks.arguments))

    assert callbacks.launched().cubin == CODE


def test_a_launch_of_a_module_that_was_loaded_in_another_way_leads_to_no_code(callbacks: Callbacks) -> None:
    load(callbacks, 19, MODULE + 100)

    callbacks.call(DRIVER_DOMAIN, 307, plain_driver_call(callbacks.arguments))

    assert callbacks.launched().cubin == b""


def test_a_handle_that_the_driver_gives_again_has_the_parameters_of_its_new_kernel(callbacks: Callbacks) -> None:
    driver = Driver()
    callbacks.capture = LaunchCapture(None, driver)  # type: ignore[arg-type]
    callbacks.call(DRIVER_DOMAIN, 307, plain_driver_call(callbacks.arguments))
    driver.parameters = [(0, 8)]

    load(callbacks, 19, MODULE)
    callbacks.call(DRIVER_DOMAIN, 307, plain_driver_call(callbacks.arguments))

    assert callbacks.launched().arguments == {0: VALUES[0]}


@pytest.mark.parametrize(
    ("number", "layout"), [(307, plain_driver_call), (477, lambda at: plain_driver_call(at)[:-8])]
)
def test_a_launch_through_the_driver_is_read_by_the_drivers_layout(
    callbacks: Callbacks, number: int, layout: Any
) -> None:
    callbacks.call(DRIVER_DOMAIN, number, layout(callbacks.arguments))

    assert callbacks.launched().arguments == VALUES
    assert callbacks.launched().function == FUNCTION


def test_a_launch_through_the_driver_with_a_configuration(callbacks: Callbacks) -> None:
    callbacks.call(
        DRIVER_DOMAIN, 652, struct.pack("<QQQQ", ctypes.addressof(NOTHING), FUNCTION, callbacks.arguments, 0)
    )

    assert callbacks.launched().arguments == VALUES


def test_arguments_in_one_buffer(callbacks: Callbacks) -> None:
    packed = ctypes.create_string_buffer(VALUES[0] + VALUES[1], 12)
    size = ctypes.c_size_t(12)
    extra = (ctypes.c_uint64 * 5)(1, ctypes.addressof(packed), 2, ctypes.addressof(size), 0)

    callbacks.call(DRIVER_DOMAIN, 307, plain_driver_call(0, ctypes.addressof(extra)))

    assert callbacks.launched().arguments == VALUES


def test_what_the_runtime_asks_of_the_driver_is_no_second_launch(callbacks: Callbacks) -> None:
    runtime = plain_runtime_call(callbacks.arguments)
    callbacks.call(RUNTIME_DOMAIN, 211, runtime, symbol=b"scale")
    callbacks.call(DRIVER_DOMAIN, 307, plain_driver_call(callbacks.arguments))
    callbacks.call(RUNTIME_DOMAIN, 211, runtime, site=1, symbol=b"scale")

    assert callbacks.launched().function == 0

    callbacks.call(DRIVER_DOMAIN, 307, plain_driver_call(callbacks.arguments))

    assert callbacks.launched().function == FUNCTION


def test_machine_code_is_copied_when_a_module_is_loaded(callbacks: Callbacks) -> None:
    code = ctypes.create_string_buffer(b"\x7fELF code", 9)
    module = ModuleRecord(module_id=1, size=9, cubin=ctypes.addressof(code))
    resource = launch_capture._ResourceData(descriptor=ctypes.addressof(module))

    callbacks.capture._called(None, RESOURCE_DOMAIN, MODULE_LOADED, ctypes.addressof(resource))
    ctypes.memset(code, 0, 9)

    assert callbacks.capture.modules.cubins == [b"\x7fELF code"]


def test_a_failure_within_a_callback_is_kept_and_not_raised(callbacks: Callbacks) -> None:
    module = ModuleRecord(module_id=1, size=9, cubin=None)
    resource = launch_capture._ResourceData(descriptor=ctypes.addressof(module))

    callbacks.capture._called(None, RESOURCE_DOMAIN, MODULE_LOADED, ctypes.addressof(resource))

    (problem,) = callbacks.capture.problems
    assert "without machine code" in problem
    assert callbacks.capture.modules.cubins == []


def test_memory_is_looked_up(callbacks: Callbacks) -> None:
    find = callbacks.capture.memory.find
    assert find(MEMORY + 0x10) == Allocation(MEMORY, 4096)
    assert find(MEMORY + 0x900) == Allocation(MEMORY, 4096, " of the host")
    assert find(MEMORY + 0xD00) == Allocation(MEMORY, 4096, " managed")
    assert find(MEMORY + 0x10000) is None


def test_limits_of_16_bits_are_no_address_of_a_stack_that_lies_where_theirs_is(
    callbacks: Callbacks, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A process with fixed addresses has its stack right below 2**47."""
    maps = tmp_path / "maps"
    maps.write_text("7ffffffde000-7ffffffff000 rw-p 00000000 00:00 0    [stack]\n")
    monkeypatch.setattr(pointed_memory, "_MAPS", maps)
    find = callbacks.capture.memory.find

    def word(low: int, high: int) -> int:
        return int.from_bytes(struct.pack("<2i", low, high), "little")

    assert find(word(-32768, 32767)) is None
    assert find(word(-16384, 32767)) is None
    assert find(0x7FFFFFFFCE50) == Allocation(0x7FFFFFFFCE50, 0)


def test_two_small_numbers_are_no_address_wherever_the_driver_puts_memory(callbacks: Callbacks) -> None:
    """On an H200 a segment lay at 16 GiB, and cuDNN's divisor 16 with its shift 4 counted as a pointer into it."""
    assert callbacks.capture.memory.find(int.from_bytes(struct.pack("<2I", 16, 4), "little")) is None


def test_an_address_of_the_process_itself_is_one_wherever_it_lies(callbacks: Callbacks) -> None:
    """Memory that is mapped after the first look is found, too."""
    text = ctypes.create_string_buffer(64)
    find = callbacks.capture.memory.find
    assert find(ctypes.addressof(text)) == Allocation(ctypes.addressof(text), 0)

    with mmap.mmap(-1, 2**20) as later:
        held = ctypes.c_char.from_buffer(later, 64)
        address = ctypes.addressof(held)
        found = find(address)
        del held

    assert found == Allocation(address, 0)
    assert find(2**46 + 5) is None
    assert find(4096) is None
