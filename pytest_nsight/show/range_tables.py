"""The tables of what ranges do: their tree, their kernel time by category, and the rates of declared work."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_nsight.analysis.idle_places import IdlePlace
from pytest_nsight.analysis.picture import StateTime
from pytest_nsight.analysis.range_mix import RangeMix
from pytest_nsight.analysis.range_tree import RangeNode
from pytest_nsight.analysis.range_work import RangeWork
from pytest_nsight.analysis.round_clocks import RoundClocks
from pytest_nsight.model.units import amount, count
from pytest_nsight.model.values import MEDIAN
from pytest_nsight.show.layout import Section, column, share, time
from pytest_nsight.show.time_tables import describe_state

_MOST_CATEGORIES = 6
"""Categories with a column; the others share one."""
_SIDE_BY_SIDE = 3
"""Categories that stand side by side on the narrowest terminal."""
_LEAST_SHARE = 0.01
"""Ranges with less of all device time, or of all wall time where nothing ran, are summed up."""


def tabulate_idle(places: Sequence[IdlePlace], states: Sequence[StateTime], top: int) -> Section | None:
    """Where the host was while devices were idle; None where there are no ranges or no idle time.

    Args:
        places: the most idle time first.
        states: of the devices, for the words of their causes.
        top: how many rows there are.
    """
    if not places:
        return None
    shown = places[:top]
    words = {one.state: describe_state(one).removeprefix("idle: ") for one in states}
    return Section(
        "Idle time by the range that the host was in",
        column("range", [one.label or "outside of every range" for one in shown], is_number=False),
        [
            [
                column("idle", [time(one.total_ns) for one in shown]),
                column("share", [share(one.share) for one in shown]),
                column("largest", [time(one.largest_ns) for one in shown]),
            ],
            [
                column("mostly", [words[one.cause] for one in shown], is_number=False),
                column("", [share(one.cause_ns / one.total_ns) for one in shown]),
            ],
        ],
        "idle: of devices while the range is the innermost open one; share: of the wall time; "
        "largest: in one range, or at once outside of all",
    )


def tabulate_mixes(mixes: Sequence[RangeMix], top: int) -> Section | None:
    """Kernel time of ranges by category; None where no range launched a kernel.

    Args:
        mixes: the most kernel time first.
        top: how many ranges have a row.
    """
    if not mixes:
        return None
    shown = mixes[:top]
    totals: dict[str, int] = {}
    for one in mixes:
        for name, total_ns in one.categories.items():
            totals[name] = totals.get(name, 0) + total_ns
    ordered = sorted(totals, key=lambda name: -totals[name])
    named, others = ordered[:_MOST_CATEGORIES], ordered[_MOST_CATEGORIES:]
    columns = [column(name, [_cell(one.share(name)) for one in shown]) for name in named]
    if others:
        columns.append(column("others", [_cell(sum(map(one.share, others))) for one in shown]))
    return Section(
        "Kernel time of ranges by category",
        column("range", [one.label for one in shown], is_number=False),
        [
            [
                column("n", [f"{one.count:,}" for one in shown]),
                column("launches", [f"{one.launches:,}" for one in shown]),
                column("kernels", [time(one.kernel_ns) for one in shown]),
            ],
            columns[:_SIDE_BY_SIDE],
            columns[_SIDE_BY_SIDE:],
        ],
        "shares of the kernel time of all instances of a range",
    )


def tabulate_work(works: Sequence[RangeWork]) -> Section | None:
    """Latency and rates of declared work; None where none is declared."""
    if not works:
        return None
    return Section(
        "Declared work of ranges",
        column("range", [one.label for one in works], is_number=False),
        [
            [
                column("n", [f"{one.count:,}" for one in works]),
                column("work", [_amount(one.amount, one.unit) for one in works]),
                column("latency", [time(one.latency_ns) for one in works]),
                column("95 %", [time(one.latency_95_ns) for one in works]),
                column("end to end", [_rate(one.per_s, one.unit) for one in works]),
            ],
            [
                column("kernels", [time(one.kernel_ns) for one in works]),
                column("while they run", [_rate(one.kernel_per_s, one.unit) for one in works]),
                column("of time", [share(one.time_share) for one in works]),
                column("of work", [share(one.work_share) for one in works]),
            ],
        ],
        "latency: median, from the start of a range to the end of its last launch; end to end: all work from the "
        "first start to the last end; of time, of work: among the ranges with work of this unit",
    )


def tabulate_clocks(clocks: Sequence[RoundClocks], top: int) -> Section | None:
    """The cases of a recorded run by Python's clock and by the profiler's; None without rounds.

    Args:
        clocks: of each case.
        top: how many cases have a row.
    """
    if not clocks:
        return None
    shown = clocks[:top]
    quantile = "medians" if shown[0].share == MEDIAN else f"{100 * shown[0].share:.0f}th percentiles"
    return Section(
        "Rounds by Python's clock and by the profiler's",
        column("case", [one.case.rpartition("::")[2] for one in shown], is_number=False),
        [
            [
                column("rounds", [f"{one.rounds:,}" for one in shown]),
                column("Python", [time(one.python_ns) for one in shown]),
                column("profiler", [time(one.range_ns) for one in shown]),
                column("kernels", [time(one.kernel_ns) for one in shown]),
                column("difference", [share(one.difference) for one in shown]),
                column("share", [share(one.kernel_share) for one in shown]),
            ]
        ],
        f"{quantile} over the rounds, synchronisation included; both clocks ran under the profiler; share: of "
        "Python's time, in kernels",
    )


def _cell(ratio: float) -> str:
    return share(ratio) if ratio else "-"


def _amount(value: float, unit: str) -> str:
    return amount(value, unit) if unit in ("FLOP", "B") else f"{value:,.4g} {unit}"


def _rate(per_s: float | None, unit: str) -> str:
    if per_s is None:
        return "-"
    return f"{amount(per_s, unit)}/s" if unit in ("FLOP", "B") else f"{per_s:,.0f} {unit}/s"


def tabulate_ranges(nodes: Sequence[RangeNode], top: int, *, on_device: bool = True) -> Section | None:
    """The tree of ranges, indented; small ones are summed up beneath their parent.

    Args:
        nodes: in preorder.
        top: how many rows there are at most, beside those that sum up.
        on_device: whether something ran on a device, and not operators on the CPU.
    """
    if not nodes:
        return None
    rows, left_out = _choose_rows(nodes, top)
    names = ["  " * (len(one.path) - 1) + one.path[-1] for one in rows]
    instances = sum(one.count for one in nodes)
    note = f"; {count(left_out, 'smaller branch')} left out, which a larger --top shows" if left_out else ""
    title = f"Ranges: {count(instances, 'instance')} in {count(len(nodes), 'place')} of the tree"
    both = [
        column("n", [f"{one.count:,}" for one in rows]),
        column("share", [share(one.share) for one in rows]),
        column("host", [time(one.wall_ns) for one in rows]),
    ]
    kernels = [
        column("kernels", [time(one.kernel_ns) for one in rows]),
        column("launches", [f"{one.launches:,}" if one.launches else "-" for one in rows]),
    ]
    ranges = column("range", names, is_number=False)
    if not on_device:
        shares = _explain_shares(nodes, rows, "kernel time")
        return Section(title, ranges, [both, kernels], f"share: {shares}{note}")
    copies = [
        column("copies", [time(one.copy_ns) for one in rows]),
        column("waits", [time(one.sync_ns) for one in rows]),
    ]
    return Section(
        title,
        ranges,
        [[*both, column("device", [time(one.device_ns) for one in rows])], [*kernels, *copies]],
        f"share: {_explain_shares(nodes, rows, 'device time')}; device: kernels and copies of all instances{note}",
    )


def _choose_rows(nodes: Sequence[RangeNode], top: int) -> tuple[Sequence[RangeNode], int]:
    """The rows of the tree that are shown, and how many branches are not.

    Args:
        nodes: in preorder, at least one.
        top: how many rows there are at most.
    """
    outermost = [node for node in nodes if len(node.path) == 1]
    device_ns, wall_ns = sum(one.device_ns for one in outermost), sum(one.wall_ns for one in outermost)
    weights = [one.device_ns if device_ns else one.wall_ns for one in nodes]
    least = sorted(weights, reverse=True)[min(top, len(nodes)) - 1]
    rows: list[RangeNode] = []
    hidden: tuple[str, ...] | None = None
    left_out = 0
    for node, weight in zip(nodes, weights, strict=True):
        if hidden is not None and node.path[: len(hidden)] == hidden:
            continue
        hidden = None
        is_small = weight < _LEAST_SHARE * (device_ns or wall_ns) or weight < least or len(rows) >= top
        if is_small and len(nodes) > top:
            hidden, left_out = node.path, left_out + 1
            continue
        rows.append(node)
    if not rows:
        # Many places that are all small, or children that cross their parents.
        return outermost[:top], max(0, len(outermost) - top)
    return rows, left_out


def _explain_shares(nodes: Sequence[RangeNode], rows: Sequence[RangeNode], own_time: str) -> str:
    """What the shares of the rows are shares of.

    Args:
        nodes: all of the tree.
        rows: those that are shown.
        own_time: what the time of the launches is called.
    """
    device_ns = {one.path: one.device_ns for one in nodes}
    outermost_of_host = any(one.share and not one.device_ns for one in nodes if len(one.path) == 1)
    of_host = [not device_ns[above] if (above := one.path[:-1]) in device_ns else outermost_of_host for one in rows]
    if all(of_host):
        return "of the parent's host time"
    return f"of the parent's {own_time}{', or of its host time where it has none' if any(of_host) else ''}"
