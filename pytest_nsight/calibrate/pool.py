"""A pool: the runs of unchanged code in one compressed file, complete enough to replay the gate on them.

The text inside has two parts: a first line of JSON with what a baseline file does not hold, then the text of a
baseline file, without its limit of 20 runs. Of each run only the gated duration is kept: the others would make
the file five times as large, and nothing here reads them.
"""

from __future__ import annotations

import gzip
import io
import json
import math
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

from pytest_nsight.baselines.atomic_files import explaining, read_regular_file, replace_bytes
from pytest_nsight.baselines.decode import decode
from pytest_nsight.baselines.encode import encode
from pytest_nsight.baselines.file_format import NewerFormatError
from pytest_nsight.model.decoding import Bounds, read
from pytest_nsight.model.errors import BaselineError, NsightError
from pytest_nsight.model.json_text import DecodingError, parse, shown
from pytest_nsight.model.values import Policy, RunSummary, Subject

FORMAT_VERSION = 1
_COMPRESSION = 6
ELSEWHERE = "choose another place with --output"
_MOST_UNPACKED_BYTES = 512 << 20
"""500 runs of 100 cases take about 50 MB."""


@dataclass(frozen=True, slots=True)
class Pool:
    """Runs of unchanged code.

    Attributes:
        summaries: one per subject and run, canaries included.
        policies: case -> what its verdict must obey; claims are left out, for they compare nothing with
            stored runs.
        seconds: run -> wall time that the run took on the machine, start of the process and export included.
    """

    summaries: tuple[RunSummary, ...]
    policies: Mapping[str, Policy] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PooledRun:
    """One run of a pool with all that it measured.

    Attributes:
        run: id of the run.
        session: id of its session.
        board: the board it ran on.
        summaries: subject -> its summary.
    """

    run: str
    session: str
    board: str
    summaries: Mapping[Subject, RunSummary]


@dataclass(frozen=True, slots=True)
class _StoredPolicy:
    band: Annotated[float, Bounds(0.0, 1.0)]
    metric: str


@dataclass(frozen=True, slots=True)
class _PoolHead:
    """The first line of a pool."""

    pool: int
    policies: Mapping[str, _StoredPolicy]
    seconds: Mapping[str, Annotated[float, Bounds(0.0, 1e9)]]


def write_pool(path: Path, pool: Pool) -> None:
    """Writes a pool whole, so that a kill leaves the old file or the new one.

    Raises:
        BaselineError: if the folder or its disk does not allow it.
    """
    head = {
        "pool": FORMAT_VERSION,
        "policies": {case: {"band": p.band, "metric": p.metric} for case, p in sorted(pool.policies.items())},
        "seconds": {run: round(seconds, 2) for run, seconds in sorted(pool.seconds.items())},
    }
    runs: dict[Subject, tuple[RunSummary, ...]] = {}
    for summary in pool.summaries:
        runs[summary.subject] = (*runs.get(summary.subject, ()), _slim(summary, pool.policies))
    text = json.dumps(head) + "\n" + encode(runs)
    with explaining("write", path, ELSEWHERE):
        path.parent.mkdir(parents=True, exist_ok=True)
    # Without a time in its head the file depends on the runs alone.
    replace_bytes(path, gzip.compress(text.encode(), _COMPRESSION, mtime=0), ELSEWHERE)


def _slim(summary: RunSummary, policies: Mapping[str, Policy]) -> RunSummary:
    metric = policies.get(summary.subject.case, Policy()).metric
    return replace(summary, rounds={name: ns for name, ns in summary.rounds.items() if name == metric})


