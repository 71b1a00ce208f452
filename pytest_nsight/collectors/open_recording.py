"""The trace of any recording: an export, a report, a PyTorch profiler trace, or the folder of a recorded run.

What starts programs is imported only for reports and folders: reading a small export takes less time than that.
"""

from __future__ import annotations

import gzip
import lzma
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pytest_nsight.collectors.nsys.open_export import MAGIC
from pytest_nsight.collectors.nsys.read import read_explained
from pytest_nsight.model.errors import NsysError, RecordingError, TraceError, UsageError, explain_os_error
from pytest_nsight.model.trace import Trace
from pytest_nsight.processes.owned_folder import scratch
from pytest_nsight.processes.regular_files import check_content, unpack_gzip, unpack_xz

_REPORT_SUFFIXES = (".nsys-rep", ".qdrep")
"""Since and before nsys 2021.4."""
_EXPORT_SUFFIXES = (".sqlite", ".sqlite3", ".db")
_JSON_SUFFIXES = (".json", ".json.gz")
_UTF_8_MARK, _XZ, _GZIP, _ZIP = b"\xef\xbb\xbf", b"\xfd7zXZ\x00", b"\x1f\x8b", b"PK\x03\x04"
_REPORT = b"NVIDIA Tegra Profiler Report"
_TAR, _TAR_AT = b"ustar", 257
_START_BYTES = 512
_ARCHIVE = "is an archive; unpack it, and give the recording in it"

KINDS = (
    "an .sqlite export or a .json trace of the PyTorch profiler, both also packed as .gz or .xz, a .nsys-rep or "
    ".qdrep report, or the folder of a run, such as .nsight/SESSION/run-001"
)


def load_trace(path: str | Path) -> Trace:
    """The trace in a recording; the notes of one without ranges or kernels say why that may be.

    Args:
        path: of an export, packed or not; a report, which the newest installed nsys exports to a temporary
            folder; a trace of the PyTorch profiler; or the folder of a run that was recorded with --nsight-keep,
            or of a session with one run.

    Raises:
        UsageError: the path does not exist, or it is the folder of a session with several runs.
        RecordingError: the folder holds no trace, or may not be read.
        NsysError: no installed nsys can export the report.
        TraceError: the file cannot be read, is no recording, or git did not fetch it.
    """
    path = Path(path)
    if path.is_dir():
        return _load_folder(path)
    if not path.exists():
        raise UsageError(f"there is no {path}; give {KINDS}")
    check_content(path)
    start = _peek(path, Path.open)
    if start.startswith(_XZ) or path.suffix == ".xz":
        return _load_packed(path, _peek(path, lzma.open), unpack_xz)
    # JSON is unpacked as it is read; damage is reported there.
    if start.startswith(_GZIP) and (inside := _peek(path, gzip.open)) and not _is_json(path, inside):
        return _load_packed(path, inside, unpack_gzip)
    return _load_plain(path, start)


def _peek(path: Path, opened: Callable[..., Any]) -> bytes:
    """The beginning of what a file holds; nothing where it is damaged."""
    try:
        with opened(path, "rb") as file:
            start: bytes = file.read(_START_BYTES)
    except (OSError, EOFError, zlib.error, lzma.LZMAError):
        return b""
    return start


def _is_json(path: Path, start: bytes) -> bool:
    # A download may have given a file another name.
    return start.removeprefix(_UTF_8_MARK).lstrip().startswith((b"{", b"[")) or (
        path.name.lower().endswith(_JSON_SUFFIXES) and not start.startswith(MAGIC)
    )


def _load_packed(path: Path, inside: bytes, unpack: Callable[[Path, Path], None]) -> Trace:
    """The trace in a packed file; an error names the file that the user gave."""
    if inside[_TAR_AT:].startswith(_TAR):
        raise TraceError(f"{path} {_ARCHIVE}")
    with scratch() as folder:
        unpacked = folder / path.stem
        unpack(path, unpacked)
        try:
            return _load_plain(unpacked, inside)
        except TraceError as error:
            raise TraceError(str(error).replace(str(unpacked), str(path))) from None


def _load_plain(path: Path, start: bytes) -> Trace:
    """The trace in a file, by what it begins with, and only then by its name.

    Args:
        path: the file.
        start: its beginning.
    """
    if start.startswith(MAGIC) or path.suffix in _EXPORT_SUFFIXES:
        return read_explained(path)
    if not start and path.name.lower().endswith(_JSON_SUFFIXES) and not path.stat().st_size:
        raise TraceError(f"{path} is empty; export it again with `profiler.export_chrome_trace(path)`")
    if start.startswith(_GZIP) or _is_json(path, start):
        from pytest_nsight.collectors.torch.chrome_trace import read_chrome_trace  # noqa: PLC0415

        return read_chrome_trace(path)
    if path.suffix in _REPORT_SUFFIXES or start.startswith(_REPORT):
        return _load_report(path)
    if path.suffix == ".ncu-rep":
        raise TraceError(
            f"{path} is a report of Nsight Compute; pytest-nsight reads Nsight Systems: record with `nsys profile`"
        )
    if start[_TAR_AT:].startswith(_TAR) or start.startswith(_ZIP):
        raise TraceError(f"{path} {_ARCHIVE}")
    raise TraceError(f"{path} is no recording of Nsight Systems or of the PyTorch profiler; give {KINDS}")


def _load_folder(folder: Path) -> Trace:
    runs = sorted(run.name for run in folder.glob("run-*") if run.is_dir())
    if len(runs) > 1:
        raise UsageError(f"{folder} is a session; give one of its runs: {folder / runs[0]} to {runs[-1]}")
    folder = folder / runs[0] if runs else folder
    from pytest_nsight.collectors.lookup import read_kept_trace  # noqa: PLC0415

    try:
        return read_kept_trace(folder)
    except RecordingError:
        _check_access(folder)
        raise RecordingError(
            f"{folder} holds no trace of a run; record the session with --nsight-keep, or give {KINDS}"
        ) from None


def _check_access(folder: Path) -> None:
    """Refuses a folder in which nothing was found because it may not be read."""
    try:
        for path in folder.iterdir():
            path.lstat()
    except OSError as error:
        raise RecordingError(explain_os_error(error)) from None


def _load_report(report: Path) -> Trace:
    if not report.stat().st_size:
        raise TraceError(f"{report} is empty: nsys did not finish it; record it again")
    from pytest_nsight.collectors.nsys.export import export  # noqa: PLC0415
    from pytest_nsight.collectors.nsys.find import find  # noqa: PLC0415

    installation = find()
    with scratch() as folder:
        exported = folder / f"{report.stem}.sqlite"
        # nsys goes by the name, and later versions may not know the older one.
        is_named = report.suffix == ".nsys-rep"
        named = report.absolute() if is_named else folder / f"{report.stem}.nsys-rep"
        try:
            if not is_named:
                named.symlink_to(report.absolute())
            export(installation, named, exported, os.environ, with_payloads=True)
        except NsysError as error:
            raise NsysError(str(error).replace(str(named), str(report))) from None
        return _read_for(report, exported)


def _read_for(path: Path, exported: Path) -> Trace:
    """The trace in a temporary file; an error names the file that the user gave."""
    try:
        return read_explained(exported)
    except TraceError as error:
        raise TraceError(str(error).replace(str(exported), str(path))) from None
