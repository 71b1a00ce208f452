"""Sequences of small kernels that fusion or a CUDA graph would shorten, with the time at stake. Pure.

Two kernels belong together if one follows the other on a stream. Pairs that follow one another about equally often
are joined into one sequence, so a layer's chain of kernels is one row, whatever the number of layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pytest_nsight.analysis.timeline import Timeline
from pytest_nsight.model.sorted_keys import rank_values
from pytest_nsight.model.trace import Flags, Ints, Trace

SMALL_NS = 10_000
"""A kernel shorter than this takes about as long as its launch."""
_APART_NS = 1_000_000
"""Kernels further apart than this do not belong to one sequence."""
_FEWEST = 3
"""Sequences that occur less often are no pattern."""
_LONGEST = 16
_ALIKE = 0.8
FUSIBLE = frozenset({"elementwise", "normalisation", "softmax", "reduction", "memory"})
"""Categories whose kernels a compiler can fuse with their neighbours."""


@dataclass(frozen=True, slots=True)
class KernelSequence:
    """Small kernels that follow one another again and again.

    Attributes:
        names: normalised names, in order.
        count: how often the sequence occurs; equal kernels in a row count in twos.
        kernel_ns: time of its kernels, each launch once; neighbouring sequences may share some.
        gap_ns: time between its kernels in which the device is idle, all occurrences: what a CUDA graph would save
            most of.
        is_fusible: whether all of its kernels are of categories that a compiler fuses.
    """

    names: tuple[str, ...]
    count: int
    kernel_ns: int
    gap_ns: int
    is_fusible: bool


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Distinct pairs of kernels that follow one another, shape (pairs,) each.

    Attributes:
        first: number of the first kernel's name.
        second: of the second one's.
        count: how often the pair occurs; a row of equal kernels counts in twos.
        gap_ns: idle time of the device from one kernel to the other, all occurrences.
        codes: shape (occurrences,), the pair of each.
    """

    first: Ints
    second: Ints
    count: Ints
    gap_ns: Ints
    codes: Ints


def find_sequences(
    trace: Trace, rows: Ints, timeline: Timeline, categories: Sequence[str]
) -> tuple[KernelSequence, ...]:
    """Sequences of small kernels, those with the most time at stake first.

    Args:
        trace: the trace.
        rows: shape (launches,), rows of ``trace.launches`` that count.
        timeline: of the trace.
        categories: category of each shape.
    """
    launches = trace.launches
    is_kernel = np.array([shape.kind == "kernel" for shape in trace.shapes], np.bool_)
    if not is_kernel.any() or not len(rows):
        return ()
    kernels = rows[is_kernel[launches.shape[rows]] & (launches.graph_node[rows] == 0)]
    device = timeline.device
    order = kernels[np.lexsort((launches.start_ns[kernels], launches.stream[kernels], device[kernels]))]
    duration_ns = launches.end_ns[order] - launches.start_ns[order]
    names = {name: number for number, name in enumerate(dict.fromkeys(shape.name for shape in trace.shapes))}
    name = np.array([names[shape.name] for shape in trace.shapes], np.int64)[launches.shape[order]]
    is_near = _follow(trace, order, device) & (duration_ns[:-1] < SMALL_NS) & (duration_ns[1:] < SMALL_NS)
    at = np.flatnonzero(is_near)
    gap_ns = _measure_idle(trace, timeline, order, at)
    pairs = _count_pairs(at, name, gap_ns, len(names))
    chains = _join(pairs)
    times_ns = _time_chains(chains, pairs, at, duration_ns)
    category = {shape.name: categories[number] for number, shape in enumerate(trace.shapes)}
    found = [
        _describe(chain, pairs, list(names), time_ns, category)
        for chain, time_ns in zip(chains, times_ns, strict=True)
    ]
    return tuple(sorted(found, key=lambda one: (-(one.gap_ns + one.kernel_ns * one.is_fusible), one.names)))


def _measure_idle(trace: Trace, timeline: Timeline, order: Ints, at: Ints) -> Ints:
    """How long the device is idle between some launches and the ones that follow them; no instant counts twice.

    Args:
        trace: the trace.
        timeline: of the trace.
        order: shape (kernels,), rows of ``trace.launches`` by device, stream and start.
        at: places in `order`.
    """
    launches, line = trace.launches, timeline.device
    begin_ns, end_ns = launches.end_ns[order[at]], launches.start_ns[order[at + 1]]
    streams = 1 + np.count_nonzero(np.diff(launches.stream[order]) | np.diff(line[order]))
    # With one stream for each device, and kernels alone, nothing else can run in the gap.
    if streams <= timeline.axis.lines and len(order) == len(launches):
        gap_ns: Ints = np.maximum(end_ns - begin_ns, 0)
        return gap_ns
    place = timeline.axis.place
    low, high = place(line[order[at]], begin_ns), place(line[order[at]], end_ns)
    by_start = np.argsort(low, kind="stable")
    reached = np.maximum.accumulate(high[by_start])
    # Streams may be idle at the same time: it counts for the gap that began first.
    low[by_start[1:]] = np.maximum(low[by_start[1:]], reached[:-1])
    high = np.maximum(low, high)
    return high - low - timeline.busy.covered(low, high)


