"""Size, rendering and first paint of a large HTML report: ``python -m benchmarks.html_page --cases 200``.

The cases launch as much as a timeline holds. Chromium paints the page headless; the time is its own (first paint,
from the start of the navigation), so that its start does not count.
"""

from __future__ import annotations

import argparse
import random
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from pytest_nsight.model.round_timeline import RoundTimeline, TimelineLane, TimelineSpan
from pytest_nsight.model.shapes import Shape, ShapeUse
from pytest_nsight.model.values import Clocks, RunSummary, Subject
from pytest_nsight.model.verdicts import SessionResult, Verdict, VerdictKind
from pytest_nsight.report import html_report

_FLAGS = (
    "headless no-sandbox disable-gpu disable-quic no-first-run disable-background-networking "
    "disable-component-update disable-sync disable-dev-shm-usage"
)
_RUNS = 5
_ROUNDS = 60
_PAINT = """<script>new PerformanceObserver((list) => { for (const one of list.getEntries())
document.title = one.name + " " + one.startTime; }).observe({type: "paint", buffered: true});</script>"""


def make_session(cases: int, sessions: int) -> SessionResult:
    """A session whose cases have so many stored sessions of 5 runs of 60 rounds, and a full timeline each."""
    random.seed(1)
    names = [
        f"perf_tests/test_{number % 20}.py::test_operator[fused-{number}x4096-bf16]" for number in range(cases)
    ]
    runs: list[RunSummary] = []
    stored: list[RunSummary] = []
    verdicts = []
    for name in names:
        subject = Subject(name)
        for session in range(sessions):
            for run in range(_RUNS):
                own = runs if session == sessions - 1 else stored
                own.append(_make_run(subject, f"2026{session:02}/{run}", session))
        verdicts.append(Verdict(subject, VerdictKind.UNCHANGED, "shown equal within the margin", 24_000.0))
    return SessionResult(
        session="20260301-120000",
        recorded="2026-03-01T12:00:00+00:00",
        collector="nsys",
        environment={"gpu": "NVIDIA H200"},
        verdicts=tuple(verdicts),
        runs=tuple(runs),
        baseline_runs=tuple(stored),
        timelines={name: _make_timeline() for name in names},
    )


def _make_run(subject: Subject, run: str, session: int) -> RunSummary:
    rounds = tuple(24_000 + random.randrange(900) for _ in range(_ROUNDS))
    uses = tuple(
        ShapeUse(Shape("kernel", f"_operator_{number}_fused_kernel", "", (64, 1, 1), (256, 1, 1)), 2, 3_000)
        for number in range(8)
    )
    recorded = f"2026-{session % 12 + 1:02}-01T12:00:00+00:00"
    return RunSummary(
        subject=subject,
        run=run,
        session=run[:6],
        board="GPU-5b7e7a4c",
        rounds={"kernel": rounds},
        shapes=uses,
        is_stable=True,
        varying=(),
        copied_bytes=0,
        clocks=Clocks(),
        environment={},
        recorded=recorded,
        commit="4be90d0c",
    )


def _make_timeline() -> RoundTimeline:
    spans = tuple(TimelineSpan(f"_operator_{at}_fused_kernel", 900 * at, 900 * at + 700) for at in range(50))
    kinds = (("ranges", "range"), ("CUDA calls", "call"), ("stream 7", "kernel"), ("stream 13", "kernel"))
    lanes = tuple(TimelineLane(title, kind, spans) for title, kind in kinds)
    gaps = tuple((900 * at + 700, 900 * at + 900) for at in range(40))
    return RoundTimeline("20260301-120000/001", 17, 45_000, 35_000, lanes, 8_000, gaps)


def measure_first_paint(page: str, folder: Path) -> float:
    """Milliseconds until Chromium paints something.

    Raises:
        RuntimeError: it has painted nothing, or is not installed.
    """
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        raise RuntimeError("Chromium is not installed")
    without_policy = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page, count=1)
    file = folder / "page.html"
    file.write_text(without_policy.replace("</head>", f"{_PAINT}</head>", 1), encoding="utf-8")
    command = [program, *(f"--{flag}" for flag in _FLAGS.split()), f"--user-data-dir={folder / 'profile'}"]
    command += ["--virtual-time-budget=20000", "--dump-dom", file.as_uri()]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True).stdout
    painted = re.search(r"<title>first-\S* ([\d.]+)", shown)
    if painted is None:
        raise RuntimeError("Chromium has painted nothing")
    return float(painted[1])


def main() -> None:
    """Prints what the page takes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--sessions", type=int, default=10)
    options = parser.parse_args()
    session = make_session(options.cases, options.sessions)
    began_s = time.process_time()
    page = html_report.render(session)
    took_s = time.process_time() - began_s
    size_mb = len(page.encode()) / 1e6
    print(f"{options.cases} cases, {options.sessions} sessions: {size_mb:.1f} MB, {took_s:.1f} s of CPU")
    with tempfile.TemporaryDirectory() as folder:
        print(f"first paint after {measure_first_paint(page, Path(folder)):.0f} ms")


if __name__ == "__main__":
    main()
