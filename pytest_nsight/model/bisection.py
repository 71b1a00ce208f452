"""What `pytest-nsight bisect` finds: commits, what became of each measured one, and the answer. Inert values."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from pytest_nsight.model.comparison import Comparison
from pytest_nsight.model.units import short_commit
from pytest_nsight.model.verdicts import ShapeChange


class Criterion(enum.Enum):
    """What separates good commits from bad ones."""

    STRUCTURE = "structure"
    """The launches of a round: the same in every process, so that one process settles a commit."""

    TIME = "time"
    """Interleaved pairs with GOOD, where GOOD and BAD launch the same."""


class Judgement(enum.Enum):
    """What a commit proved to be."""

    GOOD = "good"
    BAD = "bad"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit as git describes it.

    Attributes:
        hash: full.
        date: of its author, ISO 8601.
        subject: first line of its message.
        parents: full hashes.
    """

    hash: str
    date: str
    subject: str
    parents: tuple[str, ...] = ()

    @property
    def short(self) -> str:
        """The hash as people read it."""
        return short_commit(self.hash)


@dataclass(frozen=True, slots=True)
class MeasuredCommit:
    """A commit that the search has looked at.

    Attributes:
        commit: which one.
        judgement: what it proved to be.
        why: what showed it, as the end of a sentence.
        comparison: its time compared with GOOD's, None where time was not compared.
    """

    commit: Commit
    judgement: Judgement
    why: str
    comparison: Comparison | None = None


@dataclass(frozen=True, slots=True)
class Bisection:
    """The answer.

    Attributes:
        case: node id of what was measured.
        good: the commit that was called good.
        bad: the commit that was called bad.
        commits: how many there are after GOOD up to BAD.
        criterion: what separated good commits from bad ones.
        candidates: the commits that may be the first bad one, the oldest first; one if the search succeeded.
        measured: what became of each commit that was looked at, GOOD and BAD first.
        last_good: the newest commit known to be good.
        changes: launches of a round that differ between last_good and the last candidate.
        difference: the same in words.
        code_change: what differs in machine code and arguments where the launches look the same, "" if not known.
        before: launches of a round of last_good, copies and sets not counted.
        now: the same of the last candidate.
        resources: phrases on registers and shared memory that differ between them.
        comparison: time of the last candidate compared with that of last_good; None where `measured` has its
            comparison with GOOD.
        sentences: what else there is to say, such as why the search ended early.
    """

    case: str
    good: Commit
    bad: Commit
    commits: int
    criterion: Criterion
    candidates: tuple[Commit, ...]
    measured: tuple[MeasuredCommit, ...]
    last_good: Commit
    changes: tuple[ShapeChange, ...] = ()
    difference: str = ""
    code_change: str = ""
    before: int = 0
    now: int = 0
    resources: tuple[str, ...] = ()
    comparison: Comparison | None = None
    sentences: tuple[str, ...] = ()

    @property
    def first_bad(self) -> Commit | None:
        """The commit that did it, None where several may have."""
        return self.candidates[0] if len(self.candidates) == 1 else None

    @property
    def sides(self) -> tuple[MeasuredCommit, ...]:
        """The last good commit and the first known bad one, where their times were compared with GOOD's."""
        ends = (self.last_good, self.candidates[-1])
        return tuple(one for one in self.measured if one.commit in ends and one.comparison is not None)
