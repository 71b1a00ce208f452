"""What a shard of a session leaves for the others: everything that judging needs, in one file of its folder.

The shard itself judges nothing. `pytest-nsight report` reads the files of all shards and judges their union.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pytest_nsight.baselines.failed_saves import FailedSave
from pytest_nsight.gate.measured_shard import MeasuredShard, Shard, ShardIdentity
from pytest_nsight.gate.other_tree import OtherTree
from pytest_nsight.gate.state import GateState, SerialisedReport, SessionPlan
from pytest_nsight.gate.stored_runs import StoredRuns, group_by_subject
from pytest_nsight.model.errors import RecordingError
from pytest_nsight.model.gpu_samples import MetricMeans
from pytest_nsight.model.json_text import DecodingError
from pytest_nsight.model.round_timeline import RoundTimeline
from pytest_nsight.model.values import Case, InterleavedPairs, RunSummary
from pytest_nsight.model.verdicts import AffectedCases
from pytest_nsight.protocol.json_files import damaged, read_json_file, restored, write_json
from pytest_nsight.protocol.phase_reports import EXPECTS_EXCEPTION, first_line_of

FILE_NAME = "shard.json"
"""Its name in a session's folder."""

_FORMAT = 1
_MOST_CHARACTERS = 300

_OF_IDENTITY = tuple(one.name for one in dataclasses.fields(ShardIdentity))
_OF_STATE = (
    "summaries", "canaries", "pairs", "problems", "notes", "device", "environment", "bytes_per_s", "seeds",
    "timelines", "metrics",
)  # fmt: skip
"""What the file and the state of a loop have alike."""


@dataclass(frozen=True, slots=True)
class _ShardFile:
    """The content of the file.

    Attributes:
        format: version of it.
        shard: which one it is.
        fingerprint: of the whole division; "" where the command line has divided.
        session: id of the shard's session.
        recorded: UTC time of its start, ISO 8601.
        collector: what recorded it, with its version.
        commit: of the tested tree, "+" at its end if it had changes; "" where nothing was measured.
        options: what decides how is measured and judged, by option; the same in all shards.
        baselines: fingerprint of the folder of baselines.
        cases: what was to be measured.
        summaries: one per subject and run.
        canaries: one per canary and run.
        stored: the runs that the baselines hold for these cases and for the canaries.
        reports: case -> outcome of each phase, with the first line of a failure.
        pairs: case -> rounds interleaved with those of the case that it claims to beat.
        problems: case -> why there is nothing to judge.
        notes: sentences about the session.
        gaps: sentences on what a strict session must not leave out.
        device: product name of what was measured, "" if nothing was.
        environment: of the first run.
        bytes_per_s: memory bandwidth by the recording's own account.
        seeds: run id -> seed of the order of its cases.
        other_commit: the revision that this session compares with, "" for stored runs.
        other_runs: the revision's runs.
        absent: case -> why the revision has none.
        affected: which cases were chosen by what has changed.
        timelines: case -> a round of its newest run.
        metrics: case -> sampled counters in its newest run.
        baselines_option: the folder of baselines where the command line gives it, "" elsewhere.
        failed_saves: the cases whose last save failed.
    """

    format: int
    shard: Shard
    fingerprint: str
    session: str
    recorded: str
    collector: str
    commit: str
    options: Mapping[str, str]
    baselines: str
    cases: tuple[Case, ...]
    summaries: tuple[RunSummary, ...] = ()
    canaries: tuple[RunSummary, ...] = ()
    stored: tuple[RunSummary, ...] = ()
    reports: Mapping[str, tuple[Mapping[str, object], ...]] = field(default_factory=dict)
    pairs: Mapping[str, tuple[InterleavedPairs, ...]] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()
    device: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    bytes_per_s: float | None = None
    seeds: Mapping[str, int] = field(default_factory=dict)
    other_commit: str = ""
    other_runs: tuple[RunSummary, ...] = ()
    absent: Mapping[str, str] = field(default_factory=dict)
    affected: AffectedCases | None = None
    timelines: Mapping[str, RoundTimeline] = field(default_factory=dict)
    metrics: Mapping[str, MetricMeans] = field(default_factory=dict)
    baselines_option: str = ""
    failed_saves: tuple[FailedSave, ...] = ()

    @classmethod
    def of(cls, shard: MeasuredShard) -> _ShardFile:
        """The content for a shard."""
        state = shard.state
        return cls(
            format=_FORMAT,
            commit=shard.commit,
            cases=state.plan.cases,
            stored=shard.stored.all,
            reports={case: tuple(map(_shorten, reports)) for case, reports in state.reports.items()},
            gaps=shard.gaps,
            other_commit=state.other.commit,
            other_runs=tuple(run for runs in state.other.runs.values() for run in runs),
            absent=state.other.absent,
            affected=shard.affected,
            failed_saves=tuple(shard.stored.failed_saves.values()),
            **{name: getattr(shard.identity, name) for name in _OF_IDENTITY},
            **{name: getattr(state, name) for name in _OF_STATE},
        )

    def to_shard(self) -> MeasuredShard:
        """The shard that it describes."""
        return MeasuredShard(
            identity=ShardIdentity(**{name: getattr(self, name) for name in _OF_IDENTITY}),
            state=GateState(
                plan=SessionPlan(self.cases, runs=1, is_paired=bool(self.other_commit)),
                reports=self.reports,
                other=OtherTree(self.other_commit, self.absent, group_by_subject(self.other_runs)),
                **{name: getattr(self, name) for name in _OF_STATE},
            ),
            stored=StoredRuns(group_by_subject(self.stored), {one.case: one for one in self.failed_saves}),
            gaps=self.gaps,
            affected=self.affected,
        )


def render_shard(shard: MeasuredShard) -> str:
    """The file's text."""
    return write_json(_ShardFile.of(shard))


def read_shard(path: Path) -> MeasuredShard:
    """The shard that a session's folder, or its file, holds.

    Raises:
        RecordingError: it cannot be read, or a newer version has written it.
    """
    file = path / FILE_NAME if path.is_dir() else path
    found = read_json_file(_ShardFile, file)
    if found.format != _FORMAT:
        raise RecordingError(
            f"{file} has format {found.format}, {_FORMAT} is known; use the pytest-nsight that wrote it"
        )
    if found.environment and "board" not in found.environment:
        raise damaged(file, 0, DecodingError(".environment", "has no board"))
    if not all("outcome" in one for own in found.reports.values() for one in own):
        raise damaged(file, 0, DecodingError(".reports", "have one without an outcome"))
    return restored(found).to_shard()


def _shorten(report: SerialisedReport) -> dict[str, object]:
    """A report without its captured output, which may hold anything."""
    kept = {name: report[name] for name in ("when", "outcome", "wasxfail", EXPECTS_EXCEPTION) if name in report}
    return {**kept, "longrepr": first_line_of(report.get("longrepr"))[:_MOST_CHARACTERS]}
