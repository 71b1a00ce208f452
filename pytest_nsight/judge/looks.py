"""Whether a subject needs more fresh runs after a look, an interim analysis of the session's runs so far.

Stopping early clears a subject, or finds a change that is beyond doubt: an early look spends a hundredth of the
error probability (Haybittle 1971, Peto et al. 1976). Any other change is found only after all looks. So more looks
cost almost no error probability, and the first run, which raised the suspicion, may be kept.
"""

from __future__ import annotations

import math

from pytest_nsight.judge.contrast import Contrast, upper_quantile, upper_tail
from pytest_nsight.judge.subject_runs import LOOKS, MINIMUM_NEW_RUNS, SAVED_AT_ONCE
from pytest_nsight.judge.thresholds import FALSE_DISCOVERY_RATE, boards_may_explain, equality_margin
from pytest_nsight.model.values import KEPT_RUNS

_EARLY_SHARE = 0.01
"""Share of the error probability that all subjects together spend at an early look."""


def may_differ(contrast: Contrast, *, slower: bool) -> bool:
    """Whether more fresh runs could still show a regression, or an improvement; False clears the subject of it.

    Cleared is a difference that (a) lies below the material one by more than its 99 % bound, or (b) below its
    own 80 % bound, so that noise alone seldom costs reruns, or (c) could not reach significance at the last
    look even if the fresh runs came out at their 99 % bound, because sessions or boards differ too much.
    """
    difference = contrast.difference if slower else -contrast.difference
    error, df = contrast.standard_error, contrast.degrees_of_freedom
    if difference <= max(contrast.material - upper_quantile(0.01, df) * error, upper_quantile(0.20, df) * error):
        return False
    last = max(LOOKS[-1], contrast.new_runs)
    to_come = math.sqrt(contrast.variance_to_come(last))
    best = difference + upper_quantile(0.01, contrast.run_df) * to_come
    last_error = math.sqrt(contrast.variance_with(last))
    return upper_tail(best / last_error, contrast.degrees_with(last)) <= FALSE_DISCOVERY_RATE


def is_within_band(contrast: Contrast) -> bool:
    """Whether the 90 % interval lies within the material difference on either side: no further pair is needed.

    UNCHANGED needs only the wider margin. But to end there would lose changes between the band and the margin,
    which further pairs may show to be regressions.
    """
    low, high = contrast.interval
    return -contrast.material < low and high < contrast.material


def contradicts_proof(contrast: Contrast) -> bool:
    """Whether times speak against a proof that the launches are the same: a material difference, sure at 99 %.

    Boards differ by more than many a band, so the size alone says little; what sessions and boards add is part of
    the error. Where no board has runs of both kinds, the difference must reach BOARDS_DIFFER, too.
    """
    sure = upper_quantile(0.01, contrast.degrees_of_freedom) * contrast.standard_error
    compared, new = ([one.board for one in runs] for runs in (contrast.compared, contrast.new))
    is_material = abs(contrast.difference) >= max(contrast.material, sure)
    return is_material and not boards_may_explain(contrast.difference, compared, new)


def is_beyond_doubt(contrast: Contrast, compared: int) -> bool:
    """Whether a change is so clearly larger than the material one that no further run could take it back.

    Args:
        contrast: of the subject.
        compared: subjects of the session, or of the shard, which share the error probability (Bonferroni).
    """
    if contrast.new_runs < MINIMUM_NEW_RUNS:
        return False
    excess = abs(contrast.difference) - contrast.material
    p_value = upper_tail(excess / contrast.standard_error, contrast.degrees_of_freedom)
    return p_value <= _EARLY_SHARE * FALSE_DISCOVERY_RATE / compared


def may_settle(contrast: Contrast) -> bool:
    """Whether more fresh runs could still show equality, where those so far do not.

    They could if at the last look the interval would lie within the margin, the difference having come as much
    nearer to zero as its own noise allows at 80 %. Stopping at equality can only clear a subject, so asking costs
    no error probability.
    """
    margin = equality_margin(contrast.material)
    low, high = contrast.interval
    if -margin < low and high < margin:
        return False
    last = max(LOOKS[-1], contrast.new_runs)
    to_come = math.sqrt(contrast.variance_to_come(last))
    nearest = max(0.0, abs(contrast.difference) - upper_quantile(0.20, contrast.run_df) * to_come)
    half_width = upper_quantile(0.05, contrast.degrees_with(last)) * math.sqrt(contrast.variance_with(last))
    return nearest + half_width < margin


def runs_to_settle(contrast: Contrast) -> int | None:
    """The number of stored runs that brings the interval inside the margin, in whole saves; None if 20 do not."""
    for stored in range(SAVED_AT_ONCE, KEPT_RUNS + 1, SAVED_AT_ONCE):
        if stored <= contrast.baseline_runs:
            continue
        sessions = stored / SAVED_AT_ONCE
        variance = contrast.run_variance * (1 / stored + 1 / contrast.new_runs)
        # Half of the session part comes from the new session; stored sessions do not lower it.
        variance += contrast.level_variance / 2 * (1 + 1 / sessions)
        # Saved runs are of processes of the whole suite, as the stored ones are.
        variance += contrast.noise.context.variance * contrast.context_shift**2
        half = upper_quantile(0.05, contrast.degrees_of_freedom) * math.sqrt(variance)
        if abs(contrast.difference) + half < equality_margin(contrast.material):
            return stored
    return None


def detectable_change(contrast: Contrast, compared: int) -> float:
    """The smallest difference of log times that the last look finds with probability 0.95.

    It must pass both hurdles, the material difference and the significance that Benjamini-Hochberg asks of
    the smallest of `compared` p-values.
    """
    last = max(LOOKS[-1], contrast.new_runs)
    error, df = math.sqrt(contrast.variance_with(last)), contrast.degrees_with(last)
    hurdle = max(contrast.material, upper_quantile(FALSE_DISCOVERY_RATE / compared, df) * error)
    return hurdle + upper_quantile(0.05, df) * error
