"""Nsight Systems as a collector: CUPTI's kernel records, tied to NVTX ranges."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_nsight.collectors.base import Recorder, RecordingOptions
from pytest_nsight.collectors.nsys.export import export, find_complaint, find_report
from pytest_nsight.collectors.nsys.find import Installation, find
from pytest_nsight.collectors.nsys.known_errors import own_output, recognise
from pytest_nsight.collectors.nsys.metric_sampling import FREQUENCY_HZ, check_sampling
from pytest_nsight.collectors.nsys.private_folder import (
    FOLDER_NAME,
    hide,
    is_visible,
    make_private_folder,
    remove_private_folder,
)
from pytest_nsight.collectors.nsys.profiling import profile
from pytest_nsight.collectors.nsys.read import read_explained
from pytest_nsight.collectors.nsys.scrub import scrub
from pytest_nsight.model.trace import Trace
from pytest_nsight.processes.child_process import ChildProcess
from pytest_nsight.processes.log_files import read_tail
from pytest_nsight.processes.owned_folder import scratch
from pytest_nsight.processes.regular_files import check_regular, unpack_xz
from pytest_nsight.protocol.job import WORKER_LOG
from pytest_nsight.recorders.nvtx.ranges import emitter

REPORT_FILE = "report.nsys-rep"
EXPORT_FILE = "export.sqlite"
EXPORT_LOG = "export.log"
KEPT_FILE = "trace.sqlite"
PACKED_FILE = "trace.sqlite.xz"


class NsysCollector:
    """Records workers with one installation of Nsight Systems.

    Whatever may hold a secret lies in one folder inside the run's, see private_folder.py.
    """

    name = "nsys"
    is_shared = True
    times_cpu = False

    def __init__(self, installation: Installation, options: RecordingOptions = RecordingOptions()) -> None:  # noqa: B008 - frozen
        self._installation = installation
        self._options = options
        self.title = f"nsys {installation.version_text} ({installation.path})"
        sampling = {"gpu metrics": f"{FREQUENCY_HZ} Hz"} if options.gpu_metrics else {}
        self.environment: Mapping[str, str] = {"nsys": installation.version_text, **sampling}

    def start(self, worker: Sequence[str], folder: Path, cwd: Path, environ: Mapping[str, str]) -> ChildProcess:
        """Starts the worker under `nsys profile`."""
        private = make_private_folder(folder)
        return profile(
            self._installation,
            private / REPORT_FILE,
            worker,
            log=folder / WORKER_LOG,
            cwd=cwd,
            environ=hide(environ, private, self._options.visible_variables),
            recorded=self._options,
        )

    def collect(self, folder: Path) -> Trace:
        """Exports and reads the report.

        Raises:
            NsysError: there is no report, or it cannot be exported.
            TraceError: the export cannot be read.
        """
        private, log = folder / FOLDER_NAME, folder / WORKER_LOG
        report = find_report(private / REPORT_FILE, log)
        exported = private / EXPORT_FILE
        try:
            visible = {name: value for name, value in os.environ.items() if is_visible(name)}
            export(self._installation, report, exported, visible, log=folder / EXPORT_LOG)
        finally:
            if self._options.keep_report:
                _keep_report(report, folder / REPORT_FILE)
            report.unlink(missing_ok=True)
        return _with_complaint(read_explained(exported), log)

    def explain_log(self, log: Path) -> str:
        """What nsys reports as wrong, what it means and what to do."""
        complaint = recognise(own_output(read_tail(log)))
        return complaint.sentence if complaint is not None else ""

    def tidy(self, folder: Path, *, keep: bool) -> None:
        """Removes all that may hold secrets; keeps a scrubbed copy of the trace only if asked."""
        exported = folder / FOLDER_NAME / EXPORT_FILE
        if not keep:
            (folder / KEPT_FILE).unlink(missing_ok=True)
        try:
            if keep and exported.exists():
                scrub(exported, folder / KEPT_FILE)
        finally:
            remove_private_folder(folder)


def _keep_report(report: Path, kept: Path) -> None:
    """Moves the report out of the private folder, for its owner only."""
    report.chmod(0o600)
    report.replace(kept)


def read_kept(folder: Path) -> Trace | None:
    """Reads the scrubbed export in a run's folder, packed or not; None if there is none.

    Raises:
        TraceError: it cannot be read.
    """
    kept, packed = folder / KEPT_FILE, folder / PACKED_FILE
    if os.path.lexists(kept):
        # A link could lead out of the folder, to a file that is none of the replay's business.
        check_regular(kept, follows_links=False)
        return _with_complaint(read_explained(kept), folder / WORKER_LOG)
    if not os.path.lexists(packed):
        return None
    check_regular(packed, follows_links=False)
    with scratch() as unpacked:
        unpack_xz(packed, unpacked / KEPT_FILE)
        return _with_complaint(read_explained(unpacked / KEPT_FILE), folder / WORKER_LOG)


def _with_complaint(trace: Trace, log: Path) -> Trace:
    """The trace with what nsys reported as wrong while it made the report."""
    complaint = find_complaint(log)
    if complaint is None:
        return trace
    damage = complaint.sentence if complaint.is_loss else trace.damage
    return dataclasses.replace(trace, notes=(*trace.notes, complaint.sentence), damage=damage)


class _NsysFactory:
    """Makes what measures with Nsight Systems."""

    def make_collector(self, options: RecordingOptions) -> NsysCollector:
        """The collector, with the newest nsys that works here.

        Raises:
            NsysError: there is none, or it may not sample what is wanted.
        """
        installation = find()
        if options.gpu_metrics:
            check_sampling(installation)
        return NsysCollector(installation, options)

    def make_recorder(self, folder: Path) -> Recorder:  # noqa: ARG002 - nsys writes the record
        """The recorder, in the worker."""
        return emitter()

    def read_kept(self, folder: Path) -> Trace | None:
        """The trace in a run's folder; None if there is none.

        Raises:
            TraceError: it cannot be read.
        """
        return read_kept(folder)


FACTORY = _NsysFactory()
