"""Which line of Python launched the kernels. Pure.

A call of CUDA that has a stack of Python, as `--python-backtrace=cuda` records it, was made by that line. For
another one the nearest stack of its thread stands, of another call or of a sample, as `--python-sampling=true`
takes them: what a line launches within less than the time between samples may be given to its neighbour. Threads of
autograd run no Python but that of the program's own nodes and hooks: what else they launch belongs to the line that
waits for the backward pass meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pytest_nsight.analysis.intervals import Axis
from pytest_nsight.analysis.kernel_use import KernelTime
from pytest_nsight.analysis.launching_code import NO_BACKTRACE, CodeTime, sum_by_code
from pytest_nsight.analysis.python_lines import StackLines, flag_python_threads, sampling_period, shorten_path
from pytest_nsight.model.call_stacks import NO_STACK
from pytest_nsight.model.python_stacks import PYTHON_DOMAINS, PythonStacks
from pytest_nsight.model.sorted_keys import rank_groups, rank_values
from pytest_nsight.model.trace import Ints, Trace
from pytest_nsight.trace.attribution import NO_CALL
from pytest_nsight.trace.launch_table import LaunchDetails

_FARTHEST = 1.5
"""Periods of sampling up to which another stack stands for that of a call."""
_UNSAMPLED_NS = 1e6
"""The period where Python was not sampled."""
_AUTOGRAD = "torch/autograd/"
_LACKS_FRAMES = (
    "the stacks of Python, if any was recorded, are not in this export: export it again with `nsys export "
    "--type=sqlite --include-blobs=true` of Nsight Systems 2025.3 or newer, or give the report itself"
)


def tabulate_lines(
    trace: Trace, details: LaunchDetails, rows: Ints, kernels: Sequence[KernelTime]
) -> tuple[CodeTime, ...]:
    """Kernel time by the line of Python that launched it, the longest first; none where no launch has such a line.

    Args:
        trace: the trace.
        details: of its launches.
        rows: shape (launches,), rows of ``trace.launches`` that count.
        kernels: what they ran.
    """
    rows = rows[details.is_compute[rows]]
    if not len(trace.python) or not len(rows):
        return ()
    call = details.call[rows]
    stack = np.full(len(rows), NO_STACK, np.int64)
    stack[call != NO_CALL] = find_stacks(trace, call[call != NO_CALL])
    if not (stack != NO_STACK).any():
        return ()
    lines = StackLines.of(trace.python)
    line = np.where(stack == NO_STACK, len(lines.labels), lines.line[stack])
    return sum_by_code(trace, details, rows, kernels, line, [*lines.labels, NO_BACKTRACE])


def note_lines(trace: Trace) -> tuple[str, ...]:
    """A sentence if stacks of Python may have been recorded, and the export holds none."""
    has_stacks = len(trace.python) or trace.python.unread
    return () if has_stacks or set(PYTHON_DOMAINS).isdisjoint(trace.strings) else (_LACKS_FRAMES,)


def find_stacks(trace: Trace, call: Ints) -> Ints:
    """The stack of Python of each call, NO_STACK where none is near, shape (chosen,).

    Args:
        trace: one with stacks of Python.
        call: shape (chosen,), rows of ``trace.calls``.
    """
    stacks, calls = trace.python, trace.calls
    process = np.concatenate([stacks.process, calls.process[call]])
    thread, threads = rank_groups(process, np.concatenate([stacks.thread, calls.thread[call]]))
    of_stack, of_call = np.split(thread, [len(stacks)])
    start_ns, end_ns = calls.start_ns[call], calls.end_ns[call]
    times = np.concatenate([stacks.at_ns, start_ns, end_ns])
    axis = Axis.over(int(times.min()), int(times.max()), threads)
    found = np.full(len(call), NO_STACK, np.int64)

    order = _sort(axis, of_stack, stacks, np.flatnonzero(~stacks.is_sample))
    at = np.searchsorted(axis.place(of_stack[order], stacks.at_ns[order]), axis.place(of_call, end_ns), "right") - 1
    if len(order):
        mark = order[np.maximum(at, 0)]
        is_own = (at >= 0) & (of_stack[mark] == of_call) & (stacks.at_ns[mark] >= start_ns)
        found[is_own] = mark[is_own]

    most_ns = _FARTHEST * (sampling_period(stacks) or _UNSAMPLED_NS)
    left, every = np.flatnonzero(found == NO_STACK), np.arange(len(stacks))
    found[left] = _find_nearest(axis, of_stack, stacks, every, of_call[left], start_ns[left], most_ns)

    of_thread = np.zeros(threads, np.int64)
    of_thread[thread] = process
    left = np.flatnonzero((found == NO_STACK) & ~flag_python_threads(stacks, of_stack, of_thread)[of_call])
    _, number = rank_values(process)
    in_autograd = np.array([shorten_path(place.file).startswith(_AUTOGRAD) for place in stacks.places])
    waiting = np.flatnonzero(stacks.is_sample & in_autograd[stacks.innermost()])
    of_stack, of_call = np.split(number, [len(stacks)])
    found[left] = _find_nearest(axis, of_stack, stacks, waiting, of_call[left], start_ns[left], most_ns)
    return found


def _sort(axis: Axis, line: Ints, stacks: PythonStacks, rows: Ints) -> Ints:
    return rows[np.argsort(axis.place(line[rows], stacks.at_ns[rows]), kind="stable")]


def _find_nearest(
    axis: Axis, line: Ints, stacks: PythonStacks, rows: Ints, wanted: Ints, at_ns: Ints, most_ns: float
) -> Ints:
    """The stack nearest to each time on its line, NO_STACK where it is too far away.

    Args:
        axis: of the lines.
        line: shape (stacks,), line of each stack.
        stacks: all stacks.
        rows: shape (candidates,), the stacks that may be found.
        wanted: shape (times,), line of each time.
        at_ns: shape (times,).
        most_ns: the farthest that a stack may be.
    """
    if not len(rows):
        return np.full(len(wanted), NO_STACK, np.int64)
    order = _sort(axis, line, stacks, rows)
    after = np.searchsorted(axis.place(line[order], stacks.at_ns[order]), axis.place(wanted, at_ns))
    best, apart_ns = np.full(len(wanted), NO_STACK, np.int64), np.full(len(wanted), np.inf)
    for at in (after - 1, after):
        stack = order[np.clip(at, 0, len(order) - 1)]
        far_ns = np.where(line[stack] == wanted, np.abs(stacks.at_ns[stack] - at_ns), np.inf)
        is_nearer = (far_ns < apart_ns) & (far_ns <= most_ns)
        best, apart_ns = np.where(is_nearer, stack, best), np.where(is_nearer, far_ns, apart_ns)
    return best
