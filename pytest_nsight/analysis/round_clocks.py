"""The rounds of a recorded run on two clocks: Python's, in the measuring process, and the profiler's. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pytest_nsight.model.values import typical_share

if TYPE_CHECKING:
    from pytest_nsight.model.trace import Trace
    from pytest_nsight.protocol.manifest import Manifest


@dataclass(frozen=True, slots=True)
class RoundClocks:
    """The rounds of one case; durations are those of its typical rounds.

    Attributes:
        case: node id.
        share: the quantile over the rounds that each duration is.
        rounds: how many are in the manifest and in the trace.
        python_ns: from the opening of the round's range to the end of its synchronisation, by ``perf_counter_ns``.
        range_ns: the length of that range in the trace.
        kernel_ns: the kernels in it.
    """

    case: str
    share: float
    rounds: int
    python_ns: float
    range_ns: float
    kernel_ns: float

    @property
    def difference(self) -> float:
        """How much longer Python's clock took, as a ratio less one."""
        return self.python_ns / self.range_ns - 1 if self.range_ns else 0.0

    @property
    def kernel_share(self) -> float:
        """Part of Python's time during which kernels ran, if none overlap."""
        return self.kernel_ns / self.python_ns if self.python_ns else 0.0


def compare_clocks(manifest: Manifest, trace: Trace) -> tuple[RoundClocks, ...]:
    """Each case of a run on both clocks, in the order in which they were measured.

    Args:
        manifest: what the worker wrote.
        trace: what the profiler recorded of it.

    Raises:
        TraceError: the ranges nest too deep.
    """
    # It imports pandas, which takes as long as everything else that a small recording needs.
    from pytest_nsight.trace.measures import measure  # noqa: PLC0415

    ranges = measure(trace).ranges
    own = ranges[(ranges["process"] == manifest.pid) & (ranges["id"] >= 0)].drop_duplicates("id").set_index("id")
    walls, kernels = own["wall_ns"].to_dict(), own["kernel_ns"].to_dict()
    typical = typical_share(manifest.board)
    by_case: dict[str, list[tuple[int, int, int]]] = {}
    for one in manifest.rounds:
        if one.id in walls:
            by_case.setdefault(one.case, []).append((one.wall_ns, walls[one.id], kernels[one.id]))
    return tuple(
        RoundClocks(case, typical, len(rows), *np.quantile(np.array(rows, np.float64), typical, axis=0).tolist())
        for case, rows in by_case.items()
    )
