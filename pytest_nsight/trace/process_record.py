"""The records of the worker processes of one run, and the summaries of each case in them. Pure."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pytest_nsight.model.gpu_samples import MetricMeans
from pytest_nsight.model.round_timeline import RoundTimeline
from pytest_nsight.model.trace import Trace
from pytest_nsight.model.values import RunSummary, Subject
from pytest_nsight.protocol.manifest import Manifest
from pytest_nsight.trace.descendants import UNKNOWN_BOARD, find_parents, note_unassigned_processes
from pytest_nsight.trace.graph_captures import Captured, measure_captured
from pytest_nsight.trace.launches_by_time import list_rounds
from pytest_nsight.trace.measures import Measured, measure
from pytest_nsight.trace.rank_summary import join_summaries
from pytest_nsight.trace.round_lanes import average_cases, cut_rounds
from pytest_nsight.trace.run_summary import summarise


class ProcessEnd(enum.Enum):
    """How a worker process ended."""

    COMPLETE = "complete"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    """By the user: what it had measured stands, and no case is to be suspected."""


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """What one worker process left behind; or the ranks of parallel tests, which stand and fall together.

    Attributes:
        manifest: the worker's own account; of ranks, the joined one.
        trace: what the profiler saw, None where nothing of it could be read. Processes that ran under one
            profiler share one trace.
        end: how the process ended.
        failure: where it failed, a sentence that says how and where its output is; else "".
        trace_error: why there is no trace, "" if there is one.
        overdue: the case that took too long and was ended with the process, "" if none did.
        cases: what it was to measure; None if all that was asked for.
        ranks: of ranks, the account and the trace of each; else empty.
        children: process id of something that it started -> process id of the worker itself.
    """

    manifest: Manifest
    trace: Trace | None
    end: ProcessEnd = ProcessEnd.COMPLETE
    failure: str = ""
    trace_error: str = ""
    overdue: str = ""
    cases: tuple[str, ...] | None = None
    ranks: tuple[tuple[Manifest, Trace | None], ...] = ()
    children: Mapping[int, int] = field(default_factory=dict)

    @property
    def processes(self) -> tuple[tuple[Manifest, Trace | None], ...]:
        """Manifest and trace of every process."""
        return self.ranks or ((self.manifest, self.trace),)

    @property
    def failed_in_canary(self) -> bool:
        """Whether the process failed while a canary ran, and not while a case did."""
        is_over = {*self.manifest.ended, *(fault.case for fault in self.manifest.canary_faults)}
        return self.end is ProcessEnd.FAILED and any(
            Subject(case).is_canary for case in self.manifest.started if case not in is_over
        )

    @property
    def has_died_after_tests(self) -> bool:
        """Whether its pytest had come to its end, and the process then failed."""
        return self.end is ProcessEnd.FAILED and self.manifest.exit_code is not None


@dataclass(frozen=True, slots=True)
class MeasuredProcess:
    """One worker process, or the ranks of parallel tests, with what its record says of each case.

    Attributes:
        manifest: the worker's own account.
        summaries: of every case whose record is complete, canaries among them.
        problems: case -> what is wrong with its record.
        notes: sentences about the recording.
        bytes_per_s: memory bandwidth of the worker's board by the recording's own account, None if it has none.
        end: how the process ended.
        failure: where it failed, a sentence that says how; else "".
        trace_error: why there is no trace, "" if there is one or nothing was measured.
        overdue: the case that took too long, "" if none did.
        has_trace: whether a record was read.
        failed_in_canary: whether it failed while a canary ran.
        has_died_after_tests: whether its pytest had come to its end, and the process then failed.
        is_ranked: whether these are the ranks of parallel tests.
        cases: what it was to measure; None if all that was asked for.
        timelines: case -> its typical round; of ranks, the first one's.
        metrics: case -> sampled counters of its board during its rounds; of ranks, the first one's.
    """

    manifest: Manifest
    summaries: tuple[RunSummary, ...] = ()
    problems: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    bytes_per_s: float | None = None
    end: ProcessEnd = ProcessEnd.COMPLETE
    failure: str = ""
    trace_error: str = ""
    overdue: str = ""
    has_trace: bool = True
    failed_in_canary: bool = False
    has_died_after_tests: bool = False
    is_ranked: bool = False
    cases: tuple[str, ...] | None = None
    timelines: Mapping[str, RoundTimeline] = field(default_factory=dict)
    metrics: Mapping[str, MetricMeans] = field(default_factory=dict)


@dataclass(frozen=True)
class _AttributedTrace:
    """The launches of a trace, attributed to its ranges."""

    measured: Measured
    captured: Captured
    parents: Mapping[int, int]
    notes: tuple[str, ...]


def summarise_records(records: Sequence[ProcessRecord]) -> tuple[MeasuredProcess, ...]:
    """The records of all processes of one run, summarised in their order; every trace is attributed once."""
    processes = [process for record in records for process in record.processes]
    known = {child: worker for record in records for child, worker in record.children.items()}
    measured: dict[int, _AttributedTrace] = {}
    for _, trace in processes:
        if trace is not None and id(trace) not in measured:
            rounds = list_rounds(manifest for manifest, other in processes if other is trace)
            parents = find_parents(trace, rounds.keys(), known)
            result = measure(trace, parents=parents, rounds=rounds)
            notes = (*trace.notes, *result.notes, *note_unassigned_processes(trace, rounds.keys(), parents))
            measured[id(trace)] = _AttributedTrace(result, measure_captured(trace), parents, notes)
    return tuple(_summarise_record(record, measured) for record in records)


def _summarise_record(record: ProcessRecord, measured: Mapping[int, _AttributedTrace]) -> MeasuredProcess:
    process = MeasuredProcess(
        record.manifest,
        end=record.end,
        failure=record.failure,
        trace_error=record.trace_error,
        overdue=record.overdue,
        has_trace=record.trace is not None,
        failed_in_canary=record.failed_in_canary,
        has_died_after_tests=record.has_died_after_tests,
        is_ranked=bool(record.ranks),
        cases=record.cases,
    )
    found = []
    notes: list[str] = []
    bytes_per_s: float | None = None
    timelines: dict[str, RoundTimeline] = {}
    metrics: Mapping[str, MetricMeans] = {}
    for manifest, trace in record.processes:
        if trace is None:
            return process
        attributed = measured[id(trace)]
        summaries, problems = summarise(manifest, attributed.measured, attributed.captured, damage=trace.damage)
        elsewhere, strange = check_boards(manifest, trace, attributed.measured)
        found.append((summaries, {**problems, **elsewhere}))
        notes += [*attributed.notes, *strange]
        metrics = metrics or average_cases(manifest, trace, attributed.measured)
        timelines = timelines or cut_rounds(manifest, trace, attributed.measured, attributed.parents)
        own = (device.bytes_per_s for device in trace.devices if device.uuid == manifest.board)
        bytes_per_s = next(own, None) or bytes_per_s
    summaries, problems = join_summaries(found) if record.ranks else found[0]
    return replace(
        process,
        summaries=tuple(summary for summary in summaries if summary.subject.case not in problems),
        problems=problems,
        notes=tuple(dict.fromkeys(notes)),
        bytes_per_s=bytes_per_s,
        timelines=timelines,
        metrics=metrics,
    )


def check_boards(manifest: Manifest, trace: Trace, measured: Measured) -> tuple[dict[str, str], tuple[str, ...]]:
    """The cases whose kernels ran on another board than the one whose clock and cache the worker controlled.

    Args:
        manifest: the manifest of one worker.
        trace: the trace of that worker. One that does not identify the boards proves nothing.
        measured: the attributed launches of the trace.

    Returns:
        Case -> why it cannot be judged, for each case that ran on another board; and one sentence for each case
        that used several boards.
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
                "emptied and its clock read; measure with @pytest.mark.nsight(ranks=...) where each should count"
            )
    return problems, tuple(notes.values())
