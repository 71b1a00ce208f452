"""Finds the newest Nsight Systems on this machine that works."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_nsight.model.errors import NsysError
from pytest_nsight.processes.watchdog import watched

MINIMUM_VERSION = (2022, 4)
"""Oldest version whose exports are known."""

CHOICE = "PYTEST_NSIGHT_NSYS"
"""Environment variable that chooses one nsys."""

_PLACES = (
    "usr/local/cuda*/bin/nsys",
    "usr/local/cuda*/nsight-systems-*/target-linux-*/nsys",
    "usr/local/cuda*/NsightSystems-cli-*/target-linux-*/nsys",
    "opt/nvidia/nsight-systems*/*/target-linux-*/nsys",
    "opt/nvidia/nsight-systems*/*/bin/nsys",
    "opt/nvidia/nsight-compute/*/host/target-linux-*/nsys",
    "usr/local/NVIDIA-Nsight-Compute*/host/target-linux-*/nsys",
    "usr/lib/*/nsight-systems/target-linux-*/nsys",
)
_IMPORTER = "QdstrmImporter"
ANSWER_S = 20.0
"""A program may take so long to say its version; nsys takes 30 ms, from a cold disk some seconds."""

_INSTALL = (
    "install Nsight Systems (for example `apt-get install nsight-systems-cli` from NVIDIA's repository) or "
    f"set {CHOICE} to an nsys"
)


@dataclass(frozen=True, slots=True)
class Installation:
    """One nsys program, and what is known of it.

    Attributes:
        path: the program.
        version: its version, (2022, 4, 2, 1); empty if it does not say.
        importer: the program that turns what nsys collected into a report; None where it is missing, and
            where `path` is a script, whose importer is not known.
        problems: why it does not work and what to do about it, a sentence without its full stop each.
    """

    path: Path
    version: tuple[int, ...] = ()
    importer: Path | None = None
    problems: tuple[str, ...] = ()

    @property
    def version_text(self) -> str:
        """The version as people write it."""
        return ".".join(map(str, self.version)) or "unknown version"


def candidates(environ: Mapping[str, str], roots: Sequence[Path] = (Path("/"),)) -> tuple[Path, ...]:
    """All nsys programs on PATH, in $CUDA_HOME and in the folders that NVIDIA's and Debian's packages use.

    Args:
        environ: environment variables.
        roots: folders that stand for the root of the file system.

    Returns:
        Each program once, whatever links lead to it; those on PATH first.
    """
    folders = [folder for folder in environ.get("PATH", "").split(os.pathsep) if folder]
    folders += [f"{environ[name]}/bin" for name in ("CUDA_HOME", "CUDA_PATH") if environ.get(name)]
    paths = [Path(folder) / "nsys" for folder in folders]
    for root in roots:
        for place in _PLACES:
            # A folder that may not be read must not hide the others.
            with contextlib.suppress(OSError):
                paths += sorted(root.glob(place))
    unique: dict[Path, Path] = {}
    for path in paths:
        if os.access(path, os.X_OK) and path.is_file():
            unique.setdefault(path.resolve(), path.absolute())
    return tuple(unique.values())


def find(explicit: str | None = None) -> Installation:
    """The nsys to use: the chosen one, or else the newest that works.

    Args:
        explicit: a path or program name; None to look at $PYTEST_NSIGHT_NSYS and then everywhere.

    Raises:
        NsysError: there is none, or none works; says what each lacks and what to do.
    """
    chosen = explicit or os.environ.get(CHOICE)
    if chosen:
        program = shutil.which(Path(chosen).expanduser())
        if program is None:
            raise NsysError(f"The chosen nsys, {chosen}, is not a program that can be run; correct {CHOICE}.")
        paths: tuple[Path, ...] = (Path(program).absolute(),)
    else:
        paths = candidates(os.environ)
    if not paths:
        raise NsysError(f"There is no nsys on PATH, in a CUDA toolkit or under /opt/nvidia; {_INSTALL}.")
    versions = _versions(paths)
    # Stable: of equal versions the one that comes first on PATH.
    newest_first = sorted(paths, key=lambda path: versions[path], reverse=True)
    broken = []
    for path in newest_first:
        installation = inspect(path, versions[path])
        if not installation.problems:
            return installation
        broken.append(installation)
    reasons = "; ".join(f"{each.path} ({each.version_text}): {', '.join(each.problems)}" for each in broken)
    raise NsysError(f"Nsight Systems is here but does not work: {reasons}.")


def inspect(path: Path, version: tuple[int, ...]) -> Installation:
    """Everything about one nsys that shows without profiling.

    Args:
        path: the program.
        version: what it calls itself, empty for nothing.
    """
    if not version:
        return Installation(
            path,
            problems=(
                f"it does not answer to --version within {ANSWER_S:.0f} s; reinstall it or take it off PATH",
            ),
        )
    if version < MINIMUM_VERSION:
        least = ".".join(map(str, MINIMUM_VERSION))
        return Installation(path, version, problems=(f"it is older than {least}; {_INSTALL} of {least} or later",))
    importer, problem = _find_importer(path.resolve())
    if importer is not None:
        problem = _missing_libraries(importer)
    return Installation(path, version, importer, (problem,) if problem else ())


def _versions(paths: Sequence[Path]) -> dict[Path, tuple[int, ...]]:
    """The versions of programs, which are asked all at once."""
    asked: dict[Path, subprocess.Popen[str]] = {}
    for path in paths:
        with contextlib.suppress(OSError):
            asked[path] = subprocess.Popen(
                (path, "--version"),
                env=watched(os.environ),
                text=True,
                errors="replace",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                # So that it can be ended with what it has started.
                start_new_session=True,
            )
    deadline_s = time.monotonic() + ANSWER_S
    return {path: _version(asked[path], deadline_s) if path in asked else () for path in paths}


def _version(asked: subprocess.Popen[str], deadline_s: float) -> tuple[int, ...]:
    try:
        answer, _ = asked.communicate(timeout=max(0.0, deadline_s - time.monotonic()))
    except subprocess.TimeoutExpired:
        with contextlib.suppress(OSError):
            os.killpg(asked.pid, signal.SIGKILL)
        asked.communicate()
        return ()
    match = re.search(r"version\s+(\d{4}(?:\.\d+)+)", answer)
    return tuple(map(int, match[1].split("."))) if match else ()


def _find_importer(program: Path) -> tuple[Path | None, str]:
    """The importer beside a program (all links resolved), and the problem if there is none."""
    base = program.parent.parent
    for host in sorted(base.glob("host-linux-*")):
        if (host / _IMPORTER).is_file():
            return host / _IMPORTER, ""
    if not program.parent.name.startswith("target-linux-"):
        # A script such as a toolkit's bin/nsys: its target folder is looked at as a candidate of its own.
        return None, ""
    wanted = base / program.parent.name.replace("target-linux-", "host-linux-").replace("sbsa-armv8", "armv8")
    # Debian's packages split the two folders, and Nsight Compute names the host folder otherwise.
    elsewhere = [
        *sorted(base.glob(f"*/{_IMPORTER}")),
        *sorted(base.glob(f"../../nsight-systems/*/{_IMPORTER}")),
    ]
    if elsewhere:
        source = elsewhere[-1].parent.resolve()
        return (
            None,
            f"its importer is in {source}, where it does not look; run `ln -s {source} {wanted}` as root",
        )
    return None, f"its importer {wanted / _IMPORTER} is missing; install the host part or the whole package"


def _missing_libraries(importer: Path) -> str:
    """Names the shared libraries that the importer lacks; "" where it lacks none, or ldd does not work."""
    # nsys starts the importer with its folder on the library path.
    library_path = os.pathsep.join(filter(None, (str(importer.parent), os.environ.get("LD_LIBRARY_PATH"))))
    try:
        answer = subprocess.run(
            ("ldd", importer),
            env={**os.environ, "LD_LIBRARY_PATH": library_path, "LC_ALL": "C"},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ANSWER_S,
            check=False,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
    missing = sorted(set(re.findall(r"^\s*(\S+) => not found", answer, re.MULTILINE)))
    if not missing:
        return ""
    return f"its importer {importer} lacks {', '.join(missing)}; install the packages that hold them"
