"""A case finds no room that earlier cases have left: an allocator of the tests shows what there is."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_nsight.worker.allocator_state import FreeBlock, LeftRoom, count_retries, list_free_blocks

KIB, MIB = 1 << 10, 1 << 20


class CudaGraph:
    """Stands for `torch.cuda.CUDAGraph`."""


class CachingAllocator:
    """What torch's does with requests: the smallest free block that holds it, cut; else another segment.

    Attributes:
        segments: as `memory_snapshot` lists them.
        asked_driver: how many segments it has asked the driver for.
        cleared: how often the workspaces of cuBLAS were cleared.
        backend: what `get_allocator_backend` says.
        unit: sizes are rounded up to a multiple of it.
        free_bytes: what the driver has left.
    """

    CUDAGraph = CudaGraph
    OutOfMemoryError = MemoryError

    def __init__(self, *, unit: int = 512, backend: str = "native") -> None:
        self.segments: list[dict[str, Any]] = []
        self.asked_driver = self.cleared = 0
        self.backend, self.unit = backend, unit
        self.free_bytes = 1 << 40
        self._next = 1 << 30

    def add_segment(
        self, kind: str, *blocks: tuple[int, str], stream: int = 0, pool: tuple[int, int] = (0, 0)
    ) -> None:
        listed = []
        for size, state in blocks:
            listed.append({"address": self._next, "size": size, "state": state})
            self._next += size
        self.segments.append(
            {"device": 0, "segment_type": kind, "stream": stream, "segment_pool_id": pool, "blocks": listed}
        )

    def get_allocator_backend(self) -> str:
        return self.backend

    def memory_snapshot(self) -> list[dict[str, Any]]:
        return self.segments

    def caching_allocator_alloc(self, size: int, device: int, stream: int) -> int:
        size += -size % self.unit
        kind = "small" if size <= MIB else "large"
        fitting = [
            (block["size"], block["address"], segment, block)
            for segment in self.segments
            if (segment["segment_type"], segment["stream"], segment["device"]) == (kind, stream, device)
            and not any(segment["segment_pool_id"])
            for block in segment["blocks"]
            if block["state"] == "inactive" and block["size"] >= size
        ]
        if not fitting:
            self.asked_driver += 1
            if size > self.free_bytes:
                raise self.OutOfMemoryError
            self.add_segment(kind, (max(size, 2 * MIB), "inactive"), stream=stream)
            return self.caching_allocator_alloc(size, device, stream)
        _, address, segment, block = min(fitting, key=lambda one: one[:2])
        rest = block["size"] - size
        if rest >= (512 if kind == "small" else MIB + 1):
            place = segment["blocks"].index(block)
            segment["blocks"].insert(place + 1, {"address": address + size, "size": rest, "state": "inactive"})
            block["size"] = size
        block["state"] = "active_allocated"
        return int(address)

    def caching_allocator_delete(self, address: int) -> None:
        block = next(one for segment in self.segments for one in segment["blocks"] if one["address"] == address)
        block["state"] = "inactive"

    def empty_cache(self) -> None:
        self.segments = [s for s in self.segments if any(one["state"] != "inactive" for one in s["blocks"])]

    def make_torch(self) -> Any:
        def clear() -> None:
            self.cleared += 1

        return SimpleNamespace(cuda=self, _C=SimpleNamespace(_cuda_clearCublasWorkspaces=clear))


def test_after_a_case_no_room_is_left_in_segments_in_use() -> None:
    for seed in range(200):
        draw = random.Random(seed)
        allocator = CachingAllocator()
        for _ in range(draw.randint(1, 6)):
            kind = draw.choice(["small", "large"])
            most = 4 * KIB if kind == "small" else 40 * KIB
            sizes = [512 * draw.randint(1, most) for _ in range(draw.randint(1, 6))]
            states = [draw.choice(["inactive", "active_allocated"]) for _ in sizes]
            allocator.add_segment(kind, *zip(sizes, states, strict=True), stream=draw.choice([0, 7]))

        LeftRoom(allocator.make_torch()).hold()

        assert allocator.asked_driver == 0
        for size in (512, MIB, MIB + 512, 30 * MIB):
            before = allocator.asked_driver
            allocator.caching_allocator_alloc(size, 0, 0)
            assert allocator.asked_driver == before + 1, (seed, size)
            allocator.empty_cache()
            allocator.segments.pop()


def test_what_was_held_is_given_back_before_the_next_case() -> None:
    allocator = CachingAllocator()
    allocator.add_segment("large", (30 * MIB, "active_allocated"), (80 * MIB, "inactive"))
    room = LeftRoom(allocator.make_torch())

    room.hold()
    allocator.segments[0]["blocks"][0]["state"] = "inactive"
    room.hold()

    assert allocator.segments == []


def test_only_free_blocks_that_a_request_can_get_are_asked_for() -> None:
    allocator = CachingAllocator()
    allocator.add_segment("small", (300 * KIB, "inactive"), (512, "active_allocated"), (3 * MIB // 2, "inactive"))
    awaiting = (4 * MIB, "active_pending_free")
    allocator.add_segment("large", (MIB, "inactive"), awaiting, (5 * MIB, "inactive"), stream=7)
    allocator.add_segment("large", (64 * MIB, "inactive"), pool=(0, 1))

    blocks = list_free_blocks(allocator.segments)

    small, large = allocator.segments[0]["blocks"], allocator.segments[1]["blocks"]
    assert blocks == [
        FreeBlock(0, 0, 300 * KIB, small[0]["address"]),
        FreeBlock(0, 0, MIB, small[2]["address"]),
        FreeBlock(0, 7, 5 * MIB, large[2]["address"]),
    ]


@pytest.mark.parametrize("free_bytes", [0, 1 << 40])
def test_of_an_allocator_that_rounds_up_no_more_is_asked_than_one_segment(free_bytes: int) -> None:
    allocator = CachingAllocator(unit=MIB)
    allocator.add_segment("large", (9 * MIB + 512, "inactive"), (512, "active_allocated"))
    allocator.free_bytes = free_bytes
    room = LeftRoom(allocator.make_torch())

    room.hold()
    allocator.empty_cache()

    assert (allocator.asked_driver, len(allocator.segments)) == (1, 1), "what was not asked for is given back"
    room.hold()


def test_an_allocator_without_segments_only_has_its_cache_emptied() -> None:
    allocator = CachingAllocator(backend="cudaMallocAsync")
    allocator.add_segment("large", (30 * MIB, "active_allocated"), (80 * MIB, "inactive"))

    LeftRoom(allocator.make_torch()).hold()

    assert [block["state"] for block in allocator.segments[0]["blocks"]] == ["active_allocated", "inactive"]


@pytest.mark.parametrize("graphs", [0, 1])
def test_workspaces_stay_while_a_graph_may_write_to_them(graphs: int) -> None:
    allocator = CachingAllocator()
    kept = [CudaGraph() for _ in range(graphs)]

    LeftRoom(allocator.make_torch()).hold()

    assert (allocator.cleared, len(kept)) == (1 - graphs, graphs)


def test_a_graph_that_is_listed_nowhere_is_known_by_its_memory() -> None:
    allocator = CachingAllocator()
    allocator.add_segment("large", (64 * MIB, "active_allocated"), pool=(0, 1))

    LeftRoom(allocator.make_torch()).hold()

    assert allocator.cleared == 0


@pytest.mark.parametrize(("stats", "retries"), [({"num_alloc_retries": 2, "num_ooms": 1}, 2), ({}, 0)])
def test_retries_are_those_that_emptied_the_cache(stats: dict[str, int], retries: int) -> None:
    cuda = SimpleNamespace(memory_stats=lambda: stats, get_allocator_backend=lambda: "native")
    assert count_retries(SimpleNamespace(cuda=cuda)) == retries


def test_an_allocator_that_keeps_no_statistics_is_not_asked() -> None:
    assert count_retries(SimpleNamespace(cuda=SimpleNamespace(get_allocator_backend=lambda: "pluggable"))) == 0
