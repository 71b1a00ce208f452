"""Which configurations autotuners have chosen for the kernels of a case, and for which work.

Triton's `Autotuner` and Inductor's `CachingAutotuner` time a kernel in several configurations and keep the fastest.
So a program launches other grids and blocks on another machine, though nobody has changed it. What is noted here
lets the judge distinguish that from a change of the code (decision 42).

The two classes are changed only for the first warm-up rounds: measured rounds run what the libraries wrote.
"""

from __future__ import annotations

import functools
import hashlib
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType
from typing import Any

from pytest_nsight.model.identity import TunedKernel
from pytest_nsight.model.kernel_names import normalise

WATCHED_ROUNDS = 2
"""Warm-up rounds that are watched: the first one tunes, and the second may capture what later rounds replay."""

MOST_KERNELS = 256
"""Of a case whose arguments differ from launch to launch nothing is kept: no two of its runs have the same work."""

_DIGITS = 16
_PLAIN = (bool, int, float, str, bytes, type(None))
_NAMED_TYPES = ("dtype", "constexpr", "pointer_type")
"""Triton's and torch's, whose text says all there is."""

_COMMENT = re.compile(r"^\s*#.*$", re.MULTILINE)
_TEMPLATE_HEAD = re.compile(r"@triton_heuristics\.template\(.*?@triton\.jit", re.DOTALL)
_TILE = re.compile(
    r"^ +((?:[XYZR]\d?_?)?BLOCK(?:_\w+)?|GROUP_M|EVEN_K|SPLIT_K|NUM_SMS) ?: tl\.constexpr = (.+)$", re.MULTILINE
)
"""A template of Inductor has its tile sizes in its source, among constants that say what it computes."""

_Note = tuple[str, str, str]
_Describe = Callable[[Any, Sequence[Any], Mapping[str, Any]], "_Note | None"]


