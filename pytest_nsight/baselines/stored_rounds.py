"""The rounds of a run in a baseline file, as lists or packed, and no more of them than fit."""

from __future__ import annotations

from collections.abc import Mapping
from operator import sub
from typing import TypeVar

from pytest_nsight.baselines.file_format import GAP_IS_DERIVED, MOST_DURATIONS, MOST_ROUNDS, StoredConstant
from pytest_nsight.baselines.packed_integers import PackingError, unpack
from pytest_nsight.model.json_text import DecodingError, shown
from pytest_nsight.model.values import METRICS

_Entry = TypeVar("_Entry")
_Rounds = Mapping[str, tuple[int, ...]]


class Durations:
    """Counts the durations of a file, so that a short text cannot ask for all memory."""

    def __init__(self) -> None:
        self._left = MOST_DURATIONS

    def take(self, durations: tuple[int, ...]) -> tuple[int, ...]:
        """The durations, unless they are too many."""
        self._left -= len(durations)
        if self._left < 0:
            raise DecodingError("", f"holds more than {MOST_DURATIONS:,} durations, the most that are read")
        return durations


def look_up(entries: Mapping[str, _Entry], key: str, table: str) -> _Entry:
    """The entry of a table of a file.

    Args:
        entries: the table.
        key: of the entry.
        table: its name, for the error.

    Raises:
        DecodingError: there is none of this key.
    """
    try:
        return entries[key]
    except KeyError:
        raise DecodingError("", f'has the key {shown(key)}, which is not in "{table}"') from None


def read_lists(stored: Mapping[str, tuple[int, ...] | str | StoredConstant], durations: Durations) -> _Rounds:
    """The rounds of a run by metric, as the first format holds them.

    Args:
        stored: metric -> durations, one for all rounds, or the name of an earlier metric with the same ones.
        durations: counts those of the file.

    Raises:
        DecodingError: a metric is unknown, or there are too many rounds.
    """
    rounds: dict[str, tuple[int, ...]] = {}
    for metric, value in stored.items():
        _check_metric(metric)
        if isinstance(value, StoredConstant):
            rounds[metric] = durations.take((value.value,) * value.rounds)
        elif isinstance(value, str):
            rounds[metric] = look_up(rounds, value, "rounds")
        else:
            rounds[metric] = durations.take(value)
        if len(rounds[metric]) > MOST_ROUNDS:
            raise DecodingError(
                f".rounds.{metric}", f"has {len(rounds[metric])} rounds, expected up to {MOST_ROUNDS}"
            )
    return rounds


def read_packed(stored: Mapping[str, str], durations: Durations) -> _Rounds:
    """The rounds of a run by metric, as later formats hold them.

    Args:
        stored: names of metrics with the same durations -> these, packed.
        durations: counts those of the file.

    Raises:
        DecodingError: a metric is unknown or there twice, or durations are none or too many.
    """
    rounds: dict[str, tuple[int, ...]] = {}
    for metrics, packed in stored.items():
        is_derived = metrics == "gap" and packed == GAP_IS_DERIVED
        found = () if is_derived else read_one(packed, f".rounds[{shown(metrics)}]", durations)
        for metric in metrics.split(" "):
            _check_metric(metric)
            if metric in rounds:
                raise DecodingError(".rounds", f'has the metric "{metric}" twice')
            rounds[metric] = found
    if stored.get("gap") == GAP_IS_DERIVED:
        span, busy = rounds.get("span", ()), rounds.get("busy", ())
        rounds["gap"] = durations.take(tuple(map(sub, span, busy)))
        if len(span) != len(busy) or min(rounds["gap"], default=0) < 0:
            raise DecodingError(".rounds.gap", "is the span less the busy time, and these do not fit")
    return rounds


def read_one(packed: str, place: str, durations: Durations) -> tuple[int, ...]:
    """The numbers of one packed text.

    Args:
        packed: the text.
        place: of it, for the error.
        durations: counts those of the file.

    Raises:
        DecodingError: it holds no numbers, or too many.
    """
    try:
        return durations.take(unpack(packed, MOST_ROUNDS))
    except PackingError as error:
        raise DecodingError(place, str(error)) from None


def _check_metric(metric: str) -> None:
    if metric not in METRICS:
        raise DecodingError(".rounds", f"has an unknown metric {shown(metric)}, known: {', '.join(METRICS)}")
