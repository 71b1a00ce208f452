"""From CUPTI's records and callbacks to the launches of a round: their machine code, shapes and arguments."""

from __future__ import annotations

import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from pytest_nsight.model.identity import LaunchIdentity
from pytest_nsight.recorders.cupti.activity import Activity
from pytest_nsight.recorders.launch_identity.call_parameters import Layout
from pytest_nsight.recorders.launch_identity.code_choice import UnidentifiedError, choose_code, choose_recorded
from pytest_nsight.recorders.launch_identity.launch_arguments import (
    Allocation,
    FindAllocation,
    describe_arguments,
    find_pointers,
)
from pytest_nsight.recorders.launch_identity.launch_capture import LaunchCapture, ObservedLaunch
from pytest_nsight.recorders.machine_code.elf_file import CubinError
from pytest_nsight.recorders.machine_code.machine_code import (
    ADDRESS_BYTES,
    Cubin,
    KernelCode,
    Parameter,
)
from pytest_nsight.recorders.machine_code.parameter_reads import KernelReads, find_reads, has_padding, mask_unread

_CAPTURED = "captured"
"""Kind of a launch that went into a CUDA graph: its arguments are the node's, whose record has none."""


@dataclass(frozen=True, slots=True)
class ReadLaunch:
    """A launch, copy or set of a round, as it was called.

    Attributes:
        identity: of it, without the arguments of a kernel.
        code: of the kernel; None for copies and sets, and for nodes of a graph, whose arguments are not known.
        values: of the kernel's arguments: ordinal -> bytes.
        allocations: address -> what it pointed into, for all words of the arguments that are addresses.
    """

    identity: LaunchIdentity
    code: KernelCode | None = None
    values: Mapping[int, bytes] = field(default_factory=dict)
    allocations: Mapping[int, Allocation] = field(default_factory=dict)

    @property
    def structs(self) -> list[Parameter]:
        """Those arguments whose unread bytes count for nothing: no addresses of device memory, not all zeros.

        An address of the process's own memory may be what another struct has left on the stack.
        """
        return [
            one
            for one in (self.code.parameters if self.code else ())
            if has_padding(one) and any(value := self.values[one.ordinal]) and not self._is_in_device_memory(value)
        ]

    def _is_in_device_memory(self, value: bytes) -> bool:
        found = self.allocations.get(int.from_bytes(value, "little"))
        return found is not None and found.size > 0

    def describe(self, kernel: KernelReads | None, numbers: dict[int, int]) -> LaunchIdentity:
        """Its identity.

        Args:
            kernel: what the kernel reads of its arguments, None where that is not known.
            numbers: address -> its number in this round; new addresses are added.
        """
        if self.code is None:
            return self.identity
        structs = [] if kernel is None else self.structs
        reads = None
        if kernel is not None and structs:
            values = self._list_bytes()
            reads = kernel.of_launch(values, self._list_addresses(values), self.identity.grid)
        structs = [] if reads is None else structs
        masked = {one.ordinal: mask_unread(self.values[one.ordinal], one, reads or frozenset()) for one in structs}
        texts = describe_arguments({**self.values, **masked}, self.code.parameters, self.allocations.get, numbers)
        return replace(self.identity, arguments=(*texts, *self.identity.arguments))

    def _list_bytes(self) -> list[int]:
        """The bytes of all parameters, by offset; zeros between them."""
        parameters = self.code.parameters if self.code else ()
        found = [0] * max((one.offset + one.size for one in parameters), default=0)
        for one in parameters:
            found[one.offset : one.offset + one.size] = self.values[one.ordinal]
        return found

    def _list_addresses(self, values: Sequence[int]) -> set[int]:
        """The places of the bytes of addresses, which no two processes share."""
        words = struct.unpack_from(f"<{len(values) // ADDRESS_BYTES}Q", bytes(values))
        return {
            place * ADDRESS_BYTES + byte
            for place, word in enumerate(words)
            if word in self.allocations
            for byte in range(ADDRESS_BYTES)
        }