class TuningNotes:
    """What autotuners launched in the rounds that were watched."""

    def __init__(self) -> None:
        self._rounds: list[Counter[_Note]] = []

    @property
    def kernels(self) -> tuple[TunedKernel, ...]:
        """Sorted, each with its launches in the round that had most; none if there are more than MOST_KERNELS."""
        most: Counter[_Note] = Counter()
        for launches in self._rounds:
            most |= launches
        if len(most) > MOST_KERNELS:
            return ()
        return tuple(sorted(TunedKernel(*note, launches) for note, launches in most.items()))

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Notes what is launched through autotuners in one round, on any thread."""
        launches: Counter[_Note] = Counter()
        self._rounds.append(launches)
        changed: list[tuple[Any, Any, Any]] = []
        for module, name, describe in (
            ("triton.runtime.autotuner", "Autotuner", _describe_triton),
            ("torch._inductor.runtime.triton_heuristics", "CachingAutotuner", _describe_inductor),
        ):
            kind = getattr(sys.modules.get(module), name, None)
            if kind is not None and "run" in vars(kind):
                changed.append((kind, kind.run, _noting(kind.run, describe, launches)))
                kind.run = changed[-1][2]
        try:
            yield
        finally:
            for kind, run, noting in changed:
                # A library that the round has imported may have put its own there.
                if kind.run is noting:
                    kind.run = run


def _noting(run: Callable[..., Any], describe: _Describe, launches: Counter[_Note]) -> Callable[..., Any]:
    @functools.wraps(run)
    def noted(tuner: Any, *args: Any, **kwargs: Any) -> Any:
        result = run(tuner, *args, **kwargs)
        if len(launches) > MOST_KERNELS:
            return result
        try:
            note = describe(tuner, args, kwargs)
            if note is not None:
                name, problem, config = note
                # Triton lets a kernel choose its name; what it launched has it.
                launches[normalise(getattr(result, "name", None) or name), problem, config] += 1
        except Exception:
            # Another version of the library, or an argument that nothing here describes: launch shapes are compared
            # as if nothing had been tuned.
            return result
        return result

    return noted


def _describe_triton(tuner: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> _Note | None:
    """Name, problem and configuration; None where there is nothing to choose."""
    if len(tuner.configs) < 2:
        return None
    function, around = tuner.fn, []
    while not hasattr(function, "cache_key"):
        # Heuristics stand between the autotuner and the function.
        around += [f"{name}={_describe_code(made_by)}" for name, made_by in function.values.items()]
        function = function.fn
    given = {**dict(zip(tuner.arg_names, args, strict=False)), **kwargs}
    grid = given.get("grid")
    problem = [
        function.cache_key,
        *map(str, tuner.configs),
        *around,
        *(_describe_code(getattr(tuner, name, None)) for name in ("early_config_prune", "perf_model")),
        # The same one each time, as the grid of the chosen one is its own.
        str(tuple(grid({**given, **tuner.configs[0].all_kwargs()}) if callable(grid) else grid)),
        *(f"{name}={_describe_value(given[name])}" for name in tuner.arg_names if name in given),
    ]
    return function.__name__, _digest(problem), str(tuner.best_config)


def _describe_inductor(tuner: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> _Note | None:
    if kwargs.get("benchmark_run"):
        return None
    (launcher,) = tuner.launchers
    is_template = "TEMPLATE" in str(tuner.heuristic_type)
    # Of a template the tuner does not say in which file it is.
    path = tuner.filename or tuner.fn.fn.__code__.co_filename
    source, tiles = _read_generated(path, tuner.fn.__name__, is_template=is_template)
    problem = _digest([source, str(tuner.heuristic_type), str(tuner.size_hints), *map(_describe_value, args)])
    return tuner.fn.__name__, problem, ", ".join([str(launcher.config), *tiles])


@functools.lru_cache(maxsize=MOST_KERNELS)
def _read_generated(path: str, name: str, *, is_template: bool) -> tuple[str, tuple[str, ...]]:
    """What Inductor has generated for a kernel, with its helpers and configurations; and its tile sizes."""
    source = _COMMENT.sub("", Path(path).read_text(encoding="utf-8"))
    if name not in source:
        raise LookupError(f"{path} does not define {name}")
    if not is_template:
        return source, ()
    tiles = tuple(f"{tile}: {value.strip()}" for tile, value in _TILE.findall(source))
    return _TILE.sub("", _TEMPLATE_HEAD.sub("", source)), tiles


def _describe_value(value: Any) -> str:
    """What decides the work of an argument: a tensor's kind and layout, not its address or contents.

    Raises:
        TypeError: nothing here describes it. Its own text may hold an address, or copy a tensor from the device.
    """
    if isinstance(value, _PLAIN) or type(value).__name__ in _NAMED_TYPES:
        return str(value)
    if hasattr(value, "cache_key"):
        return str(value.cache_key)
    if isinstance(value, tuple | list):
        return f"({','.join(map(_describe_value, value))})"
    if hasattr(value, "base") and hasattr(value, "strides"):
        # A descriptor of the tensor memory accelerator; the block in it is the configuration's.
        layout = tuple(value.shape), tuple(value.strides), getattr(value, "padding", "")
        return f"{_describe_value(value.base)}{layout}"
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        stride = tuple(value.stride()) if callable(getattr(value, "stride", None)) else ""
        return f"{value.dtype}{tuple(value.shape)}{stride}"
    raise TypeError(f"an argument of type {type(value).__name__}")


def _describe_code(function: Any) -> str:
    """The code of a function that belongs to the program, without names of files and numbers of lines."""
    if function is None:
        return ""
    return _describe_code_object(function.__code__)


def _describe_code_object(code: CodeType) -> str:
    constants = (_describe_code_object(one) if isinstance(one, CodeType) else repr(one) for one in code.co_consts)
    return f"{code.co_code.hex()}{code.co_names}{','.join(constants)}"


def _digest(texts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:_DIGITS]
