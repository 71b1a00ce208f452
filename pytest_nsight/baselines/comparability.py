"""Which stored runs may be compared with new ones, and which changes of the machine are only reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_nsight.model.units import count
from pytest_nsight.model.values import RunSummary

BLOCKING = (
    "gpu",
    "cpu",
    "driver",
    "power_limit_w",
    "mig",
    "ecc",
    "threads",
    "malloc",
    "collector",
    "cold_cache",
)
"""Fields whose change makes times incomparable: the machine, and how it was measured.

All other fields are only reported, versions of torch, triton and CUDA above all: the effect of such an upgrade on
the kernels is exactly what the gate must judge.
"""

OF_BOARD = ("board_part",)
"""Fields that differ from board to board: a change is reported if no stored run has the new value."""


@dataclass(frozen=True, slots=True)
class ComparableRuns:
    """The stored runs of a subject that new ones may be compared with.

    Attributes:
        runs: oldest first.
        why_none: where runs are stored and none may be compared, a sentence that names every differing field with
            both values; else "".
    """

    runs: tuple[RunSummary, ...] = ()
    why_none: str = ""


def find_comparable(baseline: Sequence[RunSummary], now: Mapping[str, str]) -> ComparableRuns:
    """The stored runs that were measured like the new ones.

    A field that is missing or empty, stored or now, is unknown and blocks nothing.

    Args:
        baseline: stored runs of one subject, oldest first.
        now: the environment of the new runs.
    """
    fitting = tuple(run for run in baseline if not _differences(run.environment, now, BLOCKING))
    if fitting or not baseline:
        return ComparableRuns(fitting)
    # The explanation is about the runs that differ least, and among those about the newest.
    nearest = min(reversed(baseline), key=lambda run: len(_differences(run.environment, now, BLOCKING)))
    fields = ", ".join(_differences(nearest.environment, now, BLOCKING))
    runs = "the stored run differs" if len(baseline) == 1 else f"all {count(len(baseline), 'stored run')} differ"
    return ComparableRuns(
        why_none=f"{runs} from this machine or measurement: {fields}; save new baselines here with --nsight-save"
    )


def describe_changes(baseline: Sequence[RunSummary], now: Mapping[str, str]) -> str:
    """The other changes since the newest stored run, which block nothing but may explain a verdict.

    Args:
        baseline: the stored runs that are compared, oldest first.
        now: the environment of the new runs.

    Returns:
        One sentence, "" if nothing changed.
    """
    if not baseline:
        return ""
    newest = baseline[-1].environment
    known = {name for name in OF_BOARD if any(run.environment.get(name) == now.get(name) for run in baseline)}
    changed = _differences(newest, now, sorted(set(newest) - set(BLOCKING) - known))
    return f"changed since the baseline: {', '.join(changed)}" if changed else ""


def _differences(stored: Mapping[str, str], now: Mapping[str, str], fields: Sequence[str]) -> list[str]:
    pairs = ((name, stored.get(name, ""), now.get(name, "")) for name in fields)
    return [f"{name} {old} -> {new}" for name, old, new in pairs if old and new and old != new]
