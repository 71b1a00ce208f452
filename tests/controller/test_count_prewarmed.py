"""How many processes get ready beside those that run, and what they import meanwhile."""

from __future__ import annotations

import os

import pytest

from pytest_nsight.controller.workers.manifest_tail import LateImport
from pytest_nsight.controller.workers.prewarmed import count_prewarmed, list_needed


@pytest.mark.parametrize(
    ("cpus", "cases", "expected"),
    [(1, 3, 1), (2, 3, 1), (4, 3, 1), (8, 3, 2), (16, 3, 4), (64, 3, 4), (4, 78, 1), (8, 78, 2), (64, 78, 2)],
)
def test_more_get_ready_with_more_cpus_and_beside_short_runs(
    monkeypatch: pytest.MonkeyPatch, cpus: int, cases: int, expected: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cpus)))
    assert count_prewarmed(cases) == expected


def test_what_a_case_of_the_pass_imported_all_cases_of_its_function_need() -> None:
    late = [
        LateImport("slow.module", "t.py::test_block[fused-1]"),
        LateImport("slow.module", "t.py::test_adamw"),
        LateImport("other", "u.py::test_f[1]"),
    ]

    assert list_needed(late, ["t.py::test_softmax[1]", "t.py::test_block[plain-2]"]) == {"slow.module"}
    assert list_needed(late, ["t.py::test_softmax[1]", "u.py::test_adamw[1]"]) == set()
    assert list_needed((), ["t.py::test_block[fused-1]"]) == set()
