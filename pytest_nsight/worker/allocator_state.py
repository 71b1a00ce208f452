"""Puts torch's allocator where it was before the first case, for passes in which the size of an allocation counts.

The allocator takes memory from the driver in segments and cuts them into blocks. As long as one block of a segment
is in use, `empty_cache` leaves the segment, and the next case finds room in it that it would not find in a process
of its own: its pointers then lie in another allocation, and it reuses other blocks.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_LARGEST_SMALL = 1 << 20
"""torch takes up to 1 MiB from segments for small blocks, and more from others."""

_MOST_TURNS = 8
"""Three are enough, unless the allocator is set to round sizes up: then room stays, and nothing else is wrong."""


@dataclass(frozen=True, slots=True)
class FreeBlock:
    """What a request for it must say.

    Attributes:
        device: number of the GPU.
        stream: handle of the stream that it is kept for.
        size: bytes to ask for.
    """

    device: int
    stream: int
    size: int


def list_free_blocks(segments: Iterable[Mapping[str, Any]]) -> list[FreeBlock]:
    """Requests that the free blocks of these segments answer, the smallest first, none of them twice.

    A block of more than 1 MiB among the small ones takes two requests: the first one cuts it, so the second one is
    listed next time. Up to 1 MiB among the large ones answers no request, and private pools, those of CUDA graphs,
    answer none of a case.

    Args:
        segments: of `torch.cuda.memory_snapshot`.
    """
    found = []
    for segment in segments:
        if any(segment.get("segment_pool_id", (0, 0))):
            continue
        is_small = segment["segment_type"] == "small"
        for block in segment["blocks"]:
            if block["state"] == "inactive" and (is_small or block["size"] > _LARGEST_SMALL):
                size = min(block["size"], _LARGEST_SMALL) if is_small else block["size"]
                found.append(FreeBlock(segment["device"], segment["stream"], size))
    return sorted(found, key=lambda one: one.size)


class LeftRoom:
    """The free blocks of segments that earlier cases still use: held, so that no case gets them."""

    def __init__(self, torch: Any) -> None:
        """Holds nothing yet; `torch` is the module, with CUDA initialised."""
        self._torch = torch
        self._held: list[int] = []

    def hold(self) -> None:
        """Gives back all memory that no tensor uses, and takes what is free in the segments that remain."""
        cuda = self._torch.cuda
        for address in self._held:
            cuda.caching_allocator_delete(address)
        self._held.clear()
        gc.collect()
        self._clear_workspaces()
        cuda.empty_cache()
        if cuda.get_allocator_backend() != "native":
            return
        for _ in range(_MOST_TURNS):
            blocks = list_free_blocks(cuda.memory_snapshot())
            if not blocks:
                break
            self._held += [cuda.caching_allocator_alloc(one.size, one.device, one.stream) for one in blocks]

    def _clear_workspaces(self) -> None:
        """Has cuBLAS ask for its workspaces again, as in the first case that uses it."""
        # torch has no public function for it, and builds without CUDA do not have this one.
        clear = getattr(self._torch._C, "_cuda_clearCublasWorkspaces", None)  # noqa: SLF001
        # A graph that is replayed later writes to the workspace of its capture.
        graph = self._torch.cuda.CUDAGraph
        if clear is not None and not any(issubclass(one, graph) for one in set(map(type, gc.get_objects()))):
            clear()
