"""Whether two traces hold the same kind of work, and what their readers noted of them. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_nsight.compare.sources import TraceSource
from pytest_nsight.model.api_calls import flag_calls, launches_one_kernel
from pytest_nsight.model.errors import UsageError
from pytest_nsight.model.shapes import COMPUTE_KINDS
from pytest_nsight.model.trace import Trace
from pytest_nsight.model.units import count


def refuse_unlike(before: TraceSource, after: TraceSource) -> None:
    """Refuses two traces whose times mean different things.

    Args:
        before: the baseline.
        after: the optimized trace.

    Raises:
        UsageError: one holds operators of a CPU and the other work of a GPU; or one lacks what the other holds.
    """
    for one, other in ((before, after), (after, before)):
        if one.trace.is_of_cpu and len(other.trace.launches) and not other.trace.is_of_cpu:
            raise UsageError(
                f"{one.title} holds operators of a CPU and {other.title} work of a GPU, whose times cannot be "
                "compared; give two traces of a CPU or two of a GPU"
            )
    for one, other in ((before, after), (after, before)):
        if what := _describe_loss(one.trace):
            held = count(len(other.trace.launches), "operator" if other.trace.is_of_cpu else "launch")
            rest = f" with {other.title}, which holds {held}," if len(other.trace.launches) else ""
            raise UsageError(f"{one.title} has no times to compare{rest} as {what}; give another trace")


def _describe_loss(trace: Trace) -> str:
    """What says that a trace lost its kernels or never had any, "" where it has some or needs none."""
    if not len(trace.launches):
        return trace.notes[-1] if trace.notes else "the recording holds no launch"
    launching = int(flag_calls(trace, launches_one_kernel).sum())
    if launching and not any(shape.kind in COMPUTE_KINDS for shape in trace.shapes):
        calls = count(launching, "call that launches a kernel", "calls that launch kernels")
        return f"the recording holds {calls} but no kernel: the profiler lost them; record it again"
    return ""


def describe_boards(before: TraceSource, after: TraceSource) -> tuple[str, ...]:
    """A sentence where the traces are of boards of different models; none where they are not, or do not say.

    Args:
        before: the baseline.
        after: the optimized trace.
    """
    old, new = ({device.name for device in one.trace.devices if device.name} for one in (before, after))
    if not old or not new or old == new:
        return ()
    names = [" and ".join(sorted(one)) for one in (old, new)]
    return (f"boards of different models: {before.title} is of {names[0]}, {after.title} of {names[1]}",)


def quote_notes(before: TraceSource, old: Sequence[str], after: TraceSource, new: Sequence[str]) -> tuple[str, ...]:
    """The notes on each trace with its name; those on both once.

    Args:
        before: the baseline.
        old: its notes, as `pytest-nsight show` prints them.
        after: the optimized trace.
        new: its notes.
    """
    shared = [note for note in dict.fromkeys(old) if note in new]
    return (
        *(f"note on both traces: {note}" for note in shared),
        *(f"note on {before.title}: {note}" for note in dict.fromkeys(old) if note not in shared),
        *(f"note on {after.title}: {note}" for note in dict.fromkeys(new) if note not in shared),
    )
