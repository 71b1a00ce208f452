"""Sessions of many boards and months as one table: a row for each verdict of each session."""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pandas as pd

from pytest_nsight.model.errors import RecordingError, UsageError
from pytest_nsight.model.verdicts import SessionResult, Verdict
from pytest_nsight.report import session_file
from pytest_nsight.report.result_file import FILE_NAME, Result, ResultEntry, read_result
from pytest_nsight.report.session_text import machine_name, name_machine
from pytest_nsight.report.verdict_text import fails, gated_metric, shown_ns

_TEXTS_BEFORE = ("session", "recorded", "commit", "machine", "board", "collector", "case", "part", "verdict")
COMPARED = (
    "baseline_ns",
    "ratio",
    "low",
    "high",
    "p_slower",
    "adjusted_p_slower",
    "band",
    "effective_band",
    "mde",
)
_CLOCKS = ("sm_mhz", "power_w", "temperature_c")
_VERSIONS = ("driver", "torch", "triton", "cuda", "cublas", "cudnn", "python", "plugin")

COLUMNS: Mapping[str, str] = {
    **dict.fromkeys(_TEXTS_BEFORE, "str"),
    "fails": "bool",
    "metric": "str",
    "now_ns": "float64",
    **dict.fromkeys(("runs", "rounds"), "int64"),
    **dict.fromkeys((*COMPARED, *_CLOCKS), "float64"),
    **dict.fromkeys((*_VERSIONS, "sentence"), "str"),
}
"""Columns and their types. Times are in ns, ratios are new / old; missing numbers are NaN, missing texts empty."""

_Row = Mapping[str, object]


def read_table(paths: Iterable[Path]) -> pd.DataFrame:
    """One row for each verdict, ordered by the sessions' times; a session that is there twice counts once.

    Args:
        paths: folders of sessions, their `session.json` or `result.json`, or files that --nsight-json wrote.

    Raises:
        RecordingError: one of them is none of these, or damaged.
    """
    rows = {(row["session"], row["case"], row["part"]): row for path in paths for row in _read_rows(path)}
    return tabulate(rows.values())


def list_rows(session: SessionResult) -> list[_Row]:
    """The rows of one session."""
    return [_row(session, verdict) for verdict in session.verdicts]


def tabulate(rows: Iterable[_Row]) -> pd.DataFrame:
    """Rows as a table with typed columns."""
    ordered = sorted(rows, key=lambda row: (str(row["recorded"]), str(row["session"])))
    table: pd.DataFrame = pd.DataFrame(ordered, columns=list(COLUMNS))
    texts = [name for name, kind in COLUMNS.items() if kind == "str"]
    table[texts] = table[texts].fillna("")
    typed: pd.DataFrame = table.astype(dict(COLUMNS))
    return typed


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Writes a table.

    Args:
        table: any.
        path: a file whose name ends in .parquet or .csv.

    Raises:
        UsageError: another ending, no library for Parquet, or a file that cannot be written.
    """
    if path.suffix not in (".parquet", ".csv"):
        raise UsageError(f"--table {path}: the name must end in .parquet or .csv")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".csv":
            table.to_csv(path, index=False)
        else:
            table.to_parquet(path, engine="pyarrow", index=False)
    except ImportError:
        raise UsageError(
            f"--table {path}: Parquet needs pyarrow; pip install pyarrow, or give a name that ends in .csv"
        ) from None
    except OSError as error:
        raise UsageError(
            f"{path} was not written ({os.strerror(error.errno or 0)}); choose another place"
        ) from None


def _read_rows(path: Path) -> list[_Row]:
    if path.is_dir():
        file = path / session_file.FILE_NAME
        path = file if file.exists() or not (path / FILE_NAME).exists() else path / FILE_NAME
    if not path.exists():
        raise RecordingError(f"{path} does not exist; give sessions' folders below .nsight/, or JSON reports")
    if session_file.is_session(path):
        return list_rows(session_file.read_session(path))
    result = read_result(path)
    return [_row_of_entry(result, entry) for entry in result.entries]


def _row(session: SessionResult, verdict: Verdict) -> _Row:
    runs = session.runs_by_subject.get(verdict.subject, ())
    metric, compared = gated_metric(verdict), verdict.comparison
    newest = runs[-1] if runs else None
    environment = {**session.environment, **(newest.environment if newest else {})}
    return {
        "session": session.session,
        "recorded": session.recorded,
        "commit": newest.commit if newest else "",
        "machine": machine_name(session),
        "board": "+".join(dict.fromkeys(run.board for run in runs)),
        "collector": session.collector,
        "case": verdict.subject.case,
        "part": verdict.subject.part,
        "verdict": verdict.kind.value,
        "fails": fails(verdict, strict=session.strict),
        "metric": metric,
        "now_ns": shown_ns(verdict),
        "runs": len(runs),
        "rounds": sum(len(run.rounds.get(metric, ())) for run in runs),
        **{name: getattr(compared, name, None) for name in COMPARED},
        **{name: _median([getattr(run.clocks, name) for run in runs]) for name in _CLOCKS},
        **{name: environment.get(name, "") for name in _VERSIONS},
        "sentence": verdict.sentence,
    }


def _row_of_entry(result: Result, entry: ResultEntry) -> _Row:
    """A row of a JSON report, which holds medians, not rounds."""
    runs, environment = entry.runs, entry.environment
    return {
        "session": result.session,
        "recorded": result.recorded,
        "commit": runs[-1].commit if runs else "",
        "machine": name_machine(environment),
        "board": "+".join(dict.fromkeys(run.board for run in runs)),
        "collector": result.collector,
        "case": entry.case,
        "part": entry.part,
        "verdict": entry.verdict,
        "fails": entry.fails,
        "metric": entry.metric,
        "now_ns": entry.now_ns,
        "runs": len(runs),
        "rounds": sum(run.rounds for run in runs),
        **{name: entry.comparison.get(name) for name in COMPARED},
        **{name: _median([run.clocks.get(name) for run in runs]) for name in _CLOCKS},
        **{name: environment.get(name, "") for name in _VERSIONS},
        "sentence": entry.sentence,
    }


def _median(values: Sequence[object]) -> float | None:
    known = [value for value in values if isinstance(value, int | float)]
    return float(statistics.median(known)) if known else None
