"""Programs that JAX has compiled for a case, for which XLA chooses kernels of matrix products by their times.

XLA times cuBLAS's kernels and its own for each product, and fuses other work into its own. So a program launches
other kernels on another machine, though nobody has changed it (decision 42). JAX's launches do not pass through
Python, but each compilation does, and JAX has a key for what it compiles.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import Any

from pytest_nsight.model.identity import XLA, TunedKernel

COMPILER = "jax._src.compiler"
"""The module of JAX through which every compilation passes."""

_HAS_CHOICE = re.compile(r"\bdot_general\b|\bdot\b|\bconvolution\b|\bcustom_call\b")
"""Operations for which XLA times kernels. Without them a program has one form, whatever machine compiles it."""

_FOLDERS = ("xla_gpu_per_fusion_autotune_cache_dir", "xla_gpu_kernel_cache_file")
"""Options that say where a cache lies. JAX's key holds them."""

_LONGEST_CONSTANT = 16
_DIGITS = 16


class JaxPrograms:
    """Programs with matrix products that were compiled since the last case ended."""

    def __init__(self) -> None:
        self._before: set[str] = set()
        self._in_rounds: set[str] = set()
        self._is_in_round = False

    @property
    def notes(self) -> tuple[TunedKernel, ...]:
        """The programs that warm-up rounds compiled; without any, those that the test compiled before them.

        What a test compiles beside what it measures depends on the tests before it: JAX compiles a program once.
        """
        return tuple(TunedKernel(XLA, key, "") for key in sorted(self._in_rounds or self._before))

    def attach(self, compiler: ModuleType) -> None:
        """Notes what this module of JAX, COMPILER, compiles from now on, until the process ends."""
        compile_program = getattr(compiler, "compile_or_get_cached", None)
        # It is not part of JAX's interface: another version may have none.
        if compile_program is None:
            return

        @functools.wraps(compile_program)
        def noted(*args: Any, **kwargs: Any) -> Any:
            # An error means another version of JAX: then launches are compared as if nothing had been chosen.
            with suppress(Exception):
                self._note(*args, **kwargs)
            return compile_program(*args, **kwargs)

        compiler.compile_or_get_cached = noted  # type: ignore[attr-defined]

    @contextmanager
    def in_round(self) -> Iterator[None]:
        """What is compiled meanwhile belongs to a warm-up round."""
        self._is_in_round = True
        try:
            yield
        finally:
            self._is_in_round = False

    def forget(self) -> None:
        """A case has ended."""
        self._before.clear()
        self._in_rounds.clear()

    def _note(self, backend: Any, computation: Any, devices: Any, compile_options: Any, *_: Any, **__: Any) -> None:
        if backend.platform not in ("gpu", "cuda", "rocm"):
            return
        text = computation.operation.get_asm(large_elements_limit=_LONGEST_CONSTANT, enable_debug_info=False)
        if _HAS_CHOICE.search(text):
            options = copy.deepcopy(compile_options)
            for name in _FOLDERS:
                setattr(options.executable_build_options.debug_options, name, "")
            # Covers the program, its options, XLA's flags, and the versions of jaxlib and CUDA.
            key = sys.modules["jax._src.cache_key"].get(computation, devices, options, backend)
            program = hashlib.sha256(key.encode()).hexdigest()[:_DIGITS]
            (self._in_rounds if self._is_in_round else self._before).add(program)
