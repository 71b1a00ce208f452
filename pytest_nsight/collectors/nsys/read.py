"""Reads an SQLite export of Nsight Systems, of any version from 2022.4 on.

Which tables and columns an export has depends on the version that wrote it, on its settings, and on what
was recorded: a table without rows may be absent. So everything is probed for, and nothing is taken from the
version.
"""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from pytest_nsight.collectors.nsys import allocation_tables as read_memory
from pytest_nsight.collectors.nsys import device_tables as read_launches
from pytest_nsight.collectors.nsys import graph_tables as read_graphs
from pytest_nsight.collectors.nsys import host_tables as read_host
from pytest_nsight.collectors.nsys import sample_tables as read_metrics
from pytest_nsight.collectors.nsys import session_tables as read_session
from pytest_nsight.collectors.nsys.columns import Arrays, read_columns
from pytest_nsight.collectors.nsys.known_errors import recognise_all
from pytest_nsight.collectors.nsys.open_export import AGAIN, Export, open_export
from pytest_nsight.collectors.nsys.open_ranges import close_ranges
from pytest_nsight.collectors.nsys.stack_tables import read_stacks
from pytest_nsight.collectors.nsys.string_table import read_strings
from pytest_nsight.model.api_calls import launches_kernel
from pytest_nsight.model.errors import TraceError
from pytest_nsight.model.shapes import Shape
from pytest_nsight.model.sorted_keys import distinct
from pytest_nsight.model.trace import COMPUTE_KINDS, OWN_DOMAIN, UNKNOWN_PROCESS, Calls, Launches, Ranges, Trace
from pytest_nsight.model.units import count, name_some

LATEST_NS = 2**62
"""146 years: what lies beyond is no time, and would overflow a difference."""

MOST_BYTES = 2**48
"""No copy and no allocation has 256 TB; sums of such would overflow."""


def read(path: Path) -> Trace:
    """Reads an export.

    Args:
        path: an .sqlite file written by `nsys export`. It is not changed, nor is anything written beside it.

    Returns:
        What it holds. Ranges or launches may be missing; explain_emptiness says why that may be.

    Raises:
        TraceError: it is no export, is damaged or cut short, or holds something else than it should.
    """
    export = open_export(path)
    if not any(export.has(table) for table in (*read_session.METADATA_TABLES, "StringIds", read_host.NVTX)):
        raise TraceError(f"{path} is a database, but no export of Nsight Systems; {AGAIN}")
    wanted = {
        **read_host.COLUMNS,
        **read_launches.COLUMNS,
        **read_graphs.columns_of(export),
        **read_metrics.COLUMNS,
        **read_memory.COLUMNS,
    }
    tables = read_columns(export, wanted)
    _check_times(export, tables)
    _check_bytes(export, tables)
    sampled = tables.pop(read_metrics.SAMPLES)
    memory, memory_notes = read_memory.build_memory(tables)
    notes = _mend_ends(tables)
    inline = read_host.read_inline_names(export)
    strings, name_notes = read_strings(export, tables, inline)
    texts = read_host.StringTable()
    ranges = read_host.build_ranges(tables.pop(read_host.NVTX), inline, strings, texts)
    recorded_calls = read_host.drop_doubles(tables.pop(read_host.RUNTIME), strings)
    calls = read_host.build_calls(recorded_calls, strings, texts)
    os_calls = read_host.build_os_calls(tables.pop(read_host.OSRT), strings, texts)
    launches, shapes, shared_unknown = read_launches.build_launches(tables, strings)
    stacks = read_stacks(export, recorded_calls[read_host.CHAIN], calls, launches)
    ranges, open_notes = close_ranges(ranges, calls, launches, texts.texts)
    traced = {*distinct(launches.process).tolist(), *distinct(ranges.process).tolist()}
    diagnostics = read_session.read_diagnostics(export, traced)
    damage = _find_damage(diagnostics)
    devices = read_session.read_devices(export)
    samples, metric_notes = read_metrics.build_samples(export, sampled, devices)
    return Trace(
        ranges=ranges,
        calls=calls,
        os_calls=os_calls,
        stacks=stacks,
        launches=launches,
        nodes=read_graphs.build_nodes(tables),
        shapes=shapes,
        shared_unknown=shared_unknown,
        strings=texts.texts,
        devices=devices,
        samples=samples,
        memory=memory,
        programs=read_session.read_programs(export, {*traced, *distinct(calls.process).tolist()}),
        diagnostics=diagnostics,
        damage=damage,
        notes=(
            *notes,
            *open_notes,
            *name_notes,
            *_find_unknown_ranges(export, ranges),
            *_find_hidden_graphs(calls, launches, texts.texts),
            *_find_missing_kernels(calls, shapes, texts.texts),
            *metric_notes,
            *memory_notes,
            *filter(None, [damage]),
        ),
        tool=read_session.read_tool(export),
        epoch_ns=read_session.read_epoch_ns(export),
    )


