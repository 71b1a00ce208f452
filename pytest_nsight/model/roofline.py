"""The roofline model: a board's limits, the declared work of a round, and the share of the limit it reaches.

Method: Williams, Waterman and Patterson, "Roofline: an insightful visual performance model for multicore
architectures" (CACM 52(4), 2009). A round that moves B bytes and does F operations takes at least
max(B / bandwidth, F / throughput); the larger of the two says what bounds it, which is the same as comparing its
intensity F / B with the ridge throughput / bandwidth.

The limits are those that a board's canaries reach; NVIDIA's datasheet values stand beside them. The work comes from
`nsight.work(bytes=, flops=)` and the mark's arguments of the same names. Pure arithmetic.
"""

from __future__ import annotations

import contextlib
import operator
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pytest_nsight.model.units import amount
from pytest_nsight.model.values import CANARIES, RunSummary, Work

COPY = f"{CANARIES}::copy"
"""The canary that gives the bandwidth: a kernel that reads one large tensor and writes another."""

MATMUL = f"{CANARIES}::matmul"
"""The canary that gives the throughput: a bfloat16 matrix product on the tensor cores."""

MEMORY, COMPUTE = "memory", "compute"

_EXTENTS = ("kernel", "busy", "span", "wall")


@dataclass(frozen=True, slots=True)
class Limits:
    """What the canaries reached on one board; None where they were not measured.

    Attributes:
        bytes_per_s: of the copy.
        flops_per_s: of the matrix product. Kernels without tensor cores stay far below it; they are held
            against it all the same, for the board has nothing faster.
    """

    bytes_per_s: float | None = None
    flops_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class Bound:
    """What bounds a round on a board.

    Attributes:
        resource: MEMORY or COMPUTE, whichever takes longer.
        least_ns: the time that the round takes at the limit.
        limit_per_s: the limit, in bytes or operations a second.
    """

    resource: str
    least_ns: float
    limit_per_s: float

    @property
    def text(self) -> str:
        """The limit in words."""
        if self.resource == MEMORY:
            return f"the board's {amount(self.limit_per_s, 'B/s')} copy bandwidth"
        return f"the board's {amount(self.limit_per_s, 'FLOP/s')} of a bf16 matmul"


@dataclass(frozen=True, slots=True)
class Reach:
    """How near a subject comes to the limit of its board.

    Attributes:
        work: what a round has to do.
        metric: the duration it is held against.
        duration_ns: median over the runs of the median of their rounds.
        bytes_per_s: bytes over duration, None where no bytes are declared.
        flops_per_s: operations over duration, None where none are declared.
        bound: what bounds it on the board of its first run; None where the limits are not known.
        share: time at the limit over measured time, the median over the runs, each against its own board; None
            where the limits are not known. Above 1 where caches spare what was declared.
    """

    work: Work
    metric: str
    duration_ns: float
    bytes_per_s: float | None
    flops_per_s: float | None
    bound: Bound | None
    share: float | None


def measure_limits(runs: Iterable[RunSummary]) -> dict[str, Limits]:
    """The limits of each board, by the canaries among the runs.

    Args:
        runs: any; those that are no canaries are passed over.

    Returns:
        Board -> its limits, the median over its runs; boards without a canary are absent.
    """
    rates: dict[str, dict[str, list[float]]] = {}
    for run in runs:
        if run.work is None or run.subject.part or run.subject.case not in (COPY, MATMUL):
            continue
        load = run.work.bytes_moved if run.subject.case == COPY else run.work.flops
        rounds = run.rounds.get("kernel", ())
        duration_ns = statistics.median(rounds) if rounds else 0
        if load and duration_ns:
            rates.setdefault(run.board, {}).setdefault(run.subject.case, []).append(1e9 * load / duration_ns)
    return {
        board: Limits(*(statistics.median(found[case]) if case in found else None for case in (COPY, MATMUL)))
        for board, found in rates.items()
    }


def find_bound(work: Work, limits: Limits | None) -> Bound | None:
    """What bounds the work; None where a limit that it needs is not known, or where there is no work."""
    if limits is None:
        return None
    resources = [
        (MEMORY, work.bytes_moved, limits.bytes_per_s),
        (COMPUTE, work.flops, limits.flops_per_s),
    ]
    bounds = []
    for resource, load, limit_per_s in resources:
        if load and limit_per_s is None:
            return None
        if load and limit_per_s is not None:
            bounds.append(Bound(resource, 1e9 * load / limit_per_s, limit_per_s))
    return max(bounds, key=lambda bound: bound.least_ns, default=None)


def roofline_metric(metric: str) -> str:
    """The duration to hold against the limit: the gated one if it spans the work, else kernel time."""
    return metric if metric in _EXTENTS else "kernel"


