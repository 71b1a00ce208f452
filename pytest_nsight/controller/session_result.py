"""Turns a session's last state into a result to render, or into the file of a shard to join."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_nsight.baselines import store
from pytest_nsight.collectors.base import Collector
from pytest_nsight.controller.collection.collection_record import NOTHING_COLLECTED, Collected
from pytest_nsight.controller.settings import Settings
from pytest_nsight.gate import shard_file
from pytest_nsight.gate.judging import list_subjects
from pytest_nsight.gate.measured_shard import MeasuredShard, ShardIdentity
from pytest_nsight.gate.shard_file import render_shard
from pytest_nsight.gate.state import GateState
from pytest_nsight.gate.stored_runs import StoredRuns
from pytest_nsight.model.roofline import find_datasheet
from pytest_nsight.model.values import RunSummary
from pytest_nsight.model.verdicts import SessionResult


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """What is known of a session beside its measurements.

    Attributes:
        id: unique over all sessions.
        recorded: UTC time of its start, ISO 8601.
        folder: where its files go.
        settings: what the user asked for.
        collector: what records it, None for a replay.
        collected: what pytest collected.
        notes: sentences that do not depend on what was measured, such as those on the choice of the collector.
    """

    id: str
    recorded: str
    folder: Path
    settings: Settings
    collector: Collector | None = None
    collected: Collected = NOTHING_COLLECTED
    notes: tuple[str, ...] = ()

    @property
    def is_shard(self) -> bool:
        """Whether it leaves what it measured to be judged with the other shards."""
        return self.settings.shard is not None and not self.settings.save

    def recorded_at(self, state: GateState) -> str:
        """When what is judged was recorded; of a replay, the start of the session that recorded it."""
        if self.collector is not None:
            return self.recorded
        return min(filter(None, (run.recorded for run in state.summaries)), default=self.recorded)

    def collector_title(self, state: GateState) -> str:
        """The collector as reports name it; a replay names its folder, outside of the root only the last part."""
        if self.collector is not None:
            return self.collector.title
        folder, root = self.settings.replay or self.folder, self.settings.root
        shown = folder.relative_to(root) if folder.is_relative_to(root) else folder.name
        recorded = state.environment.get("collector", "")
        return f"{recorded}, replay of {shown}" if recorded else f"replay of {shown}"


def name_environment(state: GateState) -> dict[str, str]:
    """Names and values of the machine and its software; none where nothing was measured."""
    return {"device": state.device, **state.environment} if state.device else {}


def add_measured(result: SessionResult, state: GateState) -> SessionResult:
    """The result with all that reports show of the measurement beside its runs.

    Args:
        result: of the session, with its verdicts and runs.
        state: what was measured.
    """
    return replace(
        result,
        canaries=state.canaries,
        seeds=state.seeds,
        limits=state.limits,
        timelines=state.timelines,
        metrics=state.metrics,
        datasheet=find_datasheet(state.device, state.bytes_per_s),
        partners=state.plan.partners,
        identities=state.identities,
        lines={case.id: case.line for case in state.plan.cases if case.line is not None},
    )


def list_compared(state: GateState, stored: StoredRuns) -> tuple[RunSummary, ...]:
    """The runs that the new ones are compared with."""
    return tuple(_without_launches(run) for subject in list_subjects(state, stored) for run in subject.baseline)


def _without_launches(run: RunSummary) -> RunSummary:
    """The run with only the digest of its identity, because many runs share the rest."""
    return run if run.identity is None else replace(run, identity=replace(run.identity, launches=(), order=()))


def write_shard(
    session: SessionRecord, state: GateState, stored: StoredRuns, gaps: Sequence[str]
) -> tuple[str, ...]:
    """Writes the file from which shards are joined.

    Args:
        session: which one it is, a shard.
        state: what was measured.
        stored: the runs to compare with.
        gaps: sentences on what a strict session must not leave out.

    Returns:
        A sentence if it cannot be written.

    Raises:
        BaselineError: the baselines cannot be read.
    """
    settings, collected = session.settings, session.collected
    assert settings.shard is not None
    collector = "replay" if session.collector is None else session.collector.name
    identity = ShardIdentity(
        shard=settings.shard,
        fingerprint=collected.fingerprint,
        session=session.id,
        recorded=session.recorded_at(state),
        collector=session.collector_title(state),
        options={
            "--nsight-collector": collector,
            "--nsight-against": state.other.commit or settings.against,
            "--nsight-strict": "on" if settings.strict else "off",
            "--nsight-band": str(settings.band),
            "--nsight-runs": str(settings.runs),
            "--nsight-rounds": str(settings.rounds or ""),
            "--nsight-cpu-threads": str(settings.cpu_threads or ""),
            "--nsight-no-canaries": "off" if settings.canaries else "on",
            "--nsight-affected": settings.affected,
        },
        baselines="" if settings.against else store.fingerprint(settings.baselines),
        baselines_option=settings.baselines_option,
    )
    noted = state.with_notes(*session.notes)
    shard = MeasuredShard(identity, noted, stored, tuple(gaps), collected.affected)
    path = session.folder / shard_file.FILE_NAME
    try:
        path.write_text(render_shard(shard), encoding="utf-8")
    except OSError as error:
        return (f"{path} was not written ({error.strerror}); free the disk and measure this shard again",)
    return ()
