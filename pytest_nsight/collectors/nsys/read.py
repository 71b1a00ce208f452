"""Reads an SQLite export of Nsight Systems, of any version from 2022.4 on.

Which tables and columns an export has depends on the version that wrote it, on its settings, and on what
was recorded: a table without rows may be absent. So everything is probed for, and nothing is taken from the
version.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from pytest_nsight.collectors.nsys import allocation_tables as read_memory
from pytest_nsight.collectors.nsys import call_tables as read_calls
from pytest_nsight.collectors.nsys import device_tables as read_launches
from pytest_nsight.collectors.nsys import graph_tables as read_graphs
from pytest_nsight.collectors.nsys import nvtx_table as read_ranges
from pytest_nsight.collectors.nsys import sample_tables as read_metrics
from pytest_nsight.collectors.nsys import session_tables as read_session
from pytest_nsight.collectors.nsys.checked_tables import mend_ends, read_tables
from pytest_nsight.collectors.nsys.columns import Arrays
from pytest_nsight.collectors.nsys.missing_records import (
    explain_domains,
    explain_emptiness,
    find_damage,
    note_failed,
    note_missing,
)
from pytest_nsight.collectors.nsys.open_export import AGAIN, Export, open_export
from pytest_nsight.collectors.nsys.open_ranges import close_ranges
from pytest_nsight.collectors.nsys.python_stack_table import read_python_stacks
from pytest_nsight.collectors.nsys.stack_tables import read_stacks
from pytest_nsight.collectors.nsys.string_table import read_strings
from pytest_nsight.collectors.nsys.trace_texts import TraceTexts
from pytest_nsight.model.errors import TraceError
from pytest_nsight.model.sorted_keys import distinct
from pytest_nsight.model.trace import Trace


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
    if not any(export.has(table) for table in (*read_session.METADATA_TABLES, "StringIds", read_ranges.NVTX)):
        raise TraceError(f"{path} is a database, but no export of Nsight Systems; {AGAIN}")
    tables = read_tables(export)
    sampled = tables.pop(read_metrics.SAMPLES)
    memory, memory_notes = read_memory.build_memory(tables)
    events = _build_events(export, tables)
    traced = {*distinct(events.launches.process).tolist(), *distinct(events.ranges.process).tolist()}
    diagnostics = read_session.read_diagnostics(export, traced)
    damage = find_damage(diagnostics)
    devices = read_session.read_devices(export)
    samples, metric_notes = read_metrics.build_samples(export, sampled, devices)
    python, python_notes = read_python_stacks(export)
    return dataclasses.replace(
        events,
        python=python,
        devices=devices,
        samples=samples,
        memory=memory,
        programs=read_session.read_programs(export, {*traced, *distinct(events.calls.process).tolist()}),
        diagnostics=diagnostics,
        damage=damage,
        notes=(*events.notes, *metric_notes, *memory_notes, *python_notes, *filter(None, [damage])),
        tool=read_session.read_tool(export),
        epoch_ns=read_session.read_epoch_ns(export),
    )


def _build_events(export: Export, tables: dict[str, Arrays]) -> Trace:
    """What happened on the host and on the devices, and notes on it.

    Args:
        export: the file.
        tables: those whose rows have a start and an end; the ones of ranges and calls are removed.
    """
    end_notes = mend_ends(tables)
    inline = read_ranges.read_inline_names(export)
    strings, name_notes = read_strings(export, tables, inline)
    texts = TraceTexts()
    ranges = read_ranges.build_ranges(tables.pop(read_ranges.NVTX), inline, strings, texts)
    recorded_calls = read_calls.drop_doubles(tables.pop(read_calls.RUNTIME), strings)
    calls = read_calls.build_calls(recorded_calls, strings, texts)
    os_calls = read_calls.build_os_calls(tables.pop(read_calls.OSRT), strings, texts)
    launches, shapes, shared_unknown = read_launches.build_launches(tables, strings)
    stacks = read_stacks(export, recorded_calls[read_calls.CHAIN], calls, launches)
    ranges, open_notes = close_ranges(ranges, calls, launches, texts.texts)
    events = Trace(
        ranges=ranges,
        calls=calls,
        os_calls=os_calls,
        stacks=stacks,
        launches=launches,
        nodes=read_graphs.build_nodes(tables),
        shapes=shapes,
        shared_unknown=shared_unknown,
        strings=texts.texts,
    )
    failed = note_failed(recorded_calls["returnValue"], calls, texts.texts)
    notes = (*end_notes, *open_notes, *name_notes, *note_missing(export, events), *failed)
    return dataclasses.replace(events, notes=notes)


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
    of_ranges = "" if len(trace.launches) else explain_domains(trace)
    return dataclasses.replace(trace, notes=(*others, explanation, *filter(None, [of_ranges])))
