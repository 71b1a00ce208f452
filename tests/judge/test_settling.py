"""Where INCONCLUSIVE is a failure, what more runs can settle gets them; what they cannot does not."""

from __future__ import annotations

from pytest_nsight.judge.judge import SubjectRuns
from pytest_nsight.model.values import Policy
from pytest_nsight.model.verdicts import VerdictKind
from tests.judge.runs import SUBJECT, judge, make_runs, suspects

NOISY_US = (98.6, 101.2, 99.1, 101.6, 99.5)


def evidence_of(stored_us: tuple[float, ...], new_us: tuple[float, ...]) -> SubjectRuns:
    stored, new = ([1000 * middle for middle in middles] for middles in (stored_us, new_us))
    return SubjectRuns(SUBJECT, Policy(), make_runs(stored, "before"), make_runs(new, "now"))


def test_a_noisy_equal_case_is_measured_again_only_if_asked_to_settle() -> None:
    evidence = evidence_of(NOISY_US, (99.0,))

    assert judge([evidence])[0].kind is VerdictKind.INCONCLUSIVE
    assert suspects([evidence]) == ()
    assert suspects([evidence], settle=True) == (evidence.subject,)
    settled = evidence_of(NOISY_US, (99.0, 100.6, 99.8, 101.1, 99.2))
    assert judge([settled])[0].kind is VerdictKind.UNCHANGED
    assert suspects([settled], settle=True) == ()


def test_what_runs_cannot_settle_gets_none() -> None:
    evidence = evidence_of((80, 120, 95, 108, 99), (104,))

    assert judge([evidence])[0].kind is VerdictKind.INCONCLUSIVE
    assert suspects([evidence], settle=True) == ()


def test_a_settled_case_gets_none() -> None:
    evidence = evidence_of((100, 100.02, 99.98, 100.01, 99.99), (100.1,))

    assert suspects([evidence], settle=True) == ()
