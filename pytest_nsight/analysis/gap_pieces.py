"""Gaps of devices cut into pieces, each with its cause: by the moments at which the host went on. Pure.

`explained_gaps.py` gives the rules. A gap whose launch was not queued has these moments, in order: it starts; the
thread returns from a wait that lasted into it (free); it enters the last wait before the launch (began) and returns
from it (ready); it calls the launch (called) and returns (done); the launch begins, which ends the gap. Moments
without a wait coincide.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pytest_nsight.analysis.gap_launches import Gaps, Waits
from pytest_nsight.analysis.idle_causes import HOST_GAP_NS, IdleCause
from pytest_nsight.analysis.intervals import TimeSet
from pytest_nsight.model.trace import Flags, Ints

Parts = list[tuple[Ints, Ints, Ints]]
"""Row of the gap, start and end of each piece."""
Pieces = dict[IdleCause, Parts]

_WAITS = (IdleCause.SYNCHRONISATION, IdleCause.BLOCKING_COPY)
_PREPARATIONS = (IdleCause.ALLOCATION, IdleCause.LOADING)


@dataclass(frozen=True, slots=True)
class _Moments:
    """The moments of each gap, shape (gaps,) each; and which gaps the host has no part in.

    Attributes:
        free_ns: when the thread returned from the wait that lasted into the gap.
        began_ns: when it entered its last wait before the launch.
        ready_ns: when it returned from that; the start of the gap where the launch was queued.
        called_ns: when it called the launch, within the gap.
        done_ns: when the call had returned; from then on the device could have begun.
        end_ns: the end of the gap, or `done_ns` where the launch waited for other work.
        is_queued: whether the call had returned before the gap.
        is_dependent: whether the launch waited for other work.
    """

    free_ns: Ints
    began_ns: Ints
    ready_ns: Ints
    called_ns: Ints
    done_ns: Ints
    end_ns: Ints
    is_queued: Flags
    is_dependent: Flags

    @classmethod
    def of(cls, gaps: Gaps, first: Waits, last: Waits) -> _Moments:
        """Those of the gaps with these waits, see `cut_gaps`."""
        called_ns = np.clip(gaps.called_ns, gaps.start_ns, gaps.end_ns)
        is_queued = np.where(gaps.is_kernel, gaps.returned_ns, gaps.called_ns) <= gaps.start_ns
        done_ns = np.maximum(gaps.returned_ns, gaps.start_ns)
        is_dependent = gaps.end_ns - done_ns > HOST_GAP_NS
        ready_ns = np.where(is_queued, gaps.start_ns, np.minimum(last.returned_ns, called_ns))
        began_ns = np.minimum(last.began_ns, ready_ns)
        return cls(
            free_ns=np.minimum(first.returned_ns, began_ns),
            began_ns=began_ns,
            ready_ns=ready_ns,
            called_ns=called_ns,
            done_ns=done_ns,
            end_ns=np.where(is_dependent, done_ns, gaps.end_ns),
            is_queued=is_queued,
            is_dependent=is_dependent,
        )

    @property
    def windows(self) -> tuple[tuple[Ints, Ints], tuple[Ints, Ints]]:
        """Begin and end of the two stretches in which the thread did not wait and the launch was not called."""
        return (self.free_ns, self.began_ns), (self.ready_ns, self.called_ns)


@dataclass(frozen=True, slots=True)
class _Kinds:
    """What the host did in each gap, as far as it decides the cause; shape (gaps,) each.

    Attributes:
        is_host: whether the thread was outside of CUDA for long.
        is_slow: whether the call of the launch itself took long.
        is_calling: whether calls of CUDA other than waits account for the gap.
        is_blocked: whether the thread waited in it, and could not launch ahead.
        allocating_ns: time in calls that allocate memory, outside of waits.
        loading_ns: the same of calls that load kernels.
        waiting_ns: time in waits between the first wait and the last, such as for another device.
    """

    is_host: Flags
    is_slow: Flags
    is_calling: Flags
    is_blocked: Flags
    allocating_ns: Ints
    loading_ns: Ints
    waiting_ns: Ints

    @classmethod
    def of(cls, gaps: Gaps, last: Waits, moments: _Moments, inside: Mapping[IdleCause, TimeSet]) -> _Kinds:
        """Those of the gaps with these moments, see `cut_gaps`."""
        (free_ns, began_ns), (ready_ns, called_ns) = moments.windows

        def measure(cause: IdleCause) -> tuple[Ints, Ints]:
            before, after = (measure_inside(inside[cause], gaps, *window) for window in moments.windows)
            return before, after

        before_ns, inside_ns = measure(IdleCause.LAUNCH)
        outside_ns = began_ns - free_ns - before_ns + called_ns - ready_ns - inside_ns
        is_host = (outside_ns > HOST_GAP_NS) & ~moments.is_queued
        is_slow = gaps.is_kernel & (gaps.returned_ns - called_ns > HOST_GAP_NS) & ~moments.is_queued
        return cls(
            is_host=is_host,
            is_slow=is_slow,
            is_calling=~is_host & ~moments.is_queued & (is_slow | (2 * inside_ns > called_ns - ready_ns)),
            is_blocked=(last.returned_ns > gaps.start_ns) & ~moments.is_queued,
            allocating_ns=np.add(*measure(IdleCause.ALLOCATION)),
            loading_ns=np.add(*measure(IdleCause.LOADING)),
            waiting_ns=np.add(*(measure_inside(inside[cause], gaps, free_ns, began_ns) for cause in _WAITS)),
        )


class _Cut:
    """Collects pieces of gaps by their cause."""

    def __init__(self) -> None:
        self.pieces: Pieces = {cause: [] for cause in IdleCause}

    def add(self, cause: IdleCause, chosen: Flags, start_ns: Ints, end_ns: Ints) -> None:
        """A piece of each of the chosen gaps."""
        rows = np.flatnonzero(chosen)
        self.pieces[cause].append((rows, start_ns[rows], end_ns[rows]))

    def add_wait(self, chosen: Flags, is_copy: Flags, start_ns: Ints, end_ns: Ints) -> None:
        """A piece in which the host waited, for a copy or in a call that synchronises."""
        self.add(IdleCause.SYNCHRONISATION, chosen & ~is_copy, start_ns, end_ns)
        self.add(IdleCause.BLOCKING_COPY, chosen & is_copy, start_ns, end_ns)

    def add_launch(self, chosen: Flags, is_loaded: Flags, start_ns: Ints, end_ns: Ints) -> None:
        """A piece that the next launch accounts for, or the loading of its kernel."""
        self.add(IdleCause.LAUNCH, chosen & ~is_loaded, start_ns, end_ns)
        self.add(IdleCause.LOADING, chosen & is_loaded, start_ns, end_ns)


def cut_gaps(gaps: Gaps, waits: tuple[Waits, Waits], inside: Mapping[IdleCause, TimeSet]) -> tuple[Pieces, Pieces]:
    """The gaps in pieces, each with its cause; and parts of these pieces that have a cause of their own.

    Args:
        gaps: the gaps.
        waits: of each gap: the last one before it, if it lasted into it, and the last one before the next launch.
        inside: when threads are in calls of a kind; of LAUNCH, in any.
    """
    first, last = waits
    moments = _Moments.of(gaps, first, last)
    kinds = _Kinds.of(gaps, last, moments, inside)
    is_loaded, end_ns = kinds.is_slow & gaps.is_first, moments.end_ns
    is_late = kinds.is_blocked & ~kinds.is_host & ~kinds.is_calling
    is_plain = ~moments.is_queued & ~kinds.is_blocked & ~kinds.is_host & ~kinds.is_calling
    cut = _Cut()
    cut.add(IdleCause.QUEUED, moments.is_queued, gaps.start_ns, end_ns)
    cut.add(IdleCause.DEPENDENCY, moments.is_dependent, moments.done_ns, gaps.end_ns)
    _cut_late(cut, gaps, waits, moments, kinds, is_late)
    cut.add_wait(kinds.is_blocked & kinds.is_calling, last.is_copy, gaps.start_ns, moments.ready_ns)
    cut.add_launch(kinds.is_calling, is_loaded, moments.ready_ns, end_ns)
    cut.add_launch(is_plain, is_loaded, gaps.start_ns, end_ns)
    cut.add_wait(kinds.is_host, first.is_copy, gaps.start_ns, moments.free_ns)
    for low_ns, high_ns in moments.windows:
        cut.add(IdleCause.HOST, kinds.is_host, low_ns, high_ns)
    cut.add_wait(kinds.is_host, last.is_copy, moments.began_ns, moments.ready_ns)
    cut.add_launch(kinds.is_host, is_loaded, moments.called_ns, end_ns)
    chosen = dict.fromkeys(_PREPARATIONS, ~is_late & ~moments.is_queued) | dict.fromkeys(_WAITS, kinds.is_host)
    return cut.pieces, _find_inside(inside, gaps, moments, chosen)


def _cut_late(
    cut: _Cut, gaps: Gaps, waits: tuple[Waits, Waits], moments: _Moments, kinds: _Kinds, is_late: Flags
) -> None:
    """Cuts the gaps in which the host waited, and did little else.

    Without the wait all that follows would come earlier. So it comes after the time that the wait costs.
    """
    first, last = waits
    is_one = first.returned_ns == last.returned_ns
    lasted_ns = np.where(is_one, last.length_ns, first.length_ns + kinds.waiting_ns + last.length_ns)
    latest_ns = moments.end_ns - kinds.allocating_ns - kinds.loading_ns
    waited_ns = np.minimum(latest_ns, np.maximum(moments.ready_ns, gaps.start_ns + lasted_ns))
    allocated_ns = waited_ns + kinds.allocating_ns
    loaded_ns = allocated_ns + kinds.loading_ns
    cut.add_wait(is_late, last.is_copy, gaps.start_ns, waited_ns)
    cut.add(IdleCause.ALLOCATION, is_late, waited_ns, allocated_ns)
    cut.add(IdleCause.LOADING, is_late, allocated_ns, loaded_ns)
    cut.add_launch(is_late, kinds.is_slow & gaps.is_first, loaded_ns, moments.end_ns)


def measure_inside(calls: TimeSet, gaps: Gaps, low_ns: Ints, high_ns: Ints) -> Ints:
    """How long the thread of each gap's launch is inside some calls between two times, shape (gaps,)."""
    found = np.zeros(len(low_ns), np.int64)
    if len(calls.start) and len(rows := np.flatnonzero(low_ns < high_ns)):
        low, high = (calls.axis.place(gaps.thread[rows], time_ns[rows]) for time_ns in (low_ns, high_ns))
        found[rows] = calls.covered(low, high)
    return found


