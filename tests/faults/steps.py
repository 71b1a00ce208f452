"""What is done to a session while it runs, and to a project before: the words of the table's entries."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from pytest_nsight.baselines.store import model_slug, save
from pytest_nsight.processes.machine import measured_product
from tests.baselines.examples import run
from tests.faults.fault import Prepare, Step
from tests.faults.running import Running

STORED_CASE = "test_case.py::test_sound[0]"


def begun(running: Running) -> None:
    """Waits until the project's own code calls begin()."""
    running.wait_for((running.root / "begun").exists, "begin()")


def runs(what: str) -> Step:
    """Waits for one of the session's processes, named as for `send`."""
    return lambda running: running.wait_for(lambda: bool(_find(running, what)), f"a process {what}")


def send(number: signal.Signals, to: str = "session") -> Step:
    """Sends a signal to the session, its nsys, its worker, or whichever of its processes has this word."""

    def step(running: Running) -> None:
        found: list[int] = []

        def is_there() -> bool:
            found[:] = _find(running, to)
            return bool(found)

        running.wait_for(is_there, f"a process {to}")
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    return step


def _find(running: Running, what: str) -> list[int]:
    if what == "session":
        return [running.pid]
    if what in ("worker", "run-002"):
        run = "run-*" if what == "worker" else what
        manifests = running.folder.glob(f".nsight/2*/{run}/manifest.jsonl")
        matches = [re.search(r'"pid": ?(\d+)', path.read_text()) for path in sorted(manifests)]
        pids = {int(match[1]) for match in matches if match}
        return [process.pid for process in running.processes() if process.pid in pids]
    # The real nsys is a program, the fake one a script: its first argument is the second or the third word.
    word = {"nsys": "profile", "agent": "--start-agent"}.get(what, what)
    found = []
    for process in running.processes():
        with contextlib.suppress(psutil.Error):
            if word in process.cmdline()[1:3] or word == process.name():
                found.append(process.pid)
    return found


def pipe(name: str) -> Prepare:
    """A named pipe that nobody writes to."""

    def prepare(folder: Path) -> None:
        _place(folder, name)
        os.mkfifo(folder / _slugged(name))

    return prepare


def link(name: str, target: str) -> Prepare:
    """A symbolic link."""

    def prepare(folder: Path) -> None:
        _place(folder, name)
        (folder / _slugged(name)).symlink_to(target)

    return prepare


def sparse(name: str, size: int) -> Prepare:
    """A file of this size that takes no room."""

    def prepare(folder: Path) -> None:
        _place(folder, name)
        with (folder / _slugged(name)).open("wb") as file:
            file.truncate(size)

    return prepare


def write(name: str, content: str | bytes | Callable[[], bytes]) -> Prepare:
    """A file; MODEL in its name stands for the folder of this machine's baselines."""

    def prepare(folder: Path) -> None:
        _place(folder, name)
        data = content() if callable(content) else content
        (folder / _slugged(name)).write_bytes(
            data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
        )

    return prepare


def folder_at(name: str) -> Prepare:
    """A folder."""

    def prepare(folder: Path) -> None:
        (folder / _slugged(name)).mkdir(parents=True)

    return prepare


def store_runs(folder: Path) -> None:
    """Three runs of one case, stored for the CPU or GPU of this machine."""
    save(folder / "baselines", model_slug(measured_product()), [run(number, STORED_CASE) for number in range(3)])


def damage(change: Callable[[str], str]) -> Prepare:
    """Stored runs whose file is then changed."""

    def prepare(folder: Path) -> None:
        store_runs(folder)
        path = folder / _slugged("baselines/MODEL/test_case.json")
        path.write_bytes(change(path.read_text()).encode("utf-8", "surrogatepass"))

    return prepare


def small_disk(name: str, size: str = "64k", *, is_full: bool = False) -> Prepare:
    """A file system of its own of this size; `{root}` in the name is the folder above the project's."""

    def prepare(folder: Path) -> None:
        place = Path(name.replace("{root}", str(folder.parent))) if "{root}" in name else folder / name
        place.mkdir(parents=True, exist_ok=True)
        mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(place)]
        if subprocess.run(mount, check=False, capture_output=True).returncode:
            pytest.skip("may not mount a tmpfs here")
        if is_full:
            with (place / "filling").open("wb") as file:
                file.write(bytes(64 * 1024))

    return prepare


def git(*words: str) -> Prepare:
    """A git command in the project."""

    def prepare(folder: Path) -> None:
        identity = ("-c", "user.name=n", "-c", "user.email=e@example.org")
        subprocess.run(["git", "-C", str(folder), *identity, *words], check=True, capture_output=True)

    return prepare


REPOSITORY = (git("init", "-b", "main"), git("add", "--all"), git("commit", "-m", "first"))
"""The project becomes a repository of one commit."""


def _slugged(name: str) -> str:
    return name.replace("MODEL", model_slug(measured_product())) if "MODEL" in name else name


def _place(folder: Path, name: str) -> None:
    (folder / _slugged(name)).parent.mkdir(parents=True, exist_ok=True)
