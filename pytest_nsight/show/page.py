"""A recording on one page, from the headline to the details."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import numpy as np

from pytest_nsight.analysis.categories import CategoryRule
from pytest_nsight.analysis.picture import Picture, analyse
from pytest_nsight.analysis.range_work import DeclaredRangeWork
from pytest_nsight.analysis.round_clocks import RoundClocks
from pytest_nsight.collectors.open_recording import load_trace
from pytest_nsight.model.sorted_keys import distinct, rank_groups
from pytest_nsight.model.trace import UNKNOWN_PROCESS, Trace
from pytest_nsight.model.units import count, duration
from pytest_nsight.show.code_tables import tabulate_codes, tabulate_idle_lines, tabulate_lines
from pytest_nsight.show.kernel_tables import (
    tabulate_captured,
    tabulate_categories,
    tabulate_copies,
    tabulate_kernels,
    tabulate_sequences,
    tabulate_unattributed,
)
from pytest_nsight.show.layout import NARROWEST, WIDEST, printable, wrap
from pytest_nsight.show.memory_tables import tabulate_memory, tabulate_range_memory
from pytest_nsight.show.metric_tables import tabulate_metrics
from pytest_nsight.show.range_tables import (
    tabulate_clocks,
    tabulate_idle,
    tabulate_mixes,
    tabulate_ranges,
    tabulate_work,
)
from pytest_nsight.show.time_tables import (
    state_bottleneck,
    tabulate_calls,
    tabulate_devices,
    tabulate_limits,
    tabulate_os_calls,
    tabulate_path,
    tabulate_states,
    tabulate_steps,
)
from pytest_nsight.trace.descendants import describe_board

TOP = 15


@dataclass(frozen=True, slots=True)
class View:
    """What the user wants to see.

    Attributes:
        name: limits everything to ranges with this in their name; "" for all.
        domain: limits everything to ranges of this NVTX domain, "" for the default one; None for all.
        top: how many rows a table has.
        full_names: whether kernels have the names that the profiler gave.
        rules: category rules that come before the built-in ones.
        works: what each range of a name does, such as 512 tokens.
    """

    name: str = ""
    domain: str | None = None
    top: int = TOP
    full_names: bool = False
    rules: Sequence[CategoryRule] = ()
    works: Sequence[DeclaredRangeWork] = ()

    def analyse(self, trace: Trace) -> Picture:
        """The picture of the chosen part of a trace.

        Raises:
            UsageError: no range has this name and domain, or one that work is declared for.
            TraceError: the recording's times are too far apart to be added up.
        """
        return analyse(trace, name=self.name, domain=self.domain, rules=self.rules, works=self.works)


def show(path: Path, width: int = 120, view: View | None = None) -> str:
    """The page of a recording, without a newline at its end.

    Args:
        path: an export, packed or not, a report, a PyTorch profiler trace, or the folder of a recorded run.
        width: columns of the terminal.
        view: what to show; everything where None.

    Raises:
        NsightError: the recording cannot be read, or no range has the wanted name and domain.
    """
    return render(load_trace(path), width, view or View())


def render(trace: Trace, width: int, view: View, clocks: Sequence[RoundClocks] = ()) -> str:
    """The page of a trace.

    Args:
        trace: any trace.
        width: columns of the terminal; below 40 it counts as 40, above 160 as 160. A table whose numbers take more
            is wider.
        view: what to show.
        clocks: of the cases of a recorded run.

    Returns:
        The text, without a newline at its end.

    Raises:
        UsageError: no range has the wanted name and domain.
        TraceError: the recording's times are too far apart to be added up, or the ranges nest too deep.
    """
    width = min(max(width, NARROWEST), WIDEST)
    picture, top, on_device = view.analyse(trace), view.top, not trace.is_of_cpu
    sections = [
        tabulate_devices(picture.devices, is_part=picture.is_part),
        tabulate_states(picture.states),
        tabulate_idle(picture.idle, picture.states, top),
        tabulate_os_calls(picture.os_calls, picture.states, top),
        tabulate_idle_lines(picture.idle_lines, top),
        tabulate_limits(picture.limits),
        tabulate_ranges(picture.ranges, top, on_device=on_device),
        tabulate_mixes(picture.mixes, top),
        tabulate_work(picture.works),
        tabulate_clocks(clocks, top),
        tabulate_captured(trace, top),
        tabulate_categories(picture.categories),
        tabulate_kernels(picture.kernels, top, full_names=view.full_names),
        tabulate_codes(picture.codes, top),
        tabulate_lines(picture.lines, top),
        tabulate_metrics(picture.metrics, top),
        tabulate_copies(picture.copies),
        tabulate_memory(picture.memory.uses),
        tabulate_range_memory(picture.memory.ranges, top),
        tabulate_calls(picture.calls, top),
        tabulate_sequences(picture.sequences, top),
        tabulate_steps(picture.steps),
        tabulate_path(picture.path, top),
        tabulate_unattributed(picture.unattributed, top),
    ]
    tables = [section if on_device else section.of_operators() for section in sections if section]
    remarks = [f"note: {text}" for text in (*trace.notes, *picture.notes)]
    remarks += [f"{trace.tool or 'the tool'} says: {text}" for text in trace.diagnostics]
    texts = [
        describe(trace, width),
        "\n".join(wrap(printable(state_bottleneck(picture)), width)),
        *(table.render(width) for table in tables),
        "\n".join(line for remark in remarks for line in wrap(printable(remark), width)),
    ]
    return "\n\n".join(filter(None, texts))


def describe(trace: Trace, width: int) -> str:
    """The tool, the time, the devices and how much was recorded.

    Args:
        trace: the whole recording.
        width: the most characters that a line may have.
    """
    ranges = count(len(trace.ranges), "range")
    sizes = [count(len(trace.launches), "launch", "launches"), ranges, count(len(trace.calls), "CUDA call")]
    if trace.is_of_cpu:
        sizes = [count(len(trace.launches), "call") + " of operators on the CPU", ranges]
    tables = (trace.launches, trace.ranges, trace.calls)
    found = {process for table in tables for process in distinct(table.process).tolist()}
    processes = found - {UNKNOWN_PROCESS} or found
    length = f" over {duration(span)}" if (span := _measure_span(trace)) else ""
    lines = [
        f"{printable(trace.tool) or 'Nsight Systems, version unknown'}{_describe_date(trace)}",
        *_list_devices(trace),
        f"{', '.join(sizes)}; {count(len(processes), 'process', 'processes')}{length}",
    ]
    return "\n".join(part for line in lines for part in wrap(line, width))


def _describe_date(trace: Trace) -> str:
    if trace.epoch_ns is None:
        return ""
    try:
        moment = datetime.fromtimestamp(trace.epoch_ns // 10**9, timezone.utc)
    except (OverflowError, OSError, ValueError):
        # The number comes from the file, and the calendar ends.
        return ""
    return f", recorded {moment:%Y-%m-%d %H:%M:%S} UTC"


def _list_devices(trace: Trace) -> list[str]:
    """One line for each board that was used, or, where nothing ran, that was there.

    Boards without a uuid that would have equal lines have the process that used them as well.
    """
    launches = trace.launches
    if trace.is_of_cpu or not len(launches):
        boards = [(one.ordinal, one) for one in trace.devices if one.name]
    else:
        ranks, places = rank_groups(launches.process, launches.device.astype(np.int64))
        one = np.zeros(places, np.int64)
        one[ranks] = np.arange(len(ranks))
        used = zip(launches.process[one].tolist(), launches.device[one].tolist(), strict=True)
        boards = [(ordinal, describe_board(trace, process, ordinal)) for process, ordinal in used]
    unidentified = [(ordinal, board.name) for ordinal, board in boards if not board.uuid]
    lines = []
    # A board that no process used through CUDA has no number there.
    for ordinal, board in sorted(boards, key=lambda pair: (pair[0] is None, pair[0] or 0)):
        name = (
            printable(" ".join(filter(None, (board.name, board.uuid))))
            or "a board that the recording does not name"
        )
        if board.process is not None and not board.uuid and unidentified.count((ordinal, board.name)) > 1:
            name += f" (process {board.process or 'unknown'})"
        lines.append(f"unused device: {name}" if ordinal is None else f"device {ordinal}: {name}")
    return list(dict.fromkeys(lines))


def _measure_span(trace: Trace) -> int:
    tables = [table for table in (trace.ranges, trace.calls, trace.launches) if len(table)]
    if not tables:
        return 0
    return int(max(table.end_ns.max() for table in tables)) - int(min(table.start_ns.min() for table in tables))
