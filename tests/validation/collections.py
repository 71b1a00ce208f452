"""Synthetic collections in the suite's own names: sound sessions, and one of rotating slowdowns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.validation_suite.cases import CASES, position_of
from benchmarks.validation_suite.injection import number_of, rotate
from pytest_nsight.calibrate.pool import Pool, write_pool
from pytest_nsight.model.values import RunSummary, Subject
from tests.calibrate.pools import Sessions, make_pool

MODULE = "benchmarks/validation_suite/test_validation.py"


def rename(pool: Pool, cases: Sequence[int], prefix: str) -> Pool:
    """The pool's subjects under the names of the suite's cases, its sessions under names of their own."""
    names = {
        f"suite.py::test_case[{index:02}]": f"{MODULE}::test_case[{CASES[case].kind}-{CASES[case].name}]"
        for index, case in enumerate(cases)
    }

    def renamed(run: RunSummary) -> RunSummary:
        subject = Subject(names.get(run.subject.case, run.subject.case))
        return replace(run, subject=subject, run=prefix + run.run, session=prefix + run.session)

    return Pool(
        tuple(map(renamed, pool.summaries)),
        {names[case]: policy for case, policy in pool.policies.items()},
        {prefix + run: seconds for run, seconds in pool.seconds.items()},
    )


def slow_in_turn(pool: Pool) -> Pool:
    """Multiplies the rounds of each case by what NSIGHT_INJECT=rotate gives it."""

    def slowed(run: RunSummary) -> RunSummary:
        name = run.subject.case.rpartition("[")[2].rstrip("]").partition("-")[2]
        position = position_of(name)
        level = 0 if position is None else rotate(position, number_of(run.run))
        return replace(run, rounds={"kernel": tuple(round(ns * (1 + level / 1000)) for ns in run.rounds["kernel"])})

    return replace(pool, summaries=tuple(map(slowed, pool.summaries)))


def make_collection(folder: Path, *, run_sd: float = 0.001, cases: int = 12) -> Path:
    """Writes a collection of two boards with two sound sessions each, one injected session, one control."""
    folder.mkdir()
    chosen = [int(index) for index in np.linspace(0, len(CASES) - 1, cases)]
    how = Sessions(boards=2, sessions=2, runs=14, subjects=cases, canaries=2, run_sd=run_sd, board_sd=0.002)
    sound = make_pool(how, seed=3, band=0.02)
    again = make_pool(replace(how, boards=1, sessions=1, runs=54), seed=3, band=0.02)
    control = make_pool(replace(how, boards=1, sessions=1, runs=9), seed=3, band=0.02)
    pools = {
        "sound-1.json.gz": (rename(sound, chosen, ""), "", ""),
        "inject-1.json.gz": (slow_in_turn(rename(again, chosen, "inject-")), "rotate", ""),
        "idle-1.json.gz": (rename(control, chosen, "idle-"), "", "idle"),
    }
    entries = []
    for name, (pool, inject, what) in pools.items():
        write_pool(folder / name, pool)
        entries.append({"file": name, "inject": inject, "control": what, "exit": 0, "seconds": 100.0})
    check = {"exit": 0, "seconds": 24.0, "verdicts": {"UNCHANGED": cases}, "failures": [], "bands": [0.01]}
    live = [{"against": "", **check}] * 15 + [{"against": "HEAD", **check, "seconds": 48.0}] * 5
    log = {"collection": 1, "pools": entries, "live": live}
    (folder / "collection.json").write_text(json.dumps(log), encoding="utf-8")
    return folder
