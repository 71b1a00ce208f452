"""Which code launched the kernels, by the native call stacks of the launches. Pure.

Of PyTorch it is the outermost operator, inside the backward pass with the node of autograd that called it. Of
another program it is its own function that is nearest to CUDA: the outermost one would be `main`, whatever it
launches. Without such a function it is the entry of the library that launched, such as cuBLAS called from Python.

Roles are decided once for each different frame, and stacks as whole arrays: a recording may have ten million
frames.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_nsight.analysis.kernel_use import KernelTime
from pytest_nsight.analysis.stack_frames import Role, classify
from pytest_nsight.model.api_calls import function_name
from pytest_nsight.model.call_stacks import NO_STACK, UNRESOLVED, CallStacks
from pytest_nsight.model.kernel_names import scoped_name
from pytest_nsight.model.sorted_keys import distinct, rank_groups
from pytest_nsight.model.trace import Flags, Ints, Trace
from pytest_nsight.model.units import count, name_some
from pytest_nsight.trace.attribution import NO_CALL
from pytest_nsight.trace.launch_table import LaunchDetails

NO_BACKTRACE = ""
"""Stands for the code of launches that have no stack."""

_UNKNOWN = "unknown code"
_MOST = 0.5
"""Share of the launches, or of their time, without a stack from which on a note says so."""
# Where no operator names a stack, the first of these roles that it has does; and whether its innermost frame does.
_NAMING = (
    (Role.OWN, True),
    (Role.STUB, True),
    (Role.LIBRARY, False),
    (Role.NAMELESS, True),
    (Role.NAMELESS_LIBRARY, False),
    (Role.CUDA, False),
)


@dataclass(frozen=True, slots=True)
class CodeTime:
    """The kernels that one piece of code launched.

    Attributes:
        code: such as "aten::addmm", "AddmmBackward0: aten::mm", "Model::step" or "cublasSgemm_v2"; NO_BACKTRACE
            for launches without a stack.
        launches: number of kernels and graphs.
        total_ns: sum of their durations.
        share: of the kernel time of all launches.
        kernels: number of different kernels.
        kernel: the one that takes most of the time.
        kernel_ns: its time.
    """

    code: str
    launches: int
    total_ns: int
    share: float
    kernels: int
    kernel: str
    kernel_ns: int


def tabulate_code(
    trace: Trace, details: LaunchDetails, rows: Ints, kernels: Sequence[KernelTime]
) -> tuple[CodeTime, ...]:
    """Kernel time by the code that launched it, the longest first; none where no launch has a stack.

    Args:
        trace: the trace.
        details: of its launches.
        rows: shape (launches,), rows of ``trace.launches`` that count.
        kernels: what they ran.
    """
    rows = rows[details.is_compute[rows]]
    stack = trace.stacks.find(details.call[rows])
    if not (stack != NO_STACK).any():
        return ()
    of_stack, codes = find_codes(trace)
    # The last entry is that of NO_STACK, which is -1.
    code, texts = np.append(of_stack, len(codes))[stack], [*codes, NO_BACKTRACE]
    return sum_by_code(trace, details, rows, kernels, code, texts)


def sum_by_code(
    trace: Trace,
    details: LaunchDetails,
    rows: Ints,
    kernels: Sequence[KernelTime],
    code: Ints,
    texts: Sequence[str],
) -> tuple[CodeTime, ...]:
    """Kernel time by code, the longest first.

    Args:
        trace: the trace.
        details: of its launches.
        rows: shape (launches,), rows of ``trace.launches`` that are kernels or graphs.
        kernels: what they ran.
        code: shape (launches,), index into ``texts``.
        texts: what the code is called.
    """
    names = {(one.kind, one.full_name): one.name for one in kernels}
    whole_ns = int(details.duration_ns[rows].sum())
    found = []
    for number, uses in _group_uses(trace, details, rows, code).items():
        times: defaultdict[str, int] = defaultdict(int)
        for use in uses:
            shape = trace.shapes[use.shape]
            times[names[shape.kind, shape.full_name or shape.name]] += use.total_ns
        kernel = min(times, key=lambda name: (-times[name], name))
        own_ns = sum(times.values())
        found.append(
            CodeTime(
                code=texts[number],
                launches=sum(use.launches for use in uses),
                total_ns=own_ns,
                share=own_ns / whole_ns if whole_ns else 0.0,
                kernels=len(times),
                kernel=kernel,
                kernel_ns=times[kernel],
            )
        )
    return tuple(sorted(found, key=lambda one: (-one.total_ns, one.code)))


class _Use(NamedTuple):
    """Launches of one shape by one piece of code."""

    shape: int
    launches: int
    total_ns: int


def _group_uses(trace: Trace, details: LaunchDetails, rows: Ints, code: Ints) -> dict[int, list[_Use]]:
    """What each piece of code launched.

    Args:
        trace: the trace.
        details: of its launches.
        rows: shape (launches,).
        code: shape (launches,), number of the code of each.
    """
    shape = trace.launches.shape[rows].astype(np.int64)
    group, groups = rank_groups(code, shape)
    total_ns = np.zeros(groups, np.int64)
    np.add.at(total_ns, group, details.duration_ns[rows])
    one = np.zeros(groups, np.int64)
    one[group] = np.arange(len(rows))
    columns = (code[one], shape[one], np.bincount(group, minlength=groups), total_ns)
    uses: defaultdict[int, list[_Use]] = defaultdict(list)
    for number, *use in zip(*(column.tolist() for column in columns), strict=True):
        uses[number].append(_Use(*use))
    return uses


def note_stacks(trace: Trace, details: LaunchDetails, rows: Ints) -> tuple[str, ...]:
    """A sentence on launches without a stack, where these are most.

    Args:
        trace: the trace.
        details: of its launches.
        rows: shape (launches,), rows of ``trace.launches`` that count.
    """
    if not len(trace.stacks.of_call):
        return ()
    rows = rows[details.is_compute[rows]]
    lacks = trace.stacks.find(details.call[rows]) == NO_STACK
    duration_ns = details.duration_ns[rows]
    share = duration_ns[lacks].sum() / max(duration_ns.sum(), 1)
    if not len(rows) or max(share, lacks.mean()) < _MOST:
        return ()
    what = (
        f"{int(lacks.sum()):,} of {count(len(rows), 'launch', 'launches')}, with {100 * share:.0f} % of the kernel "
        f"time, {'has' if lacks.sum() == 1 else 'have'} no backtrace"
    )
    without = _find_unstacked(trace, details.call[rows], lacks)
    if without:
        return (f"{what}: nsys recorded none of {name_some(without)}",)
    remedy = (
        "by default nsys records those of calls longer than 80 us only; record with `--cudabacktrace=kernel:0`, "
        "and with sampling of the CPU on (`--sample=process-tree`)"
    )
    return (f"{what}: {remedy}",)


def _find_unstacked(trace: Trace, call: Ints, lacks: Flags) -> list[str]:
    """Functions that made all launches without a stack, and no other; none where others lack some, too."""
    known = call != NO_CALL
    without = distinct(trace.calls.name[call[lacks & known]])
    others = distinct(trace.calls.name[call[~lacks & known]])
    if not len(others) or np.isin(without, others).any():
        return []
    return list(dict.fromkeys(function_name(trace.strings[number]) for number in without.tolist()))


def find_codes(trace: Trace) -> tuple[Ints, list[str]]:
    """What launched, by stack.

    Args:
        trace: one with stacks.

    Returns:
        Shape (stacks,), number of each stack's code; and the different codes.
    """
    stacks = trace.stacks
    role, label, labels = _classify_frames(stacks, _name_kernels(trace))
    edges = np.flatnonzero(np.diff(stacks.stack)) + 1
    starts = np.concatenate([[0], edges]).astype(np.int64)
    frames = len(stacks)
    place = np.arange(frames)

    def first(is_fit: Flags) -> Ints:
        """The innermost frame of each stack that fits; ``frames`` where none does."""
        return np.minimum.reduceat(np.where(is_fit, place, frames), starts)

    def last(is_fit: Flags) -> Ints:
        """The outermost frame; -1 where none fits."""
        return np.maximum.reduceat(np.where(is_fit, place, -1), starts)

    node, engine = first(role == Role.NODE), first(role == Role.ENGINE)
    backward = np.where(node < frames, node, engine)
    # Outside of the backward pass every frame lies before the bound.
    operator = last((role == Role.OPERATOR) & (place < backward[stacks.stack]))
    name = np.where((operator < 0) & (node < frames), frames, operator)
    for wanted, is_innermost in _NAMING:
        found = first(role == wanted) if is_innermost else last(role == wanted)
        name = np.where((name < 0) & (found >= 0) & (found < frames), found, name)
    # One more label stands for a part that is missing.
    padded = np.append(label, len(labels))
    prefix, name = padded[np.minimum(backward, frames)], np.append(padded, len(labels))[name]
    code, codes = rank_groups(prefix, name)
    one = np.zeros(codes, np.int64)
    one[code] = np.arange(len(code))
    texts = [*labels, ""]
    pairs = zip(prefix[one].tolist(), name[one].tolist(), strict=True)
    return code, [": ".join(filter(None, (texts[left], texts[right]))) or _UNKNOWN for left, right in pairs]


def _classify_frames(
    stacks: CallStacks, kernels: frozenset[str]
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int64], list[str]]:
    """Role and number of the label of each frame, shape (frames,) each; and the labels."""
    pair, pairs = rank_groups(stacks.module.astype(np.int64), stacks.symbol.astype(np.int64))
    one = np.zeros(pairs, np.int64)
    one[pair] = np.arange(len(pair))
    numbers: dict[str, int] = {}
    roles, labels = np.zeros(pairs, np.int8), np.zeros(pairs, np.int64)
    for number, (symbol, module) in enumerate(
        zip(stacks.symbol[one].tolist(), stacks.module[one].tolist(), strict=True)
    ):
        text = "" if symbol == UNRESOLVED else stacks.names[symbol]
        part = classify(text, stacks.names[module], kernels)
        roles[number] = part.role
        labels[number] = numbers.setdefault(part.label, len(numbers))
    return roles[pair], labels[pair], list(numbers)


def _name_kernels(trace: Trace) -> frozenset[str]:
    return frozenset(scoped_name(shape.full_name) for shape in trace.shapes if shape.kind == "kernel")
