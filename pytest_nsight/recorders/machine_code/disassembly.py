"""Instructions of kernels as text, by nvdisasm.

Starting nvdisasm takes as long as two dozen kernels, so it reads many kernels at once. It reads each distinct
instruction once, because kernels share most of them. Jump targets are then moved to where the instruction is.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from pathlib import Path

from pytest_nsight.recorders.machine_code.instructions import INSTRUCTION_BYTES, Instruction, parse

Code = tuple["Instruction | None", ...]
"""Instructions in order; None for one of another form than expected."""

_FIRST_WITH_FEATURES = 90
"""From Hopper on an architecture has instructions of its own; with them nvdisasm calls it "SM90a"."""

_LONGEST_S = 60.0
_LINE = re.compile(r"\s*/\*([0-9a-f]{4,})\*/\s*(.*?)\s*")


def disassemble(architecture: int, codes: Sequence[bytes]) -> list[Code | None]:
    """The instructions of each code; None where nvdisasm is missing, late or does not know one of them.

    Args:
        architecture: such as 90.
        codes: machine code of one kernel each.
    """
    program = find_disassembler()
    if program is None or not codes:
        return [None] * len(codes)
    used = [list(_split(code)) for code in codes]
    different = list(dict.fromkeys(chain.from_iterable(used)))
    try:
        lines = _run(program, architecture, b"".join(different))
    except (OSError, subprocess.TimeoutExpired):
        return [None] * len(codes)
    if lines is None:
        # One that is not understood must not hide the others.
        return [None] if len(codes) == 1 else [one for code in codes for one in disassemble(architecture, [code])]
    places = {one: at * INSTRUCTION_BYTES for at, one in enumerate(different)}
    texts = dict(zip(different, lines, strict=True))
    return [_move(places, texts, own) for own in used]


def _move(places: Mapping[bytes, int], texts: Mapping[bytes, str], code: Sequence[bytes]) -> Code:
    """The instructions of a kernel.

    Args:
        places: instruction -> where nvdisasm found it.
        texts: instruction -> its text.
        code: each instruction, in order.
    """
    found: list[Instruction | None] = []
    same: dict[bytes, Instruction | None] = {}
    for at, one in enumerate(code):
        if one not in same:
            parsed = parse(texts[one], at * INSTRUCTION_BYTES - places[one])
            if parsed is None or parsed.target is None:
                same[one] = parsed
            found.append(parsed)
        else:
            found.append(same[one])
    return tuple(found)


def _split(code: bytes) -> Iterator[bytes]:
    return (code[at : at + INSTRUCTION_BYTES] for at in range(0, len(code), INSTRUCTION_BYTES))


def _run(program: str, architecture: int, code: bytes) -> list[str] | None:
    """One line for each 16 bytes; None where that is not what comes out."""
    features = "a" if architecture >= _FIRST_WITH_FEATURES else ""
    with tempfile.NamedTemporaryFile(suffix=".bin") as file:
        file.write(code)
        file.flush()
        command = [program, "--no-dataflow", "--binary", f"SM{architecture}{features}", file.name]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LONGEST_S, check=False)
    lines = [line for line in done.stdout.splitlines() if not line.lstrip().startswith(".headerflags")]
    found = [_LINE.fullmatch(line) for line in lines]
    is_whole = [one and int(one[1], 16) for one in found] == list(range(0, len(code), INSTRUCTION_BYTES))
    return [one[2] for one in found if one] if is_whole and not done.returncode else None


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
