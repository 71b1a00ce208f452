"""Whether the clocks of host and device differ in a recording, so that no order of their events is known. Pure.

Work cannot begin before the call that launches it, and a call that waits for the whole device cannot return before
work ends that was launched before it. Recordings of virtual machines, and files that were merged, may hold both.
"""

from __future__ import annotations

import numpy as np

from pytest_nsight.model.api_calls import flag_calls
from pytest_nsight.model.sorted_keys import distinct
from pytest_nsight.model.trace import Ints, Trace
from pytest_nsight.model.units import count, duration
from pytest_nsight.trace.attribution import NO_CALL
from pytest_nsight.trace.launch_table import LaunchDetails

_TOLERANCE_NS = 20_000
"""Both clocks are fitted to one another to some microseconds."""
_LEAST = 0.01
"""Share of the launches, or of the calls, below which a few ids that were used twice may be the reason."""
_SO = (
    "so that causes of idle time, waits for copies and the critical path may be wrong; how long kernels and copies "
    "run, and what each range launched, is not"
)


def note_clocks(trace: Trace, details: LaunchDetails) -> tuple[str, ...]:
    """A sentence where the device's times are earlier or later than they can be; none otherwise.

    Args:
        trace: the trace.
        details: of its launches.
    """
    rows = np.flatnonzero(details.call != NO_CALL)
    early_ns = trace.calls.start_ns[details.call[rows]] - trace.launches.start_ns[rows]
    if text := _describe(
        early_ns, "begins before the call that launched it,", "begin before the calls that launched them,"
    ):
        return (text,)
    late_ns = _measure_late(trace, details, rows)
    one = "call that synchronises the device returns before the work that it waits for ends,"
    many = "calls that synchronise the device return before the work that they wait for ends,"
    text = _describe(late_ns, one, many, noun="")
    return (text,) if text else ()


def _describe(wrong_ns: Ints, one: str, many: str, *, noun: str = "launch") -> str:
    chosen = wrong_ns[wrong_ns > _TOLERANCE_NS]
    if not len(chosen) or len(chosen) < _LEAST * len(wrong_ns):
        return ""
    of_all = f"of {count(len(wrong_ns), noun, 'launches')} " if noun else f"of {len(wrong_ns):,} "
    what = count(len(chosen), of_all + one, of_all + many)
    return f"{what} by up to {duration(int(chosen.max()))}: the clocks of host and device differ, {_SO}"


def _measure_late(trace: Trace, details: LaunchDetails, rows: Ints) -> Ints:
    """How long before the end of earlier work each call that synchronises a device returns, shape (calls,).

    A process with several devices is left out, as the call waits for one of them.

    Args:
        trace: the trace.
        details: of its launches.
        rows: shape (launches,), those with a call.
    """
    calls, launches = trace.calls, trace.launches
    is_sync = flag_calls(trace, lambda name: "DeviceSynchronize" in name or "CtxSynchronize" in name)
    # One that failed, as while a stream is captured, waits for nothing.
    is_sync &= calls.correlation != 0
    found = [np.zeros(0, np.int64)]
    for process in distinct(calls.process[is_sync]).tolist():
        own = rows[launches.process[rows] == process]
        syncs = np.flatnonzero(is_sync & (calls.process == process))
        if not len(own) or len(distinct(launches.device[own].astype(np.int64))) > 1:
            continue
        launched_ns = calls.end_ns[details.call[own]]
        order = np.argsort(launched_ns, kind="stable")
        ended_ns = np.maximum.accumulate(launches.end_ns[own[order]])
        last = np.searchsorted(launched_ns[order], calls.start_ns[syncs], side="right") - 1
        known = last >= 0
        found.append(ended_ns[last[known]] - calls.end_ns[syncs[known]])
    return np.concatenate(found)