def measure_reach(runs: Sequence[RunSummary], metric: str, limits: Mapping[str, Limits]) -> Reach | None:
    """How near the runs of one subject come to the limit.

    Args:
        runs: of one subject.
        metric: the gated duration.
        limits: board -> what it can do.

    Returns:
        None where no work is declared or nothing was measured.
    """
    metric = roofline_metric(metric)
    timed = [run for run in runs if run.work is not None and any(run.rounds.get(metric, ()))]
    medians = [statistics.median(run.rounds[metric]) for run in timed]
    if not timed or not all(medians):
        return None
    work = timed[-1].work
    assert work is not None
    bounds = [find_bound(work, limits.get(run.board)) for run in timed]
    shares = [bound.least_ns / ns for bound, ns in zip(bounds, medians, strict=True) if bound is not None]
    duration_ns = statistics.median(medians)
    return Reach(
        work=work,
        metric=metric,
        duration_ns=duration_ns,
        bytes_per_s=1e9 * work.bytes_moved / duration_ns if work.bytes_moved else None,
        flops_per_s=1e9 * work.flops / duration_ns if work.flops else None,
        bound=next(filter(None, bounds), None),
        share=statistics.median(shares) if shares else None,
    )


@dataclass(frozen=True, slots=True)
class Datasheet:
    """Peak rates by their maker.

    Attributes:
        bytes_per_s: memory bandwidth.
        flops_per_s: dense bfloat16 on the tensor cores, None where the source has none. Datasheets print the rate
            with structured sparsity, twice the dense one.
        source: where the numbers stand.
    """

    bytes_per_s: float
    flops_per_s: float | None
    source: str


_H100 = "NVIDIA H100 Tensor Core GPU datasheet"
_H200 = "NVIDIA H200 Tensor Core GPU datasheet"
_A100 = "NVIDIA A100 Tensor Core GPU datasheet"

# Product name as the driver gives it -> its datasheet.
_BY_PRODUCT = {
    "NVIDIA A100-PCIE-40GB": Datasheet(1.555e12, 312e12, _A100),
    "NVIDIA A100-SXM4-40GB": Datasheet(1.555e12, 312e12, _A100),
    "NVIDIA A100 80GB PCIe": Datasheet(1.935e12, 312e12, _A100),
    "NVIDIA A100-SXM4-80GB": Datasheet(2.039e12, 312e12, _A100),
    "NVIDIA H100 PCIe": Datasheet(2.0e12, 756e12, _H100),
    "NVIDIA H100 80GB HBM3": Datasheet(3.35e12, 989e12, _H100),
    "NVIDIA H100 NVL": Datasheet(3.9e12, 835e12, _H100),
    "NVIDIA H200": Datasheet(4.8e12, 989e12, _H200),
    "NVIDIA H200 NVL": Datasheet(4.8e12, 835e12, _H200),
    "NVIDIA L4": Datasheet(0.3e12, 121e12, "NVIDIA L4 Tensor Core GPU datasheet"),
    "NVIDIA L40S": Datasheet(0.864e12, 362e12, "NVIDIA L40S datasheet"),
    "NVIDIA B200": Datasheet(8.0e12, 2250e12, "NVIDIA Blackwell datasheet, HGX B200"),
}


def find_datasheet(product: str, bytes_per_s: float | None = None) -> Datasheet | None:
    """The datasheet of a product.

    Args:
        product: its name as the driver gives it, "NVIDIA H200".
        bytes_per_s: the board's bandwidth according to the recording, from the clock and width of its
            memory, for products that are not in the table; None where the recording lacks it.

    Returns:
        None where neither knows the product.
    """
    if product in _BY_PRODUCT:
        return _BY_PRODUCT[product]
    if bytes_per_s is None:
        return None
    return Datasheet(bytes_per_s, None, "the driver, through Nsight Systems")


_MOST = 2**63 - 1


def read_work(where: str, moved: object, flops: object) -> Work:
    """The declared work of a round; what is None counts as nothing.

    Args:
        where: who says it, for the message: "nsight.work".
        moved: bytes read and written.
        flops: floating-point operations.

    Raises:
        ValueError: neither is given, or not by a number of at least 0; one sentence says which.
    """
    if moved is None and flops is None:
        raise ValueError(f"{where}() says nothing: give bytes=, flops= or both")
    return Work(
        bytes_moved=0 if moved is None else read_amount(f"{where}(bytes=...)", moved),
        flops=0 if flops is None else read_amount(f"{where}(flops=...)", flops),
    )


def read_amount(where: str, value: object) -> int:
    """A whole number from whatever counts as one: an int, numpy's, or a float such as 1e9, rounded.

    Raises:
        ValueError: no number of at least 0, or one beyond 2^63.
    """
    amount: float = -1
    if not isinstance(value, bool):
        with contextlib.suppress(TypeError):
            amount = value if isinstance(value, float) else operator.index(value)  # type: ignore[arg-type]
    # Also false for NaN.
    if not 0 <= amount <= _MOST:
        raise ValueError(f"{where} is {value!r}; give a number of at least 0, such as 2 * x.nbytes")
    return round(amount)
