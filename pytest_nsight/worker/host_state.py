"""The host of a measurement: who uses its CPU.

A process on a shared CPU waits in the run queue: it could run, but another program has the CPU. Linux counts this
time for each thread in /proc (`schedstat`, documented in Documentation/scheduler/sched-stats.rst). For a virtual
machine as a whole, this time is called steal.
"""

from __future__ import annotations

import resource
import time
from pathlib import Path

import psutil

from pytest_nsight.protocol.conditions import CpuTimes

_TASKS = Path("/proc/self/task")


def read_cpu_times() -> CpuTimes:
    """The use of the CPU so far, by this process and by all."""
    elapsed_ns = time.monotonic_ns()
    usage = resource.getrusage(resource.RUSAGE_SELF)
    times = psutil.cpu_times()
    cpus = psutil.cpu_count() or 1
    stolen_s = getattr(times, "steal", None)
    # Linux counts a guest's time as user time, too.
    idle_s = times.idle + getattr(times, "iowait", 0.0)
    counted_twice_s = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
    return CpuTimes(
        elapsed_ns=elapsed_ns,
        running_ns=round((usage.ru_utime + usage.ru_stime) * 1e9),
        waiting_ns=_read_waiting_ns(),
        stolen_ns=None if stolen_s is None else round(stolen_s / cpus * 1e9),
        busy_ns=max(0, round((sum(times) - idle_s - counted_twice_s - (stolen_s or 0.0)) * 1e9)),
        switches=usage.ru_nivcsw,
    )


def _read_waiting_ns() -> int | None:
    """Time that the threads of this process have waited for a CPU; None where it is not counted."""
    waiting_ns = 0
    try:
        for task in _TASKS.iterdir():
            try:
                fields = (task / "schedstat").read_text(encoding="ascii").split()
            except ProcessLookupError:
                # The thread has ended meanwhile.
                continue
            waiting_ns += int(fields[1])
    except (OSError, ValueError, IndexError):
        return None
    return waiting_ns
