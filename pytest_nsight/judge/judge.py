"""The judge: which subjects need more runs, and the verdict on each in the end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from pytest_nsight.judge.board_groups import find_board_groups
from pytest_nsight.judge.claims import ClaimState, check_claims, find_partner
from pytest_nsight.judge.compare_times import Priors, build_panel, compare_times, learn_priors
from pytest_nsight.judge.contrast import Contrast
from pytest_nsight.judge.looks import contradicts_proof, is_beyond_doubt, is_within_band, may_differ, may_settle
from pytest_nsight.judge.prepared import PreparedSubject, prepare, prepare_canary
from pytest_nsight.judge.subject_runs import (
    FIRST_PAIRS,
    LOOKS,
    MINIMUM_BASELINE_RUNS,
    MINIMUM_NEW_RUNS,
    SubjectRuns,
)
from pytest_nsight.judge.subject_verdict import Significance, decide
from pytest_nsight.model.values import Subject
from pytest_nsight.model.verdicts import Verdict

__all__ = ["LOOKS", "SubjectRuns", "judge", "suspects"]


@dataclass(frozen=True, slots=True)
class _Suite:
    """All subjects, and the noise that they and the canaries show.

    Attributes:
        subjects: prepared, in order.
        contrasts: of each, None where times cannot be compared.
        priors: of the run variance.
    """

    subjects: tuple[PreparedSubject, ...]
    contrasts: tuple[Contrast | None, ...]
    priors: Priors


def suspects(
    given: Sequence[SubjectRuns],
    *,
    family: Callable[[str], str],
    settle: bool = False,
    canaries: Sequence[SubjectRuns] = (),
    proven: Collection[str] = (),
) -> tuple[Subject, ...]:
    """The subjects that need fresh runs, in order.

    A subject that has new runs, but not yet the most, needs fresh ones in these cases:

    - Of two trees each has two runs, and these do not show the same launches and a change within the band.
    - It may still turn out as a regression or an improvement, and its change is neither beyond doubt nor, of two
      trees, within the band.
    - It launches the same kernel families in other shapes: an autotuner may choose again in the next process.
    - All its runs so far drift or were disturbed by other programs.
    - Too few of its pairs of runs are left, because some were set aside (comparison of two trees).
    - More runs could turn a failed claim into one that holds, or the reverse. The case that it claims to beat
      needs fresh runs, too.

    Args:
        given: all runs of every measured subject.
        family: maps a normalised kernel name to the name that all its tiles and variants share.
        settle: whether subjects that more runs may show to be equal need fresh runs, too. It is on where
            INCONCLUSIVE is a failure.
        canaries: runs of the plugin's own cases, which get no verdict.
        proven: cases that are known to launch what they are compared with. Their times, and those of parts with a
            proof, are looked at again only where they contradict that; their claims are settled.
    """
    suite = _prepare_suite(given, canaries, family)
    by_subject = {item.subject: item for item in given}
    wanted: set[Subject] = set()
    compared = sum(contrast is not None for contrast in suite.contrasts)
    for item, subject, contrast in zip(given, suite.subjects, suite.contrasts, strict=True):
        if not 0 < len(item.new) < LOOKS[-1]:
            continue
        is_proven = item.subject.case in proven or bool(item.proof)
        if _is_suspect(subject, contrast, compared, settle=settle, is_proven=is_proven):
            wanted.add(item.subject)
        if is_proven:
            continue
        partner = find_partner(item, by_subject)
        if any(claim.is_close for claim in check_claims(item, partner, suite.priors.of_runs)):
            wanted.add(item.subject)
            if partner is not None:
                wanted.add(partner.subject)
    return tuple(item.subject for item in given if item.subject in wanted)


def find_held(given: Sequence[SubjectRuns], *, family: Callable[[str], str]) -> tuple[Subject, ...]:
    """The subjects whose claims all hold for their new runs, or cannot be checked on this device.

    Args:
        given: all runs of every subject, with the cases that they claim to beat.
        family: maps a normalised kernel name to the name that all its tiles and variants share.
    """
    prior = _prepare_suite(given, (), family).priors.of_runs
    by_subject = {item.subject: item for item in given}
    held = (ClaimState.HELD, ClaimState.UNCHECKED)
    return tuple(
        item.subject
        for item in given
        if all(one.state in held for one in check_claims(item, find_partner(item, by_subject), prior))
    )


def _is_suspect(
    subject: PreparedSubject, contrast: Contrast | None, compared: int, *, settle: bool, is_proven: bool
) -> bool:
    if contrast is not None and not is_proven and _is_at_first_pairs(subject.given):
        return not (subject.is_judgeable and subject.keeps_structure and is_within_band(contrast))
    if subject.loses_structure:
        return subject.structure.is_retiled
    if is_proven:
        return contrast is not None and contradicts_proof(contrast)
    lacks_runs = (not subject.new and subject.new_aside) or subject.has_only_disturbed_runs
    # Further pairs replace the runs that were set aside.
    lacks_pairs = subject.given.against and subject.stored_aside and not subject.is_sufficient
    if (lacks_runs and subject.compared and subject.given.is_comparable) or lacks_pairs:
        return True
    if contrast is None or not subject.is_judgeable or _is_over(subject, contrast, compared):
        return False
    return (
        may_differ(contrast, slower=True) or may_differ(contrast, slower=False) or (settle and may_settle(contrast))
    )


def _is_over(subject: PreparedSubject, contrast: Contrast, compared: int) -> bool:
    has_pairs = bool(subject.given.against) and contrast.new_runs >= MINIMUM_BASELINE_RUNS
    return (has_pairs and is_within_band(contrast)) or is_beyond_doubt(contrast, compared)


def _is_at_first_pairs(given: SubjectRuns) -> bool:
    return bool(given.against) and len(given.new) == FIRST_PAIRS and len(given.baseline) <= FIRST_PAIRS


def judge(
    given: Sequence[SubjectRuns], *, family: Callable[[str], str], canaries: Sequence[SubjectRuns] = ()
) -> tuple[Verdict, ...]:
    """The verdict on every subject, in order.

    Args:
        given: all runs of every measured subject; all of them, since each shows something of the noise of the
            others and counts in the correction for multiple comparisons.
        family: maps a normalised kernel name to the name that all its tiles and variants share.
        canaries: runs of the plugin's own cases. The user's code cannot change them, so their change since the
            baseline is subtracted; they get no verdict.
    """
    suite = _prepare_suite(given, canaries, family)
    by_subject = {item.subject: item for item in given}
    claims = [check_claims(item, find_partner(item, by_subject), suite.priors.of_runs) for item in given]
    return tuple(
        decide(subject, contrast, significance, found)
        for subject, contrast, significance, found in zip(
            suite.subjects, suite.contrasts, _adjust(suite), claims, strict=True
        )
    )


def _prepare_suite(
    given: Sequence[SubjectRuns], canaries: Sequence[SubjectRuns], family: Callable[[str], str]
) -> _Suite:
    groups = find_board_groups(canaries)
    subjects = tuple(prepare(_with_groups(item, groups), family) for item in given)
    prepared = [prepare_canary(_with_groups(item, groups), family) for item in canaries]
    unchanged = [canary for canary in prepared if canary is not None]
    priors = learn_priors([*subjects, *unchanged])
    panel = build_panel(unchanged, priors.of_runs)
    return _Suite(subjects, tuple(compare_times(subject, priors, panel) for subject in subjects), priors)


def _with_groups(given: SubjectRuns, groups: Mapping[str, str]) -> SubjectRuns:
    return replace(given, board_groups=groups) if groups else given


def _adjust(suite: _Suite) -> list[Significance]:
    """Adjusts the p-values over all compared subjects by Benjamini and Hochberg (1995).

    Subjects that were cleared, or that have too few runs to fail, enter with p = 1: they stay among the
    comparisons, since leaving them out would choose the comparisons by their outcome. They have no p of their own.
    """
    compared = [
        (subject, contrast)
        for subject, contrast in zip(suite.subjects, suite.contrasts, strict=True)
        if contrast is not None
    ]
    slower, faster = (
        iter(
            _adjust_by_bh([_p_of_difference(subject, contrast, slower=is_slower) for subject, contrast in compared])
        )
        for is_slower in (True, False)
    )
    return [
        Significance(len(compared), next(slower), next(faster), suite.priors.of(subject))
        if contrast is not None
        else Significance(len(compared), None, None, suite.priors.of(subject))
        for subject, contrast in zip(suite.subjects, suite.contrasts, strict=True)
    ]


def _p_of_difference(subject: PreparedSubject, contrast: Contrast, *, slower: bool) -> float | None:
    if not subject.is_judgeable or contrast.new_runs < MINIMUM_NEW_RUNS:
        return None
    if contrast.new_runs < LOOKS[-1] and not may_differ(contrast, slower=slower):
        return None
    return contrast.p_slower if slower else contrast.p_faster


def _adjust_by_bh(p_values: list[float | None]) -> list[float | None]:
    if not p_values:
        return []
    entered = np.asarray([1.0 if p is None else p for p in p_values])
    adjusted = stats.false_discovery_control(entered, method="bh")
    return [None if own is None else float(p) for own, p in zip(p_values, adjusted, strict=True)]
