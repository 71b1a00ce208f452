"""What reports say of a session as a whole: what it comes to, its verdicts counted, and how it has measured."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping, Sequence

from pytest_nsight.model.units import count
from pytest_nsight.model.verdicts import SessionResult, VerdictKind
from pytest_nsight.report.escapes import visible
from pytest_nsight.report.verdict_text import fails

_NOUNS = {
    VerdictKind.REGRESSION: ("regression", "regressions"),
    VerdictKind.IMPROVEMENT: ("improvement", "improvements"),
    VerdictKind.STRUCTURE: ("structure change", "structure changes"),
    VerdictKind.CLAIM: ("failed claim", "failed claims"),
    VerdictKind.ENVIRONMENT: ("not comparable", "not comparable"),
    VerdictKind.INCONCLUSIVE: ("inconclusive", "inconclusive"),
    VerdictKind.NO_BASELINE: ("without baseline", "without baseline"),
    VerdictKind.UNCHANGED: ("unchanged", "unchanged"),
    VerdictKind.IDENTICAL: ("identical", "identical"),
    VerdictKind.NOT_SAVED: ("not saved", "not saved"),
    VerdictKind.SAVED: ("saved", "saved"),
    VerdictKind.MEASURED: ("measured", "measured"),
}


class SessionOutcome(enum.Enum):
    """What a session comes to as a whole."""

    FAILED = "failed"
    NOT_JUDGED = "not judged"
    """No case failed, and none was shown to be as it was either: that is no pass."""

    PASSED = "passed"


def outcome(result: SessionResult) -> SessionOutcome:
    """What the session comes to: whether a verdict fails, and else whether any says that a case is as it was."""
    if any(fails(verdict, strict=result.strict) for verdict in result.verdicts):
        return SessionOutcome.FAILED
    is_open = all(verdict.kind.fails_strict or verdict.kind is VerdictKind.NOT_SAVED for verdict in result.verdicts)
    left_out = result.affected is not None and bool(result.affected.left_out)
    return SessionOutcome.NOT_JUDGED if is_open and (result.verdicts or not left_out) else SessionOutcome.PASSED


def summary(result: SessionResult) -> str:
    """All verdicts counted.

    Regressions and improvements always both: a gate that only ever finds one of them is broken.
    """
    kinds = Counter(verdict.kind for verdict in result.verdicts)
    both = (VerdictKind.REGRESSION, VerdictKind.IMPROVEMENT)
    was_judged = any(kind not in (VerdictKind.SAVED, VerdictKind.NOT_SAVED, VerdictKind.MEASURED) for kind in kinds)
    parts = [count(kinds[kind], *_NOUNS[kind]) for kind in both] if was_judged else []
    parts += [count(kinds[kind], *_NOUNS[kind]) for kind in VerdictKind if kinds[kind] and kind not in both]
    affected = result.affected
    left_out = count(len(affected.left_out), "case") + " not affected" if affected and affected.left_out else ""
    if not parts:
        return f"nothing was measured: {left_out}" if left_out else "nothing was measured"
    return ", ".join([f"{count(len(result.verdicts), 'verdict')}: {', '.join(parts)}", *filter(None, [left_out])])


def setup(result: SessionResult) -> str:
    """The way of measuring: machine, collector, runs and rounds, session."""
    machine = machine_name(result)
    rounds = [max(map(len, run.rounds.values()), default=0) for run in result.runs]
    runs = list(Counter(run.subject for run in result.runs).values())
    extent = f"{_span(runs, 'run')} of {_span(rounds, 'round')}, " if runs else ""
    return visible(f"{machine}, collector {result.collector}, {extent}session {result.session}")


def machine_name(result: SessionResult) -> str:
    """The product that was measured."""
    return visible(name_machine(result.environment))


def name_machine(environment: Mapping[str, str]) -> str:
    """The product that an environment describes, as its files have it."""
    names = (environment.get(field) for field in ("gpu", "device", "cpu"))
    return next(filter(None, names), "unknown machine")


def launch_noun(result: SessionResult) -> str:
    """What the session has measured: "kernel", or "operator" where no run was on a GPU."""
    return "operator" if result.runs and not any(run.ran_on_gpu for run in result.runs) else "kernel"


def _span(numbers: Sequence[int], noun: str) -> str:
    low, high = min(numbers), max(numbers)
    return count(high, noun) if low == high else f"{low} to {count(high, noun)}"
