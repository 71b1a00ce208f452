r"""Errors that a user can correct. Every message says what happened, where, what to do.

NsightError
├── UsageError            options, ini settings or mark arguments that make no sense
├── CollectorError        a collector cannot work here
│   ├── NsysError         Nsight Systems is missing, too old, incomplete, or failed
│   └── TraceError        an export or recording that cannot be read
├── BaselineError         a baseline file that cannot be read or written
└── RecordingError        a session folder that cannot be replayed
"""

from __future__ import annotations

from pathlib import Path

_MOST_CHARACTERS = 200


class NsightError(Exception):
    """Base of all errors whose message is meant for the user, without a traceback.

    The message is one sentence or two: what happened, with the value; why; what to type.
    """


class UsageError(NsightError):
    """Options, ini settings or mark arguments that make no sense."""


class CollectorError(NsightError):
    """A collector cannot work on this machine, or failed while it worked."""


class NsysError(CollectorError):
    """Nsight Systems is missing, too old, incomplete, or failed."""


class TraceError(CollectorError):
    """An export or a recording that cannot be read: damaged, of another kind, or larger than memory allows."""


class BaselineError(NsightError):
    """A baseline file that cannot be read or written; no other file is affected."""


class RecordingError(NsightError):
    """A session folder that cannot be replayed.

    It was recorded without --nsight-keep, is damaged, or was written by a newer version.
    """


def explain_os_error(error: OSError) -> str:
    """A sentence on what the operating system refused, where no part of the package knows more about it."""
    reason = (error.strerror or str(error) or type(error).__name__).lower()
    if error.filename is None:
        return f"{reason}; check that the current folder exists, and that there is room for the output"
    return f"{error.filename}: {reason}; check the path, and who may read and write it"


def text_of(error: BaseException) -> str:
    """The text of an exception, "" where its class, which may be anybody's, has none that can be had."""
    try:
        return str(error)
    except Exception:
        return ""


def name_error(error: BaseException) -> str:
    """The class of an exception and the first line of its text, cut where it is long."""
    line = next((line.strip() for line in text_of(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {line}"[:_MOST_CHARACTERS] if line else type(error).__name__


def unwritable(folder: Path, error: OSError) -> CollectorError:
    """The error for a folder of the session that cannot be written.

    Args:
        folder: a folder below .nsight/.
        error: what the operating system reports.
    """
    return CollectorError(
        f"{folder} cannot be written ({error.strerror}): the session's files go below pytest's root folder, "
        "so make that writable, or choose another with --rootdir"
    )
