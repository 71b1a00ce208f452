"""The trace of any recording: an export, a report, a PyTorch profiler trace, or the folder of a recorded run.

What starts programs is imported only for reports and folders: reading a small export takes less time than that.
"""

from __future__ import annotations

import os
from pathlib import Path

from pytest_nsight.collectors.nsys.read import read_explained
from pytest_nsight.model.errors import NsysError, RecordingError, TraceError, UsageError
from pytest_nsight.model.trace import Trace
from pytest_nsight.processes.claimed_folder import scratch
from pytest_nsight.processes.regular_files import check_content, unpack_xz

_REPORT_SUFFIXES = (".nsys-rep", ".qdrep")
"""Since and before nsys 2021.4."""
_JSON_SUFFIXES = (".json", ".json.gz")
_UTF_8_MARK, _XZ = b"\xef\xbb\xbf", b"\xfd7zXZ\x00"

KINDS = (
    "an .sqlite or .sqlite.xz export, a .nsys-rep or .qdrep report, a .json or .json.gz trace of the PyTorch "
    "profiler, or the folder of a run, such as .nsight/SESSION/run-001"
)


def load_trace(path: str | Path) -> Trace:
    """The trace in a recording; the notes of one without ranges or kernels say why that may be.

    Args:
        path: of an export, packed or not; a report, which the newest installed nsys exports to a temporary
            folder; a trace of the PyTorch profiler; or the folder of a run that was recorded with --nsight-keep,
            or of a session with one run.

    Raises:
        UsageError: the path does not exist, or it is the folder of a session with several runs.
        RecordingError: the folder holds no trace.
        NsysError: no installed nsys can export the report.
        TraceError: the export cannot be read, or git did not fetch the file.
    """
    path = Path(path)
    if path.is_dir():
        return _load_folder(path)
    if not path.exists():
        raise UsageError(f"there is no {path}; give {KINDS}")
    check_content(path)
    if path.suffix in _REPORT_SUFFIXES:
        return _load_report(path)
    with path.open("rb") as file:
        start = file.read(64).removeprefix(_UTF_8_MARK).lstrip()
    # A download may have given a file another name.
    if start.startswith((b"{", b"[")) or path.name.lower().endswith(_JSON_SUFFIXES):
        from pytest_nsight.collectors.torch.chrome_trace import read_chrome_trace  # noqa: PLC0415

        return read_chrome_trace(path)
    if start.startswith(_XZ) or path.suffix == ".xz":
        with scratch() as folder:
            exported = folder / path.stem
            unpack_xz(path, exported)
            return _read_for(path, exported)
    return read_explained(path)


def _load_folder(folder: Path) -> Trace:
    runs = sorted(run.name for run in folder.glob("run-*") if run.is_dir())
    if len(runs) > 1:
        raise UsageError(f"{folder} is a session; give one of its runs: {folder / runs[0]} to {runs[-1]}")
    folder = folder / runs[0] if runs else folder
    from pytest_nsight.collectors.lookup import read_kept_trace  # noqa: PLC0415

    try:
        return read_kept_trace(folder)
    except RecordingError:
        raise RecordingError(
            f"{folder} holds no trace of a run; record the session with --nsight-keep, or give {KINDS}"
        ) from None


def _load_report(report: Path) -> Trace:
    if not report.stat().st_size:
        raise TraceError(f"{report} is empty: nsys did not finish it; record it again")
    from pytest_nsight.collectors.nsys.export import export  # noqa: PLC0415
    from pytest_nsight.collectors.nsys.find import find  # noqa: PLC0415

    installation = find()
    with scratch() as folder:
        exported = folder / f"{report.stem}.sqlite"
        # nsys goes by the name, and later versions may not know the older one.
        named = folder / f"{report.stem}.nsys-rep" if report.suffix == ".qdrep" else report.absolute()
        try:
            if report.suffix == ".qdrep":
                named.symlink_to(report.absolute())
            export(installation, named, exported, os.environ)
        except NsysError as error:
            raise NsysError(str(error).replace(str(named), str(report))) from None
        return _read_for(report, exported)


def _read_for(path: Path, exported: Path) -> Trace:
    """The trace in a temporary file; an error names the file that the user gave."""
    try:
        return read_explained(exported)
    except TraceError as error:
        raise TraceError(str(error).replace(str(exported), str(path))) from None
