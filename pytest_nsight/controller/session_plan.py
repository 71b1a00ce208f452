"""What a session plans from what the user asked for: its runs, and whether it begins with an identity pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_nsight.baselines import store
from pytest_nsight.collectors.base import Collector
from pytest_nsight.controller.settings import Settings
from pytest_nsight.gate.state import SessionPlan
from pytest_nsight.gate.stored_runs import StoredRuns
from pytest_nsight.model.values import Case
from pytest_nsight.processes.machine import gpu_names, measured_product


def plan_session(
    settings: Settings, collector: Collector | None, cases: Sequence[Case], session: str, *, shuffle: bool
) -> SessionPlan:
    """The plan of a session.

    Args:
        settings: what the user asked for.
        collector: records the session, None for a replay.
        cases: what to measure, in the order of collection.
        session: its id, from which everything random is drawn.
        shuffle: whether each run may take the cases in an order of its own.
    """
    return SessionPlan(
        cases=tuple(cases),
        runs=settings.runs,
        is_judged=not settings.save and settings.pool is None,
        is_paired=bool(settings.against),
        reruns_inconclusive=settings.strict,
        seed=session if shuffle else None,
        has_identity_pass=identifies_launches(settings, collector),
        skips_identical=not settings.save and settings.identity,
        audit_seed=session,
        confirming=settings.pool.confirming if settings.pool is not None else 0,
    )


def without_needless_pass(plan: SessionPlan, stored: StoredRuns) -> SessionPlan:
    """The plan of a check without an identity pass where no stored run has an identity to compare with.

    Args:
        plan: of a session.
        stored: the runs that it compares with.
    """
    is_check = plan.is_judged and not plan.is_paired
    if not is_check or stored.has_identities:
        return plan
    return replace(plan, has_identity_pass=False)


def plan_replay(settings: Settings, plan: SessionPlan, runs: int, *, has_identities: bool) -> SessionPlan:
    """The plan of a session that judges a recorded one again.

    Args:
        settings: what the user asked for.
        plan: the session's plan if it measured instead of replaying.
        runs: how many were recorded.
        has_identities: whether an identity pass was recorded.
    """
    return SessionPlan(
        cases=plan.cases,
        runs=runs,
        reruns_inconclusive=plan.reruns_inconclusive,
        has_identity_pass=settings.identity and has_identities,
        skips_identical=plan.skips_identical,
        times_all_identical=True,
    )


def identifies_launches(settings: Settings, collector: Collector | None) -> bool:
    """Whether a session has an identity pass.

    It has none on a CPU, whose operators have no machine code to identify. A shard, a pool and a script have
    none either.
    """
    if not settings.identity or collector is None or collector.times_cpu or not gpu_names():
        return False
    return settings.shard is None and settings.pool is None and settings.script is None


def expects_identity_pass(settings: Settings, collector: Collector) -> bool:
    """Whether an identity pass is likely, in trees that are there before the tests are collected.

    Args:
        settings: what the user asked for.
        collector: records the session.
    """
    if settings.against_build or settings.affected or not identifies_launches(settings, collector):
        return False
    # A check has one where there is something to compare with.
    stored = settings.baselines / store.model_slug(measured_product())
    return settings.save or bool(settings.against) or stored.is_dir()