def _follow(trace: Trace, order: Ints, device: Ints) -> Flags:
    """Whether each launch and the next one are close together on one stream."""
    launches = trace.launches
    stream, line = launches.stream[order], device[order]
    gap_ns = launches.start_ns[order][1:] - launches.end_ns[order][:-1]
    follows: Flags = (stream[1:] == stream[:-1]) & (line[1:] == line[:-1]) & (gap_ns < _APART_NS)
    return follows


def _count_pairs(at: Ints, name: Ints, gap_ns: Ints, names: int) -> _Pairs:
    """The pairs that begin at some places.

    Args:
        at: shape (occurrences,), ascending.
        name: shape (launches,), number of each launch's name.
        gap_ns: shape (occurrences,).
        names: how many there are.
    """
    first, second = name[at], name[at + 1]
    keys, codes = rank_values(first * names + second)
    totals = np.zeros(len(keys), np.int64)
    np.add.at(totals, codes, gap_ns)
    # In a row of equal kernels every kernel but two is in two pairs: every other pair counts.
    goes_on = np.append(False, (np.diff(at) == 1) & (codes[1:] == codes[:-1])) if len(at) else np.zeros(0, np.bool_)
    begins = np.maximum.accumulate(np.where(goes_on, 0, np.arange(len(at))))
    is_counted = (first != second) | ((np.arange(len(at)) - begins) % 2 == 0)
    counts = np.bincount(codes[is_counted], minlength=len(keys))
    return _Pairs(keys // max(names, 1), keys % max(names, 1), counts, totals, codes)


def _time_chains(chains: Sequence[Sequence[int]], pairs: _Pairs, at: Ints, duration_ns: Ints) -> list[int]:
    """The time of the kernels of each chain, each launch once."""
    chain_of = np.full(len(pairs.count), -1, np.int64)
    for number, members in enumerate(chains):
        chain_of[members] = number
    chain = chain_of[pairs.codes]
    at, chain = at[chain >= 0], chain[chain >= 0]
    # Where the next pair goes on with this one's second kernel, that kernel is the next pair's first one.
    is_last = np.append((np.diff(at) != 1) | (chain[1:] != chain[:-1]), True) if len(at) else np.zeros(0, np.bool_)
    totals = np.zeros(len(chains), np.int64)
    np.add.at(totals, chain, duration_ns[at] + duration_ns[at + 1] * is_last)
    return [int(total) for total in totals]


def _join(pairs: _Pairs) -> list[list[int]]:
    """Chains of pairs, each pair in one chain, begun with the most frequent pair."""
    unused = {
        number for number in np.argsort(-pairs.count, kind="stable").tolist() if pairs.count[number] >= _FEWEST
    }
    after: dict[int, list[int]] = {}
    before: dict[int, list[int]] = {}
    for number in sorted(unused):
        after.setdefault(int(pairs.first[number]), []).append(number)
        before.setdefault(int(pairs.second[number]), []).append(number)
    chains = []
    for number in sorted(unused, key=lambda one: (-int(pairs.count[one]), one)):
        if number not in unused:
            continue
        unused.discard(number)
        chain = [number]
        while len(chain) < _LONGEST and (
            found := _pick(after.get(int(pairs.second[chain[-1]]), ()), pairs, unused, number)
        ):
            chain.append(found[0])
        while len(chain) < _LONGEST and (
            found := _pick(before.get(int(pairs.first[chain[0]]), ()), pairs, unused, number)
        ):
            chain.insert(0, found[0])
        chains.append(chain)
    return chains


def _pick(candidates: Sequence[int], pairs: _Pairs, unused: set[int], like: int) -> tuple[int, ...]:
    """The most frequent candidate that occurs about as often as a pair; it is no longer unused."""
    wanted = int(pairs.count[like])
    fitting = [
        one for one in candidates if one in unused and _ALIKE * wanted <= pairs.count[one] <= wanted / _ALIKE
    ]
    if not fitting:
        return ()
    best = max(fitting, key=lambda one: (int(pairs.count[one]), -one))
    unused.discard(best)
    return (best,)


def _describe(
    chain: Sequence[int], pairs: _Pairs, names: Sequence[str], kernel_ns: int, category: dict[str, str]
) -> KernelSequence:
    members = [int(pairs.first[chain[0]]), *(int(pairs.second[one]) for one in chain)]
    texts = tuple(names[member] for member in members)
    return KernelSequence(
        names=texts,
        count=int(min(pairs.count[one] for one in chain)),
        kernel_ns=kernel_ns,
        gap_ns=int(sum(int(pairs.gap_ns[one]) for one in chain)),
        is_fusible=all(category[text] in FUSIBLE for text in texts),
    )
