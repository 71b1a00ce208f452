"""What the rounds of a case execute, how many there are, and what precedes each of them. Frozen values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pytest_nsight.worker.pacing import USUAL, StoppingRule

T = TypeVar("T")

WARMUP = 5
"""Warm-up rounds of a case where the user gives no number."""


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """How one case is measured.

    Attributes:
        rounds: measured rounds; None for as many as pacing.is_enough asks for, fewer for a case that takes long.
        warmup: unmeasured rounds before them.
        rest_ns: pause before each round; None to let pacing.py choose.
        cold_cache: whether the cache is flushed before each round.
        rule: when the case may end where `rounds` is None.
    """

    rounds: int | None = None
    warmup: int = WARMUP
    rest_ns: int | None = None
    cold_cache: bool = True
    rule: StoppingRule = USUAL


@dataclass(frozen=True, slots=True)
class MeasuredBody(Generic[T]):
    """What the rounds of one case execute.

    Attributes:
        case: id under which the rounds are recorded, in general the node id.
        label: readable name of each round's range.
        function: what is measured.
        setup: called before each round, returns the function's (args, kwargs) or None; None to pass no arguments.
        plan: how often, and with which rests.
    """

    case: str
    label: str
    function: Callable[..., T]
    setup: Callable[[], Any] | None = None
    plan: RoundPlan = RoundPlan()
