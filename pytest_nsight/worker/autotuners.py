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
from types import CodeType, FunctionType
from typing import Any

from pytest_nsight.model.identity import TunedKernel
from pytest_nsight.model.kernel_names import normalise

WATCHED_ROUNDS = 2
"""Warm-up rounds that are watched: the first one tunes, and the second may capture what later rounds replay."""

MOST_KERNELS = 256
"""Of a case whose arguments differ from launch to launch nothing is kept: no two of its runs have the same work."""

_DIGITS = 16
_ALIGNMENT = 16
"""Triton compiles for pointers that are multiples of it, and for others."""

_PLAIN = (bool, int, float, str, bytes, type(None))
_NAMED_TYPES = ("dtype", "constexpr", "pointer_type")
"""Triton's and torch's, whose text says all there is."""

_TRIAL = "triton_"
"""What Inductor calls a kernel while it tries which ones to fuse."""

_COMMENT = re.compile(r"^\s*#.*$", re.MULTILINE)
_MACHINE = re.compile(r"'backend_hash': '[^']*'|(?<=DeviceProperties\()type='\w+', index=\d+")
"""The version of Triton, which the environment names, and which of several GPUs it was."""

_USERS_TILES = re.compile(r"SPARSE_\w+_BLOCK_SIZE|PRESCALE_QK")
"""In the templates of flex attention, whose tiles a program may give."""

_TEMPLATE_HEAD = re.compile(r"@triton_heuristics\.template\(.*?@triton\.jit", re.DOTALL)
_TILE = re.compile(
    r"^ +((?:[XYZR]\d?_?)?BLOCK(?:_\w+)?|GROUP_M|EVEN_K|SPLIT_K|NUM_SMS|EPILOGUE_SUBTILE|FLATTEN|WARP_SPECIALIZE)"
    r" ?: tl\.constexpr = (.+)$",
    re.MULTILINE,
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
        """Those of the last round that launched any, sorted; none if there are more than MOST_KERNELS.

        The round that tunes also launches trials, but a later one may only replay a graph.
        """
        last = next((launches for launches in reversed(self._rounds) if launches), Counter[_Note]())
        if len(last) > MOST_KERNELS:
            return ()
        return tuple(sorted(TunedKernel(*note, launches=launches) for note, launches in last.items()))

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
        if len(launches) > MOST_KERNELS or _is_capturing():
            return result
        try:
            note = describe(tuner, args, kwargs)
            if note is not None and note[0] != _TRIAL:
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
    function = tuner.fn
    heuristics: dict[str, Any] = {}
    while not hasattr(function, "cache_key"):
        # Heuristics stand between the autotuner and the function.
        heuristics.update(function.values)
        function = function.fn
    given = {**dict(zip(tuner.arg_names, args, strict=False)), **kwargs}
    problem = [
        function.cache_key,
        *(f"{config} {_describe_value(getattr(config, 'pre_hook', None))}" for config in tuner.configs),
        *(f"{name}={_describe_value(made_by)}" for name, made_by in heuristics.items()),
        *(f"{name}={_describe_value(getattr(tuner, name, None))}" for name in _TUNING),
        _describe_grid(given, tuner.configs[0], function, heuristics),
        *(f"{name}={_describe_value(given[name])}" for name in tuner.arg_names if name in given),
    ]
    return function.__name__, _digest(problem), str(tuner.best_config)


_TUNING = ("keys", "early_config_prune", "perf_model", "configs_top_k", "reset_to_zero", "restore_value")


def _describe_grid(given: Mapping[str, Any], config: Any, function: Any, heuristics: Mapping[str, Any]) -> str:
    """The grid of one and the same configuration, as that of the chosen one follows from the choice."""
    grid = given.get("grid")
    if callable(grid):
        meta = {p.name: p.default for p in getattr(function, "params", ()) if p.has_default}
        meta.update({**given, **config.all_kwargs()})
        for name, made_by in heuristics.items():
            meta[name] = made_by(meta)
        grid = grid(meta)
    return _describe_value(tuple(grid) if isinstance(grid, Iterable) else grid)


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
    source = _MACHINE.sub("", _COMMENT.sub("", Path(path).read_text(encoding="utf-8")))
    if name not in source:
        raise LookupError(f"{path} does not define {name}")
    if not is_template or _USERS_TILES.search(source):
        return source, ()
    tiles = tuple(f"{tile}: {value.strip()}" for tile, value in _TILE.findall(source))
    return _TILE.sub("", _TEMPLATE_HEAD.sub("", source)), tiles


def _describe_value(value: Any) -> str:
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
    """Of the tensor memory accelerator; the block in it is the configuration's."""
    layout = tuple(value.shape), tuple(value.strides), getattr(value, "padding", "")
    return f"{_describe_value(value.base)}{layout}"


def _describe_function(function: FunctionType) -> str:
    """The code of a function and the values that it holds, without names of files and numbers of lines."""
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    known = [function.__globals__.get(name) for name in function.__code__.co_names]
    # What else it uses by name, modules and functions, is not looked into.
    plain = tuple(one for one in known if isinstance(one, _PLAIN))
    held = (*cells, *(function.__defaults__ or ()), *sorted((function.__kwdefaults__ or {}).items()), *plain)
    return f"{_describe_constant(function.__code__)}{_describe_value(held)}"


def _describe_constant(constant: Any) -> str:
    if isinstance(constant, CodeType):
        return f"{constant.co_code.hex()}{constant.co_names}{_describe_constant(constant.co_consts)}"
    if isinstance(constant, tuple):
        return f"({','.join(map(_describe_constant, constant))})"
    if isinstance(constant, frozenset):
        # Its own order is another one in each process.
        return f"{{{','.join(sorted(map(_describe_constant, constant)))}}}"
    return repr(constant)


_KINDS: tuple[tuple[Callable[[Any], bool], Callable[[Any], str]], ...] = (
    (lambda value: isinstance(value, _PLAIN) or type(value).__name__ in _NAMED_TYPES, str),
    (lambda value: hasattr(value, "cache_key"), lambda value: str(value.cache_key)),
    (lambda value: isinstance(value, tuple | list), lambda value: f"({','.join(map(_describe_value, value))})"),
    (lambda value: hasattr(value, "base") and hasattr(value, "strides"), _describe_descriptor),
    (lambda value: hasattr(value, "dtype") and hasattr(value, "shape"), _describe_tensor),
    (
        lambda value: isinstance(value, functools.partial),
        lambda value: _describe_value((value.func, value.args, *sorted(value.keywords.items()))),
    ),
    (lambda value: isinstance(value, FunctionType), _describe_function),
)
"""What is of the kind, and its text."""


def _is_capturing() -> bool:
    """Whether a graph is captured on the current stream, when nothing may be launched beside it."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()


def _digest(texts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:_DIGITS]
