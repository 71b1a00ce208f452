"""The folder in which a run's secrets lie while Nsight Systems records it, and what Nsight Systems never sees.

A report holds every environment variable that nsys or its target starts with. So nsys starts with only those that
a process needs to start; the worker gets back the others itself, before it imports anything of the user's. A report
may also hold the environment of what the worker starts. So all that nsys writes, its report, events, logs and
sockets, goes to a folder that its owner alone can open, and that is removed once the report has been read. If the
session is killed before, the next one removes it (controller/abandoned_sessions.py).
"""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_nsight.model.errors import NsysError
from pytest_nsight.protocol.worker_start import ProcessState

FOLDER_NAME = "nsys"
NEEDED_BYTES = 256 * 1024**2
"""Free space that a run is given: a million ranges and their launches take some 100 MB."""

STATE_FILE = "state.json"

# What the dynamic loader, the interpreter, CUDA and nsys read as a process starts.
_VISIBLE = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "PWD", "TZ", "LANG", "LANGUAGE", "LC_*", "TMPDIR", "LD_*",
    "GLIBC_TUNABLES", "GCONV_PATH", "LOCPATH", "MALLOC_*", "ASAN_OPTIONS", "PYTHON*", "VIRTUAL_ENV", "CONDA_PREFIX",
    "CUDA_*", "NVIDIA_*", "NSYS_*", "QUADD_*", "NVTX_*", "XDG_*", "DBUS_*", "PYTEST_NSIGHT_*",
)  # fmt: skip
# Such a name holds a secret, whatever it begins with.
_SECRET = re.compile(
    r"TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|AUTH|COOKIE|(^|_)(KEY|PAT|PWD_.*)($|_)", re.IGNORECASE
)


def make_private_folder(run: Path) -> Path:
    """Makes the folder for what holds secrets, mode 0700, empty.

    Args:
        run: the run's folder.

    Raises:
        NsysError: it cannot be made.
    """
    folder = run / FOLDER_NAME
    try:
        remove_private_folder(run)
        run.mkdir(parents=True, exist_ok=True)
        # Not parents=True: these would get the permissions that the umask leaves.
        folder.mkdir(mode=0o700)
    except OSError as error:
        raise NsysError(
            f"Cannot make the folder {folder} for Nsight Systems: {error.strerror or error}; make its parent "
            "writable, or choose another with --rootdir."
        ) from error
    return folder


def remove_private_folder(run: Path) -> None:
    """Removes the folder and all that is in it, or what stands in its place.

    Args:
        run: the run's folder.

    Raises:
        OSError: it cannot be removed.
    """
    folder = run / FOLDER_NAME
    if folder.is_symlink():
        folder.unlink()
    # What a killed nsys leaves behind may write once more while the folder is emptied.
    for is_last in (False, False, True):
        if not folder.exists():
            return
        shutil.rmtree(folder, ignore_errors=not is_last)


def hide(environ: Mapping[str, str], folder: Path, shown: Sequence[str] = ()) -> dict[str, str]:
    """Splits the worker's environment: what nsys may see, and what the worker reads from a file.

    Args:
        environ: the worker's environment variables.
        folder: the private folder; gets the file.
        shown: names, with * for any text, of further variables that nsys may see.

    Returns:
        The environment to start nsys with.

    Raises:
        NsysError: the file cannot be written.
    """
    visible = {name: value for name, value in environ.items() if is_visible(name, shown)}
    hidden = {name: value for name, value in environ.items() if name not in visible}
    path = folder / STATE_FILE
    try:
        return {**visible, **ProcessState(hidden).write(path)}
    except OSError as error:
        raise NsysError(f"Cannot write {path}: {error.strerror or error}; make room there.") from error


def is_visible(name: str, shown: Sequence[str] = ()) -> bool:
    """Whether nsys may see, and record, the value of an environment variable.

    Args:
        name: of the variable.
        shown: names that the user allows, with * for any text.
    """
    if any(fnmatch.fnmatchcase(name, pattern) for pattern in shown):
        return True
    return _SECRET.search(name) is None and any(fnmatch.fnmatchcase(name, pattern) for pattern in _VISIBLE)


def check_space(folder: Path, needed_bytes: int = NEEDED_BYTES) -> int:
    """Makes sure that a folder can be written to and has room.

    A full folder kills the profiled program with SIGSEGV, and one that cannot be used keeps it from starting,
    neither with a message that names the folder.

    Args:
        folder: an existing folder.
        needed_bytes: free space that it must have.

    Returns:
        The free space in bytes.

    Raises:
        NsysError: it cannot be used.
    """
    if not folder.is_dir():
        raise NsysError(f"Nsight Systems needs the folder {folder}, which does not exist; make it.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise NsysError(f"Nsight Systems cannot write to {folder}; change its permissions.")
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < needed_bytes:
        raise NsysError(
            f"{folder} has {free_bytes / 1e6:.0f} MB free and a run of Nsight Systems may need "
            f"{needed_bytes / 1e6:.0f} MB; make room there, or choose another folder with --rootdir."
        )
    return free_bytes