def _cut_out(calls: TimeSet, gaps: Gaps, low_ns: Ints, high_ns: Ints) -> tuple[Ints, Ints, Ints]:
    """Row of the gap, start and end of each piece between two times in which its thread is inside some calls."""
    rows = np.flatnonzero(low_ns < high_ns)
    low, high = (calls.axis.place(gaps.thread[rows], time_ns[rows]) for time_ns in (low_ns, high_ns))
    begin = np.searchsorted(calls.end, low, side="right")
    pieces = np.maximum(np.searchsorted(calls.start, high) - begin, 0)
    of_row = np.repeat(np.arange(len(rows)), pieces)
    call = np.arange(len(of_row)) - np.repeat(np.cumsum(pieces) - pieces, pieces) + begin[of_row]
    row = rows[of_row]
    start, end = np.maximum(calls.start[call], low[of_row]), np.minimum(calls.end[call], high[of_row])
    return row, low_ns[row] + start - low[of_row], low_ns[row] + end - low[of_row]


def _find_inside(
    inside: Mapping[IdleCause, TimeSet], gaps: Gaps, moments: _Moments, chosen: Mapping[IdleCause, Flags]
) -> Pieces:
    """The pieces of some gaps in which the thread is in calls of a kind, outside of the first wait and the last.

    Args:
        inside: when threads are in calls of a kind.
        gaps: the gaps.
        moments: of the gaps.
        chosen: kind -> which gaps, shape (gaps,).
    """
    return {
        cause: [_cut_out(inside[cause], gaps, low, np.where(flags, high, low)) for low, high in moments.windows]
        for cause, flags in chosen.items()
    }
