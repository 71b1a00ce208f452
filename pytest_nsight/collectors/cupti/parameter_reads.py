"""Which bytes of its arguments a kernel reads, by its disassembly.

A struct has padding that nothing sets, and an empty one still takes a byte: torch's elementwise functors differ
from launch to launch in bytes that no kernel reads. The arguments lie in constant bank 0. Where a kernel reads
them, nvdisasm prints an operand such as c[0x0][0x210]. What is not understood counts as read, so that no
difference that may count is left out.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from pytest_nsight.collectors.cupti.machine_code import KernelCode, Parameter

LONGEST_STRUCT = 16
"""Bytes of a parameter whose unread ones are left out. A larger one may be passed by its address, as descriptors of
the tensor memory accelerator are; how a kernel reads through an address its operands do not say."""

_PLAIN_BYTES = 4
_INSTRUCTION = re.compile(r"/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)\s*(.*?);")
_ANY_OPERAND = re.compile(r"\bcx?\[")
_OPERAND = re.compile(r"\bc\[([^\]]*)\]\s*\[([^\]]*)\]")
_LITERAL = re.compile(r"0x[0-9a-f]+")
_SUFFIX_BYTES = {
    "U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "U64": 8, "S64": 8, "F64": 8, "WIDE": 8, "128": 16,
}  # fmt: skip
_NARROW = frozenset((
    "BMSK", "FADD", "FCHK", "FFMA", "FLO", "FMNMX", "FMUL", "FSEL", "FSET", "FSETP", "HADD2", "HFMA2", "HMUL2",
    "HSETP2", "I2F", "I2FP", "IABS", "IADD", "IADD3", "IMAD", "IMNMX", "ISETP", "LDC", "LDCU", "LEA", "LOP3", "MOV",
    "MUFU", "POPC", "PRMT", "R2UR", "SEL", "SGXT", "SHF", "UIADD3", "UIMAD", "UISETP", "ULDC", "ULEA", "ULOP3",
    "UMOV", "USEL", "USHF", "VIADD", "VIADDMNMX", "VIMNMX",
))  # fmt: skip
"""Instructions whose constant operand is one word, unless a suffix says otherwise; any other may read the most."""

_MOST_BYTES = 16
_LONGEST_S = 20.0


def has_padding(parameter: Parameter) -> bool:
    """Whether a parameter may be a small struct: a plain number of 4 bytes has no padding."""
    return parameter.size <= LONGEST_STRUCT and parameter.size != _PLAIN_BYTES


def mask_unread(value: bytes, parameter: Parameter, reads: frozenset[int]) -> bytes:
    """An argument with zeros for the bytes that its kernel does not read.

    Args:
        value: of the argument.
        parameter: that it is for.
        reads: offsets from the start of all parameters.
    """
    return bytes(byte if parameter.offset + at in reads else 0 for at, byte in enumerate(value))


def find_reads(cubin: bytes, code: KernelCode) -> frozenset[int] | None:
    """Offsets, from the start of the parameters, of the bytes that a kernel reads; None where that is not known.

    Args:
        cubin: that holds the kernel.
        code: the kernel.
    """
    program = find_disassembler()
    if program is None or not code.parameters:
        return None
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [program, "--print-code", "--no-dataflow", f"--cuda-function-index={code.symbol}", file.name]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_LONGEST_S, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return None
    if done.returncode:
        return None
    end = max(parameter.offset + parameter.size for parameter in code.parameters)
    return list_reads(done.stdout, code.parameters_at, end)


def list_reads(disassembly: str, first: int, size: int) -> frozenset[int] | None:
    """Offsets of the parameters' bytes that instructions read; None where one may read anywhere.

    Args:
        disassembly: of one function, by nvdisasm.
        first: where the parameters begin in constant bank 0.
        size: bytes of all parameters.
    """
    found: set[int] = set()
    operands_left = len(_ANY_OPERAND.findall(disassembly))
    instructions = _INSTRUCTION.findall(disassembly)
    for name, operands in instructions:
        if name.startswith("CALL.ABS"):
            return None
        for bank, offset in _OPERAND.findall(operands):
            operands_left -= 1
            if not _LITERAL.fullmatch(bank) or (int(bank, 16) == 0 and not _LITERAL.fullmatch(offset)):
                return None
            if int(bank, 16) == 0:
                begin = int(offset, 16) - first
                found.update(range(max(begin, 0), min(begin + _count_bytes(name), size)))
    # One in a line that does not look like an instruction, or of another form, may read anywhere.
    return frozenset(found) if instructions and not operands_left else None


def _count_bytes(instruction: str) -> int:
    name, *suffixes = instruction.split(".")
    widths = [_SUFFIX_BYTES[suffix] for suffix in suffixes if suffix in _SUFFIX_BYTES]
    if name in _NARROW:
        return max(widths, default=_PLAIN_BYTES)
    return _MOST_BYTES


@cache
def find_disassembler() -> str | None:
    """nvdisasm: from PATH, from the CUDA toolkit, or the one that comes with Triton; None where there is none."""
    return next((str(path) for path in _candidates() if path.is_file()), None)


def _candidates() -> Iterator[Path]:
    if found := shutil.which("nvdisasm"):
        yield Path(found)
    yield Path("/usr/local/cuda/bin/nvdisasm")
    triton = importlib.util.find_spec("triton")
    for folder in (triton.submodule_search_locations or ()) if triton else ():
        yield Path(folder, "backends", "nvidia", "bin", "nvdisasm")
