"""Reasons in the machine, not in the code, why a time cannot be compared."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from pytest_nsight.model import RunSummary

THROTTLED_SHARE = 0.2
CLOCK_TOLERANCE = 0.01


def explain_environment(baseline: Sequence[RunSummary], new: Sequence[RunSummary]) -> str:
    """Return why the clocks of the new runs make their times incomparable, "" if they do not."""
    return _explain_throttling(baseline, new) or _explain_clock(baseline, new)


def _explain_throttling(baseline: Sequence[RunSummary], new: Sequence[RunSummary]) -> str:
    now = _throttled_share(new)
    before = _throttled_share(baseline) or 0.0
    if now is None or not now > max(THROTTLED_SHARE, before):
        return ""
    reasons = sorted({reason for run in new for reason in run.clocks.reasons})
    told = f" ({', '.join(reasons)})" if reasons else ""
    return (
        f"the GPU was throttled{told} before {now:.0%} of the rounds, {before:.0%} in the baseline; "
        "free or cool it and run again"
    )


def _throttled_share(runs: Sequence[RunSummary]) -> float | None:
    shares = [run.clocks.throttled for run in runs if run.clocks.throttled is not None]
    return statistics.fmean(shares) if shares else None


def _explain_clock(baseline: Sequence[RunSummary], new: Sequence[RunSummary]) -> str:
    before = [run.clocks.sm_mhz for run in baseline if run.clocks.sm_mhz is not None]
    now = [run.clocks.sm_mhz for run in new if run.clocks.sm_mhz is not None]
    if not before or not now:
        return ""
    was, is_now = statistics.median(before), statistics.median(now)
    if not was > 0 or abs(is_now / was - 1) <= CLOCK_TOLERANCE:
        return ""
    return (
        f"the SM clock was {is_now:.0f} MHz, {was:.0f} MHz in the baseline ({is_now / was - 1:+.1%}); "
        "find what limits or raised it, or save a new baseline"
    )
