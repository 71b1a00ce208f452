"""Checks whether Nsight Systems can work on this machine; the GPU and its driver are checked elsewhere."""

from __future__ import annotations

import os
import shlex
import sqlite3
import sys
import tempfile
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest_nsight
from pytest_nsight.collectors.nsys.export import export, find_report
from pytest_nsight.collectors.nsys.find import Installation, find
from pytest_nsight.collectors.nsys.private_folder import check_space, is_visible
from pytest_nsight.collectors.nsys.profiling import profile
from pytest_nsight.model.errors import NsightError
from pytest_nsight.processes.log_files import last_lines
from pytest_nsight.processes.owned_folder import scratch

_PROBE_PAYLOAD = 4217
_PROBE_S = 120.0
_PROBE = (
    "from pytest_nsight.recorders.nvtx.ranges import emitter, within\n"
    "target = emitter()\n"
    f"with within(target, 'probe', {_PROBE_PAYLOAD}): pass\n"
    "print('mechanism:', target.mechanism, flush=True)\n"
)
_MARKERS = (
    "NSYS_PROFILING_SESSION_ID",
    "QUADD_INJECTION_CONFIG",
    "NVTX_INJECTION64_PATH",
    "CUDA_INJECTION64_PATH",
)


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the doctor's report.

    Attributes:
        name: what was checked.
        ok: whether it can stay as it is.
        detail: what was found.
        remedy: what to do; "" if `ok`, or if the detail says it.
    """

    name: str
    ok: bool
    detail: str
    remedy: str = ""


def checks() -> tuple[Check, ...]:
    """One check for each thing that a run under Nsight Systems needs, and a trial run; takes about two seconds."""
    environ = dict(os.environ)
    temporary = Path(environ.get("TMPDIR") or tempfile.gettempdir())
    disks = (
        _check_disk("temporary folder", temporary, "make room there or set TMPDIR"),
        _check_disk("current folder", Path.cwd(), "make room there or start pytest in another folder"),
    )
    more = (_check_profilers(environ), _check_permissions())
    try:
        installation = find()
    except NsightError as error:
        missing = Check("nsys", ok=False, detail=str(error), remedy="install Nsight Systems or repair one of these")
        return (missing, *disks, *more)
    return (
        Check("nsys", ok=True, detail=f"{installation.path}, version {installation.version_text}"),
        _check_importer(installation),
        *_check_probe(installation, environ),
        *disks,
        *more,
    )


def _check_importer(installation: Installation) -> Check:
    if installation.importer is None:
        return Check(
            "importer", ok=True, detail=f"not checked: {installation.path} is a script; the probe run uses it"
        )
    return Check("importer", ok=True, detail=str(installation.importer))


def _check_disk(name: str, folder: Path, remedy: str) -> Check:
    try:
        free_bytes = check_space(folder)
    except NsightError as error:
        return Check(name, ok=False, detail=str(error), remedy=remedy)
    return Check(name, ok=True, detail=f"{folder} has {free_bytes / 1e9:.1f} GB free")


def _check_profilers(environ: Mapping[str, str]) -> Check:
    present = [name for name in _MARKERS if environ.get(name)]
    if not present:
        return Check("other profilers", ok=True, detail="none is attached to this process")
    return Check(
        "other profilers",
        ok=False,
        detail=f"a profiler is attached to this process: {', '.join(present)} is set",
        remedy="start pytest outside of it: of two profilers in a process, one loses kernels",
    )


def _check_permissions() -> Check:
    return Check(
        "permissions",
        ok=True,
        detail="none needed: CUDA and NVTX are traced without root and without perf events",
    )


def _check_probe(installation: Installation, environ: dict[str, str]) -> tuple[Check, Check]:
    """The checks of one recorded range: did the run work, and is the range in the export?"""
    try:
        with scratch() as folder:
            mechanism, found = _probe(installation, folder, environ)
    except (NsightError, sqlite3.Error, OSError) as error:
        command = shlex.join((str(installation.path), "profile", "true"))
        remedy = f"type {command} to see why, or install another version of Nsight Systems"
        failed = Check("probe run", ok=False, detail=str(error), remedy=remedy)
        return failed, Check("NVTX", ok=False, detail="the probe run failed", remedy="repair the probe run first")
    if found:
        return (
            Check("probe run", ok=True, detail="one range was recorded, exported and found"),
            Check("NVTX", ok=True, detail=mechanism),
        )
    return (
        Check("probe run", ok=True, detail="a run was recorded and exported"),
        Check(
            "NVTX",
            ok=False,
            detail=f"the range of the probe is not in the export ({mechanism})",
            remedy="install another version of Nsight Systems; without ranges no kernel belongs to a round",
        ),
    )


def _probe(installation: Installation, folder: Path, environ: dict[str, str]) -> tuple[str, bool]:
    """How the probe emitted its range, and whether the range is in its export."""
    package = str(Path(pytest_nsight.__file__).parent.parent)
    path = os.pathsep.join(filter(None, (package, environ.get("PYTHONPATH"))))
    visible = {name: value for name, value in environ.items() if is_visible(name)}
    report, log, sqlite = folder / "probe.nsys-rep", folder / "probe.log", folder / "probe.sqlite"
    with profile(
        installation,
        report,
        (sys.executable, "-c", _PROBE),
        log=log,
        cwd=folder,
        environ={**visible, "PYTHONPATH": path},
    ) as process:
        code = process.wait(_PROBE_S)
    if code != 0:
        ended = f"ended with exit code {code}" if code is not None else f"did not end within {_PROBE_S:.0f} s"
        raise NsightError(f"The probe run {ended}; its output ends with {last_lines(log, 1)!r}.")
    export(installation, find_report(report, log), sqlite, visible)
    lines = log.read_text(errors="replace").splitlines()
    reported = next((line for line in lines if line.startswith("mechanism: ")), "mechanism: unknown")
    return reported.removeprefix("mechanism: "), _has_range(sqlite)


def _has_range(sqlite: Path) -> bool:
    with closing(sqlite3.connect(f"{sqlite.as_uri()}?mode=ro", uri=True)) as database:
        present = database.execute("select 1 from sqlite_master where name = 'NVTX_EVENTS'").fetchone()
        if present is None:
            return False
        query = "select count(*) from NVTX_EVENTS where int64Value = ? and end is not null"
        return bool(database.execute(query, (_PROBE_PAYLOAD,)).fetchone()[0])
