"""How many processes get ready beside those that run."""

from __future__ import annotations

import os

import pytest

from pytest_nsight.controller.workers.prewarmed import pool_size


@pytest.mark.parametrize(
    ("cpus", "cases", "expected"),
    [(1, 3, 1), (2, 3, 1), (4, 3, 1), (8, 3, 2), (16, 3, 4), (64, 3, 4), (4, 78, 1), (8, 78, 2), (64, 78, 2)],
)
def test_more_get_ready_with_more_cpus_and_beside_short_runs(
    monkeypatch: pytest.MonkeyPatch, cpus: int, cases: int, expected: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cpus)))
    assert pool_size(cases) == expected
