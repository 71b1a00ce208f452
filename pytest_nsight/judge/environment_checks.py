"""Environment checks: reasons in the machine, not in the code, why a time cannot be compared."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Sequence

from pytest_nsight.judge.subject_runs import MINIMUM_BASELINE_RUNS
from pytest_nsight.model.units import percent, percent_of_log
from pytest_nsight.model.values import RunSummary

THROTTLED_SHARE = 0.2
POWER_CAP = "software power cap"
"""The board lowers its clock if the work takes more power than allowed. That is a property of the work, the same in
the next session, and the clock itself is compared."""

_POWER_CAP_DIFFERENCE = 0.5
"""The share of power-capped rounds varies this much between runs of one session whose times are equal."""

CLOCK_TOLERANCE = 0.01
LOST_SHARE = 0.05
"""Share of the time that a process could run; a process that has the CPU for itself loses less than 1 %."""

_CPU_TAKEN = "other programs had the CPU"
_PID = re.compile(r"^pid \d+")


def explain_environment(baseline: Sequence[RunSummary], new: Sequence[RunSummary], against: str = "") -> str:
    """Why the machine makes two groups of runs incomparable, "" if it does not.

    A baseline taken under such conditions is as bad as such new runs: it would lead to false improvements.

    Args:
        baseline: the runs to compare with.
        new: the runs to judge.
        against: the revision whose runs of this session stand in place of a baseline, "" if none do.
    """
    compared = against or "the baseline"
    # A revision has no stored baseline to replace.
    again = "run again" if against else "save a new one with --nsight-save"
    in_compared = f"in {compared}"
    return (
        _explain_throttling(new, baseline, "the GPU was throttled", in_compared, "free or cool it and run again")
        or _explain_throttling(baseline, new, f"the GPU was throttled for {compared}", "now", again)
        or _explain_clock(baseline, new, in_compared, again)
        or _explain_foreign_processes(baseline, new, compared, again)
        or _explain_cpu(baseline, new, compared, again)
    )


def is_disturbed(run: RunSummary) -> bool:
    """Whether other programs had the CPU for so long that they changed the run's times."""
    return (run.clocks.processor_lost or 0.0) > LOST_SHARE


def leave_out_disturbed(runs: Sequence[RunSummary], fewest: int) -> tuple[RunSummary, ...]:
    """The runs that were not disturbed, or all runs if fewer than needed were not.

    The lost share is counted apart from the times, so choosing runs by it does not bias the times.

    Args:
        runs: of one subject.
        fewest: how many are needed.
    """
    quiet = tuple(run for run in runs if not is_disturbed(run))
    return quiet if len(quiet) >= fewest else tuple(runs)


def explain_unfit(runs: Sequence[RunSummary]) -> str:
    """Why the machine makes these runs a poor baseline, "" if it does not.

    These are the checks of a comparison, without anything to compare with: a later session on an idle machine would
    find the same of its baseline.
    """
    throttled = _throttled_share(runs)
    lost = _processor_lost(leave_out_disturbed(runs, MINIMUM_BASELINE_RUNS))
    if throttled is not None and throttled > THROTTLED_SHARE and not _is_power_cap(runs):
        return f"the GPU was throttled{_name_reasons(runs)} in {_write(throttled)} of the rounds"
    if others := _name_foreign_processes(runs):
        return f"other processes computed on the GPU ({', '.join(sorted(others))})"
    if lost is not None and lost > LOST_SHARE:
        return f"other programs had the CPU in {_write(lost)} of the time that the rounds needed it"
    return ""


def explain_shift(log_change: float) -> str:
    """The sentence on canaries that moved too far."""
    return (
        f"the canaries, the plugin's own cases, are {percent_of_log(log_change)} off the baseline: the machine is "
        "another one than it was; look for what shares or limits the GPU, or save a new baseline with --nsight-save"
    )


def _explain_throttling(
    runs: Sequence[RunSummary], others: Sequence[RunSummary], what: str, where: str, remedy: str
) -> str:
    share, other = _throttled_share(runs), _throttled_share(others) or 0.0
    most = other + _POWER_CAP_DIFFERENCE if _is_power_cap(runs) else max(THROTTLED_SHARE, other)
    if share is None or not share > most:
        return ""
    return f"{what}{_name_reasons(runs)} in {_write(share)} of the rounds, {_write(other)} {where}; {remedy}"


def _is_power_cap(runs: Sequence[RunSummary]) -> bool:
    """Whether only the power cap throttled the runs."""
    return {reason for run in runs for reason in run.clocks.reasons} == {POWER_CAP}


def _name_reasons(runs: Sequence[RunSummary]) -> str:
    reasons = sorted({reason for run in runs for reason in run.clocks.reasons})
    return f" ({', '.join(reasons)})" if reasons else ""


def _explain_cpu(baseline: Sequence[RunSummary], new: Sequence[RunSummary], compared: str, again: str) -> str:
    before, now = _processor_lost(baseline) or 0.0, _processor_lost(new) or 0.0
    if before == now or max(before, now) <= LOST_SHARE:
        return ""
    needed = "of the time that the rounds needed it"
    if now > before:
        text = f"{_CPU_TAKEN} in {_write(now)} {needed}, {_write(before)} in {compared}"
    else:
        text = f"{_CPU_TAKEN} while {compared} was measured in {_write(before)} {needed}, {_write(now)} now"
    steps = [("end them", now > LOST_SHARE), (again, before > LOST_SHARE), ("run again", before <= LOST_SHARE)]
    return f"{text}; {' and '.join(step for step, is_needed in steps if is_needed)}"


def _processor_lost(runs: Sequence[RunSummary]) -> float | None:
    """The largest share of any run: one disturbed run is enough to move a comparison."""
    return max((run.clocks.processor_lost for run in runs if run.clocks.processor_lost is not None), default=None)


def _write(share: float) -> str:
    return percent(share, signed=False)


def _explain_foreign_processes(
    baseline: Sequence[RunSummary], new: Sequence[RunSummary], compared: str, remedy: str
) -> str:
    before, now = (_name_foreign_processes(runs) for runs in (baseline, new))
    if now - before:
        return f"other processes computed on the GPU ({', '.join(sorted(now - before))}); end them and run again"
    if before - now:
        return f"other processes computed on the GPU for {compared} ({', '.join(sorted(before - now))}); {remedy}"
    return ""


def _name_foreign_processes(runs: Sequence[RunSummary]) -> set[str]:
    """The names of the other processes without their ids, which no two sessions share."""
    found = (process for run in runs for process in run.clocks.foreign_processes)
    return {_PID.sub("", process).strip(" ()") or "one without a name" for process in found}


def _throttled_share(runs: Sequence[RunSummary]) -> float | None:
    shares = [one for one in (run.clocks.throttled for run in runs) if one is not None and math.isfinite(one)]
    return statistics.fmean(shares) if shares else None


def _explain_clock(baseline: Sequence[RunSummary], new: Sequence[RunSummary], where: str, remedy: str) -> str:
    before = [run.clocks.sm_mhz for run in baseline if run.clocks.sm_mhz is not None]
    now = [run.clocks.sm_mhz for run in new if run.clocks.sm_mhz is not None]
    if not before or not now:
        return ""
    was, is_now = statistics.median(before), statistics.median(now)
    if not was > 0 or abs(is_now / was - 1) <= CLOCK_TOLERANCE:
        return ""
    return (
        f"the SM clock was {is_now:.0f} MHz, {was:.0f} MHz {where} ({is_now / was - 1:+.1%}); "
        f"find what limits or raised it, or {remedy}"
    )
