"""Baselines of a case with times that a test chooses, and git."""

from __future__ import annotations

import subprocess
from pathlib import Path

from pytest_nsight.baselines.encode import encode
from pytest_nsight.model.values import RunSummary, Subject

CASE = "perf/test_norm.py::test_norm[fused]"
OTHER = "perf/test_norm.py::test_norm[unfused]"
MODEL = "nvidia-h200"


def git(where: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    command = ["git", "-C", str(where), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def stored(day: int, middle_ns: int, commit: str, case: str = CASE, reason: str = "") -> tuple[RunSummary, ...]:
    return tuple(
        RunSummary(
            Subject(case),
            run=f"s{day:02}/{number}",
            session=f"s{day:02}",
            board="GPU-1111",
            rounds={"kernel": (middle_ns - 10, middle_ns, middle_ns + 10 + number)},
            environment={"gpu": "NVIDIA H200"},
            recorded=f"2026-03-{day:02}T12:00:00+00:00",
            commit=commit,
            reason=reason,
        )
        for number in range(3)
    )


def write_baseline(root: Path, *runs: tuple[RunSummary, ...]) -> None:
    by_subject: dict[Subject, tuple[RunSummary, ...]] = {}
    for own in runs:
        by_subject[own[0].subject] = (*by_subject.get(own[0].subject, ()), *own)
    path = root / "baselines" / MODEL / "perf.test_norm.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(encode(by_subject), encoding="utf-8")
