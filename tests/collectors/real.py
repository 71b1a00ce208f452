"""Runs the real Nsight Systems for tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from pytest_nsight.collectors.base import RecordingOptions
from pytest_nsight.collectors.nsys.export import export, find_report
from pytest_nsight.collectors.nsys.find import Installation, find
from pytest_nsight.collectors.nsys.profiling import profile
from pytest_nsight.model.errors import NsysError

ROOT = Path(__file__).parents[2]


def require_nsys() -> Installation:
    """The installed nsys; without one the test is skipped, or fails if PYTEST_NSIGHT_REQUIRE_NSYS is 1."""
    try:
        return find()
    except NsysError as error:
        if os.environ.get("PYTEST_NSIGHT_REQUIRE_NSYS") == "1":
            pytest.fail(f"PYTEST_NSIGHT_REQUIRE_NSYS=1, but: {error}")
        pytest.skip(str(error))


def environment(**more: str) -> dict[str, str]:
    """The environment of a profiled process that can import the package under test."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path, **more}


def run(
    installation: Installation,
    folder: Path,
    code: str,
    environ: Mapping[str, str] | None = None,
    arguments: Sequence[str] = (),
    *,
    user_ranges: bool = False,
) -> int | None:
    """Profiles `python -c code` into `folder`; gives the return code."""
    target = (sys.executable, "-c", code, *arguments)
    environ = environment() if environ is None else environ
    report, log = folder / "r.nsys-rep", folder / "r.log"
    with profile(
        installation,
        report,
        target,
        log=log,
        cwd=folder,
        environ=environ,
        recorded=RecordingOptions(user_ranges=user_ranges),
    ) as process:
        return process.wait(60)


def record(
    installation: Installation,
    folder: Path,
    code: str,
    environ: Mapping[str, str] | None = None,
    arguments: Sequence[str] = (),
    *,
    user_ranges: bool = False,
) -> Path:
    """Profiles `python -c code`, which must succeed, and gives the SQLite export."""
    environ = environment() if environ is None else environ
    assert run(installation, folder, code, environ, arguments, user_ranges=user_ranges) == 0, (
        folder / "r.log"
    ).read_text()
    report = find_report(folder / "r.nsys-rep", folder / "r.log")
    export(installation, report, folder / "r.sqlite", environ)
    return folder / "r.sqlite"
