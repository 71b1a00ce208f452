"""Which process launched what ran on a device, where a trace holds several processes: its device events do not say.

A launch and its call have one correlation id. Where calls of several processes have it, what is known of the other
launches of the same track (one device of one file) decides, or nothing does.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pytest_nsight.model.sorted_keys import rank_groups, rank_values
from pytest_nsight.model.trace import SHARED_CORRELATION, Calls, Flags, Ints, Launches

_CLOCK_ERROR_NS = 100_000
"""A kernel may seem to start so long before its call: the clocks of host and device differ."""


@dataclass(frozen=True, slots=True)
class _Candidates:
    """Launches with the calls that may have made them, shape (pairs,) each: one for each process with the id.

    Attributes:
        launch: row of the launch.
        call: row of the call.
        process: rank of the call's process.
        track: of the launch.
        makes_many: whether one such call makes several launches, as that of a graph does.
        is_late: whether the call begins after the launch.
    """

    launch: Ints
    call: Ints
    process: Ints
    track: Ints
    makes_many: Flags
    is_late: Flags

    def __len__(self) -> int:
        return len(self.launch)

    def drop(self, is_wrong: Flags) -> _Candidates:
        """Without the wrong pairs; a launch that would lose all keeps all."""
        has_other = np.zeros(int(self.launch.max(initial=-1)) + 1, np.bool_)
        has_other[self.launch[~is_wrong]] = True
        chosen = ~is_wrong | ~has_other[self.launch]
        return _Candidates(*(getattr(self, field.name)[chosen] for field in dataclasses.fields(self)))

    def find_single(self) -> Flags:
        """Shape (pairs,): whether the pair is the only one of its launch."""
        found: Flags = np.bincount(self.launch, minlength=1)[self.launch] == 1
        return found


def assign_processes(
    launches: Launches, calls: Calls, strings: Sequence[str], track: Ints, owners: Mapping[int, int]
) -> Launches:
    """The launches of one file with the process of their call.

    Args:
        launches: of a device; their process is that of launches whose own stays unknown.
        calls: of the same file, of several processes.
        strings: the names that the calls point into.
        track: shape (launches,), the process id that the file gives each launch: one of its device.
        owners: track -> process, where the file says it.

    Returns:
        The same rows. Where calls of several processes may have made a launch, its correlation is
        SHARED_CORRELATION; its process is then, as that of a launch without a call, the one with most launches on
        its track.
    """
    stated: Flags = np.zeros(len(launches), np.bool_)
    process = launches.process.copy()
    for one, owner in owners.items():
        stated |= track == one
        process[track == one] = owner
    if not len(calls):
        return dataclasses.replace(launches, process=process)
    tracks, number = rank_groups(track, launches.device.astype(np.int64))
    processes, ranks = rank_values(calls.process)
    makes_many = np.array(["Graph" in name for name in strings] or [False], np.bool_)[calls.name]
    pairs = _pair(launches, calls, ranks, makes_many, tracks, stated)
    is_open = len(pairs) > len(launches) or not pairs.find_single().all()
    for _ in range(len(processes) + 1 if is_open else 0):
        fewer = _drop_taken(_drop_foreign(pairs.drop(pairs.is_late), number, len(processes)))
        is_done, pairs = len(fewer) == len(pairs), fewer
        if is_done:
            break
    single = pairs.find_single()
    counts = np.zeros((number, len(processes)), np.int64)
    np.add.at(counts, (pairs.track[single], pairs.process[single]), 1)
    is_known = ~stated & (counts.sum(1) > 0)[tracks]
    process[is_known] = processes[counts.argmax(1)[tracks[is_known]]]
    process[pairs.launch[single]] = processes[pairs.process[single]]
    correlation = launches.correlation.copy()
    correlation[pairs.launch[~single]] = SHARED_CORRELATION
    return dataclasses.replace(launches, process=process, correlation=correlation)


def _pair(
    launches: Launches, calls: Calls, ranks: Ints, makes_many: Flags, tracks: Ints, stated: Flags
) -> _Candidates:
    """Each launch with the first call of each process that has its id."""
    order = np.lexsort((calls.start_ns, ranks, calls.correlation))
    order = order[calls.correlation[order] != 0]
    ids, owner = calls.correlation[order], ranks[order]
    is_first: Flags = np.ones(len(order), np.bool_)
    is_first[1:] = (ids[1:] != ids[:-1]) | (owner[1:] != owner[:-1])
    order, ids = order[is_first], ids[is_first]
    low, high = (np.searchsorted(ids, launches.correlation, side) for side in ("left", "right"))
    counts = np.where(stated, 0, high - low)
    launch = np.repeat(np.arange(len(launches)), counts)
    position = np.arange(len(launch)) - np.repeat(np.cumsum(counts) - counts, counts)
    call = order[low[launch] + position]
    is_late = calls.start_ns[call] > launches.start_ns[launch] + _CLOCK_ERROR_NS
    return _Candidates(launch, call, ranks[call], tracks[launch], makes_many[call], is_late)


def _drop_foreign(pairs: _Candidates, tracks: int, processes: int) -> _Candidates:
    """Without other processes on tracks where just one can have made all launches, each by a call of its own."""
    place = pairs.track * processes + pairs.process
    explained = np.bincount(place, minlength=tracks * processes).reshape(tracks, processes)
    is_first = np.ones(len(pairs), np.bool_)
    is_first[1:] = pairs.launch[1:] != pairs.launch[:-1]
    total = np.bincount(pairs.track[is_first], minlength=tracks)
    may_own = explained == total[:, np.newaxis]
    use, _ = rank_groups(pairs.track, pairs.call)
    is_again = (np.bincount(use, minlength=1)[use] > 1) & ~pairs.makes_many
    may_own[pairs.track[is_again], pairs.process[is_again]] = False
    has_owner = (may_own.sum(1) == 1)[pairs.track]
    return pairs.drop(has_owner & ~may_own[pairs.track, pairs.process])


def _drop_taken(pairs: _Candidates) -> _Candidates:
    """Without calls that certainly made another launch; a graph's makes several, taken to be on one device."""
    single = pairs.find_single()
    taken_by = np.full(int(pairs.call.max(initial=-1)) + 1, -1, np.int64)
    taken_by[pairs.call[single]] = pairs.track[single]
    track = taken_by[pairs.call]
    is_wrong = (track >= 0) & ~(pairs.makes_many & (track == pairs.track))
    return pairs.drop(~single & is_wrong)
