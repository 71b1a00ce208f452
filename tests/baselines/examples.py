"""Runs for the tests of this folder, by hand and by hypothesis."""

from __future__ import annotations

import random
from datetime import datetime, timedelta, timezone

from hypothesis import strategies as st

from pytest_nsight.model.shapes import Shape, ShapeUse
from pytest_nsight.model.values import METRICS, Clocks, RunSummary, Subject, Work

CASE = "perf_tests/test_rms_norm.py::test_rms_norm[fused-4096]"
KERNEL = Shape("kernel", "_rms_norm_fused", "_rms_norm_fused_0d1d2d", (4096, 1, 1), (256, 1, 1), 32, 1024)
ENVIRONMENT = {"gpu": "NVIDIA H200", "driver": "570.86", "torch": "2.8.0", "collector": "nsys"}
START = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)


def run(number: int, case: str = CASE, part: str = "", environment: dict[str, str] | None = None) -> RunSummary:
    """The run of that number, an hour after the one before; the same number gives the same run."""
    noise = random.Random(f"{number}{case}{part}")
    kernel = tuple(noise.randrange(24_000, 25_000) for _ in range(5))
    return RunSummary(
        subject=Subject(case, part),
        run=f"run-{number}",
        session=f"session-{number // 5}",
        board="GPU-1111",
        rounds={"kernel": kernel, "busy": kernel, "copy": (0,) * 5, "wall": tuple(ns + 900 for ns in kernel)},
        shapes=(ShapeUse(KERNEL, 1, 24_400),),
        clocks=Clocks(sm_mhz=1980, power_w=212.5, temperature_c=41, throttled=0.0),
        environment=ENVIRONMENT if environment is None else environment,
        recorded=(START + timedelta(hours=number)).isoformat(),
        commit="0a1b2c3",
    )


_counts = st.integers(0, 2**63 - 1)
_durations_ns = st.integers(0, 2**53)
_small = st.integers(0, 2**31)
_texts = st.text(max_size=12)
_extents = st.tuples(_small, _small, _small)
_shapes = st.builds(Shape, _texts, _texts, _texts, _extents, _extents, _small, _small)
_watts = st.floats(0, 1e6)
_shares = st.floats(0, 1)
_clocks = st.builds(
    Clocks,
    sm_mhz=st.none() | _small,
    power_w=st.none() | _watts,
    temperature_c=st.none() | _small,
    throttled=st.none() | _shares,
    reasons=st.lists(_texts, max_size=3).map(tuple),
    foreign_processes=st.lists(_texts, max_size=3).map(tuple),
    round_mhz=st.just(()) | st.lists(st.integers(0, 3000), min_size=2, max_size=5, unique=True).map(tuple),
)
# Few different values, so that constant and equal metrics, which have a shorthand, are common.
_durations = st.lists(st.sampled_from([0, 0, 0, 24_416, 2**40]) | _durations_ns, max_size=4).map(tuple)
subjects = st.builds(Subject, st.sampled_from(["a.py::t", "a.py::t[x]", "b/a.py::t"]) | _texts, _texts)
summaries = st.builds(
    RunSummary,
    subject=subjects,
    run=_texts | st.just("session/001"),
    session=_texts | st.just("session"),
    board=_texts,
    rounds=st.dictionaries(st.sampled_from(METRICS), _durations, max_size=len(METRICS)),
    shapes=st.lists(st.builds(ShapeUse, _shapes, _small, _durations_ns), max_size=3).map(tuple),
    is_stable=st.booleans(),
    copied_bytes=_counts,
    clocks=_clocks,
    environment=st.dictionaries(_texts, _texts, max_size=3),
    recorded=st.just("") | st.datetimes(timezones=st.just(timezone.utc)).map(lambda time: time.isoformat()),
    commit=_texts,
    work=st.none() | st.builds(Work, _counts, _counts),
    reason=_texts,
    cases=_small,
    elapsed_ms=_small,
)
