"""Pools of known noise: locations with given run, session and board deviations, and rounds around them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pytest_nsight.calibrate.pool import Pool
from pytest_nsight.model.shapes import Shape, ShapeUse
from pytest_nsight.model.values import Policy, RunSummary, Subject

ENVIRONMENT = {"gpu": "NVIDIA H200", "driver": "580.1", "collector": "nsys", "cold_cache": "on"}


@dataclass(frozen=True)
class Sessions:
    """How a synthetic pool varies, standard deviations of log time."""

    boards: int = 1
    sessions: int = 1
    runs: int = 20
    subjects: int = 12
    canaries: int = 0
    rounds: int = 20
    run_sd: float = 0.001
    round_sd: float = 0.002
    session_sd: float = 0.0
    board_sd: float = 0.0


def make_pool(how: Sessions, seed: int = 1, band: float = 0.02) -> Pool:
    rng = np.random.default_rng(seed)
    names = [f"suite.py::test_case[{index:02}]" for index in range(how.subjects)]
    names += [f"nsight_canaries::{name}" for name in ("copy", "triad", "matmul", "l2")[: how.canaries]]
    subjects = [Subject(name) for name in names]
    middles = np.log(rng.uniform(5e4, 5e5, len(subjects)))
    summaries, seconds = [], {}
    for board in range(how.boards):
        board_shift = rng.normal(0, how.board_sd, len(subjects)) if how.board_sd else np.zeros(len(subjects))
        for session in range(how.sessions):
            shift = board_shift + rng.normal(0, how.session_sd, len(subjects))
            for number in range(how.runs):
                run = f"s{board}{session}/{number + 1:03}"
                seconds[run] = 8.0
                places = middles + shift + rng.normal(0, how.run_sd, len(subjects))
                noise = rng.normal(0, how.round_sd, (len(subjects), how.rounds))
                rounds = np.rint(np.exp(places[:, None] + noise)).astype(int)
                summaries += [
                    RunSummary(
                        subject,
                        run=run,
                        session=f"s{board}{session}",
                        board=f"GPU-{board}",
                        rounds={"kernel": tuple(own.tolist())},
                        shapes=(ShapeUse(Shape("kernel", "k", grid=(8, 1, 1)), 1, int(own[0])),),
                        environment=ENVIRONMENT,
                        recorded=f"2026-01-{10 * board + session + 1:02}T00:00:00+00:00",
                    )
                    for subject, own in zip(subjects, rounds, strict=True)
                ]
    policies = {subject.case: Policy(band=band) for subject in subjects if not subject.is_canary}
    return Pool(tuple(summaries), policies, seconds)
