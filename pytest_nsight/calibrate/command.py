"""`pytest-nsight calibrate`: a pytest session that only measures, then the report."""

from __future__ import annotations

import argparse
import os
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
from pytest_nsight.processes.watchdog import watched
from pytest_nsight.report.table import terminal_width

_DEFAULT_TESTS = "perf_tests"


def collect_pool(path: Path, options: argparse.Namespace) -> int:
    """Runs pytest so that it measures as many runs as are asked for and stores them.

    Args:
        path: the pool's file.
        options: of the command; if none of pytest's arguments, `others`, is a path, `perf_tests` is measured.

    Returns:
        pytest's exit code.
    """
    command = [sys.executable, "-m", "pytest", "--nsight", f"--nsight-pool={path}", f"--nsight-runs={options.runs}"]
    if options.confirming:
        command.append(f"--nsight-pool-confirming={options.confirming}")
    if options.minutes is not None:
        command.append(f"--nsight-pool-minutes={options.minutes:f}")
    command += options.others
    names_tests = any(not one.startswith("-") and Path(one.split("::")[0]).exists() for one in options.others)
    if not names_tests and Path(_DEFAULT_TESTS).is_dir():
        command.append(_DEFAULT_TESTS)
    # A session of its own: an interrupt reaches it once, through this process, whoever sends it.
    with subprocess.Popen(command, env=watched(os.environ), start_new_session=True) as pytest:
        try:
            return pytest.wait()
        except KeyboardInterrupt:
            # It stores the runs that it has, and tidies up.
            pytest.send_signal(signal.SIGINT)
            pytest.wait()
            raise


def find_pools(options: argparse.Namespace) -> tuple[tuple[Path, ...], int]:
    """The pools to report on: those given, else one that is measured now.

    Args:
        options: of the command.

    Returns:
        The files, and pytest's exit code (0 where nothing was measured).

    Raises:
        UsageError: nothing was measured, or the output exists.
        BaselineError: the output cannot be written.
    """
    if options.pools:
        if options.others:
            arguments = " ".join(options.others)
            raise UsageError(f"with --from nothing is measured, so {arguments} means nothing; leave it out")
        return tuple(options.pools), 0
    now = datetime.now(timezone.utc)
    path = options.output or Path(".nsight", f"pool-{now:%Y%m%d-%H%M%S}.json.gz")
    if path.exists():
        raise UsageError(f"{path} exists; give another place with --output")
    with explaining("write", path, ELSEWHERE):
        # Measuring takes minutes: a failure to write shows before it.
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    code = collect_pool(path, options)
    if not path.exists():
        raise UsageError(f"nothing was measured: pytest ended with exit code {code}, see above")
    return (path,), code


def calibrate(pools: Sequence[Path], *, stored: int, resamples: int, seed: int) -> str:
    """The report on pools.

    Raises:
        UsageError: they hold too little.
        BaselineError: one cannot be read.
    """
    joined = join_pools([read_pool(path) for path in pools])
    text = report(joined, stored=stored, resamples=resamples, seed=seed, width=terminal_width())
    return f"\n{text}\n\npool: {', '.join(map(str, pools))}"
