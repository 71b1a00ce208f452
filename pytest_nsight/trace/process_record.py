"""What the worker processes of one run left behind, and what it says of each case. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pytest_nsight.model.trace import Trace
from pytest_nsight.model.values import RunSummary
from pytest_nsight.protocol.manifest import Manifest
from pytest_nsight.trace.descendants import UNKNOWN_BOARD, find_parents, note_orphans
from pytest_nsight.trace.graph_captures import Captured, measure_captured
from pytest_nsight.trace.measures import Measured, measure
from pytest_nsight.trace.rank_summary import join_summaries
from pytest_nsight.trace.run_summary import summarise

INTERRUPTED = "interrupted"
"""Death of a process that the user ended; what it had measured stands, the rest is nobody's fault."""


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """One worker process, as it was left behind; or the ranks of a case, which stand and fall together.

    Attributes:
        manifest: the worker's own account; of ranks, the joined one.
        trace: what the profiler saw, None where nothing of it could be read. Processes that ran under one
            profiler share one trace.
        failure: why the process ended early, "" if it came to its end.
        trace_error: why there is no trace, "" if there is one.
        cases: what it was to measure; None if all that was asked for.
        ranks: of ranks, the account and the trace of each; else empty.
        children: process id of something that it started -> process id of the worker itself.
    """

    manifest: Manifest
    trace: Trace | None
    failure: str = ""
    trace_error: str = ""
    cases: tuple[str, ...] | None = None
    ranks: tuple[tuple[Manifest, Trace | None], ...] = ()
    children: Mapping[int, int] = field(default_factory=dict)

    @property
    def processes(self) -> tuple[tuple[Manifest, Trace | None], ...]:
        """Account and trace of every process."""
        return self.ranks or ((self.manifest, self.trace),)


@dataclass(frozen=True, slots=True)
class ProcessResults:
    """What one record holds.

    Attributes:
        summaries: of every case that was seen completely.
        problems: case -> why there is nothing to judge.
        notes: sentences about the recording.
        bytes_per_s: memory bandwidth of the worker's board as the recording tells it, None if it does not.
    """

    summaries: tuple[RunSummary, ...] = ()
    problems: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    bytes_per_s: float | None = None


@dataclass(frozen=True)
class _AttributedTrace:
    """A trace, measured."""

    measured: Measured
    captured: Captured
    notes: tuple[str, ...]


def summarise_records(records: Sequence[ProcessRecord]) -> tuple[ProcessResults, ...]:
    """Measures every trace once, and summarises what each record has in it.

    Args:
        records: of all processes of one run.

    Returns:
        What each yields, in their order.
    """
    processes = [process for record in records for process in record.processes]
    known = {child: worker for record in records for child, worker in record.children.items()}
    measured: dict[int, _AttributedTrace] = {}
    for _, trace in processes:
        if trace is not None and id(trace) not in measured:
            workers = {manifest.pid for manifest, other in processes if other is trace}
            parents = find_parents(trace, workers, known)
            result = measure(trace, parents=parents)
            notes = (*trace.notes, *result.notes, *note_orphans(trace, workers, parents))
            measured[id(trace)] = _AttributedTrace(result, measure_captured(trace), notes)
    return tuple(_summarise_record(record, measured) for record in records)


def _summarise_record(record: ProcessRecord, measured: Mapping[int, _AttributedTrace]) -> ProcessResults:
    found = []
    notes: list[str] = []
    told: float | None = None
    for manifest, trace in record.processes:
        if trace is None:
            return ProcessResults()
        reading = measured[id(trace)]
        summaries, problems = summarise(manifest, reading.measured, reading.captured)
        elsewhere, strange = check_boards(manifest, trace, reading.measured)
        found.append((summaries, {**problems, **elsewhere}))
        notes += [*reading.notes, *strange]
        told = next((one.bytes_per_s for one in trace.devices if one.uuid == manifest.board), None) or told
    summaries, problems = join_summaries(found) if record.ranks else found[0]
    kept = tuple(summary for summary in summaries if summary.subject.case not in problems)
    return ProcessResults(kept, problems, tuple(dict.fromkeys(notes)), told)


def check_boards(manifest: Manifest, trace: Trace, measured: Measured) -> tuple[dict[str, str], tuple[str, ...]]:
    """Whether each case's kernels ran on the board that the worker watched, emptied and waited for.

    Args:
        manifest: of one worker.
        trace: of that worker; one that does not tell boards apart proves nothing.
        measured: the same, attributed.

    Returns:
        For each case that ran elsewhere a sentence; and sentences on those that used other boards as well.
    """
    own = measured.ranges[(measured.ranges["process"] == manifest.pid) & (measured.ranges["id"] >= 0)]
    board = dict(zip(own["id"].tolist(), own["board"].tolist(), strict=True))
    split = set(own["id"][own["is_split"] == 1].tolist())
    problems: dict[str, str] = {}
    notes: dict[str, str] = {}
    for one in manifest.rounds:
        number = board.get(one.id, UNKNOWN_BOARD)
        uuid = trace.devices[number].uuid if number != UNKNOWN_BOARD else ""
        if uuid and manifest.board and uuid != manifest.board:
            problems[one.case] = (
                f"its kernels ran on {uuid}, but clock, cache and synchronisation are those of {manifest.board}: "
                "make the device current (torch.cuda.set_device) before the first measured test, or choose it "
                "with CUDA_VISIBLE_DEVICES"
            )
        elif one.id in split:
            notes[one.case] = (
                f"{one.case} launches on several boards from one process: only {manifest.board} has its cache "
                "emptied and its clock read; measure with nsight(ranks=...) where each should count"
            )
    return problems, tuple(notes.values())
