"""What each case launches beside what it is compared with: what is the same of all, or of a part. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pytest_nsight.gate.state import GateState
from pytest_nsight.gate.stored_runs import StoredRuns
from pytest_nsight.judge.code_changes import describe_proof
from pytest_nsight.model.identity import DEVICE_METRICS, Identity, LaunchIdentity
from pytest_nsight.model.units import short_commit
from pytest_nsight.model.values import RunSummary
from pytest_nsight.protocol.phase_reports import last_attempt

Runs = Sequence[RunSummary]


@dataclass(frozen=True, slots=True)
class ComparedIdentity:
    """An identity of this session, and the one that it is compared with; the same reading made both.

    Attributes:
        now: of this session.
        before: of the other tree, or of the newest stored session.
        name: of what is compared with, such as "its baseline of 2026-11-20".
        session: that stored `before`, "" of two trees.
    """

    now: Identity
    before: Identity
    name: str
    session: str = ""

    @property
    def is_same(self) -> bool:
        """Whether all of a round is the same."""
        return self.now.digest == self.before.digest


def compare_identities(state: GateState, stored: StoredRuns) -> Mapping[str, ComparedIdentity]:
    """Case -> its identities, where there are two of durations that an identity decides.

    Args:
        state: after the identity pass.
        stored: the runs to compare with.
    """
    found = {}
    for case in state.plan.cases:
        now = state.identities.get(case.id)
        if now is None or not now.digest or not has_passed_once(state, case.id):
            continue
        if case.policy.metric not in DEVICE_METRICS:
            continue
        compared = _compare(state, stored, case.id, now)
        if compared is not None and compared.before.reading == now.reading:
            found[case.id] = compared
    return found


def _compare(state: GateState, stored: StoredRuns, case: str, now: Identity) -> ComparedIdentity | None:
    if state.other.commit:
        there = state.other.identities.get(case)
        return None if there is None else ComparedIdentity(now, there, state.other.short_commit)
    newest = stored.newest_session(case)
    known = [run.identity for run in newest if run.identity is not None]
    if not known or len(known) < len(newest) or len({(one.digest, one.reading) for one in known}) > 1:
        return None
    return ComparedIdentity(now, known[-1], _name_baseline(newest[-1]), newest[-1].session)


def _name_baseline(run: RunSummary) -> str:
    commit = f" ({short_commit(run.commit)})" if run.commit else ""
    return f"its baseline of {run.recorded[:10]}{commit}"


def has_passed_once(state: GateState, case: str) -> bool:
    """Whether the case's test passed in the identity pass."""
    reports = last_attempt(state.identity_reports.get(case, ()))
    return bool(reports) and all(report["outcome"] == "passed" for report in reports)


def prove_part(compared: ComparedIdentity | None, part: str, now: Runs, before: Runs) -> str:
    """The proof that a part launches the same though its case does not, in words; "" if it is not proven.

    Other parts of the case have changed. These may change the part's time all the same, by the data and by what
    they leave in the caches.

    Args:
        compared: the identities of the case, if there are two.
        part: its name.
        now: its new runs.
        before: the runs that they are compared with.
    """
    if compared is None or compared.is_same or not part:
        return ""
    launches = compared.now.list_part(part)
    if not launches or launches != compared.before.list_part(part):
        return ""
    # Of several saves the identity is the newest one's; older ones may have launched something else.
    accepted = [run for run in before if compared.session in ("", run.session)]
    if not accepted or not all(was_timed(launches, run) for run in (*now, *accepted)):
        return ""
    return describe_proof(launches, compared.name)


def was_timed(launches: Iterable[LaunchIdentity], run: RunSummary) -> bool:
    """Whether a timed run has kernels of the grids and blocks that an identity pass saw.

    An autotuner may have chosen another configuration in the run's process, and a child process is not seen by the
    pass. What an operator launches is not visible in the run, and counts as the same.
    """
    timed: Counter[tuple[object, object]] = Counter()
    for use in run.shapes:
        if use.shape.kind == "operator":
            return run.is_stable
        if use.shape.kind == "kernel":
            timed[use.shape.grid, use.shape.block] += use.count
    return run.is_stable and timed == Counter((one.grid, one.block) for one in launches if one.is_kernel)
