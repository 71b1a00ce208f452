"""Which machine code a launch runs, where only the kernel's name is known and several modules have one of it.

The records say the kernel's registers. Codes that differ in nothing that the kernel can read are one: a library
compiles the same template into many modules, each with constants of its own.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Sequence
from dataclasses import replace

from pytest_nsight.recorders.machine_code.disassembly import disassemble
from pytest_nsight.recorders.machine_code.machine_code import KernelCode

_LEAST_REGISTERS, _RAISED_REGISTERS = 16, 32
"""What records say of kernels that need fewer, and of some that need 24 to 31, perhaps because they call others."""

_HOPPER, _DRIVERS_SHARED_BYTES = 90, 1024
"""From this architecture on the first bytes of static shared memory are the driver's; only some modules say so."""

_BANK = re.compile(r"\bcx?\[([^\]]*)\]")
_ARGUMENTS_BANK = "0x0"


class UnidentifiedError(Exception):
    """What a round launches cannot be said completely; the message says why."""


def choose_code(name: str, found: Sequence[KernelCode], registers: int | None) -> KernelCode:
    """The code that a launch runs.

    Args:
        name: of the kernel.
        found: the codes of this name.
        registers: of a thread, as the record of the launch says; None where there is no record.

    Raises:
        UnidentifiedError: there is none, or it is not known which.
    """
    if not found:
        raise UnidentifiedError(f"the machine code of {name} was not seen")
    codes = {one.code.digest: one for one in found}
    if registers is not None:
        codes = {digest: one for digest, one in codes.items() if _has_registers(one, registers)}
        if not codes:
            raise UnidentifiedError(f"no loaded module has a kernel {name} with {registers} registers")
    if len(codes) == 1:
        return next(iter(codes.values()))
    joined = _join(list(codes.values()))
    if joined is None:
        raise UnidentifiedError(f"{len(codes)} loaded modules have a kernel {name}, each with different code")
    return joined


def choose_recorded(called: Sequence[KernelCode], registers: int | None) -> KernelCode:
    """The code that a launch runs, of those that the calls behind it lead to: the last one that fits its record.

    Args:
        called: codes of one name; several where a CUDA graph holds several kernels of the name.
        registers: of a thread, as the record of the launch says; None where there is no record.

    Raises:
        UnidentifiedError: the record is of another code.
    """
    for code in reversed(called):
        if registers is None or _has_registers(code, registers):
            return code
    own = " or ".join(str(code.code.registers) for code in called)
    raise UnidentifiedError(
        f"the record of {called[0].name} says {registers} registers, and its machine code says {own}"
    )


def _has_registers(code: KernelCode, registers: int) -> bool:
    """Whether a record of so many registers can be of this code."""
    own = code.code.registers
    return registers in (own, max(own, _LEAST_REGISTERS), max(own, _RAISED_REGISTERS))


def _join(codes: Sequence[KernelCode]) -> KernelCode | None:
    """One code for those that differ in what the kernel cannot read only; None where they differ in more."""
    first = codes[0]
    own, *others = {_own(one) for one in codes}
    if others or not all(one.is_whole for one in codes):
        return None
    (instructions,) = disassemble(first.architecture, [first.text])
    if instructions is None:
        return None
    for one in instructions:
        if one is None or any(bank != _ARGUMENTS_BANK for bank in _BANK.findall(one.text)):
            return None
    digest = hashlib.sha256(own).hexdigest()[:32]
    return replace(first, code=replace(first.code, digest=digest, shared_bytes=_shared_bytes(first)))


def _own(kernel: KernelCode) -> bytes:
    """What is the kernel's own: its instructions, attributes, parameters, registers and memory."""
    numbers = (kernel.parameters_at, kernel.architecture, kernel.code.registers, kernel.code.frame_bytes)
    layout = [number for one in kernel.parameters for number in (one.ordinal, one.offset, one.size)]
    packed = struct.pack(f"<{5 + len(layout)}I", *numbers, _shared_bytes(kernel), *layout)
    return packed + kernel.attributes.encode() + kernel.text


def _shared_bytes(kernel: KernelCode) -> int:
    least = _DRIVERS_SHARED_BYTES if kernel.architecture >= _HOPPER else 0
    return max(kernel.code.shared_bytes, least)
