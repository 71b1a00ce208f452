"""What the marks of perf_tests/ claim, the stored baselines of the H200 carry: no claim is a wish.

Runs that were stored before the perf tests declared their work are of older tests: while there are no others,
these tests skip. From the first newer run on, every claim must be carried by newer runs.
"""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_nsight.baselines import store
from pytest_nsight.judge.judge import SubjectRuns
from pytest_nsight.model.roofline import measure_limits
from pytest_nsight.model.values import Policy, RunSummary, Subject
from pytest_nsight.model.verdicts import Verdict, VerdictKind
from tests.judge.runs import judge

pytestmark = pytest.mark.slow

pytest.importorskip("torch", reason="perf_tests/ are collected")

ROOT = Path(__file__).parents[2]

# Runs where the marks are collected, as `pytest perf_tests/` collects them.
COLLECT = """
import dataclasses, json, sys
import pytest
from pytest_nsight.protocol.mark import find_partners, read_mark

class Listener:
    def pytest_collection_finish(self, session):
        partners = find_partners(session.items)
        policies = {}
        for item in session.items:
            mark = read_mark(item)
            policies[item.nodeid] = dataclasses.asdict(mark.policy(0.02, partners.get(item.nodeid)))
        with open(sys.argv[1], "w") as file:
            json.dump(policies, file)

sys.exit(pytest.main(["perf_tests", "--collect-only", "-q", "-p", "no:cacheprovider"], plugins=[Listener()]))
"""


@pytest.fixture(scope="module")
def policies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Policy]:
    """Case -> what its marks demand."""
    path = tmp_path_factory.mktemp("marks") / "policies.json"
    command = [sys.executable, "-c", COLLECT, str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    fields = json.loads(path.read_text(encoding="utf-8"))
    return {
        case: Policy(**{**values, "kernels": values["kernels"] and tuple(values["kernels"])})
        for case, values in fields.items()
    }


@pytest.fixture(scope="module")
def stored(policies: dict[str, Policy]) -> dict[str, tuple[RunSummary, ...]]:
    """Case -> its stored runs, those of the canaries among them, as far as they belong to the present tests."""
    runs = {subject.case: kept for subject, kept in load().runs.items() if not subject.part}
    fresh = {
        case: kept if Subject(case).is_canary else tuple(run for run in kept if run.work is not None)
        for case, kept in runs.items()
    }
    if not any(fresh.get(case) for case in policies):
        pytest.skip("all stored baselines are older than the declared work: store the suite anew on an H200")
    return fresh


def load() -> store.Baselines:
    return store.load(ROOT / "baselines", "nvidia-h200")


def verdicts_on(policies: dict[str, Policy], stored: dict[str, tuple[RunSummary, ...]]) -> dict[str, Verdict]:
    """Case -> what the gate says of its claims when the stored runs are taken for new ones."""
    limits = measure_limits(run for runs in stored.values() for run in runs)
    evidences = [
        SubjectRuns(Subject(case), policy, (), stored[case], limits=limits)
        for case, policy in policies.items()
        if stored.get(case)
    ]
    return {verdict.subject.case: verdict for verdict in judge(evidences)}


@pytest.mark.slow
def test_the_marks_claim_something(policies: dict[str, Policy]) -> None:
    claimed = {
        field.name
        for policy in policies.values()
        for field in dataclasses.fields(policy)
        if getattr(policy, field.name) != field.default
    }

    assert claimed >= {"launches", "faster_than", "by", "min_share_of_limit"}


@pytest.mark.slow
def test_a_wish_would_be_found(policies: dict[str, Policy]) -> None:
    """The check itself, on the runs that are there whatever their age: tenfold factors are not carried."""
    stored = {subject.case: runs for subject, runs in load().runs.items()}
    factors = {case: policy for case, policy in policies.items() if policy.faster_than and stored.get(case)}
    partners = {policy.faster_than: policies[str(policy.faster_than)] for policy in factors.values()}
    wishes = {case: dataclasses.replace(policy, by=10 * policy.by) for case, policy in factors.items()}

    verdicts = verdicts_on({**wishes, **{str(case): policy for case, policy in partners.items()}}, stored)

    assert factors
    assert all(verdicts[case].kind is VerdictKind.CLAIM for case in factors)


@pytest.mark.slow
def test_no_claim_is_refuted_unsettled_or_without_a_baseline(
    policies: dict[str, Policy], stored: dict[str, tuple[RunSummary, ...]]
) -> None:
    verdicts = verdicts_on(policies, stored)
    complaints = [
        f"{case}: no baseline" if case not in verdicts else verdicts[case].sentence
        for case, policy in policies.items()
        if policy.has_claims
        and (case not in verdicts or re.search("claim failed|claim not settled", verdicts[case].sentence))
    ]

    assert not complaints, "\n".join(["the stored baselines do not carry:", *complaints])
