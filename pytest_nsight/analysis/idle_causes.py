"""The causes for which a device is idle, and the calls of CUDA that belong to them. Pure."""

from __future__ import annotations

import enum
import re

HOST_GAP_NS = 200_000
"""Longer than an eager framework takes from one launch to the next, 5 to 100 us; shorter than loading a batch."""

_ALLOCATION = re.compile(
    "(cuda|cu|hip)(Mem)?(Malloc|Alloc|Free|Host(Alloc|Malloc|Free|Register|Unregister)|Create$|Map$|Unmap$|Release$)"
)
_LOADING = re.compile("(cuda|cu|hip)(Library|Module|Link)(Load|Add|Complete|Get)|cuKernelGetFunction|cuFuncLoad")


class IdleCause(enum.Enum):
    """Why a device is idle; `explained_gaps.py` says how a cause is found.

    Attributes:
        LAUNCH: the host was on its way to the next launch.
        QUEUED: the next launch was there already; the device itself took the time.
        DEPENDENCY: the next launch was there, and waited for other work.
        SYNCHRONISATION: the host waited for the device, and could not launch ahead.
        BLOCKING_COPY: the same, in a copy.
        ALLOCATION: the host allocated or freed memory.
        LOADING: the host loaded kernels.
        HOST: the host was outside of CUDA for long.
        MIGRATION: pages of managed memory were wanted elsewhere.
        FINISHED: no launch followed.
        UNRECORDED: perhaps none: kernels were launched that are not in the recording.
        UNKNOWN: a launch followed whose call is not in the recording.
    """

    LAUNCH = "launching"
    QUEUED = "between queued launches"
    DEPENDENCY = "launched and not started"
    SYNCHRONISATION = "synchronisation"
    BLOCKING_COPY = "blocking copy"
    ALLOCATION = "allocating memory"
    LOADING = "loading kernels"
    HOST = "Python or data loading"
    MIGRATION = "migration of managed memory"
    FINISHED = "no further work"
    UNRECORDED = "unrecorded work"
    UNKNOWN = "unknown"


def is_allocation(name: str) -> bool:
    """Whether a CUDA or HIP call of this name allocates, frees or registers memory."""
    return _ALLOCATION.match(name) is not None


def is_loading(name: str) -> bool:
    """Whether a CUDA or HIP call of this name loads, links or looks up kernels."""
    return _LOADING.match(name) is not None
