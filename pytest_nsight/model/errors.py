r"""Errors that a user can correct. Every message says what happened, where, and what to do.

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


class NsightError(Exception):
    """Base of all errors whose message is meant for the user, without a traceback."""


class UsageError(NsightError):
    """Options, ini settings or mark arguments that make no sense."""


class CollectorError(NsightError):
    """A collector cannot work on this machine, or failed while it worked."""


class NsysError(CollectorError):
    """Nsight Systems is missing, too old, incomplete, or failed."""


class TraceError(CollectorError):
    """An export or a recording that cannot be read."""


class BaselineError(NsightError):
    """A baseline file that cannot be read or written."""


class RecordingError(NsightError):
    """A session folder that cannot be replayed."""


def unwritable(folder: Path, error: OSError) -> CollectorError:
    """Return the error for a folder of the session that cannot be written."""
    return CollectorError(
        f"{folder} cannot be written ({error.strerror}): the session's files go below pytest's root folder, "
        "so make that writable, or choose another with --rootdir"
    )
