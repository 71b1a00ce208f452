"""A shard of a session: which one it is, and what it has measured. Values only."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from pytest_nsight.gate.state import GateState
from pytest_nsight.gate.stored_runs import StoredRuns
from pytest_nsight.model.verdicts import AffectedCases


class ShardBy(enum.Enum):
    """Who divides the tests."""

    DURATION = "duration"
    """This plugin, so that every shard takes about as long."""
    SELECTION = "selection"
    """The command line has divided them already: pytest-split, -k, paths."""


@dataclass(frozen=True, slots=True)
class Shard:
    """One of several parts of a suite.

    Attributes:
        number: which one, from 1.
        count: how many there are.
        by: who divides.
    """

    number: int
    count: int
    by: ShardBy = ShardBy.DURATION

    @property
    def name(self) -> str:
        """As the user types it: "2/4"."""
        return f"{self.number}/{self.count}"


@dataclass(frozen=True, slots=True)
class ShardIdentity:
    """What must fit among the shards of one session, and names this one.

    Attributes:
        shard: which one it is.
        fingerprint: of the whole division.
        session: id of the shard's session.
        recorded: UTC time of its start.
        collector: what recorded it.
        options: what decides how is measured and judged.
        baselines: fingerprint of the folder of baselines.
        baselines_option: that folder where the command line gives it, "" elsewhere.
    """

    shard: Shard
    fingerprint: str
    session: str
    recorded: str
    collector: str
    options: Mapping[str, str]
    baselines: str
    baselines_option: str = ""

    @property
    def name(self) -> str:
        """As the user types it: "2/4"."""
        return self.shard.name


@dataclass(frozen=True, slots=True)
class MeasuredShard:
    """Everything that judging needs of a shard.

    Attributes:
        identity: which one it is, and what must fit among all.
        state: at the end of its loop.
        stored: the runs that the baselines hold for its cases and for the canaries.
        gaps: sentences on what a strict session must not leave out.
        affected: which cases were chosen by what has changed.
    """

    identity: ShardIdentity
    state: GateState
    stored: StoredRuns
    gaps: tuple[str, ...] = ()
    affected: AffectedCases | None = None

    @property
    def name(self) -> str:
        """As the user types it: "2/4"."""
        return self.identity.name

    @property
    def commit(self) -> str:
        """Of the tested tree, "+" at its end if it had changes; "" where nothing was measured."""
        return " and ".join(sorted({run.commit for run in self.state.summaries}))
