"""The native call stacks of calls of the CUDA API, as columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

NO_STACK = -1
"""Stands for the number of the stack of a call that has none."""

UNRESOLVED = -1
"""Stands for the name of a function that the profiler did not find: its module has no symbols."""


def _no_numbers() -> npt.NDArray[np.int32]:
    return np.empty(0, np.int32)


@dataclass(frozen=True, slots=True)
class CallStacks:
    """Frames of stacks: those of one stack stand together, from the innermost to the outermost.

    Attributes:
        of_call: shape (calls,), int32, number of the stack of each row of ``Trace.calls``, NO_STACK where none was
            recorded; shape (0,) where the recording has no stack of any call.
        stack: shape (frames,), int32, number of the stack, ascending from 0; each number has a frame.
        symbol: shape (frames,), int32, name of the function, index into ``names``, or UNRESOLVED.
        module: shape (frames,), int32, name of the file that holds the function, index into ``names``.
        names: of functions, as the profiler demangles them, and of files, without their folders.
    """

    of_call: npt.NDArray[np.int32] = field(default_factory=_no_numbers)
    stack: npt.NDArray[np.int32] = field(default_factory=_no_numbers)
    symbol: npt.NDArray[np.int32] = field(default_factory=_no_numbers)
    module: npt.NDArray[np.int32] = field(default_factory=_no_numbers)
    names: tuple[str, ...] = ()

    def __len__(self) -> int:
        """Number of frames."""
        return len(self.stack)

    def find(self, call: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.int32]:
        """The stack of each call, NO_STACK where none was recorded, shape (chosen,).

        Args:
            call: shape (chosen,), rows of ``Trace.calls``; a negative one stands for no call.
        """
        if not len(self.of_call):
            return np.full(len(call), NO_STACK, np.int32)
        found: npt.NDArray[np.int32] = np.where(call < 0, np.int32(NO_STACK), self.of_call[call])
        return found
