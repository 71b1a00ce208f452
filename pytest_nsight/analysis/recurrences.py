"""Sequences of numbers that occur again and again in a long row of numbers. Pure.

A sequence grows number by number, at the places where what it begins with and what it ends with occur often enough.
So each of them occurs. Those are chosen first that join the most neighbours which no chosen one has joined: a chain
is one sequence and not its pairs, and of a loop the sequence is one period.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pytest_nsight.model.sorted_keys import rank_values
from pytest_nsight.model.trace import Flags, Ints

FEWEST = 3
"""Sequences that occur less often are no pattern."""
LONGEST = 17
"""Numbers in a sequence, at most."""
_MOST_CANDIDATES = 4000
"""Sequences that are looked at, those first that may join the most: each costs a search through its occurrences."""
_NEW = 0.5
"""A sequence that joins a smaller share of its neighbours for the first time is known from the others."""
_APART = -1


@dataclass(frozen=True, slots=True)
class Recurrence:
    """A sequence and where it occurs.

    Attributes:
        length: numbers in it.
        places: shape (occurrences,), where each begins, ascending; no two of them overlap.
        joins: shape (joins,), the places whose number an occurrence joins to the next one: all of an occurrence but
            its last one, and that one too where the next occurrence follows at once.
    """

    length: int
    places: Ints
    joins: Ints

    @classmethod
    def of(cls, length: int, places: Ints, follows: Flags) -> Recurrence:
        """The occurrences at some places that do not overlap an earlier one.

        Args:
            length: numbers in the sequence.
            places: shape (places,), where it begins, ascending.
            follows: shape (numbers - 1,), whether each number and the next one may stand in one sequence.
        """
        places = _drop_overlaps(places, length)
        is_next = (np.diff(places) == length) & follows[places[1:] - 1]
        inner = (places[:, None] + np.arange(length - 1)).ravel()
        return cls(length, places, np.concatenate([inner, places[1:][is_next] - 1]))

    def count_new(self, is_joined: Flags) -> int:
        """How many of the joins no sequence has made yet.

        Args:
            is_joined: shape (numbers,), whether a sequence joins each number to the next one.
        """
        return len(self.joins) - int(np.count_nonzero(is_joined[self.joins]))


@dataclass(frozen=True, slots=True)
class _Level:
    """All sequences of one length that begin and end with frequent ones.

    Attributes:
        length: numbers in each.
        at: shape (places,), where they begin, ascending.
        code: shape (places,), which sequence begins there.
        count: shape (sequences,), how often each occurs; occurrences may overlap.
        left: shape (sequences,), code of the sequence without its last number, one level below.
        right: shape (sequences,), of that without its first number.
    """

    length: int
    at: Ints
    code: Ints
    count: Ints
    left: Ints
    right: Ints

    def grow(self, numbers: int) -> _Level:
        """The sequences that are one number longer.

        Args:
            numbers: how many there are in the row.
        """
        is_frequent = self.count[self.code] >= FEWEST
        at, code = self.at[is_frequent], self.code[is_frequent]
        code_at = np.full(numbers + 1, _APART)
        code_at[at] = code
        following = code_at[at + 1]
        # Most sequences always go on alike: only the others need a sort.
        usual = np.full(len(self.count), _APART)
        usual[code] = following
        differs = np.zeros(len(self.count), np.bool_)
        differs[code[following != usual[code]]] = True
        differs |= usual == _APART
        alike = np.flatnonzero(~differs)
        goes_on = following != _APART
        at, code, following = at[goes_on], code[goes_on], following[goes_on]
        is_sorted = differs[code]
        values, ranks = rank_values(code[is_sorted] * len(self.count) + following[is_sorted])
        number = np.zeros(len(self.count), np.int64)
        number[alike] = len(values) + np.arange(len(alike))
        longer = number[code]
        longer[is_sorted] = ranks
        return _Level(
            length=self.length + 1,
            at=at,
            code=longer,
            count=np.bincount(longer, minlength=len(values) + len(alike)),
            left=np.concatenate([values // len(self.count), alike]),
            right=np.concatenate([values % len(self.count), usual[alike]]),
        )

    def flag_parts(self, longer: _Level) -> Flags:
        """Which sequences are, wherever they occur, a part of the same longer one; shape (sequences,)."""
        flags = np.zeros(len(self.count), np.bool_)
        for part in (longer.left, longer.right):
            flags[part[self.count[part] == longer.count]] = True
        return flags

    def thin_out(self, longer: _Level) -> Flags:
        """Which sequences are enough to cover longer ones that are not looked at; shape (sequences,).

        Where all occurrences go on alike, the next one that is wanted begins with the last number of this one.
        """
        same = self.count[longer.left] == longer.count
        same &= self.count[longer.right] == longer.count
        goes_on = np.zeros(len(self.count), np.bool_)
        goes_on[longer.left[same]] = True
        place = self.find_places()
        order = np.argsort(place, kind="stable")
        is_first = np.append(True, ~(goes_on[order[:-1]] & (np.diff(place[order]) == 1)))
        begin = np.maximum.accumulate(np.where(is_first, np.arange(len(order)), 0))
        flags = np.zeros(len(self.count), np.bool_)
        flags[order] = (np.arange(len(order)) - begin) % (self.length - 1) == 0
        return flags | ~goes_on

    def find_places(self) -> Ints:
        """The first place of each sequence, shape (sequences,)."""
        place = np.zeros(len(self.count), np.int64)
        place[self.code[::-1]] = self.at[::-1]
        return place

    def list_occurrences(self, chosen: Flags) -> Iterator[tuple[int, Ints]]:
        """The length and the places of each chosen sequence.

        Args:
            chosen: shape (sequences,).
        """
        is_chosen = chosen[self.code]
        at, code = self.at[is_chosen], self.code[is_chosen]
        if len(at):
            order = np.argsort(code, kind="stable")
            edges = np.flatnonzero(np.diff(code[order])) + 1
            for places in np.split(at[order], edges):
                yield self.length, places


def find_recurrences(numbers: Ints, follows: Flags) -> list[Recurrence]:
    """Sequences of at least two numbers that occur at least FEWEST times, those that join the most first.

    Args:
        numbers: shape (numbers,), 0 and above.
        follows: shape (numbers - 1,), whether each number and the next one may stand in one sequence.
    """
    if not follows.any():
        return []
    candidates = sorted(_list_candidates(numbers, follows), key=lambda one: -one[0] * len(one[1]))
    del candidates[_MOST_CANDIDATES:]
    is_joined = np.zeros(len(numbers), np.bool_)
    found: list[Recurrence] = []
    tried: set[bytes] = set()
    waiting = [(-length * len(places), length, number) for number, (length, places) in enumerate(candidates)]
    heapq.heapify(waiting)
    while waiting:
        most, length, number = heapq.heappop(waiting)
        one = Recurrence.of(length, candidates[number][1], follows)
        candidates[number] = length, one.places
        new = one.count_new(is_joined)
        if new < -most:
            # Another one may join more by now. What one joins for the first time never becomes more.
            heapq.heappush(waiting, (-new, length, number))
            continue
        begin, length = _trim(one, is_joined)
        # What was not chosen once joins even less by now.
        if (text := numbers[begin : begin + length].tobytes()) in tried:
            continue
        tried.add(text)
        if length < one.length:
            one = Recurrence.of(length, _find(begin, length, numbers, follows), follows)
            new = one.count_new(is_joined)
        if new and new >= _NEW * len(one.joins) and len(one.places) >= FEWEST:
            is_joined[one.joins] = True
            found.append(one)
    return found


def _list_candidates(numbers: Ints, follows: Flags) -> Iterator[tuple[int, Ints]]:
    """The length and all places of each sequence that may be chosen."""
    at = np.flatnonzero(follows)
    span = int(numbers.max()) + 1
    values, code = rank_values(numbers[at] * span + numbers[at + 1])
    level = _Level(2, at, code, np.bincount(code), values // span, values % span)
    while level.length <= LONGEST and (level.count >= FEWEST).any():
        longer = level.grow(len(numbers))
        wanted = level.thin_out(longer) if level.length == LONGEST else ~level.flag_parts(longer)
        yield from level.list_occurrences(wanted & (level.count >= FEWEST))
        level = longer


def _trim(one: Recurrence, is_joined: Flags) -> tuple[int, int]:
    """The place and length of the part from the first to the last join that most occurrences make anew."""
    known = np.count_nonzero(is_joined[one.places[:, None] + np.arange(one.length - 1)], axis=0)
    new = np.flatnonzero(2 * known < len(one.places))
    if not len(new):
        return int(one.places[0]), one.length
    return int(one.places[0] + new[0]), int(new[-1] - new[0] + 2)


def _find(begin: int, length: int, numbers: Ints, follows: Flags) -> Ints:
    """All places of the sequence at a place."""
    places = np.flatnonzero(numbers[: len(numbers) - length + 1] == numbers[begin])
    for offset in range(1, length):
        is_same = follows[places + offset - 1] & (numbers[places + offset] == numbers[begin + offset])
        places = places[is_same]
    return places


def _drop_overlaps(places: Ints, length: int) -> Ints:
    """The places without those where the sequence of the kept place before has not ended yet."""
    if (np.diff(places) >= length).all():
        return places
    kept, end = [], 0
    for place in places.tolist():
        if place >= end:
            kept.append(place)
            end = place + length
    return np.array(kept, np.int64)
