"""Stacks of the Python interpreter, at calls of CUDA and at regular times, as columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

CALL_DOMAIN, SAMPLE_DOMAIN = "Python Backtrace on CUDA", "Python Periodic Sampling"
"""NVTX domains of the marks with which nsys keeps the stacks of calls of CUDA, and of samples."""

PYTHON_DOMAINS = (CALL_DOMAIN, SAMPLE_DOMAIN)


class PythonPlace(NamedTuple):
    """A line of a program.

    Attributes:
        function: that holds it, such as "forward" or "<module>".
        file: its path on the machine of the recording.
        line: its number, from 1.
    """

    function: str
    file: str
    line: int


def _no_times() -> npt.NDArray[np.int64]:
    return np.empty(0, np.int64)


def _no_flags() -> npt.NDArray[np.bool_]:
    return np.empty(0, np.bool_)


def _no_frames() -> npt.NDArray[np.int32]:
    return np.empty(0, np.int32)


@dataclass(frozen=True, slots=True)
class PythonStacks:
    """Stacks of threads that run Python; each has a frame at least.

    Attributes:
        at_ns: shape (stacks,), int64, when each was recorded.
        process: shape (stacks,), int64.
        thread: shape (stacks,), int64.
        is_sample: shape (stacks,), whether it was taken at a regular time, and not at a call of CUDA.
        first: shape (stacks,), int64, where the frames of each begin in ``place``: those of one stack stand
            together, from the innermost to the outermost, and those of the next one follow.
        place: shape (frames,), int32, index into ``places``.
        places: the lines that occur.
        unread: number of stacks that are left out because their form is not known.
    """

    at_ns: npt.NDArray[np.int64] = field(default_factory=_no_times)
    process: npt.NDArray[np.int64] = field(default_factory=_no_times)
    thread: npt.NDArray[np.int64] = field(default_factory=_no_times)
    is_sample: npt.NDArray[np.bool_] = field(default_factory=_no_flags)
    first: npt.NDArray[np.int64] = field(default_factory=_no_times)
    place: npt.NDArray[np.int32] = field(default_factory=_no_frames)
    places: tuple[PythonPlace, ...] = ()
    unread: int = 0

    def __len__(self) -> int:
        """Number of stacks."""
        return len(self.at_ns)

    def innermost(self) -> npt.NDArray[Any]:
        """The place of the innermost frame of each stack, shape (stacks,), index into ``places``."""
        return self.place[self.first]