def read_pool(path: Path) -> Pool:
    """Reads a pool.

    Raises:
        BaselineError: if the file is missing, damaged, or no pool.
    """
    with explaining("read", path, "give the file of a pool"):
        packed = read_regular_file(path)
    try:
        first, _, body = _unpack(packed).decode().partition("\n")
        fields = parse(first)
        if isinstance(fields, dict) and isinstance(version := fields.get("pool"), int):
            _check_version(version)
        head, runs = read(_PoolHead, fields), decode(body)
    except NewerFormatError as error:
        raise BaselineError(f"pool {path}: {error}; upgrade pytest-nsight") from error
    except gzip.BadGzipFile as error:
        raise BaselineError(f"{path} is no pool of runs: it is not compressed by gzip") from error
    except (NsightError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise BaselineError(f"{path} is no pool of runs, or a damaged one ({error}); collect it again") from error
    policies = {case: Policy(band=one.band, metric=one.metric) for case, one in head.policies.items()}
    return Pool(tuple(run for stored in runs.values() for run in stored), policies, head.seconds)


def _unpack(packed: bytes) -> bytes:
    with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
        text = file.read(_MOST_UNPACKED_BYTES + 1)
    if len(text) > _MOST_UNPACKED_BYTES:
        raise DecodingError("", f"unpacks to more than {_MOST_UNPACKED_BYTES >> 20} MiB")
    return text


def _check_version(version: int) -> None:
    if version > FORMAT_VERSION:
        raise NewerFormatError(
            f"written by a newer pytest-nsight (format {shown(version)}, this one reads {FORMAT_VERSION})"
        )


def join_pools(pools: Sequence[Pool]) -> Pool:
    """Puts the runs of several pools together; where they disagree on a policy, the last one counts."""
    summaries = {(run.run, run.subject): run for pool in pools for run in pool.summaries}
    return Pool(
        tuple(summaries.values()),
        {case: policy for pool in pools for case, policy in pool.policies.items()},
        {run: seconds for pool in pools for run, seconds in pool.seconds.items()},
    )


def list_processes(summaries: Iterable[RunSummary]) -> tuple[PooledRun, ...]:
    """Sorts summaries into runs, oldest first, and leaves out runs that lack a subject that most runs have.

    A run that was interrupted, or in which a case failed, cannot represent a suite.
    """
    by_run: dict[str, dict[Subject, RunSummary]] = {}
    for summary in summaries:
        by_run.setdefault(summary.run, {})[summary.subject] = summary
    counts: dict[Subject, int] = {}
    for subject in (subject for found in by_run.values() for subject in found):
        counts[subject] = counts.get(subject, 0) + 1
    expected = {subject for subject, count in counts.items() if 2 * count > len(by_run)}
    processes = []
    for run, found in by_run.items():
        if expected <= found.keys():
            first = next(iter(found.values()))
            chosen = {subject: found[subject] for subject in sorted(expected)}
            processes.append((first.recorded, PooledRun(run, first.session, first.board, chosen)))
    return tuple(process for _, process in sorted(processes, key=lambda item: (item[0], item[1].run)))


_WRITING_SHARE = 0.02
"""Writing takes longer the more there is; it may take this share of the time, no more."""


class PoolWriter:
    """Writes a pool while it is measured, so that whatever ends it, the file holds nearly all that was measured."""

    def __init__(
        self,
        path: Path,
        policies: Mapping[str, Policy],
        minutes: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepares; writes nothing.

        Args:
            path: the pool's file.
            policies: case -> what its verdict must obey.
            minutes: no run begins that would probably end later than this; None for no limit.
            clock: seconds.
        """
        self._path = path
        self._policies = policies
        self._clock = clock
        self._deadline_s = math.inf if minutes is None else clock() + 60 * minutes
        self._run_began_s = self._written_s = clock()
        self._longest_s = self._writing_s = 0.0
        self._seconds: dict[str, float] = {}
        self._summaries: tuple[RunSummary, ...] = ()

    def add(self, summaries: Sequence[RunSummary]) -> bool:
        """Takes all that has been measured so far, before each run; whether there is time for this run.

        Raises:
            BaselineError: the file cannot be written.
        """
        now_s = self._clock()
        if fresh := {summary.run for summary in summaries} - self._seconds.keys():
            taken_s = now_s - self._run_began_s
            self._longest_s = max(self._longest_s, taken_s)
            self._seconds.update(dict.fromkeys(fresh, taken_s))
            self._summaries = tuple(summaries)
            if self._writing_s <= _WRITING_SHARE * (now_s - self._written_s):
                self._write()
        self._run_began_s = self._clock()
        return self._run_began_s + self._longest_s <= self._deadline_s

    def _write(self) -> None:
        began_s = self._clock()
        write_pool(self._path, Pool(self._summaries, self._policies, self._seconds))
        self._written_s = self._clock()
        self._writing_s = self._written_s - began_s

    def __enter__(self) -> PoolWriter:  # noqa: PYI034 - typing.Self needs Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        """Writes what the last runs added."""
        if self._summaries:
            self._write()
