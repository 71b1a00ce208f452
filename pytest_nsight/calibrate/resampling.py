"""Random resamples of a pool: some of its runs as if they had been saved, others as if they were checked."""

from __future__ import annotations

import enum
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pytest_nsight.calibrate.pool import PooledRun
from pytest_nsight.judge.subject_runs import FIRST_PAIRS, LOOKS, MINIMUM_NEW_RUNS
from pytest_nsight.model.values import RunSummary, Subject

STORED_RUNS = 5
STORED_BOARDS = 4
"""Boards that SEVERAL_BOARDS stores runs of, each as many as one alone would have."""


class Situation(enum.Enum):
    """Where the stored and the new runs come from."""

    SAME_SESSION = "A/B in one session"
    SAME_BOARD = "same board, other session"
    OTHER_BOARD = "other board"
    SEVERAL_BOARDS = f"other board, {STORED_BOARDS} boards stored"


@dataclass(frozen=True, slots=True)
class Resample:
    """Runs of a pool that count as saved, and others that count as checked.

    Attributes:
        situation: where the runs come from.
        stored: the stored runs.
        new: the new runs in the order in which the looks take them.
        is_paired: whether the stored runs are another tree's, measured beside the new ones, so that there are only
            as many of them as of new ones.
    """

    situation: Situation
    stored: tuple[PooledRun, ...]
    new: tuple[PooledRun, ...]
    is_paired: bool = False

    @property
    def sessions(self) -> tuple[str, ...]:
        """Sessions of the stored runs and of the new ones, each once."""
        return tuple(dict.fromkeys(process.session for process in (*self.stored, *self.new)))

    @property
    def first_look(self) -> int:
        """New runs of every subject before the first look, as the live gate makes them."""
        return FIRST_PAIRS if self.is_paired else LOOKS[0]

    def change(self, alter: Callable[[RunSummary], RunSummary], subject: Subject) -> Resample:
        """The same resample with the new runs of one subject altered."""
        new = tuple(
            replace(one, summaries={**one.summaries, subject: alter(one.summaries[subject])}) for one in self.new
        )
        return replace(self, new=new)


def draw_resamples(
    processes: Sequence[PooledRun],
    situation: Situation,
    rng: np.random.Generator,
    *,
    stored: int = STORED_RUNS,
) -> Iterator[Resample]:
    """Random resamples without end; none if the pool has no sessions for the situation.

    The stored runs come from one session, as a save makes them, or from a session of each of several boards; the
    new ones come from one session, without replacement. Each session is equally likely to be the new one. Each
    eligible stored session is then equally likely; with several boards, each board is equally likely, and then each
    of its sessions. There are 9 new runs if the session has that many, otherwise all that it has, at least 5.

    Args:
        processes: runs of a pool.
        situation: where stored and new runs come from.
        rng: chooses.
        stored: number of stored runs; where both come from one session, there are as many as new ones.
    """
    sessions = group_by_session(processes)
    if situation is Situation.SAME_SESSION:
        yield from _draw_alternating([runs for runs in sessions if len(runs) >= 2 * MINIMUM_NEW_RUNS], rng)
        return
    candidates = [(now, list_stored(sessions, now, situation, stored)) for now in sessions]
    checked = [(now, groups) for now, groups in candidates if groups and len(now) >= MINIMUM_NEW_RUNS]
    while checked:
        now, groups = checked[int(rng.integers(len(checked)))]
        new = rng.choice(len(now), min(LOOKS[-1], len(now)), replace=False)
        yield Resample(situation, draw_stored(groups, situation, rng, stored), tuple(now[index] for index in new))


def _draw_alternating(sessions: Sequence[Sequence[PooledRun]], rng: np.random.Generator) -> Iterator[Resample]:
    """Neighbouring runs of one session in turn: base, new, new, base, base, new, ..."""
    while sessions:
        runs = sessions[int(rng.integers(len(sessions)))]
        pairs = min(LOOKS[-1], len(runs) // 2)
        start = int(rng.integers(len(runs) - 2 * pairs + 1))
        flip = int(rng.integers(2))
        trees: tuple[list[PooledRun], list[PooledRun]] = ([], [])
        for pair in range(pairs):
            first = (pair + flip) % 2
            trees[first].append(runs[start + 2 * pair])
            trees[1 - first].append(runs[start + 2 * pair + 1])
        yield Resample(Situation.SAME_SESSION, tuple(trees[0]), tuple(trees[1]), is_paired=True)


def list_stored(
    sessions: Sequence[Sequence[PooledRun]],
    now: Sequence[PooledRun],
    situation: Situation,
    stored: int = STORED_RUNS,
) -> list[list[Sequence[PooledRun]]]:
    """The sessions that could have been saved before another one, for `draw_stored`.

    Args:
        sessions: runs session by session.
        now: runs of the session that is checked.
        situation: where the stored runs come from; not one session with the new ones.
        stored: number of runs that are taken of a session.

    Returns:
        Groups of sessions, board by board where several boards are stored, else one; none if the situation asks
        for what is not there.
    """
    board, session = now[0].board, now[0].session
    own: dict[str, list[Sequence[PooledRun]]] = {}
    for runs in sessions:
        if len(runs) >= stored and (runs[0].board, runs[0].session) != (board, session):
            own.setdefault(runs[0].board, []).append(runs)
    same = own.pop(board, [])
    others = [own[name] for name in sorted(own)]
    if situation is Situation.SEVERAL_BOARDS:
        return others if len(others) >= STORED_BOARDS else []
    group = same if situation is Situation.SAME_BOARD else list(itertools.chain(*others))
    return [group] if group else []


def draw_stored(
    groups: Sequence[Sequence[Sequence[PooledRun]]],
    situation: Situation,
    rng: np.random.Generator,
    stored: int = STORED_RUNS,
) -> tuple[PooledRun, ...]:
    """Runs of a session from one group, or from each of 4 groups where several boards are stored."""
    wanted = STORED_BOARDS if situation is Situation.SEVERAL_BOARDS else 1
    chosen = (groups[index] for index in rng.permutation(len(groups))[:wanted])
    saved = (sessions[int(rng.integers(len(sessions)))] for sessions in chosen)
    return tuple(runs[index] for runs in saved for index in sorted(rng.choice(len(runs), stored, replace=False)))


def group_by_session(processes: Sequence[PooledRun]) -> list[list[PooledRun]]:
    """The runs session by session; one session on two boards counts as two."""
    groups: dict[tuple[str, str], list[PooledRun]] = {}
    for process in processes:
        groups.setdefault((process.session, process.board), []).append(process)
    return [groups[key] for key in sorted(groups)]
