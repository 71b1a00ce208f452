"""What is missing from the records of a case, found from the records themselves. Pure.

CUPTI gives the records of a process to one tool only, and reports to the other one nothing at all: no error and no
dropped record. So a record is taken as complete only if it holds what cannot have been left out:

* A round ends with a synchronisation inside its range, so the last round holds a call. What another tool has taken
  over does not come back before the next case.
* Each call that launches a kernel, and succeeds, has its kernel, unless it was captured into a CUDA graph.
* Each launch of a CUDA graph has work on the device.
* Work on the device that CUPTI could time has an end.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import numpy as np

from pytest_nsight.model.api_calls import flag_captured
from pytest_nsight.model.trace import Calls, Flags, Ints, Launches, Ranges
from pytest_nsight.model.units import count
from pytest_nsight.recorders.cupti.activity import Activity

_LAUNCH = re.compile(r"cu(da)?Launch(Cooperative)?Kernel(Ex|ExC)?(_ptsz)?(_v\d+)?")
_GRAPH_LAUNCH = re.compile(r"cu(da)?GraphLaunch(_ptsz)?(_v\d+)?")
_REMEDY = (
    "another profiler has taken CUPTI over (torch.profiler, proton, nsys, ncu: a process gives its records to one "
    "of them); take it out of the test, or measure with --nsight-collector nsys"
)


def drop_nested(calls: Calls, failed: Flags, is_driver: Flags, launches: Launches) -> tuple[Calls, Flags, Launches]:
    """The calls without those of the driver within those of the runtime: to the program both are one call.

    Args:
        calls: of both.
        failed: shape (calls,), whether each returned an error.
        is_driver: shape (calls,).
        launches: those of a call that is left out become those of the call around it.

    Returns:
        The other calls, whether they failed, and all launches.
    """
    outer = _find_outer(calls, is_driver)
    is_nested = outer >= 0
    inner = np.flatnonzero(is_nested & (calls.correlation != 0))
    inner = inner[np.argsort(calls.correlation[inner], kind="stable")]
    known = calls.correlation[inner]
    if len(known):
        at = np.minimum(np.searchsorted(known, launches.correlation), len(known) - 1)
        moved = known[at] == launches.correlation
        columns = {name: getattr(launches, name) for name in Launches.column_names()}
        columns["correlation"] = np.where(moved, calls.correlation[outer[inner[at]]], launches.correlation)
        launches = Launches(**columns)
    return calls.take(~is_nested), failed[~is_nested], launches


def _find_outer(calls: Calls, is_driver: Flags) -> Ints:
    """The call of the runtime around each call of the driver on its thread, -1 where there is none."""
    outer = np.full(len(calls), -1, np.int64)
    for thread in np.unique(calls.thread):
        own = calls.thread == thread
        runtime = np.flatnonzero(own & ~is_driver)
        runtime = runtime[np.argsort(calls.start_ns[runtime], kind="stable")]
        driver = np.flatnonzero(own & is_driver)
        if not len(runtime):
            continue
        at = np.searchsorted(calls.start_ns[runtime], calls.start_ns[driver], side="right") - 1
        around = runtime[np.maximum(at, 0)]
        is_inside = (at >= 0) & (calls.end_ns[driver] <= calls.end_ns[around])
        outer[driver[is_inside]] = around[is_inside]
    return outer


def find_loss(
    rounds: Ranges, calls: Calls, failed: Flags, launches: Launches, strings: Sequence[str], dropped: int
) -> str:
    """What is missing, why, and what to do: a sentence without its full stop, "" where nothing is.

    Args:
        rounds: the ranges of the rounds, and those between them; they do not overlap.
        calls: without nested ones.
        failed: shape (calls,), whether each returned an error.
        launches: what the calls launched.
        strings: names of the calls.
        dropped: records that CUPTI itself says it lost.
    """
    if dropped:
        lost = count(dropped, "record")
        return f"CUPTI has dropped {lost} because its memory was full; measure fewer rounds, or free memory"
    order = np.argsort(rounds.start_ns, kind="stable")
    start_ns, end_ns = rounds.start_ns[order], rounds.end_ns[order]
    if not len(order):
        return ""
    at = np.searchsorted(start_ns, calls.start_ns, side="right") - 1
    is_inside = (at >= 0) & (calls.start_ns < end_ns[np.maximum(at, 0)])
    silent = int((start_ns > calls.start_ns.max(initial=np.iinfo(np.int64).min)).sum())
    if silent:
        return f"CUPTI has no record of any call in the last {silent} of {count(len(order), 'round')}: {_REMEDY}"
    wanted = is_inside & ~failed & (calls.correlation != 0)
    has_work = np.isin(calls.correlation, launches.correlation)
    lost = wanted & _is_named(calls, strings, _LAUNCH) & ~has_work & ~flag_captured(calls, strings)
    if lost.any():
        names = ", ".join(sorted({strings[number] for number in calls.name[lost].tolist()}))
        return f"CUPTI has no kernel of {count(int(lost.sum()), 'launch')} ({names}): {_REMEDY}"
    hidden = wanted & _is_named(calls, strings, _GRAPH_LAUNCH) & ~has_work
    if hidden.any():
        return (
            f"CUPTI has no kernel of {count(int(hidden.sum()), 'launch')} of CUDA graphs; instantiate the "
            "graph in the test, not where pytest starts, or measure with --nsight-collector nsys"
        )
    called = calls.correlation[is_inside]
    untimed = int((np.isin(launches.correlation, called) & (launches.end_ns == 0)).sum())
    return f"CUPTI could not time {count(untimed, 'launch')}: {_REMEDY}" if untimed else ""


def _is_named(calls: Calls, strings: Sequence[str], pattern: re.Pattern[str]) -> Flags:
    return np.isin(calls.name, [number for number, text in enumerate(strings) if pattern.fullmatch(text)])


def has_hidden_graph(calls: Sequence[Activity], names: Sequence[str], present: Collection[int]) -> bool:
    """Whether a graph was launched without a record of what it did.

    Args:
        calls: those of one round.
        names: of the functions called, one for each.
        present: numbers of the calls whose work was recorded. The call of the runtime contains one of the driver,
            and the work has the number of one of them.
    """
    graphs = [one for one, name in zip(calls, names, strict=True) if _GRAPH_LAUNCH.fullmatch(name)]
    shown = [one for one in graphs if one.correlation in present]
    return any(
        not any(other.start_ns <= one.end_ns and one.start_ns <= other.end_ns for other in shown) for one in graphs
    )
