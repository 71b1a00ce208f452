"""Versions of what holds or chooses the kernels of tests: libraries of Python and of CUDA in this process."""

from __future__ import annotations

import ctypes
import platform
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from pytest_nsight import __version__
from pytest_nsight.protocol.conditions import LIBRARIES

_CUDA_LIBRARIES = ("cublas", "cudnn", "cufft", "cusparse")
"""Each has a function that asks for a part of its version, as cublasGetProperty."""

_PARTS = 3
"""MAJOR_VERSION, MINOR_VERSION and PATCH_LEVEL of CUDA's library_types.h are 0, 1 and 2."""

_FILE = re.compile(rf"/.*/lib({'|'.join(_CUDA_LIBRARIES)})\.so[.\d]*$", re.MULTILINE)
_MAPS = Path("/proc/self/maps")


def read_library_versions() -> dict[str, str]:
    """Versions of Python, of this plugin, and of the libraries that are loaded now."""
    versions = {"python": platform.python_version(), "plugin": __version__}
    for name in LIBRARIES:
        if name in sys.modules:
            versions[name] = str(getattr(sys.modules[name], "__version__", ""))
    return versions | {name: _ask(name, path) for name, path in _find_loaded().items()}


def _find_loaded() -> Mapping[str, str]:
    """Name -> path of the library's file; empty where /proc does not say."""
    try:
        maps = _MAPS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return {}
    return {found[1]: found[0] for found in _FILE.finditer(maps)}


def _ask(name: str, path: str) -> str:
    """The version that a loaded library gives, "" if it gives none."""
    parts = []
    try:
        ask = getattr(ctypes.CDLL(path), f"{name}GetProperty")
    except (OSError, AttributeError):
        # It was replaced since it was loaded, or is older than the function.
        return ""
    for part in range(_PARTS):
        value = ctypes.c_int(0)
        if ask(part, ctypes.byref(value)) != 0:
            return ""
        parts.append(str(value.value))
    return ".".join(parts)
