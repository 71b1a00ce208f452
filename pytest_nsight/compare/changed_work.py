"""What the parts of a program launch, and wait for, another number of times than before. Pure.

A sum of times does not show that a step waits once more, or that a copy moved to another part: the total may
stay. So launches and calls that synchronise are counted by the innermost label, for each range that has it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pytest_nsight.analysis.host_waits import is_synchronisation
from pytest_nsight.analysis.range_mix import count_above
from pytest_nsight.analysis.range_tree import OUTSIDE
from pytest_nsight.compare.labelled_ranges import LabelledRanges
from pytest_nsight.model.api_calls import flag_calls, function_name
from pytest_nsight.model.shapes import COMPUTE_KINDS
from pytest_nsight.model.trace import Ints
from pytest_nsight.model.units import name_some
from pytest_nsight.trace.attribution import Membership

_MOST_LABELS = 200
"""That are counted: those with the most ranges among the leading ones."""
_MOST_SENTENCES, _MOST_NAMES = 8, 6
_HALF = 0.5
"""Of a launch in each range, which has to come or go where the traces have other numbers of ranges."""


@dataclass(frozen=True, slots=True)
class _CountedWork:
    """What the ranges of one label do themselves, outside of further labels.

    Attributes:
        ranges: how many of them there are; 1 for what is outside of all.
        counts: name of a kernel, a copy or a call that synchronises -> how often.
    """

    ranges: int
    counts: Mapping[str, int]


def note_changed_work(before: LabelledRanges, after: LabelledRanges) -> tuple[str, ...]:
    """A sentence for each label whose ranges launch, or wait, another number of times; what only moved has its own.

    Args:
        before: the baseline.
        after: the optimized trace.
    """
    labels = _choose_labels(before, after)
    old, new = (_count_by_label(ranges, labels) for ranges in (before, after))
    # Outside of all ranges nothing says how many steps there are.
    is_outside_comparable = (bool(labels) and all(old[label].ranges == new[label].ranges for label in labels)) or (
        not _is_other_number_of_steps(old[OUTSIDE].counts, new[OUTSIDE].counts)
    )
    changes: dict[tuple[str, str], tuple[float, float]] = {}
    for label in (*labels, OUTSIDE) if is_outside_comparable else labels:
        one, other = old[label], new[label]
        if not (one.ranges and other.ranges):
            continue
        for name in dict.fromkeys((*one.counts, *other.counts)):
            pair = one.counts.get(name, 0) / one.ranges, other.counts.get(name, 0) / other.ranges
            if pair[0] != pair[1] and (one.ranges == other.ranges or abs(pair[1] - pair[0]) >= _HALF):
                changes[label, name] = pair
    moves = _find_moves(changes, {label: old[label].ranges for label in (*labels, OUTSIDE)})
    left = {key: pair for key, pair in changes.items() if key not in moves}
    sentences = [*_describe_moves(moves), *_describe_changes(left, has_labels=bool(labels))]
    return tuple(sentences[:_MOST_SENTENCES])


def _choose_labels(*traces: LabelledRanges) -> list[str]:
    """The leading labels, those of the outermost ranges first."""
    depths: dict[str, int] = {}
    sizes: Counter[str] = Counter()
    for ranges in traces:
        table = ranges.table
        depth = count_above(table.parent, np.ones(len(table.parent), np.bool_))
        least = np.full(len(table.labels), len(depth))
        np.minimum.at(least, table.label, depth)
        found = np.bincount(table.label, minlength=len(table.labels))
        for label, size, depth_of_label in zip(table.labels, found.tolist(), least.tolist(), strict=True):
            if label in ranges.leading:
                sizes[label] += size
                depths[label] = max(depth_of_label, depths.get(label, 0))
    return sorted((label for label, _ in sizes.most_common(_MOST_LABELS)), key=lambda label: (depths[label], label))


def _count_by_label(ranges: LabelledRanges, labels: Sequence[str]) -> dict[str, _CountedWork]:
    trace, table = ranges.trace, ranges.table
    shapes = [shape.name if shape.kind in COMPUTE_KINDS else shape.full_name for shape in trace.shapes]
    is_sync = flag_calls(trace, is_synchronisation)[table.costs.calling]
    texts = [function_name(text) for text in trace.strings]
    events = (
        (
            table.costs.members,
            trace.launches.shape[table.costs.placed],
            shapes,
            np.ones(len(table.costs.placed), np.bool_),
        ),
        (table.costs.waiting, trace.calls.name[table.costs.calling], texts, is_sync),
    )
    counts: dict[str, Counter[str]] = {label: Counter() for label in (*labels, OUTSIDE)}
    for members, code, names, is_counted in events:
        innermost = _find_innermost(ranges, labels, members)
        for number, label in enumerate((*labels, OUTSIDE)):
            own = code[is_counted & (innermost == (number if label != OUTSIDE else len(labels)))]
            for found, times in zip(
                *(column.tolist() for column in np.unique(own, return_counts=True)), strict=True
            ):
                counts[label][names[found]] += times
    sizes = {table.labels[number]: size for number, size in enumerate(np.bincount(table.label).tolist())}
    return {
        label: _CountedWork(1 if label == OUTSIDE else sizes.get(label, 0), own) for label, own in counts.items()
    }


def _find_innermost(ranges: LabelledRanges, labels: Sequence[str], members: Membership) -> Ints:
    """The index of the innermost label of each event, their number where it is outside of all."""
    found = np.full(len(members.covered), len(labels), np.int64)
    numbers = {label: number for number, label in enumerate(ranges.table.labels)}
    for number, label in enumerate(labels):
        if label in numbers:
            found[members.among(np.flatnonzero(ranges.table.label == numbers[label]))] = number
    return found


def _is_other_number_of_steps(before: Mapping[str, int], after: Mapping[str, int]) -> bool:
    """Whether most names that both have occur another number of times; without ranges these may be more steps."""
    shared = [name for name in before if name in after]
    return 2 * sum(before[name] != after[name] for name in shared) > len(shared)


def _find_moves(
    changes: Mapping[tuple[str, str], tuple[float, float]], ranges: Mapping[str, int]
) -> dict[tuple[str, str], str]:
    """The changes of names that one label has less often, and another one as much more often; with their way."""
    moves: dict[tuple[str, str], str] = {}
    for name in dict.fromkeys(name for _, name in changes):
        parts = {
            label: round((pair[1] - pair[0]) * ranges[label])
            for (label, other), pair in changes.items()
            if other == name
        }
        less, more = ([label for label in parts if parts[label] * sign > 0] for sign in (-1, 1))
        if len(less) == len(more) == 1 and not sum(parts.values()):
            moves[less[0], name] = moves[more[0], name] = f"{_place(less[0])} to {_place(more[0])}"
    return moves


def _describe_moves(moves: Mapping[tuple[str, str], str]) -> Iterator[str]:
    by_way: dict[str, dict[str, None]] = {}
    for (_, name), way in moves.items():
        by_way.setdefault(way, {})[name] = None
    for way, names in by_way.items():
        yield f"moved from {way}: {name_some(names, _MOST_NAMES)}"


def _describe_changes(changes: Mapping[tuple[str, str], tuple[float, float]], *, has_labels: bool) -> Iterator[str]:
    by_label: dict[str, list[tuple[str, float, float]]] = {}
    for (label, name), (old, new) in changes.items():
        by_label.setdefault(label, []).append((name, old, new))
    for label, rows in by_label.items():
        ordered = sorted(rows, key=lambda row: (-abs(row[2] - row[1]), row[0]))
        texts = [f"{name} {_write_pair(old, new)}" for name, old, new in ordered]
        outside = " outside of every range" if has_labels else ""
        what = f" of one {label}" if label != OUTSIDE else outside
        yield f"launches and waits{what} that changed: {name_some(texts, _MOST_NAMES)}"


def _write_pair(old: float, new: float) -> str:
    """Two different numbers with four significant digits, or as many as distinguish them."""
    pairs = [(f"{old:.{digits}g}", f"{new:.{digits}g}") for digits in (4, 6, 8, 17)]
    return " -> ".join(next(pair for pair in pairs if pair[0] != pair[1]))


def _place(label: str) -> str:
    return label or "outside of every range"
