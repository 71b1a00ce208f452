"""Looks, before a run, at the folders that Nsight Systems writes into: it says little when one is full."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from pytest_nsight.model.errors import NsysError

NEEDED_BYTES = 256 * 1024**2
"""Free space that a run is given: a million ranges and their launches take some 100 MB."""


def temporary_folder(environ: Mapping[str, str]) -> Path:
    """The folder in which Nsight Systems collects events until the run is over.

    Args:
        environ: environment variables that nsys will get.
    """
    return Path(environ.get("TMPDIR") or "/tmp")


def check_space(folder: Path, needed_bytes: int = NEEDED_BYTES) -> int:
    """Makes sure that a folder can be written to and has room.

    A full temporary folder kills the profiled program with SIGSEGV, and one that cannot be used keeps it
    from starting, neither with a message that names the folder.

    Args:
        folder: an existing folder.
        needed_bytes: free space that it must have.

    Returns:
        The free space in bytes.

    Raises:
        NsysError: it cannot be used.
    """
    if not folder.is_dir():
        raise NsysError(f"Nsight Systems needs the folder {folder}, which does not exist; make it or set TMPDIR.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise NsysError(f"Nsight Systems cannot write to {folder}; change its permissions or set TMPDIR.")
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < needed_bytes:
        raise NsysError(
            f"{folder} has {free_bytes / 1e6:.0f} MB free and a run of Nsight Systems may need "
            f"{needed_bytes / 1e6:.0f} MB; make room there or set TMPDIR to another folder."
        )
    return free_bytes
