"""NVRTC, NVIDIA's run-time compiler of CUDA C: found where torch, a wheel or the toolkit has put it.

The functions are those of NVIDIA's "NVRTC" reference.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from ctypes import byref, c_char_p, c_int, c_size_t, c_void_p
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_MAJORS = (13, 12)
"""Major versions of CUDA whose NVRTC is looked for, the newest first."""

_REMEDY = "install it with pip install nvidia-cuda-nvrtc-cu12, or point CUDA_HOME to a CUDA toolkit"


class CompilationError(Exception):
    """CUDA C cannot be compiled here; the text says why and what would help."""


@dataclass(frozen=True, slots=True)
class CompiledSource:
    """A program for one architecture.

    Attributes:
        image: machine code, as the driver loads it.
        compiler: name and version of what compiled it.
    """

    image: bytes
    compiler: str


def compile_source(
    library: Any, source: str, architecture: tuple[int, int], more_options: Sequence[str] = ()
) -> CompiledSource:
    """Machine code of a program.

    Args:
        library: the loaded libnvrtc.
        source: CUDA C without includes.
        architecture: compute capability, such as (9, 0).
        more_options: the compiler's own, such as `--fmad=false`; a later one overrides an earlier one.

    Raises:
        CompilationError: the compiler does not know the architecture, or refuses the source.
    """
    program = c_void_p()
    _check(library, library.nvrtcCreateProgram(byref(program), source.encode(), b"pytest_nsight.cu", 0, None, None))
    try:
        options = (
            f"--gpu-architecture=sm_{architecture[0]}{architecture[1]}",
            "--fmad=true",
            "--std=c++17",
            *more_options,
        )
        texts = (c_char_p * len(options))(*(option.encode() for option in options))
        code = library.nvrtcCompileProgram(program, len(options), texts)
        if code:
            raise CompilationError(f"{_version(library)} refuses the canaries: {_read_log(library, program)}")
        size = c_size_t()
        _check(library, library.nvrtcGetCUBINSize(program, byref(size)))
        image = ctypes.create_string_buffer(size.value)
        _check(library, library.nvrtcGetCUBIN(program, image))
        return CompiledSource(image.raw, _version(library))
    finally:
        library.nvrtcDestroyProgram(byref(program))


def load_nvrtc() -> Any:
    """The compiler's library.

    Raises:
        CompilationError: there is none.
    """
    for name in list_candidates(os.environ):
        try:
            _load_builtins(Path(name))
            library = ctypes.CDLL(name)
        except OSError:
            continue
        for function in (library.nvrtcCompileProgram, library.nvrtcCreateProgram, library.nvrtcGetCUBIN):
            function.restype = c_int
        return library
    raise CompilationError(f"NVRTC, the compiler of the canaries, was not found; {_REMEDY}")


def _load_builtins(compiler: Path) -> None:
    """Loads the built-in functions beside a compiler, which asks the loader for them by their bare name.

    The folder of a wheel is in no search path, so it would not find them there.
    """
    if compiler.is_absolute():
        for file in sorted(compiler.parent.glob("libnvrtc-builtins.so.*")):
            # Of another version, perhaps; the compiler may find its own elsewhere.
            with suppress(OSError):
                ctypes.CDLL(str(file))


def list_candidates(environ: Mapping[str, str]) -> Iterator[str]:
    """Where NVRTC may be: wheels of NVIDIA, which torch's bring along; a toolkit; the loader's own path."""
    found = importlib.util.find_spec("nvidia")
    for folder in found.submodule_search_locations or () if found else ():
        # Newest first; beside the compiler lies a library of built-in functions with a similar name.
        files = (file for file in Path(folder).glob("*/lib/libnvrtc.so.*") if "alt" not in file.name)
        yield from (str(file) for file in sorted(files, key=_major, reverse=True))
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if environ.get(variable):
            yield str(Path(environ[variable], "lib64", "libnvrtc.so"))
    yield from (f"libnvrtc.so.{major}" for major in _MAJORS)
    yield "/usr/local/cuda/lib64/libnvrtc.so"


def _major(file: Path) -> int:
    digits = file.name.rpartition(".so.")[2].partition(".")[0]
    return int(digits) if digits.isdigit() else 0


def _version(library: Any) -> str:
    major, minor = c_int(), c_int()
    _check(library, library.nvrtcVersion(byref(major), byref(minor)))
    return f"nvrtc {major.value}.{minor.value}"


def _read_log(library: Any, program: c_void_p) -> str:
    size = c_size_t()
    if library.nvrtcGetProgramLogSize(program, byref(size)) or not size.value:
        return "it gives no reason"
    log = ctypes.create_string_buffer(size.value)
    library.nvrtcGetProgramLog(program, log)
    lines = log.value.decode("utf-8", "replace").strip().splitlines()
    return lines[0] if lines else "it gives no reason"


def _check(library: Any, code: int) -> None:
    if code:
        library.nvrtcGetErrorString.restype = c_char_p
        text = library.nvrtcGetErrorString(code) or b"an unknown error"
        raise CompilationError(f"NVRTC failed with {text.decode('utf-8', 'replace')} ({code}); {_REMEDY}")
