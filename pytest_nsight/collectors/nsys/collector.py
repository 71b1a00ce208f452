"""Nsight Systems as a collector: CUPTI's kernel records, tied to NVTX ranges.

MERGED: Scrubbed exports that stay in a run's folder, so that a session can be judged again.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_nsight.collectors.child_process import ChildProcess
from pytest_nsight.collectors.nsys.command import profile
from pytest_nsight.collectors.nsys.export import export, find_report, remove_unfinished
from pytest_nsight.collectors.nsys.find import Installation, find
from pytest_nsight.collectors.nsys.read import explain_emptiness, read
from pytest_nsight.collectors.nsys.scrub import scrub, unpack
from pytest_nsight.model.trace import Trace
from pytest_nsight.protocol.job import WORKER_LOG

REPORT_FILE = "report.nsys-rep"
EXPORT_FILE = "export.sqlite"


class NsysCollector:
    """Records workers with one installation of Nsight Systems."""

    name = "nsys"
    recorder = "nsys"
    is_shared = True
    times_processor = False

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self.title = f"nsys {installation.version_text} ({installation.path})"
        self.environment: Mapping[str, str] = {"nsys": installation.version_text}

    @classmethod
    def find(cls) -> NsysCollector:
        """With the newest nsys that works here.

        Raises:
            NsysError: there is none.
        """
        return cls(find())

    def start(self, worker: Sequence[str], folder: Path, cwd: Path, environ: Mapping[str, str]) -> ChildProcess:
        """Starts the worker under `nsys profile`."""
        report = folder / REPORT_FILE
        return profile(self._installation, report, worker, log=folder / WORKER_LOG, cwd=cwd, environ=environ)

    def collect(self, folder: Path) -> Trace:
        """Exports and reads the report.

        Raises:
            NsysError: there is no report, or it cannot be exported.
            TraceError: the export cannot be read.
        """
        report = find_report(folder / REPORT_FILE, folder / WORKER_LOG, os.environ)
        try:
            export(self._installation, report, folder / EXPORT_FILE, os.environ)
        finally:
            # It may lie in the temporary folder, where nobody would look for it.
            report.unlink(missing_ok=True)
        return read_explained(folder / EXPORT_FILE)

    def tidy(self, folder: Path, *, keep: bool) -> None:
        """Removes report and export, which hold the whole environment; keeps a scrubbed copy only if asked."""
        exported = folder / EXPORT_FILE
        if not keep:
            (folder / KEPT_FILE).unlink(missing_ok=True)
        try:
            if keep and exported.exists():
                scrub(exported, folder / KEPT_FILE)
        finally:
            exported.unlink(missing_ok=True)
            for path in folder.glob("report.*"):
                path.unlink(missing_ok=True)
            remove_unfinished(folder / WORKER_LOG, os.environ)


KEPT_FILE = "trace.sqlite"
PACKED_FILE = "trace.sqlite.xz"


def read_explained(path: Path) -> Trace:
    """Reads an export; one without ranges or without kernels says in its notes what may be the matter.

    Raises:
        TraceError: it cannot be read.
    """
    trace = read(path)
    explanation = explain_emptiness(trace)
    return dataclasses.replace(trace, notes=(*trace.notes, explanation)) if explanation else trace


def read_kept(folder: Path) -> Trace | None:
    """Reads the scrubbed export in a run's folder, packed or not; None if there is none.

    Raises:
        TraceError: it cannot be read.
    """
    kept, packed = folder / KEPT_FILE, folder / PACKED_FILE
    if kept.exists():
        return read_explained(kept)
    if not packed.exists():
        return None
    with tempfile.TemporaryDirectory() as scratch:
        unpack(packed, Path(scratch, KEPT_FILE))
        return read_explained(Path(scratch, KEPT_FILE))