def read_explained(path: Path) -> Trace:
    """The trace in an export; the notes of one without ranges or without kernels say why that may be.

    Raises:
        TraceError: it cannot be read.
    """
    trace = read(path)
    explanation = explain_emptiness(trace)
    if not explanation:
        return trace
    # Where damage is the reason, the explanation ends with it.
    others = (note for note in trace.notes if not trace.damage or not explanation.endswith(note))
    # What launched nothing lacks its ranges for another reason.
    of_ranges = "" if len(trace.launches) else _explain_domains(trace)
    return dataclasses.replace(trace, notes=(*others, explanation, *filter(None, [of_ranges])))


def explain_emptiness(trace: Trace) -> str | None:
    """Why a recording holds nothing to measure, and what to try.

    Args:
        trace: as read.

    Returns:
        One sentence, or None if it holds both ranges and launches.
    """
    if not len(trace.launches):
        seen = "no CUDA activity"
        if len(trace.calls):
            seen = f"{count(len(trace.calls), 'call')} of CUDA but no kernel"
        if cause := _find_driver_cause(trace.diagnostics) or trace.damage:
            return f"the recording holds {seen}: {cause}"
        return (
            f"the recording holds {seen}: the program used no GPU, or the driver is newer than "
            f"{trace.tool or 'this nsys'} supports, or another user of CUPTI (torch.profiler, proton, ncu) was "
            f"active in the program; update nsys, remove the other profiler, and run `pytest-nsight doctor`"
            f"{_quote_one(trace.diagnostics)}{_explain_wsl()}"
        )
    if of_domains := _explain_domains(trace):
        return of_domains
    if not len(trace.ranges):
        return (
            "the recording holds no NVTX range, so that nothing says which part of the program launched a kernel: "
            "record with `nsys profile --trace=cuda,nvtx`, and check that NVTX_DISABLE is not set"
        )
    return None


def _explain_domains(trace: Trace) -> str:
    """Why domains were created and their ranges are missing, "" where they are not.

    Libraries create domains that they do not use: beside ranges of other domains, only the project's own counts.
    """
    cause = f"from 0.2.12 on emits nothing under an nsys as old as {trace.tool or 'this one'}; update nsys"
    used = {trace.strings[number] for number in distinct(trace.ranges.domain).tolist()}
    if OWN_DOMAIN in trace.strings and OWN_DOMAIN not in used:
        missing = f"the NVTX domain {OWN_DOMAIN} was created, but none of its ranges was recorded"
        return f"{missing}: the nvtx package {cause}"
    if len(trace.ranges):
        return ""
    # Without ranges, a name that is no call's is a domain's.
    numbers = distinct(np.concatenate([trace.calls.name, trace.os_calls.name]))
    of_calls = {trace.strings[number] for number in numbers.tolist()}
    domains = [text for text in trace.strings if text and text not in of_calls]
    if not domains:
        return ""
    created = f"{'domain' if len(domains) == 1 else 'domains'} {name_some(map(repr, domains))}"
    return (
        f"NVTX ranges of the {created} are missing: the program opened none, or has the nvtx package, which {cause}"
    )


def _quote_one(diagnostics: Sequence[str]) -> str:
    """The diagnostic that says most of missing kernels: the last one about CUDA, else the last one."""
    chosen = [text for text in diagnostics if _is_about_cuda(text)] or list(diagnostics)
    return f' (nsys says "{chosen[-1]}")' if chosen else ""


def _is_about_cuda(diagnostic: str) -> bool:
    return "CUDA" in diagnostic or "CUPTI" in diagnostic


def _find_driver_cause(diagnostics: Sequence[str]) -> str:
    """What nsys reports of a driver that is too new for it, which is damage only where kernels are missing."""
    complaints = recognise_all(text for text in diagnostics if "driver version" in text)
    return next((complaint.sentence for complaint in complaints if complaint.meaning), "")


def _find_damage(diagnostics: Sequence[str]) -> str:
    """What nsys reports as missing from a process that it recorded something of, "" for nothing; CUDA's first."""
    own = [text for text in diagnostics if not read_session.names_process(text)]
    complaints = recognise_all(sorted(own, key=lambda text: not _is_about_cuda(text)))
    return next((complaint.sentence for complaint in complaints if complaint.is_loss), "")


