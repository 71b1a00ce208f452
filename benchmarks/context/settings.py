"""The settings of the direct experiment: what is changed around a tiny kernel, one factor at a time."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch

from benchmarks.context.suite import filler_cases

Body = Callable[[], object]

ELEMENTS = 1024
PLACEMENTS = 40
_BUFFER_BYTES = 1 << 29
_PAGE_BYTES = 4096
_FRESH = 10
_IDLE_MS = (1, 10, 100)
_PREDECESSORS = ("large_matmul", "large_softmax", "sort", "fourier", "attention", "many_launches")


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of the experiment.

    Attributes:
        factor: what is changed, such as "placement".
        level: how, such as the offset in bytes.
        before: done after the flush of the cache and before the measured kernel.
        measured: the measured kernel, one launch.
    """

    factor: str
    level: str
    before: Body
    measured: Body


def do_nothing() -> None:
    """Stands where a setting has no predecessor."""


def placements(device: str, seed: int) -> Iterator[Setting]:
    """The same kernel on the same data at 40 places of one buffer, 4 KiB apart or more; the first twice."""
    size = _BUFFER_BYTES if device == "cuda" else 1 << 20
    buffer = torch.zeros(size // 4, device=device)
    pages = random.Random(seed).sample(range(size // _PAGE_BYTES), PLACEMENTS)
    for page in (*pages, pages[0]):
        first = page * _PAGE_BYTES // 4
        x = buffer[first : first + ELEMENTS]
        yield Setting("placement", str(page * _PAGE_BYTES), do_nothing, partial(x.add_, 1))


def fresh_allocations(device: str) -> Iterator[Setting]:
    """The same kernel on tensors from fresh segments of the allocator, after churn."""
    for index in range(_FRESH):
        churn = [torch.ones(1 << (10 + (index + k) % 12), device=device) for k in range(50)]
        del churn
        if device == "cuda":
            torch.cuda.empty_cache()
        # Above the allocator's limit of small blocks, so that each lies in a segment of its own.
        x = torch.zeros(1 << 22, device=device)[:ELEMENTS]
        yield Setting("allocation", str(index), do_nothing, partial(x.add_, 1))


def predecessors(device: str) -> Iterator[Setting]:
    """The same kernel on the same tensor, after other work that follows the flush."""
    x, other = torch.zeros(ELEMENTS, device=device), torch.zeros(ELEMENTS, device=device)
    large = torch.zeros(1 << 24 if device == "cuda" else 1 << 10, device=device)

    def setting(level: str, before: Body) -> Setting:
        return Setting("predecessor", level, before, lambda: x.add_(1))

    yield setting("nothing", do_nothing)
    yield setting("same kernel, other tensor", lambda: other.add_(1))
    yield setting("same kernel, same tensor", lambda: x.add_(1))
    yield setting("same kernel, large tensor", lambda: large.add_(1))
    yield setting("other small kernel", lambda: torch.neg(other))
    for name in _PREDECESSORS:
        yield setting(name, filler_cases.CASES[name](device))
    for idle_ms in _IDLE_MS:
        yield setting(f"idle {idle_ms} ms", partial(time.sleep, idle_ms / 1000))


def repeated(device: str, when: str) -> Iterator[Setting]:
    """One setting, measured at several moments of the process: `when` is the moment."""
    x = torch.zeros(ELEMENTS, device=device)
    yield Setting("moment", when, do_nothing, lambda: x.add_(1))
