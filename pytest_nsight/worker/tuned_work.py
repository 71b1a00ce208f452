"""What an autotuner had to do for a launch, and what it chose.

The digest covers what the program decides: source, configurations to choose from, grid, arguments. It covers no
address, no contents of a tensor, and nothing of the machine, so it is the same wherever the same program runs.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from pytest_nsight.model.identity import INDUCTOR

Note = tuple[str, str, str]
"""Name of a kernel, digest of its work, configuration."""

Describe = Callable[[Any, Sequence[Any], Mapping[str, Any]], "Note | None"]
"""(autotuner, args, kwargs) of a launch -> note; None if the launch is not the program's, or without a choice."""

_DIGITS = 16
_ALIGNMENT = 16
"""Triton compiles one kernel for pointers that are multiples of it, and another for all other pointers."""

_PLAIN = (bool, int, float, str, bytes, type(None))
_NAMED_TYPES = ("dtype", "constexpr", "pointer_type")
"""Types of Triton and torch whose text describes them completely."""

_TUNING = ("keys", "early_config_prune", "perf_model", "configs_top_k", "reset_to_zero", "restore_value")

_COMMENT = re.compile(r"^\s*#.*$", re.MULTILINE)
_MACHINE = re.compile(r"'backend_hash': '[^']*'|(?<=DeviceProperties\()type='\w+', index=\d+")
"""The version of Triton, which the environment names, and which of several GPUs it was."""


def describe_triton(tuner: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Note | None:
    """The note of a launch through Triton's `Autotuner`; None if there is only one configuration."""
    if len(tuner.configs) < 2:
        return None
    function = tuner.fn
    heuristics: dict[str, Any] = {}
    while not hasattr(function, "cache_key"):
        # Heuristics stand between the autotuner and the function.
        heuristics.update(function.values)
        function = function.fn
    given = {**dict(zip(tuner.arg_names, args, strict=False)), **kwargs}
    problem = [
        function.cache_key,
        *(f"{config} {describe_value(getattr(config, 'pre_hook', None))}" for config in tuner.configs),
        *(f"{name}={describe_value(made_by)}" for name, made_by in heuristics.items()),
        *(f"{name}={describe_value(getattr(tuner, name, None))}" for name in _TUNING),
        _describe_grid(given, tuner.configs[0], function, heuristics),
        *(f"{name}={describe_value(given[name])}" for name in tuner.arg_names if name in given),
    ]
    return function.__name__, _digest(problem), str(tuner.best_config)


def _describe_grid(given: Mapping[str, Any], config: Any, function: Any, heuristics: Mapping[str, Any]) -> str:
    """The grid for a fixed configuration, because the grid of the chosen one depends on the choice."""
    grid = given.get("grid")
    if callable(grid):
        meta = {p.name: p.default for p in getattr(function, "params", ()) if p.has_default}
        meta.update({**given, **config.all_kwargs()})
        for name, made_by in heuristics.items():
            meta[name] = made_by(meta)
        grid = grid(meta)
    return describe_value(tuple(grid) if isinstance(grid, Iterable) else grid)


def describe_inductor(tuner: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Note | None:
    """The note of a launch through Inductor's `CachingAutotuner`; None for a trial, and for a template.

    A template's source holds its choice; `describe_graph` covers it.
    """
    if kwargs.get("benchmark_run") or "TEMPLATE" in str(tuner.heuristic_type):
        return None
    (launcher,) = tuner.launchers
    source = _read_generated(tuner.filename or tuner.fn.fn.__code__.co_filename, tuner.fn.__name__)
    problem = _digest([source, str(tuner.heuristic_type), str(tuner.size_hints), *map(describe_value, args)])
    return tuner.fn.__name__, problem, str(launcher.config)


@functools.lru_cache(maxsize=256)
def _read_generated(path: str, name: str) -> str:
    """What Inductor has generated for a kernel, with its helpers and configurations."""
    source = _MACHINE.sub("", _COMMENT.sub("", Path(path).read_text(encoding="utf-8")))
    if name not in source:
        raise LookupError(f"{path} does not define {name}")
    return source


def describe_graph(graph: Any, inputs: Sequence[Any]) -> Note | None:
    """The note of a call of what Inductor compiled; None on a processor, where it chooses nothing by time.

    Raises:
        LookupError: Inductor has no key for the graph, since it does not cache it.
    """
    if "cuda" not in graph.device_types:
        return None
    # Covers the graph, the settings, and the versions of torch, Triton and CUDA. Sizes may be symbols in it.
    key = graph._fx_graph_cache_key  # noqa: SLF001 - it has no other name
    if not key:
        raise LookupError("a graph without a key")
    return INDUCTOR, _digest([key, *map(describe_value, inputs)]), ""


def describe_value(value: Any) -> str:
    """What decides the work of an argument: a tensor's kind and layout, not its address or contents.

    Raises:
        TypeError: nothing here describes it. Its own text may hold an address, or copy a tensor from the device.
    """
    for is_one, describe in _KINDS:
        if is_one(value):
            return describe(value)
    raise TypeError(f"an argument of type {type(value).__name__}")


def _describe_tensor(value: Any) -> str:
    stride = tuple(value.stride()) if callable(getattr(value, "stride", None)) else ""
    alignment = value.data_ptr() % _ALIGNMENT if callable(getattr(value, "data_ptr", None)) else ""
    return f"{value.dtype}{tuple(value.shape)}{stride}{alignment}"


def _describe_descriptor(value: Any) -> str:
    """A descriptor of the tensor memory accelerator, without its block size, which the configuration sets."""
    layout = tuple(value.shape), tuple(value.strides), getattr(value, "padding", "")
    return f"{describe_value(value.base)}{layout}"


def _describe_function(function: FunctionType) -> str:
    """The code of a function and the values that it holds, without names of files and numbers of lines."""
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    known = [function.__globals__.get(name) for name in function.__code__.co_names]
    # Modules and functions that it uses by name are not described.
    plain = tuple(one for one in known if isinstance(one, _PLAIN))
    held = (*cells, *(function.__defaults__ or ()), *sorted((function.__kwdefaults__ or {}).items()), *plain)
    return f"{_describe_constant(function.__code__)}{describe_value(held)}"


def _describe_constant(constant: Any) -> str:
    if isinstance(constant, CodeType):
        return f"{constant.co_code.hex()}{constant.co_names}{_describe_constant(constant.co_consts)}"
    if isinstance(constant, tuple):
        return f"({','.join(map(_describe_constant, constant))})"
    if isinstance(constant, frozenset):
        # Each process orders it differently.
        return f"{{{','.join(sorted(map(_describe_constant, constant)))}}}"
    return repr(constant)


_KINDS: tuple[tuple[Callable[[Any], bool], Callable[[Any], str]], ...] = (
    (lambda value: isinstance(value, _PLAIN) or type(value).__name__ in _NAMED_TYPES, str),
    (lambda value: hasattr(value, "cache_key"), lambda value: str(value.cache_key)),
    (lambda value: isinstance(value, tuple | list), lambda value: f"({','.join(map(describe_value, value))})"),
    (lambda value: hasattr(value, "base") and hasattr(value, "strides"), _describe_descriptor),
    (lambda value: hasattr(value, "dtype") and hasattr(value, "shape"), _describe_tensor),
    (
        lambda value: isinstance(value, functools.partial),
        lambda value: describe_value((value.func, value.args, *sorted(value.keywords.items()))),
    ),
    (lambda value: isinstance(value, FunctionType), _describe_function),
)
"""What is of the kind, and its text."""


def _digest(texts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:_DIGITS]
