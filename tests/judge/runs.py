"""Runs made by hand: locations are exact, so that expected verdicts can be worked out on paper."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from pytest_nsight.judge import judge as judging
from pytest_nsight.judge.board_groups import STREAMS
from pytest_nsight.judge.judge import SubjectRuns
from pytest_nsight.judge.location import Location
from pytest_nsight.model.kernel_names import family
from pytest_nsight.model.shapes import Shape, ShapeUse
from pytest_nsight.model.values import CANARIES, Clocks, Policy, RunSummary, Subject

judge = partial(judging.judge, family=family)
"""With the kernel families that every command judges by."""

suspects = partial(judging.suspects, family=family)
GPU = "GPU-a"
SUBJECT = Subject("perf/test_norm.py::test_rms_norm[fused-4096]")


def rounds_around(middle_ns: float, count: int = 12, width: float = 0.001) -> tuple[int, ...]:
    """Rounds whose midmean is the middle: symmetric in log time, in mixed order."""
    steps = np.linspace(-width, width, count)
    mixed = np.concatenate([steps[0::2], steps[1::2][::-1]])
    return tuple(int(value) for value in np.rint(middle_ns * np.exp(mixed)))


def kernel(name: str, grid: int = 8, block: int = 128, **more: int | str) -> Shape:
    return Shape(**{"kind": "kernel", "name": name, "grid": (grid, 1, 1), "block": (block, 1, 1)} | more)


def uses(*names: str, median_ns: int = 1000) -> tuple[ShapeUse, ...]:
    return tuple(ShapeUse(kernel(name), 1, median_ns) for name in names)


def make_runs(
    middles_ns: Sequence[float],
    session: str,
    *,
    subject: Subject = SUBJECT,
    board: str = GPU,
    shapes: tuple[ShapeUse, ...] = (),
    is_stable: bool = True,
    clocks: Clocks | None = None,
    recorded: str = "2026-01-01T00:00:00Z",
    metric: str = "kernel",
) -> tuple[RunSummary, ...]:
    return tuple(
        RunSummary(
            subject,
            run=f"{session}-{index}",
            session=session,
            board=board,
            rounds={metric: rounds_around(middle)},
            shapes=shapes,
            is_stable=is_stable,
            clocks=clocks or Clocks(),
            recorded=recorded,
        )
        for index, middle in enumerate(middles_ns)
    )


def wobble(middle_ns: float, count: int, sd: float = 0.001) -> list[float]:
    """Times of `count` runs whose logs have exactly this mean and standard deviation."""
    if count == 1:
        return [middle_ns]
    steps = np.linspace(-1, 1, count)
    return [middle_ns * math.exp(sd * step / steps.std(ddof=1)) for step in steps]


def make_evidence(
    before_ns: float = 200_000,
    ratio: float = 1.0,
    *,
    stored: int = 5,
    new: int = 9,
    sd: float = 0.001,
    policy: Policy | None = None,
    subject: Subject = SUBJECT,
    board: str = GPU,
    new_board: str | None = None,
    shapes: tuple[ShapeUse, ...] = (),
    new_shapes: tuple[ShapeUse, ...] | None = None,
    clocks: Clocks | None = None,
    new_clocks: Clocks | None = None,
    incomparable: str = "",
) -> SubjectRuns:
    return SubjectRuns(
        subject,
        policy or Policy(band=0.02),
        baseline=make_runs(
            wobble(before_ns, stored, sd),
            "stored",
            subject=subject,
            board=board,
            shapes=shapes,
            clocks=clocks,
        )
        if stored
        else (),
        new=make_runs(
            wobble(before_ns * ratio, new, sd),
            "new",
            subject=subject,
            board=new_board or board,
            shapes=shapes if new_shapes is None else new_shapes,
            clocks=new_clocks or clocks,
            recorded="2026-02-01T00:00:00Z",
        )
        if new
        else (),
        incomparable=incomparable,
    )


def place(logs: Sequence[float], session: str = "s", board: str = GPU) -> tuple[Location, ...]:
    """Locations without rounds behind them."""
    return tuple(
        Location(f"{session}{index}", session, board, float(value), 0.0, np.array([math.exp(value)]))
        for index, value in enumerate(logs)
    )


def make_streams(stored: Mapping[str, float], new: Mapping[str, float | None]) -> tuple[SubjectRuns, ...]:
    """The streaming canaries, at these multiples of a common time: board -> multiple, None for a board without."""
    found = []
    for name in STREAMS:
        subject = Subject(f"{CANARIES}::{name}")
        sides = [
            tuple(
                run
                for board, ratio in boards.items()
                if ratio is not None
                for run in make_runs([500_000 * ratio] * runs, f"{side}-{board}", subject=subject, board=board)
            )
            for side, boards, runs in (("stored", stored, 5), ("new", new, 9))
        ]
        found.append(SubjectRuns(subject, Policy(), *sides))
    return tuple(found)
