"""On which GPUs workers measure side by side, and which case goes to which of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_nsight.model.errors import UsageError
from pytest_nsight.model.values import Case
from pytest_nsight.processes.machine import Gpu

ALL_GPUS = 0
"""Stands for one worker on each GPU (`-n auto`)."""


def choose_gpus(workers: int, gpus: Sequence[Gpu], most: int | None = None) -> tuple[str, ...]:
    """The GPU of each worker, as CUDA_VISIBLE_DEVICES wants it; empty for one worker that sees them all.

    Args:
        workers: how many are wanted, ALL_GPUS for one on each GPU.
        gpus: those that are visible.
        most: largest number of workers if ALL_GPUS are wanted, None for no limit.

    Raises:
        UsageError: there are too few GPUs, or they are of different models.
    """
    wanted = workers if workers != ALL_GPUS else len(gpus[:most])
    if wanted <= 1:
        return ()
    if not gpus:
        raise UsageError(
            f"-n {wanted} with --nsight: there is no GPU here, and workers that share a CPU disturb "
            "each other's times; run with -n 0"
        )
    if wanted > len(gpus):
        raise UsageError(
            f"-n {wanted} with --nsight needs {wanted} GPUs and {len(gpus)} {'is' if len(gpus) == 1 else 'are'} "
            f"visible: two workers on one would disturb each other's times; run with -n {len(gpus)}"
        )
    models = list(dict.fromkeys(gpu.name for gpu in gpus[:wanted]))
    if len(models) > 1:
        raise UsageError(
            f"-n {wanted} with --nsight would measure some cases on {models[0]} and others on {models[1]}, which "
            "have baselines of their own; choose GPUs of one model with CUDA_VISIBLE_DEVICES"
        )
    return tuple(gpu.uuid for gpu in gpus[:wanted])


def share_cases(cases: Sequence[Case], workers: int) -> dict[str, int]:
    """Shares cases out, the same way in every run of a session, so that the runs of a case are of one board.

    A case and the one that it claims to beat stay together: on two boards the claim would be about the boards.

    Args:
        cases: in the order of collection.
        workers: number of workers; 0 counts as 1.

    Returns:
        Case -> number of its worker, from 0. The largest group goes first, each to the worker with the fewest
        cases so far.
    """
    loads = [0] * max(workers, 1)
    worker_of: dict[str, int] = {}
    claims = {case.id: case.policy.faster_than for case in cases}
    for group in sorted(group_by_claims(claims), key=len, reverse=True):
        worker = loads.index(min(loads))
        loads[worker] += len(group)
        worker_of.update(dict.fromkeys(group, worker))
    return worker_of


def group_by_claims(claims: Mapping[str, str | None]) -> list[list[str]]:
    """Cases that claims tie together, in the order of the mapping.

    Args:
        claims: case -> the case that it claims to beat, None where it claims nothing.
    """
    leader = {case: case for case in claims}
    for case, partner in claims.items():
        if partner in leader:
            _tie(leader, case, partner)
    groups: dict[str, list[str]] = {}
    for case in claims:
        groups.setdefault(_find(leader, case), []).append(case)
    return list(groups.values())


def _find(leader: Mapping[str, str], case: str) -> str:
    while leader[case] != case:
        case = leader[case]
    return case


def _tie(leader: dict[str, str], one: str, other: str) -> None:
    leader[_find(leader, one)] = _find(leader, other)
