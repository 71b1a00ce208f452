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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pytest_nsight.model.kernel_names import normalise
from pytest_nsight.model.values import TunedKernel

WATCHED_ROUNDS = 2
"""Warm-up rounds that are watched: the first one tunes, and the second may capture what later rounds replay."""

_DIGITS = 16
_TEMPLATE_CONSTANT = re.compile(r"^ +[A-Z_0-9]+ : tl\.constexpr = .+$", re.MULTILINE)
"""A template of Inductor has its tile sizes in its source."""

_Describe = Callable[[Any, Sequence[Any], Mapping[str, Any]], "TunedKernel | None"]


@contextmanager
def watch_autotuners(found: set[TunedKernel]) -> Iterator[None]:
    """Adds to `found` what is launched through autotuners meanwhile, on any thread."""
    changed: list[tuple[Any, Any]] = []
    for module, name, describe in (
        ("triton.runtime.autotuner", "Autotuner", _describe_triton),
        ("torch._inductor.runtime.triton_heuristics", "CachingAutotuner", _describe_inductor),
    ):
        kind = getattr(sys.modules.get(module), name, None)
        if kind is not None and "run" in vars(kind):
            changed.append((kind, kind.run))
            kind.run = _noting(kind.run, describe, found)
    try:
        yield
    finally:
        for kind, run in changed:
            kind.run = run


def _noting(run: Callable[..., Any], describe: _Describe, found: set[TunedKernel]) -> Callable[..., Any]:
    @functools.wraps(run)
    def noted(tuner: Any, *args: Any, **kwargs: Any) -> Any:
        result = run(tuner, *args, **kwargs)
        try:
            kernel = describe(tuner, args, kwargs)
        except Exception:
            # Another version of the library: its launch shapes are compared as if nothing had been tuned.
            return result
        if kernel is not None:
            found.add(kernel)
        return result

    return noted


def _describe_triton(tuner: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TunedKernel | None:
    if len(tuner.configs) < 2:
        return None
    function = tuner.fn
    while not hasattr(function, "cache_key"):
        # Heuristics stand between the autotuner and the function.
        function = function.fn
    given = {**dict(zip(tuner.arg_names, args, strict=False)), **kwargs}
    values = (f"{name}={_describe_value(given[name])}" for name in tuner.arg_names if name in given)
    problem = _digest([function.cache_key, *map(str, tuner.configs), *values])
    return TunedKernel(normalise(function.__name__), problem, str(tuner.best_config))


def _describe_inductor(tuner: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TunedKernel | None:
    if kwargs.get("benchmark_run"):
        return None
    (launcher,) = tuner.launchers
    source, config = tuner.fn.src, [str(launcher.config)]
    if "TEMPLATE" in str(tuner.heuristic_type):
        config += (text.strip() for text in _TEMPLATE_CONSTANT.findall(source))
        source = _TEMPLATE_CONSTANT.sub("", source)
    problem = _digest([source, str(tuner.heuristic_type), str(tuner.size_hints), *map(_describe_value, args)])
    return TunedKernel(normalise(tuner.fn.__name__), problem, ", ".join(config))


def _describe_value(value: Any) -> str:
    """A tensor's kind and layout, or any other argument's value; one that nothing describes is itself only."""
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        stride = value.stride() if callable(getattr(value, "stride", None)) else ""
        return f"{value.dtype}{tuple(value.shape)}{stride}"
    return str(value)


def _digest(texts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:_DIGITS]
