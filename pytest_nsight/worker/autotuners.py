"""Which configurations autotuners have chosen for the kernels of a case, and for which work.

Triton's `Autotuner` and Inductor's `CachingAutotuner` time a kernel in several configurations and keep the fastest.
So a program launches other grids and blocks on another machine, though nobody has changed it. What is noted here
lets the judge distinguish that from a change of the code (decision 42).

Inductor and XLA also choose among kernels of other names. What they compiled is noted: graphs here, JAX's programs
in `jax_programs`. For cuDNN, only the fact that it chooses by time is noted (`torch.backends.cudnn.benchmark`).

The classes are changed only for the first warm-up rounds: measured rounds run the libraries' own code.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pytest_nsight.model.identity import CUDNN, INDUCTOR, TunedKernel
from pytest_nsight.model.kernel_names import normalise
from pytest_nsight.worker.jax_programs import JaxPrograms
from pytest_nsight.worker.tuned_work import Describe, Note, describe_graph, describe_inductor, describe_triton

WATCHED_ROUNDS = 2
"""Warm-up rounds that are watched: the first one tunes, and the second may capture what later rounds replay."""

MOST_KERNELS = 256
"""A case with more kernels keeps none: its arguments differ by launch, so no two runs have the same work."""

_TRIAL = "triton_"
"""What Inductor calls a kernel while it tries which ones to fuse."""

_UNKNOWN: Note = (INDUCTOR, "", "")
"""A graph that nothing describes: then nothing is known of what Inductor had to do."""


class _RoundNotes:
    """What was launched through autotuners in one round, and which graphs of Inductor were called, with counts."""

    def __init__(self) -> None:
        self.kernels: Counter[Note] = Counter()
        self.graphs: Counter[Note] = Counter()
        # A backward pass runs on threads of autograd.
        self._lock = threading.Lock()

    def add(self, note: Note) -> None:
        """Counts one launch or call."""
        with self._lock:
            (self.graphs if note[0] == INDUCTOR else self.kernels)[note] += 1


class TuningNotes:
    """What autotuners launched in the rounds that were watched."""

    def __init__(self, programs: JaxPrograms | None = None) -> None:
        """Notes nothing yet.

        Args:
            programs: what JAX compiles in this process.
        """
        self._programs = programs or JaxPrograms()
        self._rounds: list[_RoundNotes] = []
        self._cudnn: TunedKernel | None = None

    @property
    def kernels(self) -> tuple[TunedKernel, ...]:
        """The kernels of the last round that launched any, sorted; empty if there are more than MOST_KERNELS.

        The round that tunes also launches trials, but a later one may only replay a graph. Graphs of Inductor count
        in the same way; so do programs of JAX, but those of every round.
        """
        kernels = next((one.kernels for one in reversed(self._rounds) if one.kernels), Counter[Note]())
        graphs = next((one.graphs for one in reversed(self._rounds) if one.graphs), Counter[Note]())
        known = {} if _UNKNOWN in graphs else graphs
        noted = [
            TunedKernel(*note, launches=launches)
            for notes in (kernels, known)
            if len(notes) <= MOST_KERNELS
            for note, launches in notes.items()
        ]
        libraries = () if self._cudnn is None else (self._cudnn,)
        return tuple(sorted((*noted, *libraries, *self._programs.notes)))

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Notes what is launched through autotuners in one round, on any thread."""
        noted = _RoundNotes()
        self._rounds.append(noted)
        changed: list[tuple[Any, str, Any, Any]] = []
        for module, name, method, note in (
            ("triton.runtime.autotuner", "Autotuner", "run", functools.partial(_noting, describe_triton)),
            (
                "torch._inductor.runtime.triton_heuristics",
                "CachingAutotuner",
                "run",
                functools.partial(_noting, describe_inductor),
            ),
            ("torch._inductor.output_code", "CompiledFxGraph", "__call__", _noting_graph),
        ):
            kind = getattr(sys.modules.get(module), name, None)
            if kind is not None and method in vars(kind):
                original = vars(kind)[method]
                changed.append((kind, method, original, note(original, noted)))
                setattr(kind, method, changed[-1][3])
        try:
            with self._programs.in_round():
                yield
        finally:
            # An error means another version of torch.
            with suppress(Exception):
                self._cudnn = _note_cudnn() or self._cudnn
            for kind, method, original, noting in changed:
                # A library that the round imported may have put its own function there.
                if vars(kind)[method] is noting:
                    setattr(kind, method, original)


def _noting(describe: Describe, run: Callable[..., Any], notes: _RoundNotes) -> Callable[..., Any]:
    @functools.wraps(run)
    def noted(tuner: Any, *args: Any, **kwargs: Any) -> Any:
        result = run(tuner, *args, **kwargs)
        if len(notes.kernels) > MOST_KERNELS or _is_capturing():
            return result
        # An error means another version of the library, or an argument that nothing describes: launch shapes are
        # then compared as if nothing had been tuned.
        with suppress(Exception):
            note = describe(tuner, args, kwargs)
            if note is not None and note[0] != _TRIAL:
                name, problem, config = note
                # Triton lets a kernel choose its name; what it launched has it.
                notes.add((normalise(getattr(result, "name", None) or name), problem, config))
        return result

    return noted


def _noting_graph(call: Callable[..., Any], notes: _RoundNotes) -> Callable[..., Any]:
    @functools.wraps(call)
    def noted(graph: Any, inputs: Any) -> Any:
        # A round that captures launches nothing. Before the call, as that takes the inputs out of their list.
        if not _is_capturing() and (note := _describe_or_give_up(graph, inputs)) is not None:
            notes.add(note)
        return call(graph, inputs)

    return noted


def _describe_or_give_up(graph: Any, inputs: Any) -> Note | None:
    try:
        return describe_graph(graph, inputs)
    # Another version of torch, a graph that it does not cache, or an input that nothing describes.
    except Exception:
        return _UNKNOWN


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
