"""What is missing from an export and why: by what nsys says of itself, and by what the rest of it shows."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_nsight.collectors.nsys.known_errors import recognise_all
from pytest_nsight.collectors.nsys.nvtx_table import DESCRIPTIONS, NVTX
from pytest_nsight.collectors.nsys.open_export import AGAIN, Export
from pytest_nsight.collectors.nsys.session_tables import names_process
from pytest_nsight.model.api_calls import function_name, launches_kernel
from pytest_nsight.model.shapes import COMPUTE_KINDS, Shape
from pytest_nsight.model.sorted_keys import distinct
from pytest_nsight.model.trace import OWN_DOMAIN, UNKNOWN_PROCESS, Calls, Launches, Ranges, Trace
from pytest_nsight.model.units import count, name_some

_NOT_READY = 600
_ERRORS: Mapping[int, str] = {
    1: " (invalid value)",
    2: " (out of memory)",
    9: " (invalid configuration)",
    98: " (no such function on this device)",
    209: " (no code for this device)",
    700: " (illegal address)",
    701: " (too many resources)",
    710: " (assertion)",
    716: " (misaligned address)",
    719: " (launch failure)",
}


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
    if of_domains := explain_domains(trace):
        return of_domains
    if not len(trace.ranges):
        return (
            "the recording holds no NVTX range, so that nothing says which part of the program launched a kernel: "
            "record with `nsys profile --trace=cuda,nvtx`, and check that NVTX_DISABLE is not set"
        )
    return None


def explain_domains(trace: Trace) -> str:
    """Why domains were created and their ranges are missing, "" where they are not.

    Libraries create domains that they do not use: beside ranges of other domains, only the project's own counts.

    Args:
        trace: as read.
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


def note_failed(code: npt.NDArray[Any], calls: Calls, texts: Sequence[str]) -> tuple[str, ...]:
    """A sentence on launches, copies and synchronisations that failed.

    Other calls fail as a matter of course, such as those that try an allocation of another kind.

    Args:
        code: shape (calls,), what each call returned, 0 where it succeeded.
        calls: of the CUDA API.
        texts: of the trace.
    """
    rows = np.flatnonzero((code != 0) & (code != _NOT_READY))
    failed: Counter[tuple[str, int]] = Counter()
    for name, number in zip(calls.name[rows].tolist(), code[rows].tolist(), strict=True):
        function = function_name(texts[name])
        if launches_kernel(function) or any(word in function for word in ("Memcpy", "Memset", "Synchronize")):
            failed[function, number] += 1
    if not failed:
        return ()
    described = [
        f"{function} {count(times, 'time')} with error {number}{_ERRORS.get(number, '')}"
        for (function, number), times in failed.most_common()
    ]
    what = count(failed.total(), "call of CUDA failed", "calls of CUDA failed")
    return (f"{what}: {name_some(described)}; what they were to do is not in the recording",)


def _find_driver_cause(diagnostics: Sequence[str]) -> str:
    """What nsys reports of a driver that is too new for it, which is damage only where kernels are missing."""
    complaints = recognise_all(text for text in diagnostics if "driver version" in text)
    return next((complaint.sentence for complaint in complaints if complaint.meaning), "")


def find_damage(diagnostics: Sequence[str]) -> str:
    """What nsys reports as missing from a process that it recorded something of, "" for nothing; CUDA's first.

    Args:
        diagnostics: of the recording.
    """
    own = [text for text in diagnostics if not names_process(text)]
    complaints = recognise_all(sorted(own, key=lambda text: not _is_about_cuda(text)))
    return next((complaint.sentence for complaint in complaints if complaint.is_loss), "")


def _explain_wsl() -> str:
    """A remark where this machine is a guest of Windows, "" elsewhere."""
    # Where a recording from another machine is read, this says nothing wrong: it names this machine.
    if "microsoft" not in platform.release().lower():
        return ""
    return "; this machine runs WSL2, where CUPTI traces no kernels with many drivers: update the Windows driver"


def note_missing(export: Export, trace: Trace) -> tuple[str, ...]:
    """Notes on what the rest of a recording says that is not in it.

    Args:
        export: the file.
        trace: what happened by the file.
    """
    return (
        *_note_unknown_ranges(export, trace.ranges),
        *_note_hidden_graphs(trace.calls, trace.launches, trace.strings),
        *_note_missing_kernels(trace.calls, trace.shapes, trace.strings),
    )


def _note_unknown_ranges(export: Export, ranges: Ranges) -> list[str]:
    """Notes on what the table of ranges does not say: who opened them, and what they are called."""
    notes = []
    if unknown := int((ranges.process == UNKNOWN_PROCESS).sum()):
        what = count(unknown, "range has no process and no thread", "ranges have no process and no thread")
        where = f"column globalTid of {NVTX} is missing or empty"
        notes.append(f"{what} ({where}), so that it is unknown which launches belong to them; {AGAIN}")
    notes += [
        f"table {NVTX} has no column {column}, so that {lost} are unknown; {AGAIN}"
        for column, lost in DESCRIPTIONS.items()
        if len(ranges) and not export.has(NVTX, column)
    ]
    return notes


def _note_hidden_graphs(calls: Calls, launches: Launches, texts: tuple[str, ...]) -> list[str]:
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


def _note_missing_kernels(calls: Calls, shapes: Sequence[Shape], texts: tuple[str, ...]) -> list[str]:
    """A note if kernels were launched and only copies recorded; explain_emptiness speaks where nothing was."""
    if not shapes or any(shape.kind in COMPUTE_KINDS for shape in shapes):
        return []
    launching = [number for number in distinct(calls.name).tolist() if launches_kernel(texts[number])]
    launched = int(np.isin(calls.name, launching).sum())
    if not launched:
        return []
    seen = f"the recording holds {count(launched, 'launch', 'launches')}, and copies, but no kernel"
    return [f"{seen}: its table of kernels is missing or empty; export the report again, or record again"]
