"""Which commit to measure next, and which ones may be the first bad one: a binary search that can skip. Pure.

Positions number the commits after GOOD, the oldest first; GOOD itself is position -1, and BAD is the last one. The
change is assumed to happen once and to stay: all commits before it are good, it and all later ones are bad.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class CommitSearch:
    """What is known of a line of commits.

    Attributes:
        high: position of the oldest commit that is known to be bad.
        low: position of the newest commit that is known to be good.
        skipped: positions that cannot be measured.
    """

    high: int
    low: int = -1
    skipped: frozenset[int] = frozenset()

    @classmethod
    def over(cls, commits: int) -> CommitSearch:
        """The search before its first step.

        Args:
            commits: how many there are after GOOD, BAD among them; at least one.
        """
        return cls(commits - 1)

    @property
    def next_position(self) -> int | None:
        """The commit to measure next, None if no further one can narrow the search.

        It is the middle of a row of commits that nothing is known of. Without skipped commits there is one row,
        between the last good and the first bad one. Commits that cannot be measured tend to lie side by side, so
        rows that begin or end with a known commit come first, then those between two skipped ones; of both the
        longest.
        """
        ends = [self.low, *sorted(one for one in self.skipped if self.low < one < self.high), self.high]
        rows = [range(begin + 1, end) for begin, end in pairwise(ends) if end - begin > 1]
        if not rows:
            return None
        row = max(rows, key=lambda row: (row.start == self.low + 1 or row.stop == self.high, len(row)))
        return row[len(row) // 2]

    @property
    def candidates(self) -> range:
        """The commits that may be the first bad one; all but the last are skipped once the search is over."""
        return range(self.low + 1, self.high + 1)

    def with_good(self, position: int) -> CommitSearch:
        """What is known once the commit at this position proved good."""
        return replace(self, low=max(self.low, position))

    def with_bad(self, position: int) -> CommitSearch:
        """What is known once the commit at this position proved bad."""
        return replace(self, high=min(self.high, position))

    def with_skipped(self, position: int) -> CommitSearch:
        """What is known once the commit at this position could not be measured."""
        return replace(self, skipped=self.skipped | {position})