class LaunchReader:
    """Reads launches, with the code of every module that the process has loaded."""

    def __init__(self, capture: LaunchCapture) -> None:
        self._capture = capture
        self._codes: dict[str, list[KernelCode]] = {}
        self._holders: dict[str, list[Cubin]] = {}
        self._damaged: list[tuple[bytes, CubinError]] = []
        self._indexed = 0
        self._lock = threading.RLock()
        self._modules: dict[bytes, Cubin] = {}
        self._module_codes: dict[tuple[bytes, str], KernelCode] = {}
        self._chosen: dict[tuple[str, int | None, int], KernelCode] = {}
        self._reads: dict[KernelCode, KernelReads | None] = {}

    def find_layout(self, name: str) -> Layout | None:
        """Offset and size of each parameter of the kernel of this name, None where its code was not seen."""
        for code in self._find_codes(name):
            return [(one.offset, one.size) for one in code.parameters]
        return None

    def read(
        self, activities: Sequence[Activity], captured: Sequence[ObservedLaunch], find_part: Callable[[int], str]
    ) -> list[ReadLaunch]:
        """The launches of a round, in the order of the calls that made them.

        Args:
            activities: the device's records of the round.
            captured: launches that went into CUDA graphs before it.
            find_part: correlation -> names of the test's ranges around the call.

        Raises:
            UnidentifiedError: of some launch the code or the arguments are not known, or several streams are used:
                the records do not say which waits for which.
        """
        ordered = sorted(activities, key=lambda one: (one.correlation, one.graph_node, one.start_ns))
        streams = len({one.stream for one in ordered})
        if streams > 1:
            raise UnidentifiedError(f"it uses {streams} streams, and no record says which waits for which")
        behind: dict[str, dict[bytes, ObservedLaunch]] = {}
        for launch in captured:
            calls = behind.setdefault(launch.symbol or self._capture.modules.name_of(launch.function), {})
            # One of each code, in the order of the last calls.
            calls.pop(launch.cubin, None)
            calls[launch.cubin] = launch
        # Nothing is allocated meanwhile, and the launches of a round share most of their addresses.
        find = cache(self._capture.memory.find)
        launches = [self._read_one(one, behind, find_part(one.correlation), find) for one in ordered]
        nodes = {one.graph_node: one for one in ordered if one.graph_node and one.kind == "kernel"}
        return launches + self._read_captured(list(nodes.values()), captured, find) if nodes else launches

    def _read_one(
        self,
        activity: Activity,
        behind: Mapping[str, Mapping[bytes, ObservedLaunch]],
        part: str,
        find: FindAllocation,
    ) -> ReadLaunch:
        if activity.kind != "kernel":
            arguments = (f"{activity.bytes_moved} bytes",)
            return ReadLaunch(LaunchIdentity(activity.kind, activity.name, arguments=arguments, part=part))
        own = None if activity.graph_node else self._capture.launches.get(activity.correlation)
        if own is None and not activity.graph_node:
            raise UnidentifiedError(f"the call that launches {activity.name} was not seen")
        calls = list(behind.get(activity.name, {}).values()) if own is None else [own]
        code = self._choose_code(activity.name, activity.registers, calls)
        identity = LaunchIdentity(
            kind="graph node" if activity.graph_node else "kernel",
            name=activity.name,
            code=code.code,
            grid=activity.grid,
            block=activity.block,
            cluster=activity.cluster,
            shared_bytes=activity.shared_bytes,
            arguments=activity.preferences,
            part=part,
        )
        return self._add_arguments(identity, own, code, find) if own is not None else ReadLaunch(identity)

    def _read_captured(
        self, nodes: Sequence[Activity], captured: Sequence[ObservedLaunch], find: FindAllocation
    ) -> list[ReadLaunch]:
        """The launches behind graph nodes; all that were captured count: no record says which node is which."""
        found = []
        for launch in captured:
            name = launch.symbol or self._capture.modules.name_of(launch.function)
            code = self._choose_code(name, None, [launch])
            identity = LaunchIdentity(_CAPTURED, name, code.code, launch.grid, launch.block)
            found.append(self._add_arguments(identity, launch, code, find))
        lacking = Counter(one.name for one in nodes) - Counter(one.identity.name for one in found)
        if lacking:
            raise UnidentifiedError(
                f"the arguments of {next(iter(lacking))} in a CUDA graph were not seen: it was captured "
                "before the test, or not by capture"
            )
        return found

    def _add_arguments(
        self, identity: LaunchIdentity, launch: ObservedLaunch, code: KernelCode, find: FindAllocation
    ) -> ReadLaunch:
        if launch.unread_attributes:
            raise UnidentifiedError(
                f"{code.name} is launched with attributes whose values are not read "
                f"({', '.join(map(str, launch.unread_attributes))} of CUlaunchAttributeID)"
            )
        if len(launch.arguments) != len(code.parameters):
            raise UnidentifiedError(
                f"{len(launch.arguments)} of the {len(code.parameters)} arguments of {code.name} were read: it is "
                "launched in another way than known, or for the first time after the warm-up"
            )
        try:
            allocations = find_pointers(launch.arguments, code.parameters, find)
        except ValueError as error:
            raise UnidentifiedError(f"{code.name}: {error}") from error
        identity = replace(identity, arguments=(*launch.attributes, *identity.arguments))
        return ReadLaunch(identity, code, launch.arguments, allocations)

    def find_unknown(self, launches: Iterable[ReadLaunch]) -> list[KernelCode]:
        """The kernels, each once, whose reads of their arguments are not known yet."""
        codes = (one.code for one in launches if one.code and one.code not in self._reads and one.structs)
        return list(dict.fromkeys(codes))

    def disassemble(self, kernels: Sequence[KernelCode]) -> None:
        """Finds the reads of kernels, all at once."""
        self._reads.update(find_reads(kernels))

    def describe(self, launches: Sequence[ReadLaunch]) -> list[LaunchIdentity]:
        """Identities of a round's launches, in order; the reads of kernels in `find_unknown` count as not known."""
        numbers: dict[int, int] = {}
        return [one.describe(self._reads.get(one.code) if one.code else None, numbers) for one in launches]

    def _choose_code(self, name: str, registers: int | None, calls: Sequence[ObservedLaunch]) -> KernelCode:
        """The code of a kernel: that of its own module where the driver names it, else the one of its name."""
        if calls and all(launch.cubin for launch in calls):
            return choose_recorded([self._read_module(launch.cubin, name) for launch in calls], registers)
        found = self._find_codes(name)
        key = name, registers, len(found)
        if key not in self._chosen:
            self._chosen[key] = choose_code(name, found, registers)
        return self._chosen[key]

    def _read_module(self, data: bytes, name: str) -> KernelCode:
        key = data, name
        if key not in self._module_codes:
            try:
                if data not in self._modules:
                    self._modules[data] = Cubin(data)
                if name not in self._modules[data].kernels:
                    raise UnidentifiedError(f"the module of {name} holds no machine code of it")
                self._module_codes[key] = self._modules[data].read(name)
            except CubinError as error:
                raise UnidentifiedError(f"the machine code of {name} cannot be read: {error}") from error
        return self._module_codes[key]

    def _find_codes(self, name: str) -> list[KernelCode]:
        """The code of this name in every module that CUPTI has reported."""
        # Launches of several threads ask for it.
        with self._lock:
            self._index_reported()
            known = self._codes.setdefault(name, [])
            holders = self._holders.get(name, ())
            try:
                known += [cubin.read(name) for cubin in holders[len(known) :]]
            except CubinError as error:
                raise UnidentifiedError(f"the machine code of {name} cannot be read: {error}") from error
            for data, damage in self._damaged:
                if name.encode() in data:
                    raise UnidentifiedError(f"the machine code of {name} cannot be read: {damage}") from damage
            return list(known)

    def _index_reported(self) -> None:
        """Reads the table of contents of each module that CUPTI has reported since."""
        for data in self._capture.modules.cubins[self._indexed :]:
            self._indexed += 1
            try:
                cubin = Cubin(data)
            except CubinError as error:
                self._damaged.append((data, error))
                continue
            for name in cubin.kernels:
                self._holders.setdefault(name, []).append(cubin)
