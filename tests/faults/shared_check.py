"""What must hold after every fault: no traceback, no process, no secret, no file of a dead session, no lost run."""

from __future__ import annotations

import fnmatch
import gzip
import lzma
import os
import stat
import time
import zlib
from collections.abc import Mapping
from pathlib import Path

from pytest_nsight.baselines.baseline_file import read_file
from pytest_nsight.model.errors import BaselineError
from tests.faults.fault import Fault
from tests.faults.running import Running

END_S = 30.0
"""How long the processes of a killed session may take to end: nsys finishes its report after its target."""

TRACEBACKS = ("Traceback (most recent call last)", "INTERNALERROR", "Exception ignored in")

USUAL = (
    "output",
    "begun",
    "project/.benchmarks",
    "home/.*",
    "temporary/torchinductor_*",
    "project/.nsight",
    "project/.nsight/.gitignore",
    "project/.nsight/.worker-cache*",
    "project/.nsight/2???????-??????-????",
    "project/.nsight/2*/result.json",
    "project/.nsight/2*/run-*/unread",
    "project/.nsight/2*/run-*/died",
    "project/.nsight/2*/session.json",
    "project/.nsight/2*/kept",
    "project/.nsight/2*/run-???",
    "project/.nsight/2*/run-???/manifest.jsonl",
    "project/.nsight/2*/run-???/job.json",
    "project/.nsight/2*/run-???/assignment.json",
    "project/.nsight/2*/run-???/worker.log",
    "project/.nsight/2*/run-???/export.log",
    "project/.nsight/2*/run-???/overdue.json",
    "project/.nsight/2*/run-???/interrupted",
    "project/.pytest_cache*",
    "*/__pycache__*",
)
"""What a session may leave behind, whatever became of it. No trace, no pipe, no lock, no draft, no worktree."""


Baselines = Mapping[Path, bytes]


def read_baselines(running: Running) -> Baselines:
    """The bytes of all baseline files."""
    paths = (running.folder / "baselines").rglob("*.json")
    return {path: path.read_bytes() for path in paths if stat.S_ISREG(path.lstat().st_mode)}


def list_files(running: Running) -> frozenset[str]:
    """All that lies below the fault's root."""
    return frozenset(str(path.relative_to(running.root)) for path in running.root.rglob("*"))


def check(fault: Fault, running: Running, files: frozenset[str], baselines: Baselines) -> None:
    """Asserts all of it.

    Args:
        fault: what was done.
        running: how it ended.
        files: what lay there before.
        baselines: the stored runs before.
    """
    _check_output(fault, running)
    _check_processes(running)
    _check_secret(running)
    _check_left(fault, running, files)
    _check_rights(running)
    _check_baselines(running, baselines)


def _check_output(fault: Fault, running: Running) -> None:
    for output in running.outputs:
        found = [mark for mark in TRACEBACKS if mark in output]
        assert not found or fault.has_own_traceback, output


def _check_processes(running: Running) -> None:
    deadline_s = time.monotonic() + END_S
    while (left := running.processes()) and time.monotonic() < deadline_s:
        time.sleep(0.1)
    assert not left, f"still running: {[process.cmdline() for process in left]}\n{running.outputs[-1]}"


def _check_secret(running: Running) -> None:
    secret = running.secret.encode()
    found = [path for path in running.root.rglob("*") if any(secret in content for content in _contents(path))]
    assert not found, f"the secret is in {found}"


def _contents(path: Path) -> tuple[bytes, ...]:
    if not stat.S_ISREG(path.lstat().st_mode):
        return ()
    content = path.read_bytes()
    try:
        unpacked = gzip.decompress(content) if path.suffix == ".gz" else b""
        unpacked += lzma.decompress(content) if path.suffix == ".xz" else b""
    except (OSError, EOFError, zlib.error, lzma.LZMAError):
        # Cut short or no archive at all, as some faults have it.
        unpacked = b""
    return content, unpacked


def _check_left(fault: Fault, running: Running, files: frozenset[str]) -> None:
    allowed = (*USUAL, *fault.leaves)
    new = sorted(list_files(running) - files)
    left = [path for path in new if not any(fnmatch.fnmatchcase(path, pattern) for pattern in allowed)]
    assert not left, f"left behind: {left}\n{running.outputs[-1]}"


def _check_rights(running: Running) -> None:
    """Nobody else may write what a session wrote, with the umask that it was started with."""
    writable = [
        path
        for path in (running.folder / ".nsight").rglob("*")
        if not path.is_symlink() and path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    ]
    assert not writable, f"others may write {writable}"


def _check_baselines(running: Running, before: Baselines) -> None:
    for path, content in before.items():
        now = path.read_bytes()
        if now != content:
            assert _runs(path, content, running) <= _runs(path, now, running), f"{path} lost runs"


def _runs(path: Path, content: bytes, running: Running) -> set[tuple[str, str, str]]:
    """Case, part and run of all that a file stores; nothing of a file that cannot be read."""
    copy = running.root / f"copy-{os.getpid()}.json"
    copy.write_bytes(content)
    try:
        stored = read_file(copy)
    except BaselineError:
        return set()
    finally:
        copy.unlink()
    return {(subject.case, subject.part, run.run) for subject, runs in stored.items() for run in runs}
