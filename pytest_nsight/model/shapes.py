"""Ways of launching kernels, the copies and sets beside them, and how often a round launches each."""

from __future__ import annotations

from dataclasses import dataclass

COMPUTE_KINDS = ("kernel", "graph", "operator")
COPY_KINDS = ("memcpy", "memset")

COPY_DIRECTIONS = {
    1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD", 9: "HtoH",
    10: "PtoP", 11: "UVM HtoD", 12: "UVM DtoH", 13: "UVM DtoD",
}  # fmt: skip
"""CUPTI's kinds of copies; the last three are those of an export of Nsight Systems."""
_MIGRATIONS = (11, 12, 13)

MEMORY_KINDS = {
    1: "pageable", 2: "pinned", 3: "device", 4: "array", 5: "managed", 6: "device static",
}  # fmt: skip


@dataclass(frozen=True, slots=True, order=True)
class Shape:
    """One way of launching one kernel: the unit of the structure gate.

    Attributes:
        kind: "kernel", "memcpy", "memset", "graph" (a CUDA graph traced whole) or "operator" (CPU).
        name: normalised name, stable over builds; what the structure gate compares.
        full_name: the name as the profiler gave it.
        grid: blocks in x, y, z; (0, 0, 0) where the kind has none.
        block: threads in x, y, z.
        registers: registers per thread; 0 where the kind has none, or the tool did not record them.
        shared_bytes: static plus dynamic shared memory of a block; ``Trace.shared_unknown`` says where 0 stands for
            what the tool did not record.
    """

    kind: str
    name: str
    full_name: str = ""
    grid: tuple[int, int, int] = (0, 0, 0)
    block: tuple[int, int, int] = (0, 0, 0)
    registers: int = 0
    shared_bytes: int = 0

    @property
    def is_migration(self) -> bool:
        """Whether it moves pages of managed memory, which has no call: the pages are wanted where they are not."""
        return self.name.startswith("memcpy UVM ")


@dataclass(frozen=True, slots=True)
class ShapeUse:
    """How often a round launches a shape, and how long that takes.

    Attributes:
        shape: what is launched.
        count: launches per round.
        median_ns: median over the rounds of the shape's total time in a round.
    """

    shape: Shape
    count: int
    median_ns: int


@dataclass(frozen=True, slots=True)
class ShapeSpread:
    """A shape that is not launched equally often everywhere.

    Attributes:
        shape: what is launched.
        least: fewest launches, in a round or a run.
        most: most launches.
    """

    shape: Shape
    least: int
    most: int


SET_SHAPE = Shape(kind="memset", name="memset", full_name="memset")
"""Of every set of memory."""


def copy_shape(kind: int, source: int, target: int) -> Shape:
    """The shape of a copy.

    Args:
        kind: one of COPY_DIRECTIONS.
        source: one of MEMORY_KINDS.
        target: likewise.
    """
    name = f"memcpy {COPY_DIRECTIONS.get(kind, f'of kind {kind}')}"
    if kind in _MIGRATIONS:
        # Neither side has a kind: the pages have no fixed place.
        return Shape(kind="memcpy", name=name, full_name=f"{name} (managed memory)")
    places = " to ".join(MEMORY_KINDS.get(place, "unknown") for place in (source, target))
    return Shape(kind="memcpy", name=name, full_name=f"{name} ({places})")
