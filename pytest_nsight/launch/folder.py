"""The folder of a run: made if there is room for what a run leaves, explained if it cannot be written."""

from __future__ import annotations

import shutil
from pathlib import Path

from pytest_nsight.errors import CollectorError

NEEDED_BYTES = 16_000_000


def prepare(folder: Path) -> None:
    """Makes a run's folder, if there is room for what a run leaves.

    Raises:
        CollectorError: there is none, or it cannot be written.
    """
    try:
        folder.mkdir(parents=True)
        (folder.parents[1] / ".gitignore").write_text("*\n", encoding="utf-8")
        free_bytes = shutil.disk_usage(folder).free
    except OSError as error:
        raise unwritable(folder, error) from None
    if free_bytes < NEEDED_BYTES:
        raise CollectorError(
            f"{folder.parent} has {free_bytes / 1e6:.1f} MB free and a run may need "
            f"{NEEDED_BYTES / 1e6:.0f} MB: make room there"
        )


def unwritable(folder: Path, error: OSError) -> CollectorError:
    """The error for a folder of the session that takes no files."""
    return CollectorError(
        f"{folder} cannot be written ({error.strerror}): the session's files go below pytest's root folder, "
        "so make that writable, or choose another with --rootdir"
    )
