"""What tests compile with: gcc, NVRTC, Triton and its tools.

Without one of them a test is skipped, or fails if PYTEST_NSIGHT_REQUIRE_TOOLCHAIN is 1, as it is in CI.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from typing import Any, NoReturn

import pytest

from pytest_nsight.worker.nvrtc import CompilationError, load_nvrtc

REQUIRED = "PYTEST_NSIGHT_REQUIRE_TOOLCHAIN"


def lack(what: str) -> NoReturn:
    """Ends a test that cannot run without `what`."""
    if os.environ.get(REQUIRED) == "1":
        pytest.fail(f"{REQUIRED}=1, but {what}")
    pytest.skip(what)


def require_gcc() -> str:
    """The C compiler."""
    program = shutil.which("gcc")
    return program if program is not None else lack("there is no gcc: install it")


def require_nvrtc() -> Any:
    """The loaded libnvrtc."""
    try:
        return load_nvrtc()
    except CompilationError as error:
        lack(f"there is no NVRTC: {error}")


def require_triton() -> None:
    """Looks for Triton without importing it.

    Another test may have taken it out of sys.modules, and its library cannot be loaded twice.
    """
    if importlib.util.find_spec("triton") is None:
        lack("there is no triton: pip install triton")