def _explain_wsl() -> str:
    """A remark where this machine is a guest of Windows, "" elsewhere."""
    # Where a recording from another machine is read, this says nothing wrong: it names this machine.
    if "microsoft" not in platform.release().lower():
        return ""
    return "; this machine runs WSL2, where CUPTI traces no kernels with many drivers: update the Windows driver"


def _check_times(export: Export, tables: Mapping[str, Arrays]) -> None:
    for table, columns in tables.items():
        for name in {"start", "end"}.intersection(columns):
            times = columns[name]
            # Not abs(): the smallest integer has no opposite.
            wrong = np.flatnonzero((times <= -LATEST_NS) | (times >= LATEST_NS))
            if len(wrong):
                raise TraceError(f"table {table} of {export.path} holds {times[wrong[0]]} ns as a time; {AGAIN}")


def _check_bytes(export: Export, tables: Mapping[str, Arrays]) -> None:
    for table, columns in tables.items():
        sizes = columns.get("bytes", np.empty(0, np.int64))
        wrong = np.flatnonzero((sizes < 0) | (sizes > MOST_BYTES))
        if len(wrong):
            what = "an allocation" if table == read_memory.USAGE else "a copy"
            raise TraceError(f"table {table} of {export.path} holds {what} of {sizes[wrong[0]]} bytes; {AGAIN}")


def _mend_ends(tables: Mapping[str, Arrays]) -> list[str]:
    """Notes on rows that end before they start; these get no length."""
    notes = []
    for table, columns in tables.items():
        is_closed = columns.get("is_open", np.zeros(1)) == 0
        wrong = (columns["end"] < columns["start"]) & is_closed
        if wrong.any():
            columns["end"] = np.maximum(columns["start"], columns["end"])
            one, many = (
                f"row of {table} ends before it starts; its",
                f"rows of {table} end before they start; their",
            )
            notes.append(f"{count(int(wrong.sum()), one, many)} length counts as 0")
    return notes


def _find_unknown_ranges(export: Export, ranges: Ranges) -> list[str]:
    """Notes on what the table of ranges does not say: who opened them, and what they are called."""
    notes = []
    if unknown := int((ranges.process == UNKNOWN_PROCESS).sum()):
        what = count(unknown, "range has no process and no thread", "ranges have no process and no thread")
        where = f"column globalTid of {read_host.NVTX} is missing or empty"
        notes.append(f"{what} ({where}), so that it is unknown which launches belong to them; {AGAIN}")
    notes += [
        f"table {read_host.NVTX} has no column {column}, so that {lost} are unknown; {AGAIN}"
        for column, lost in read_host.DESCRIPTIONS.items()
        if len(ranges) and not export.has(read_host.NVTX, column)
    ]
    return notes


def _find_hidden_graphs(calls: Calls, launches: Launches, texts: tuple[str, ...]) -> list[str]:
    """A note if CUDA graphs were launched and nothing of them was recorded."""
    numbers = [number for number in distinct(calls.name).tolist() if "GraphLaunch" in texts[number]]
    # A call that failed has no correlation, and launched nothing.
    rows = np.flatnonzero(np.isin(calls.name, numbers) & (calls.correlation != 0))
    if not len(rows):
        return []
    wanted = set(zip(calls.process[rows].tolist(), calls.correlation[rows].tolist(), strict=True))
    near = np.flatnonzero(np.isin(launches.correlation, calls.correlation[rows]))
    seen = set(zip(launches.process[near].tolist(), launches.correlation[near].tolist(), strict=True))
    hidden = len(wanted - seen)
    if not hidden:
        return []
    what = f"{count(hidden, 'launch')} of CUDA graphs left no kernels in the recording"
    return [f"{what}; record with `--cuda-graph-trace=node`"]


def _find_missing_kernels(calls: Calls, shapes: Sequence[Shape], texts: tuple[str, ...]) -> list[str]:
    """A note if kernels were launched and only copies recorded; explain_emptiness speaks where nothing was."""
    if not shapes or any(shape.kind in COMPUTE_KINDS for shape in shapes):
        return []
    launching = [number for number in distinct(calls.name).tolist() if launches_kernel(texts[number])]
    launched = int(np.isin(calls.name, launching).sum())
    if not launched:
        return []
    seen = f"the recording holds {count(launched, 'launch', 'launches')}, and copies, but no kernel"
    return [f"{seen}: its table of kernels is missing or empty; export the report again, or record again"]
