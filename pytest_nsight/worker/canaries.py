"""The canaries: small cases of the plugin's own, measured in every run beside the user's.

Their code never changes, so what changes their times is the machine or the session. Each loads another part of the
GPU: memory, tensor cores, arithmetic in the SMs, the L2 cache, launching. They use operators that every PyTorch
brings compiled, so that nothing is built or tuned for them, and each launches one kernel a round.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_nsight.model.values import CANARIES, Work

NAMES = ("copy", "triad", "matmul", "elementwise", "reduction", "gather", "l2", "tiny")

_SEED = 20_240_229
_LARGE = 1 << 27
"""Elements of the tensors that no cache holds: 512 MiB of float32.

Streams of half a millisecond repeat to a few hundredths of a percent, and distinguish boards of one model that
differ by one percent; streams of 128 MiB vary by several percent between rounds.
"""

_MATMUL = (8192, 4096, 8192)
_ELEMENTWISE = 1 << 23
_GATHERED = 1 << 25
_TINY = 1 << 16
_GATHER_WIDTH = 32
"""Elements of a gathered row: 128 bytes, one line of the cache."""

_LARGEST_L2_PART = 16 << 20


@dataclass(frozen=True, slots=True)
class Prepared:
    """A canary with its tensors.

    Attributes:
        body: what a round runs; it allocates nothing.
        work: what a round must move and compute; None if its time says nothing about the board's limits.
    """

    body: Callable[[], object]
    work: Work | None = None


@dataclass(frozen=True, slots=True)
class Canary:
    """One canary.

    Attributes:
        name: one of NAMES.
        prepare: allocates and fills its tensors, always with the same numbers.
        cold_cache: whether the cache is flushed before each round.
    """

    name: str
    prepare: Callable[[], Prepared]
    cold_cache: bool = True

    @property
    def case(self) -> str:
        """Its node id."""
        return f"{CANARIES}::{self.name}"


def choose_places(cases: int, seed: int) -> dict[str, int]:
    """Where in a run each canary is measured: canary -> number of cases before it, in random order.

    Random places make the canaries exchangeable with the user's cases, whose order is random, too: what earlier
    work leaves behind on the board becomes the same noise for both. At least one case comes first, because the
    device to measure on is known only when a test has chosen it.

    Args:
        cases: number of cases of the run.
        seed: of the run's order.
    """
    order = random.Random(seed)
    places = {name: order.randint(1, max(1, cases)) for name in NAMES}
    names = sorted(places, key=lambda name: (places[name], order.random()))
    return {name: places[name] for name in names}


def due(places: dict[str, int], done: int, measured: Collection[str]) -> Sequence[str]:
    """The canaries to measure after `done` cases, without those already `measured`."""
    return [name for name, place in places.items() if place <= done and name not in measured]


def make_canaries(torch: Any, device: str, cache_bytes: int, shrink: int = 1) -> tuple[Canary, ...]:
    """The canaries of a device.

    Args:
        torch: the module.
        device: where they run, such as "cuda".
        cache_bytes: size of the L2 cache.
        shrink: divisor of all sizes, for devices that are tests of the canaries themselves.
    """
    make = _Maker(torch, device, cache_bytes, shrink)
    return (
        Canary("copy", make.copy),
        Canary("triad", make.triad),
        Canary("matmul", make.matmul),
        Canary("elementwise", make.elementwise),
        Canary("reduction", make.reduction),
        Canary("gather", make.gather),
        Canary("l2", make.l2, cold_cache=False),
        Canary("tiny", make.tiny),
    )


class _Maker:
    """Prepares the canaries on one device."""

    def __init__(self, torch: Any, device: str, cache_bytes: int, shrink: int) -> None:
        self._torch = torch
        self._device = device
        self._cache_bytes = cache_bytes
        self._shrink = shrink

    def _random(self, *shape: int, dtype: Any = None) -> Any:
        """Numbers of the standard normal distribution; the user's generators are left alone."""
        generator = self._torch.Generator(self._device).manual_seed(_SEED)
        options = {"generator": generator, "device": self._device, "requires_grad": False}
        return self._torch.randn(*shape, dtype=dtype or self._torch.float32, **options)

    def _negate(self, elements: int) -> Prepared:
        """Reads a tensor and writes it elsewhere with the sign changed: a plain copy is a memcpy and no kernel."""
        source = self._random(elements)
        target = self._torch.empty_like(source)
        neg = self._torch.neg
        return Prepared(lambda: neg(source, out=target), Work(bytes_moved=2 * source.nbytes, flops=0))

    def copy(self) -> Prepared:
        """Memory: 1 GiB read, 1 GiB written."""
        return self._negate(2 * _LARGE // self._shrink)

    def triad(self) -> Prepared:
        """Memory, as STREAM does it: a = b + s c."""
        b = self._random(_LARGE // self._shrink)
        c, a = b.flip(0), self._torch.empty_like(b)
        add = self._torch.add
        work = Work(bytes_moved=3 * b.nbytes, flops=2 * b.numel())
        return Prepared(lambda: add(b, c, alpha=3.0, out=a), work)

    def matmul(self) -> Prepared:
        """Tensor cores, and with them the power limit."""
        m, k, n = (size // self._shrink for size in _MATMUL)
        a = self._random(m, k, dtype=self._torch.bfloat16)
        b = self._random(k, n, dtype=self._torch.bfloat16)
        c = self._torch.empty(m, n, device=self._device, dtype=a.dtype)
        mm = self._torch.mm
        work = Work(bytes_moved=a.nbytes + b.nbytes + c.nbytes, flops=2 * m * k * n)
        return Prepared(lambda: mm(a, b, out=c), work)

    def elementwise(self) -> Prepared:
        """Arithmetic in the SMs: the incomplete gamma function is a series of some fifty divisions an element."""
        elements = _ELEMENTWISE // self._shrink
        a = self._torch.full((elements,), 12.0, device=self._device, dtype=self._torch.float32)
        x = self._torch.linspace(8.0, 11.5, elements, device=self._device, dtype=self._torch.float32)
        out = self._torch.empty_like(x)
        gammainc = self._torch.special.gammainc
        return Prepared(lambda: gammainc(a, x, out=out))

    def reduction(self) -> Prepared:
        """Memory, read only: sums of rows."""
        x = self._random(_LARGE // 4096, 4096 // self._shrink)
        out = self._torch.empty(x.shape[0], device=self._device, dtype=x.dtype)
        reduce = self._torch.sum
        return Prepared(lambda: reduce(x, 1, out=out))

    def gather(self) -> Prepared:
        """Memory in random order: rows of one cache line each."""
        rows = _GATHERED // _GATHER_WIDTH // self._shrink
        x = self._random(rows, _GATHER_WIDTH)
        generator = self._torch.Generator(self._device).manual_seed(_SEED)
        index = self._torch.randperm(rows, generator=generator, device=self._device)
        out = self._torch.empty_like(x)
        select = self._torch.index_select
        return Prepared(lambda: select(x, 0, index, out=out))

    def l2(self) -> Prepared:
        """The L2 cache: source and target fill at most half of it, and nobody flushes it."""
        part_bytes = min(self._cache_bytes // 4, _LARGEST_L2_PART // self._shrink)
        return Prepared(self._negate(max(1, part_bytes // 4)).body)

    def tiny(self) -> Prepared:
        """Launching: a kernel of two or three microseconds."""
        return Prepared(self._negate(_TINY // self._shrink).body)
