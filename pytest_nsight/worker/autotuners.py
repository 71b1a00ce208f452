"""Which configurations autotuners have chosen for the kernels of a case, and for which work.

Triton's `Autotuner` and Inductor's `CachingAutotuner` time a kernel in several configurations and keep the fastest.
So a program launches other grids and blocks on another machine, though nobody has changed it. What is noted here
lets the judge distinguish that from a change of the code (decision 42).

The two classes are changed only for the first warm-up rounds: measured rounds run the libraries' own code. For
cuDNN, only the fact that it chooses by time is noted (`torch.backends.cudnn.benchmark`).
"""

from __future__ import annotations

import functools
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pytest_nsight.model.identity import CUDNN, TunedKernel
from pytest_nsight.model.kernel_names import normalise
from pytest_nsight.worker.tuned_work import Describe, Note, describe_inductor, describe_triton

WATCHED_ROUNDS = 2
"""Warm-up rounds that are watched: the first one tunes, and the second may capture what later rounds replay."""

MOST_KERNELS = 256
"""A case with more kernels keeps none: its arguments differ by launch, so no two runs have the same work."""

_TRIAL = "triton_"
"""What Inductor calls a kernel while it tries which ones to fuse."""


class TuningNotes:
    """What autotuners launched in the rounds that were watched."""

    def __init__(self) -> None:
        self._rounds: list[Counter[Note]] = []
        self._cudnn: TunedKernel | None = None

    @property
    def kernels(self) -> tuple[TunedKernel, ...]:
        """The kernels of the last round that launched any, sorted; empty if there are more than MOST_KERNELS.

        The round that tunes also launches trials, but a later one may only replay a graph.
        """
        last = next((launches for launches in reversed(self._rounds) if launches), Counter[Note]())
        if len(last) > MOST_KERNELS:
            last = Counter()
        noted = [TunedKernel(*note, launches=launches) for note, launches in last.items()]
        return tuple(sorted(noted if self._cudnn is None else [*noted, self._cudnn]))

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Notes what is launched through autotuners in one round, on any thread."""
        launches: Counter[Note] = Counter()
        self._rounds.append(launches)
        changed: list[tuple[Any, Any, Any]] = []
        for module, name, describe in (
            ("triton.runtime.autotuner", "Autotuner", describe_triton),
            ("torch._inductor.runtime.triton_heuristics", "CachingAutotuner", describe_inductor),
        ):
            kind = getattr(sys.modules.get(module), name, None)
            if kind is not None and "run" in vars(kind):
                changed.append((kind, kind.run, _noting(kind.run, describe, launches)))
                kind.run = changed[-1][2]
        try:
            yield
        finally:
            # An error means another version of torch.
            with suppress(Exception):
                self._cudnn = _note_cudnn() or self._cudnn
            for kind, run, noting in changed:
                # A library that the round imported may have put its own function there.
                if kind.run is noting:
                    kind.run = run


def _noting(run: Callable[..., Any], describe: Describe, launches: Counter[Note]) -> Callable[..., Any]:
    @functools.wraps(run)
    def noted(tuner: Any, *args: Any, **kwargs: Any) -> Any:
        result = run(tuner, *args, **kwargs)
        if len(launches) > MOST_KERNELS or _is_capturing():
            return result
        # An error means another version of the library, or an argument that nothing describes: launch shapes are
        # then compared as if nothing had been tuned.
        with suppress(Exception):
            note = describe(tuner, args, kwargs)
            if note is not None and note[0] != _TRIAL:
                name, problem, config = note
                # Triton lets a kernel choose its name; what it launched has it.
                launches[normalise(getattr(result, "name", None) or name), problem, config] += 1
        return result

    return noted


def _note_cudnn() -> TunedKernel | None:
    """The settings under which cuDNN chooses algorithms by their times; None if it does not choose by time.

    cuDNN does not report which algorithm it chose for which convolution.
    """
    torch = sys.modules.get("torch")
    if torch is None or not (torch.cuda.is_initialized() and torch.backends.cudnn.benchmark):
        return None
    cudnn = torch.backends.cudnn
    settings = {"enabled": cudnn.enabled, "deterministic": cudnn.deterministic, "allow_tf32": cudnn.allow_tf32}
    return TunedKernel(CUDNN, ", ".join(f"{name}: {value}" for name, value in settings.items()), "")


def _is_capturing() -> bool:
    """Whether the current stream is capturing a graph; no other launch is allowed meanwhile."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()
