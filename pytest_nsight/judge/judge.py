"""The gate: which subjects need more runs, and what is said of each in the end.

MERGED: The looks: who is still suspicious gets more fresh runs, until none is left or the last look is reached.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
from scipy import stats

from pytest_nsight.judge.board_groups import find_board_groups
from pytest_nsight.judge.canary_shift import Panel
from pytest_nsight.judge.claims import check_claims, find_partner
from pytest_nsight.judge.looks import may_differ, may_settle
from pytest_nsight.judge.noise import Prior
from pytest_nsight.judge.subject_runs import LOOKS, MINIMUM_NEW_RUNS, SubjectRuns
from pytest_nsight.judge.subject_verdict import Significance, decide
from pytest_nsight.judge.trial import Trial, Weighing, build_panel, learn_prior, prepare, prepare_canary, weigh
from pytest_nsight.model.values import Subject
from pytest_nsight.model.verdicts import Verdict

__all__ = ["LOOKS", "SubjectRuns", "judge", "suspects"]


def suspects(
    evidence: Sequence[SubjectRuns],
    *,
    family: Callable[[str], str] = str,
    settle: bool = False,
    canaries: Sequence[SubjectRuns] = (),
) -> tuple[Subject, ...]:
    """Return the subjects that need fresh runs, in order.

    These are subjects that may still turn out as regressions or improvements, those whose kernel families stayed
    while their launch shapes changed (an autotuner may choose anew in the next process), those whose every run so
    far drifts, and claims that lie within their interval, with the case that they claim to beat.

    Args:
        evidence: of every measured subject.
        family: maps a normalised kernel name to the name that all its tiles and variants share.
        settle: whether subjects that more runs may show to be equal count, too; for those to whom
            INCONCLUSIVE is a failure.
        canaries: evidence of the plugin's own cases, of which nothing is said.
    """
    trials, prior, panel = _prepare_all(evidence, canaries, family)
    by_subject = {item.subject: item for item in evidence}
    wanted: set[Subject] = set()
    for trial in trials:
        item = trial.evidence
        if not 0 < len(item.new) < LOOKS[-1]:
            continue
        if _is_suspect(weigh(trial, prior, panel), settle=settle):
            wanted.add(item.subject)
        partner = find_partner(item, by_subject)
        if any(claim.is_close for claim in check_claims(item, partner, prior)):
            wanted.add(item.subject)
            if partner is not None:
                wanted.add(partner.subject)
    return tuple(item.subject for item in evidence if item.subject in wanted)


def _is_suspect(weighing: Weighing, *, settle: bool) -> bool:
    trial = weighing.trial
    if trial.loses_structure:
        return trial.structure.is_retiled
    if not trial.new and trial.unsteady and trial.reference.compared and not trial.evidence.incomparable:
        return True
    if trial.evidence.against and trial.reference.unsteady and not trial.is_sufficient:
        # Further pairs stand in for the runs that were set aside.
        return True
    contrast, material = weighing.contrast, weighing.material
    if contrast is None or not trial.is_judgeable:
        return False
    return (
        may_differ(contrast, material, slower=True)
        or may_differ(contrast, material, slower=False)
        or (settle and may_settle(contrast, material))
    )


def judge(
    evidence: Sequence[SubjectRuns], *, family: Callable[[str], str] = str, canaries: Sequence[SubjectRuns] = ()
) -> tuple[Verdict, ...]:
    """Return the verdict on every subject, in order.

    Args:
        evidence: of every measured subject; all of them, since each tells something of the noise of the
            others and counts in the correction for multiple comparisons.
        family: maps a normalised kernel name to the name that all its tiles and variants share.
        canaries: evidence of the plugin's own cases: what they did since the baseline is no doing of the user's
            code, and is taken off; nothing is said of themselves.
    """
    trials, prior, panel = _prepare_all(evidence, canaries, family)
    weighings = [weigh(trial, prior, panel) for trial in trials]
    by_subject = {item.subject: item for item in evidence}
    return tuple(
        decide(weighing, significance, check_claims(item, find_partner(item, by_subject), prior))
        for weighing, significance, item in zip(weighings, _adjust(weighings, prior), evidence, strict=True)
    )


def _prepare_all(
    evidence: Sequence[SubjectRuns], canaries: Sequence[SubjectRuns], family: Callable[[str], str]
) -> tuple[list[Trial], Prior, Panel]:
    kinds = find_board_groups(canaries)
    trials = [prepare(_of_kinds(item, kinds), family) for item in evidence]
    watched = [prepare_canary(_of_kinds(item, kinds), family) for item in canaries]
    unchanged = [trial for trial in watched if trial is not None]
    prior = learn_prior([*trials, *unchanged])
    return trials, prior, build_panel(unchanged, prior)


def _of_kinds(evidence: SubjectRuns, kinds: Mapping[str, str]) -> SubjectRuns:
    return replace(evidence, board_groups=kinds) if kinds else evidence


def _adjust(weighings: Sequence[Weighing], prior: Prior) -> list[Significance]:
    """Adjust the p-values over all compared subjects by Benjamini and Hochberg (1995).

    Subjects that were cleared, or that have too few runs to fail, enter with p = 1: they stay among the
    comparisons, since leaving them out would choose the comparisons by their outcome.
    """
    compared = [weighing for weighing in weighings if weighing.contrast is not None]
    slower, faster = (
        iter(_adjust_by_bh([_p_of_difference(weighing, slower=side) for weighing in compared]))
        for side in (True, False)
    )
    return [
        Significance(len(compared), next(slower), next(faster), prior)
        if weighing.contrast is not None
        else Significance(len(compared), 1.0, 1.0, prior)
        for weighing in weighings
    ]


def _p_of_difference(weighing: Weighing, *, slower: bool) -> float:
    contrast = weighing.contrast
    if contrast is None or not weighing.trial.is_judgeable or contrast.new_runs < MINIMUM_NEW_RUNS:
        return 1.0
    if contrast.new_runs < LOOKS[-1] and not may_differ(contrast, weighing.material, slower=slower):
        return 1.0
    return contrast.p_slower if slower else contrast.p_faster


def _adjust_by_bh(p_values: list[float]) -> list[float]:
    if not p_values:
        return []
    return [float(p) for p in stats.false_discovery_control(np.asarray(p_values), method="bh")]


def confirm(
    find: Callable[[], Collection[Subject]], extend: Callable[[set[str], int], bool], *, first: int = LOOKS[0]
) -> None:
    """Give suspicious cases more runs, look by look.

    The live gate and every replay of it go through here, so that what is validated is what runs.

    Args:
        find: returns the subjects that are suspicious now.
        extend: measures these cases in this many more fresh processes; False when no more are to be had.
        first: how many runs every case has by now; looks up to there are past.
    """
    for before, after in itertools.pairwise((first, *(look for look in LOOKS if look > first))):
        doubtful = {subject.case for subject in find()}
        if not doubtful or not extend(doubtful, after - before):
            break
