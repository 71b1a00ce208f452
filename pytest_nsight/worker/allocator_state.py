"""Puts torch's allocator where it was before the first case, for passes in which the size of an allocation counts.

The allocator takes memory from the driver in segments and cuts them into blocks. As long as one block of a segment
is in use, `empty_cache` leaves the segment, and the next case finds room in it that it would not find in a process
of its own: its pointers then lie in another allocation, and it reuses other blocks.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_LARGEST_SMALL = 1 << 20
"""Requests of at most 1 MiB take blocks of small segments; larger requests take blocks of other segments."""

_MOST_TURNS = 8
"""Three are enough."""


@dataclass(frozen=True, slots=True)
class FreeBlock:
    """A free block, and what a request for it must say.

    Attributes:
        device: number of the GPU.
        stream: handle of the stream that it is kept for.
        size: bytes to ask for.
        address: where it begins.
    """

    device: int
    stream: int
    size: int
    address: int


def list_free_blocks(segments: Iterable[Mapping[str, Any]]) -> list[FreeBlock]:
    """Requests that take the free blocks of these segments, the smallest first, each block once.

    A small-pool block of more than 1 MiB takes two requests: the first one splits it, so the second one is listed
    next time. Large-pool blocks of at most 1 MiB, and private pools (of CUDA graphs), are left out: no request can
    get them.

    Args:
        segments: of `torch.cuda.memory_snapshot`.
    """
    found = []
    for segment in segments:
        if _is_private(segment):
            continue
        is_small = segment["segment_type"] == "small"
        for block in segment["blocks"]:
            if block["state"] == "inactive" and (is_small or block["size"] > _LARGEST_SMALL):
                size = min(block["size"], _LARGEST_SMALL) if is_small else block["size"]
                found.append(FreeBlock(segment["device"], segment["stream"], size, block["address"]))
    return sorted(found, key=lambda one: one.size)


def count_retries(torch: Any) -> int:
    """How often the current device had too little memory, so that all cached blocks were given back to the driver.

    What is allocated after that lies in other segments than it would where there is enough. Allocators that are not
    torch's own keep no count.
    """
    if torch.cuda.get_allocator_backend() != "native":
        return 0
    return int(torch.cuda.memory_stats().get("num_alloc_retries", 0))


class LeftRoom:
    """The free blocks of segments that earlier cases still use: held, so that no case gets them."""

    def __init__(self, torch: Any) -> None:
        """Holds nothing yet; `torch` is the module, with CUDA initialised."""
        self._torch = torch
        self._held: list[int] = []

    def hold(self) -> None:
        """Gives back all memory that no tensor uses, and takes what is free in the segments that remain.

        Call it after a garbage collection, because garbage may hold memory. An allocator that is set to round sizes
        up may not give the block that was asked for: then some free room stays.
        """
        cuda = self._torch.cuda
        for address in self._held:
            cuda.caching_allocator_delete(address)
        self._held.clear()
        cuda.empty_cache()
        is_native = cuda.get_allocator_backend() == "native"
        if not self._may_graph_be_alive(cuda.memory_snapshot() if is_native else ()):
            self._clear_workspaces()
            cuda.empty_cache()
        for _ in range(_MOST_TURNS if is_native else 0):
            blocks = list_free_blocks(cuda.memory_snapshot())
            if not blocks or not self._take(blocks):
                break

    def _take(self, blocks: Sequence[FreeBlock]) -> bool:
        """Takes blocks; returns whether the allocator gave exactly these blocks."""
        cuda = self._torch.cuda
        wanted = {one.address for one in blocks}
        for one in blocks:
            try:
                address = cuda.caching_allocator_alloc(one.size, one.device, one.stream)
            except cuda.OutOfMemoryError:
                return False
            if address not in wanted:
                cuda.caching_allocator_delete(address)
                return False
            self._held.append(address)
        return True

    def _may_graph_be_alive(self, segments: Iterable[Mapping[str, Any]]) -> bool:
        """Whether a CUDA graph may be replayed, which then writes to the workspace of its capture."""
        # Objects made before gc.freeze() are not listed, but most graphs keep memory.
        if any(_is_private(one) for one in segments):
            return True
        return any(issubclass(kind, self._torch.cuda.CUDAGraph) for kind in set(map(type, gc.get_objects())))

    def _clear_workspaces(self) -> None:
        """Has cuBLAS ask for its workspaces again, as in the first case that uses it."""
        # torch has no public function for it, and builds without CUDA do not have this one.
        clear = getattr(self._torch._C, "_cuda_clearCublasWorkspaces", None)  # noqa: SLF001
        if clear is not None:
            clear()


def _is_private(segment: Mapping[str, Any]) -> bool:
    """Whether a segment is of the pool of a CUDA graph, or of another one that was asked for by name."""
    return any(segment.get("segment_pool_id", (0, 0)))
