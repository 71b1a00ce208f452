"""Nsight Systems as a collector: CUPTI's kernel records, tied to NVTX ranges."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_nsight.collect.collector import LOG_FILE
from pytest_nsight.collect.nsys.export import export, find_report, remove_unfinished
from pytest_nsight.collect.nsys.find import Installation, find
from pytest_nsight.collect.nsys.kept import KEPT_FILE, read_explained
from pytest_nsight.collect.nsys.profile import profile
from pytest_nsight.collect.nsys.scrub import scrub
from pytest_nsight.collect.process import Process
from pytest_nsight.trace.model import Trace

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

    def start(self, worker: Sequence[str], folder: Path, cwd: Path, environ: Mapping[str, str]) -> Process:
        """Starts the worker under `nsys profile`."""
        report = folder / REPORT_FILE
        return profile(self._installation, report, worker, log=folder / LOG_FILE, cwd=cwd, environ=environ)

    def collect(self, folder: Path) -> Trace:
        """Exports and reads the report.

        Raises:
            NsysError: there is no report, or it cannot be exported.
            TraceError: the export cannot be read.
        """
        report = find_report(folder / REPORT_FILE, folder / LOG_FILE, os.environ)
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
            remove_unfinished(folder / LOG_FILE, os.environ)
