"""The package as a library: recordings, launches and verdicts as values and pandas tables.

Everything here keeps its name, its arguments and the columns of its tables until the next major version. Times are
integer nanoseconds unless a column says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import pandas as pd

from pytest_nsight.analysis.picture import analyse
from pytest_nsight.analysis.range_work import DeclaredRangeWork
from pytest_nsight.collectors.open_recording import load_trace
from pytest_nsight.controller.recorded_session import read_recorded_session
from pytest_nsight.model.errors import NsightError, RecordingError, TraceError, UsageError
from pytest_nsight.model.trace import Trace
from pytest_nsight.report import session_file
from pytest_nsight.report.result_file import FILE_NAME, ResultEntry, read_result
from pytest_nsight.report.session_table import COMPARED, read_table
from pytest_nsight.show.records import list_tables
from pytest_nsight.show.table_columns import COLUMNS
from pytest_nsight.trace.launch_rows import list_launches, list_ranges, list_round_launches
from pytest_nsight.trace.process_record import ProcessRecord

__all__ = [
    "NsightError",
    "RecordingError",
    "Session",
    "Trace",
    "TraceError",
    "UsageError",
    "compare",
    "copies",
    "launches",
    "load_session",
    "load_trace",
    "picture",
    "ranges",
    "sessions",
    "verdicts",
]

_NO_WORK: Mapping[str, tuple[float, str]] = MappingProxyType({})

_VERDICT_COLUMNS = ("case", "part", "verdict", "fails", "metric", "now_ns", "sentence")
_COMPARISON_COLUMNS = (*COMPARED, "baseline_runs", "new_runs")


@dataclass(frozen=True, slots=True)
class Session:
    """A session that was recorded with --nsight-keep.

    Attributes:
        folder: of the session.
        processes: what each worker process left behind, oldest first; opaque, to pass to `launches`.
    """

    folder: Path
    processes: tuple[ProcessRecord, ...]


def load_session(folder: str | Path) -> Session:
    """Reads the manifests and traces of a recorded session.

    Args:
        folder: below .nsight/, or one of that layout.

    Raises:
        RecordingError: it holds no recorded run, or a run without its trace.
        NsightError: a trace cannot be read.
    """
    return Session(Path(folder), read_recorded_session(Path(folder)))


def launches(recording: Trace | Session) -> pd.DataFrame:
    """The launches of a recording, one row each, in order of start within a process.

    Args:
        recording: a trace or a session, as read; of a session only the measured rounds count.

    Returns:
        "kind", "kernel" (normalised name), "full_name", "start_ns", "duration_ns", "grid" and "block" (tuples of
        three integers, x first), "registers" (of a thread), "shared_bytes" (of a block), "bytes", "stream",
        "device", "process". Of a session "run", "case", "part" (innermost named range) and "round" (from 0) come
        first.

    Raises:
        TypeError: this is a path; `load_trace` or `load_session` reads it.
        RecordingError: the session holds no measured round.
    """
    _check_loaded(recording, Trace, Session)
    if isinstance(recording, Trace):
        table: pd.DataFrame = list_launches(recording).reset_index(drop=True)
        return table
    tables = [
        list_round_launches(manifest, trace)
        for record in recording.processes
        for manifest, trace in record.processes
        if trace is not None
    ]
    if not tables:
        raise RecordingError(f"{recording.folder} holds no measured round; record a session with --nsight-keep")
    joined: pd.DataFrame = pd.concat(tables, ignore_index=True)
    return joined


def copies(recording: Trace | Session) -> pd.DataFrame:
    """The memory copies and sets of a recording, with the columns of `launches`."""
    table = launches(recording)
    chosen: pd.DataFrame = table[table["kind"].isin(["memcpy", "memset"])].reset_index(drop=True)
    return chosen


def ranges(trace: Trace) -> pd.DataFrame:
    """The NVTX ranges of a trace, in order of start.

    Returns:
        "name", "domain", "start_ns", "duration_ns", "payload" (-1 where there is none), "process", "thread" (-1
        where it is bound to none), "is_open" (whether its end is missing).

    Raises:
        TypeError: this is a path; `load_trace` reads it.
    """
    _check_loaded(trace, Trace)
    return list_ranges(trace)


def picture(
    trace: Trace,
    *,
    name: str = "",
    domain: str | None = None,
    work: Mapping[str, tuple[float, str]] = _NO_WORK,
) -> dict[str, pd.DataFrame]:
    """What a trace spends its time on: the tables of `pytest-nsight show`.

    Args:
        trace: any trace.
        name: limits everything to ranges with this in their name; "" for all.
        domain: limits everything to ranges of this NVTX domain; None for all.
        work: name of a range -> amount and unit of what one such range does: {"infer": (512, "tokens")}.

    Returns:
        "devices", "states", "idle", "os_calls", "idle_lines", "bottlenecks", "ranges", "range_categories", "work",
        "kernels", "shapes", "categories", "codes", "lines", "copies", "memory", "range_memory", "calls",
        "sequences", "steps", "critical_path", "metrics", "unattributed", each with the columns that
        docs/reference.md lists. Durations are in ns, shares are ratios. Tables of devices have no rows for a trace
        of a CPU, whose operators stand for kernels.

    Raises:
        TypeError: this is a path; `load_trace` reads it.
        UsageError: no range has this name and domain, or an amount of work is not above 0 and at most 1e30.
    """
    _check_loaded(trace, Trace)
    works = [DeclaredRangeWork(label, amount, unit) for label, (amount, unit) in work.items()]
    tables = list_tables(analyse(trace, name=name, domain=domain, works=works))
    return {table: pd.DataFrame(records, columns=list(COLUMNS[table])) for table, records in tables.items()}


def verdicts(result: str | Path) -> pd.DataFrame:
    """The verdicts of a session, one row for each case and part.

    Args:
        result: a session's folder, its result.json or session.json, or a file that --nsight-json wrote.

    Returns:
        "case", "part", "verdict", "fails", "metric", "now_ns", "sentence", and of the comparison "baseline_ns",
        "ratio" (new / old), "low" and "high" (90 % confidence interval of the ratio), "p_slower",
        "adjusted_p_slower", "band" (as set), "effective_band" (the one that judged: wider on a CPU, or for
        the timer's resolution), "mde" (smallest change that such checks find in 95 %), "baseline_runs", "new_runs".
        Missing are these where nothing was compared, "adjusted_p_slower" also where no slowdown was tested, and
        "metric" and "now_ns" where no round was measured, as of a case that is identical. All bands, and "mde", are
        ratios: 0.02 is 2 %.

    Raises:
        UsageError: there is no such file.
        RecordingError: the file is no result of pytest-nsight.
    """
    path = Path(result)
    if path.is_dir() or path.name == session_file.FILE_NAME:
        path = (path if path.is_dir() else path.parent) / FILE_NAME
    rows = [_flatten(entry) for entry in read_result(path).entries]
    table: pd.DataFrame = pd.DataFrame(rows, columns=[*_VERDICT_COLUMNS, *_COMPARISON_COLUMNS])
    return table


def sessions(*paths: str | Path) -> pd.DataFrame:
    """The verdicts of many sessions as one table, ordered by time.

    Args:
        paths: sessions' folders below .nsight/, their session.json or result.json, or JSON reports.

    Returns:
        "session", "recorded" (UTC, ISO 8601), "commit", "machine", "board", "collector", "case", "part", "verdict",
        "fails", "metric", "now_ns", "runs", "rounds" (of all runs); of the comparison "baseline_ns", "ratio",
        "low", "high", "p_slower", "adjusted_p_slower", "band", "effective_band", "mde"; "sm_mhz", "power_w",
        "temperature_c" (medians over the runs); "driver", "torch", "triton", "cuda", "cublas", "cudnn", "python",
        "plugin" (versions); "sentence". Missing numbers are NaN, missing texts empty. A session that is there
        twice counts once.

    Raises:
        RecordingError: a path holds no session and no result, or is damaged.
    """
    return read_table(Path(path) for path in paths)


def compare(before: str | Path, after: str | Path) -> pd.DataFrame:
    """Two results side by side, one row for each case and part that either has.

    Args:
        before: what `verdicts` takes.
        after: the same.

    Returns:
        "case", "part", "before_ns", "after_ns", "ratio" (after / before), "verdict_before", "verdict_after";
        missing where only one of them has the case.

    Raises:
        UsageError: there is no such file.
        RecordingError: a file is no result of pytest-nsight.
    """
    columns = ["case", "part", "now_ns", "verdict"]
    joined: pd.DataFrame = verdicts(before)[columns].merge(
        verdicts(after)[columns], on=["case", "part"], how="outer", suffixes=("_before", "_after")
    )
    joined = joined.rename(columns={"now_ns_before": "before_ns", "now_ns_after": "after_ns"})
    joined["ratio"] = joined["after_ns"] / joined["before_ns"]
    ordered: pd.DataFrame = joined.loc[
        :, ["case", "part", "before_ns", "after_ns", "ratio", "verdict_before", "verdict_after"]
    ]
    return ordered


def _check_loaded(given: object, *kinds: type) -> None:
    """Refuses a path in place of what was read from it."""
    if isinstance(given, kinds):
        return
    readers = " or ".join(_READERS[kind] for kind in kinds)
    what = f"the path {str(given)!r}" if isinstance(given, (str, Path)) else f"a {type(given).__name__}"
    raise TypeError(f"this takes what {readers} returns, not {what}")


_READERS = {Trace: "load_trace(path)", Session: "load_session(folder)"}


def _flatten(entry: ResultEntry) -> dict[str, object]:
    own = {name: getattr(entry, name) for name in _VERDICT_COLUMNS}
    return {**own, **{name: entry.comparison.get(name) for name in _COMPARISON_COLUMNS}}
