"""The tables of where time goes: devices, states, CUDA calls, the critical path; and the bottlenecks."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_nsight.analysis.critical_path import StepPath
from pytest_nsight.analysis.device_use import DeviceUse
from pytest_nsight.analysis.host_calls import CallTime
from pytest_nsight.analysis.idle_causes import IdleCause
from pytest_nsight.analysis.os_calls import OsCallTime
from pytest_nsight.analysis.picture import Picture, StateTime
from pytest_nsight.analysis.range_limits import RangeLimit
from pytest_nsight.analysis.step_times import StepTime, StepTimes
from pytest_nsight.analysis.timeline import DeviceWork
from pytest_nsight.model.trace_devices import TraceDevice
from pytest_nsight.model.units import count, duration
from pytest_nsight.show.layout import Section, column, limit, share, time

_WHOLE = "from the first start to the last end of all launches"
_ROUNDING_NS, _ROUNDING_SHARE = 1000, 0.0005
"""Unknown idle time below both is what rounding leaves between other states."""
_UUID_START = 12
"""Characters of a board's uuid by which it differs from others: "GPU-" and 8 digits."""


def tabulate_devices(devices: Sequence[DeviceUse], *, is_part: bool) -> Section | None:
    """One headline for each device.

    Args:
        devices: what each did.
        is_part: whether it is about chosen ranges only.
    """
    if not devices:
        return None
    times = "while the chosen ranges or their launches run, with all work" if is_part else _WHOLE
    return Section(
        f"Devices, {times}",
        column("device", name_devices([one.device for one in devices]), is_number=False),
        [
            [
                column("wall", [time(one.wall_ns) for one in devices]),
                column("busy", [time(one.busy_ns) for one in devices]),
                column("utilisation", [share(one.utilisation) for one in devices]),
                column("kernels", [time(one.kernel_ns) for one in devices]),
                column("copies", [time(one.copy_ns) for one in devices]),
            ],
            [
                column("both", [time(one.overlap_ns) for one in devices]),
                column("idle", [time(one.idle_ns) for one in devices]),
                column("host waits", [time(one.sync_ns) for one in devices]),
            ],
        ],
        "busy: kernels + copies - both; wall: busy + idle; host waits: in calls that synchronise or block",
    )


def tabulate_states(states: Sequence[StateTime]) -> Section | None:
    """The wall time of all devices by state, without unknown idle time that only rounding leaves."""
    shown = [one for one in states if one.total_ns and not _is_rounding(one)]
    if not shown:
        return None
    return Section(
        f"Wall time of all devices: {duration(sum(one.total_ns for one in states))}",
        column("state", [describe_state(one) for one in shown], is_number=False),
        [
            [
                column("total", [time(one.total_ns) for one in shown]),
                column("share", [share(one.share) for one in shown]),
            ]
        ],
        "each instant has one state; removing idle time, communication or copies saves at most their share",
    )


def tabulate_os_calls(calls: Sequence[OsCallTime], states: Sequence[StateTime], top: int) -> Section | None:
    """What the host did outside of CUDA while devices were idle; None where the recording does not say.

    Args:
        calls: the most time first.
        states: of the devices, for the words of the cause.
        top: how many rows there are, beside the one that sums up.
    """
    if not calls:
        return None
    words = next(one.program.host_words for one in states)
    shown, rest = calls[:top], calls[top:]
    names = [one.name or "no call: the thread computes" for one in shown]
    rows = [(one.total_ns, one.share) for one in shown]
    if rest:
        names.append(count(len(rest), "other"))
        rows.append((sum(one.total_ns for one in rest), sum(one.share for one in rest)))
    return Section(
        f"{words[0].upper()}{words[1:]} while devices were idle, by call of the operating system",
        column("call", names, is_number=False),
        [
            [
                column("total", [time(total_ns) for total_ns, _ in rows]),
                column("share", [share(part) for _, part in rows]),
            ]
        ],
        "of the thread that launches next; poll, read, sem_wait and the like wait for data or for another thread",
    )


def tabulate_limits(limits: Sequence[RangeLimit]) -> Section | None:
    """The bottlenecks of ranges."""
    if not limits:
        return None
    return Section(
        "Bottlenecks of ranges",
        column("range", [one.label for one in limits], is_number=False),
        [
            [
                column("limit", [one.bottleneck.limit.value for one in limits], is_number=False),
                column("share", [share(one.bottleneck.share) for one in limits]),
            ],
            [
                column("try", [one.bottleneck.remedy.split(",")[0] for one in limits], is_number=False),
            ],
        ],
    )


