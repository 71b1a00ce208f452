"""`pytest-nsight calibrate`: a pytest session that only measures, then the report."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

from pytest_nsight.baselines.atomic_files import explaining
from pytest_nsight.calibrate.calibration_report import report
from pytest_nsight.calibrate.pool import ELSEWHERE, join_pools, read_pool
from pytest_nsight.model.errors import UsageError
from pytest_nsight.processes.watchdog import tie

_DEFAULT_TESTS = "perf_tests"


def collect_pool(path: Path, arguments: Sequence[str], *, runs: int, minutes: float | None) -> int:
    """Runs pytest so that it measures this many runs and stores them.

    Args:
        path: the pool's file.
        arguments: further arguments of pytest; without a path among them, `perf_tests` is measured.
        runs: fresh processes.
        minutes: stop before this many minutes are over; None for no limit.

    Returns:
        pytest's exit code.
    """
    command = [sys.executable, "-m", "pytest", "--nsight", f"--nsight-pool={path}", f"--nsight-runs={runs}"]
    if minutes is not None:
        command.append(f"--nsight-pool-minutes={minutes:g}")
    command += arguments
    names_tests = any(not one.startswith("-") and Path(one.split("::")[0]).exists() for one in arguments)
    if not names_tests and Path(_DEFAULT_TESTS).is_dir():
        command.append(_DEFAULT_TESTS)
    # A session of its own: an interrupt reaches it once, through this process, whoever sends it.
    with subprocess.Popen(command, env=tie(os.environ), start_new_session=True) as pytest:
        try:
            return pytest.wait()
        except KeyboardInterrupt:
            # It stores the runs that it has, and tidies up.
            pytest.send_signal(signal.SIGINT)
            pytest.wait()
            raise


def find_pools(
    given: Sequence[Path], output: Path | None, arguments: Sequence[str], *, runs: int, minutes: float | None
) -> tuple[tuple[Path, ...], int]:
    """The pools to report on: those given, else one that is measured now.

    Returns:
        The files, and pytest's exit code (0 where nothing was measured).

    Raises:
        UsageError: nothing was measured, or the output exists.
        BaselineError: the output cannot be written.
    """
    if given:
        if arguments:
            raise UsageError(
                f"with --from nothing is measured, so {' '.join(arguments)} means nothing; leave it out"
            )
        return tuple(given), 0
    now = datetime.now(timezone.utc)
    path = output or Path(".nsight", f"pool-{now:%Y%m%d-%H%M%S}.json.gz")
    if path.exists():
        raise UsageError(f"{path} exists; give another place with --output")
    with explaining("write", path, ELSEWHERE):
        # Measuring takes minutes: a failure to write shows before it.
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    code = collect_pool(path, arguments, runs=runs, minutes=minutes)
    if not path.exists():
        raise UsageError(f"nothing was measured: pytest ended with exit code {code}, see above")
    return (path,), code


def calibrate(pools: Sequence[Path], *, stored: int, resamples: int, seed: int) -> str:
    """The report on pools.

    Raises:
        UsageError: they hold too little.
        BaselineError: one cannot be read.
    """
    width = shutil.get_terminal_size((120, 24)).columns
    joined = join_pools([read_pool(path) for path in pools])
    text = report(joined, stored=stored, resamples=resamples, seed=seed, width=width)
    return f"\n{text}\n\npool: {', '.join(map(str, pools))}"
