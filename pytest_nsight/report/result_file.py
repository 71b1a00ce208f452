"""A session's result, as `pytest_benchmark_json` writes it, read back: what it says of each case and part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pytest_nsight.model.decoding import Count
from pytest_nsight.model.errors import RecordingError, UsageError
from pytest_nsight.model.json_text import DecodingError, parse
from pytest_nsight.model.values import Subject
from pytest_nsight.processes.regular_files import read_bounded
from pytest_nsight.protocol.json_files import read_known

FILE_NAME = "result.json"
"""Its name in a session's folder."""

_MOST_BYTES = 256 << 20
"""A session of 100 cases writes about a megabyte."""


@dataclass(frozen=True, slots=True)
class ResultRun:
    """One run of a case.

    Attributes:
        run: its id.
        board: of the run.
        recorded: when, in UTC, ISO 8601.
        commit: of the tree, "" if unknown.
        rounds: how many count.
        medians_ns: metric -> median of the rounds.
        times_ns: metric -> where the rounds lie; None in results of earlier versions.
        without_level: metrics whose rounds have no single level; None in results of earlier versions.
        clocks: name -> reading.
    """

    run: str
    board: str
    recorded: str
    commit: str
    rounds: Count
    medians_ns: Mapping[str, float]
    times_ns: Mapping[str, float] | None = None
    without_level: tuple[str, ...] | None = None
    clocks: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ResultEntry:
    """What a result says of a case or part.

    Attributes:
        case: node id.
        part: named range, "" for the whole case.
        verdict: name of the verdict.
        fails: whether the verdict failed the test.
        sentence: why.
        metric: the gated duration, "" where no round was measured.
        now_ns: the typical time of the new runs; in files of older versions the median of all rounds where nothing
            was compared. None where no round was measured.
        comparison: its numbers by name; empty where nothing was compared.
        environment: of the session.
        runs: of the session, oldest first.
    """

    case: str
    part: str
    verdict: str
    fails: bool
    sentence: str
    metric: str = ""
    now_ns: float | None = None
    comparison: Mapping[str, object] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    runs: tuple[ResultRun, ...] = ()

    @property
    def subject(self) -> Subject:
        """The case or part."""
        return Subject(self.case, self.part)


@dataclass(frozen=True, slots=True)
class Result:
    """A session's result.

    Attributes:
        session: its id.
        recorded: when, in UTC, ISO 8601.
        collector: which one measured.
        entries: of all cases and parts: those with rounds first, then those that were not measured, such as what is
            identical.
    """

    session: str
    recorded: str
    collector: str
    entries: tuple[ResultEntry, ...]


def read_result(path: Path) -> Result:
    """The result that a file holds.

    Args:
        path: a session's result.json, or a file that --nsight-json wrote.

    Raises:
        UsageError: it cannot be read.
        RecordingError: it holds something else.
    """
    if not path.exists():
        raise UsageError(
            f"{path} cannot be read (no such file); give a session's folder below .nsight/, or a JSON report"
        )
    try:
        text = read_bounded(path, _MOST_BYTES, follows_links=True).decode("utf-8")
        content: Any = parse(text)
        ours = content["nsight"]
        entries = [_read_measured(one) for one in content["benchmarks"]]
        entries += [read_known(ResultEntry, one) for one in ours["unmeasured"]]
        return Result(str(ours["session"]), str(content["datetime"]), str(ours["collector"]), tuple(entries))
    except (DecodingError, UnicodeDecodeError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise RecordingError(
            f"{path} is no result of pytest-nsight ({type(error).__name__}: {error}); give a file that "
            "--nsight-json wrote"
        ) from None


def _read_measured(benchmark: Mapping[str, Any]) -> ResultEntry:
    ours = benchmark["extra_info"]["nsight"]
    compared = ours["comparison"] or {}
    # Files of older versions have it only where something was compared; the rounds are in s.
    now_ns = ours.get("now_ns") or compared.get("now_ns") or 1e9 * benchmark["stats"]["median"]
    runs = tuple(read_known(ResultRun, run) for run in ours["runs"])
    entry = read_known(ResultEntry, {**ours, "comparison": compared, "now_ns": now_ns, "runs": []})
    return replace(entry, runs=runs)
