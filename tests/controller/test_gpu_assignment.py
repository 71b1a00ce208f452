"""Which worker measures what, and on which GPU."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_nsight.controller.pytest_input import take_workers
from pytest_nsight.controller.settings import read_settings
from pytest_nsight.controller.workers.gpu_assignment import ALL_GPUS, choose_gpus, share_cases
from pytest_nsight.model.errors import UsageError
from pytest_nsight.model.values import Case, Policy
from pytest_nsight.processes.machine import Gpu

H200S = tuple(Gpu("NVIDIA H200", f"GPU-{number}") for number in range(4))


def claim(name: str, partner: str | None = None) -> Case:
    return Case(name, Policy(faster_than=partner))


@given(st.integers(1, 60), st.integers(1, 8))
def test_cases_without_claims_are_balanced_to_one(count: int, worker_gpus: int) -> None:
    worker_of = share_cases([claim(f"case{number}") for number in range(count)], worker_gpus)

    loads = Counter(worker_of.values())
    assert len(worker_of) == count
    assert set(worker_of.values()) <= set(range(worker_gpus))
    assert max(loads.values()) - min(loads[worker] for worker in range(worker_gpus)) <= 1


@given(st.data(), st.integers(1, 5))
def test_claims_never_cross_workers_and_the_same_cases_are_shared_alike(
    data: st.DataObject, worker_gpus: int
) -> None:
    names = [f"case{number}" for number in range(data.draw(st.integers(1, 20)))]
    partners = [data.draw(st.sampled_from([None, "missing", *names])) for _ in names]
    cases = [claim(name, partner) for name, partner in zip(names, partners, strict=True)]

    worker_of = share_cases(cases, worker_gpus)

    assert all(worker_of[case.id] == worker_of.get(case.policy.faster_than, worker_of[case.id]) for case in cases)
    assert share_cases(cases, worker_gpus) == worker_of


@pytest.mark.parametrize(
    ("workers", "most", "gpus", "worker_gpus"),
    [
        (1, None, H200S, ()),
        (ALL_GPUS, None, H200S, ("GPU-0", "GPU-1", "GPU-2", "GPU-3")),
        (ALL_GPUS, 2, H200S, ("GPU-0", "GPU-1")),
        (ALL_GPUS, 8, H200S[:2], ("GPU-0", "GPU-1")),
        (2, None, H200S, ("GPU-0", "GPU-1")),
        (ALL_GPUS, None, H200S[:1], ()),
        (ALL_GPUS, None, (), ()),
        (2, None, (*H200S[:2], Gpu("NVIDIA A100", "GPU-a")), ("GPU-0", "GPU-1")),
    ],
)
def test_each_worker_gets_a_gpu(workers, most, gpus, worker_gpus) -> None:
    assert choose_gpus(workers, gpus, most) == worker_gpus


@pytest.mark.parametrize(
    ("arguments", "workers", "most"),
    [
        ((), 1, None),
        (("-n", "3"), 3, None),
        (("-n", "auto"), ALL_GPUS, None),
        (("-n", "auto", "--maxprocesses", "4"), ALL_GPUS, 4),
        (("-n", "8", "--maxprocesses", "4"), 4, None),
    ],
)
def test_workers_are_as_many_as_xdist_would_start(pytester, arguments, workers, most) -> None:
    config = pytester.parseconfig("--nsight", *arguments)
    take_workers(config)

    settings = read_settings(config)

    assert (settings.workers, settings.most_workers) == (workers, most)


@pytest.mark.parametrize(
    ("workers", "gpus", "sentence"),
    [
        (4, (), "there is no GPU here"),
        (5, H200S, "needs 5 GPUs and 4 are visible.*run with -n 4"),
        (3, (*H200S[:2], Gpu("NVIDIA A100", "GPU-a")), "NVIDIA H200 and others on NVIDIA A100"),
    ],
)
def test_what_cannot_be_is_refused_with_a_remedy(workers, gpus, sentence) -> None:
    with pytest.raises(UsageError, match=sentence):
        choose_gpus(workers, gpus)