def tabulate_calls(calls: Sequence[CallTime], top: int) -> Section | None:
    """CUDA calls by function, with the sum of those in which the host waits."""
    if not calls:
        return None

    def join(left_out: Sequence[CallTime], name: str) -> CallTime:
        sums = sum(one.calls for one in left_out), sum(one.total_ns for one in left_out)
        longest_ns = max(one.longest_ns for one in left_out)
        return CallTime(name, *sums, 0.0, longest_ns, waits=False, waiting_calls=0, waiting_ns=0)

    rows = limit(calls, top, join)
    waiting_ns, waits = sum(one.waiting_ns for one in calls), sum(one.waiting_calls for one in calls)
    return Section(
        f"CUDA calls: {duration(sum(one.total_ns for one in calls))}, "
        f"waiting {duration(waiting_ns)} in {count(waits, 'call')}",
        column("call", [one.name for one in rows], is_number=False),
        [
            [
                column("count", [f"{one.calls:,}" for one in rows]),
                column("total", [time(one.total_ns) for one in rows]),
                column("median", [time(one.median_ns) for one in rows]),
                column("longest", [time(one.longest_ns) for one in rows]),
            ]
        ],
    )


def tabulate_steps(times: StepTimes) -> Section | None:
    """How long steps take; None where nothing repeats."""
    if not times.steps:
        return None
    shown = times.steps
    has_several = len({one.process for one in shown}) > 1
    names = [f"{one.which}: {_name_step(one, has_several=has_several)}" for one in shown]
    warm = count(times.warm_up, "step at the beginning takes", "steps at the beginning take")
    warm_up = f"; {warm} over 1.5 times the median, {100 * times.warm_up_share:.0f} % of the time of all"
    return Section(
        f"Steps: {times.count:,} {times.label}{warm_up if times.warm_up else ''}",
        column("step", names, is_number=False),
        [
            [
                column("length", [time(one.length_ns) for one in shown]),
                column("to the next", ["-" if one.next_ns is None else time(one.next_ns) for one in shown]),
                column("host", [time(one.host_ns) for one in shown]),
                column("kernels", [time(one.kernel_ns) for one in shown]),
                column("copies", [time(one.copy_ns) for one in shown]),
                column("waits", [time(one.sync_ns) for one in shown]),
            ],
        ],
        "length: from the start of the range to the end of its last launch; to the next: to the start of the next "
        "one, which is shorter where the host runs ahead; after: since the first step",
    )


def _name_step(one: StepTime, *, has_several: bool) -> str:
    process = f" of process {one.process}" if has_several else ""
    return f"number {one.number:,}{process}, after {duration(one.start_ns)}"


def tabulate_path(path: StepPath | None, top: int) -> Section | None:
    """The critical path of the median step."""
    if path is None:
        return None
    shown = path.parts[:top]
    names = [f"{one.part.value}: {one.name}" if one.name else one.part.value for one in shown]
    return Section(
        f"Critical path of the median {path.name}: {duration(path.wall_ns)}",
        column("part", names, is_number=False),
        [
            [
                column("times", [f"{one.count:,}" for one in shown]),
                column("total", [time(one.total_ns) for one in shown]),
                column("share", [share(one.total_ns / path.wall_ns) for one in shown]),
            ]
        ],
    )


def state_bottleneck(picture: Picture) -> str:
    """The bottleneck of the whole in two sentences; "" where nothing ran."""
    found = picture.bottleneck
    return f"Bottleneck: {found.limit.value}; {found.evidence}. To try: {found.remedy}." if found else ""


def describe_state(one: StateTime) -> str:
    """A state in words, such as "kernels", "copies only", "work launched elsewhere" or "idle: launching"."""
    if one.state is IdleCause.HOST:
        return f"idle: {one.program.host_words}"
    if one.state is IdleCause.UNRECORDED:
        return "idle, or kernels that were not recorded"
    if isinstance(one.state, IdleCause):
        return f"idle: {one.state.value}"
    names = {
        DeviceWork.KERNEL: "kernels",
        DeviceWork.COMMUNICATION: "communication only",
        DeviceWork.COPY: "copies only",
        DeviceWork.SET: "sets of memory only",
        DeviceWork.OTHER: "work launched elsewhere",
    }
    return names[one.state]


def _is_rounding(one: StateTime) -> bool:
    return one.state is IdleCause.UNKNOWN and one.total_ns < _ROUNDING_NS and one.share < _ROUNDING_SHARE


def name_devices(devices: Sequence[TraceDevice]) -> list[str]:
    """Number and name of each; where others have both, the start of the uuid, or the process if that is unknown.

    Args:
        devices: one for each row of a table; rows may have the same one.
    """
    distinct = list(dict.fromkeys(devices))
    names = {one: _name(one, distinct) for one in distinct}
    return [names[one] for one in devices]


def _name(device: TraceDevice, devices: Sequence[TraceDevice]) -> str:
    text = f"{device.ordinal} {device.name}".strip()
    alike = [one for one in devices if (one.ordinal, one.name) == (device.ordinal, device.name)]
    if device.uuid:
        starts = [one.uuid[:_UUID_START] for one in alike]
        start = device.uuid[:_UUID_START]
        return text if len(alike) == 1 else f"{text} {start if starts.count(start) == 1 else device.uuid}"
    is_clear = device.name and len(alike) == 1
    return text if is_clear or device.process is None else f"{text} (process {device.process or 'unknown'})"
