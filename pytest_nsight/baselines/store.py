"""The folder of baselines, `<folder>/<model>/<test module>.json`: read as a whole, changed file by file."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pytest_nsight.baselines.atomic_files import (
    explaining,
    read_regular_file,
    refuse_broken_link,
    remove_drafts,
)
from pytest_nsight.baselines.baseline_file import read_file, save_file
from pytest_nsight.baselines.file_format import Runs
from pytest_nsight.baselines.folder_lock import FILE_NAME as LOCK_FILE
from pytest_nsight.baselines.folder_lock import locked
from pytest_nsight.model.errors import BaselineError
from pytest_nsight.model.values import CANARIES, KEPT_RUNS, RunSummary, Subject


@dataclass(frozen=True, slots=True)
class Baselines:
    """The stored runs of one GPU model.

    Attributes:
        folder: folder of the files, "<baselines>/<model>"; it need not exist.
        runs: the stored runs of each subject, oldest first.
    """

    folder: Path
    runs: Runs = field(default_factory=dict)

    def of(self, subject: Subject) -> tuple[RunSummary, ...]:
        """The stored runs of a subject, oldest first; empty if there are none."""
        return self.runs.get(subject, ())


def load(folder: Path, model: str, cases: Iterable[str] | None = None) -> Baselines:
    """The baselines of one GPU model.

    Args:
        folder: the folder of all baselines.
        model: the name of the model's folder, see `model_slug`.
        cases: node ids; only the files that may hold them, and that of the canaries, are read. None for all files.

    Returns:
        The stored runs; none if there is no such folder.

    Raises:
        BaselineError: a file is damaged, of a newer format, cannot be read, or has another name than its cases.
    """
    home = folder / model
    with explaining("read", home):
        paths = _list_files(folder, home)
    if cases is not None:
        wanted = {file_name(case) for case in (*cases, CANARIES)}
        paths = [path for path in paths if path.name in wanted]
    runs: dict[Subject, tuple[RunSummary, ...]] = {}
    holders: dict[Subject, Path] = {}
    for path in paths:
        for subject, stored in read_file(path).items():
            if subject in runs:
                raise BaselineError(
                    f"{path} and {holders[subject]} both hold {subject.label}; delete the one that is not named "
                    f"{file_name(subject.case)}"
                )
            runs[subject], holders[subject] = stored, path
    # A check reads only the files that are named after its cases, so it would find no baseline.
    for subject, path in holders.items():
        if path.name != file_name(subject.case):
            raise BaselineError(
                f"{path} holds {subject.label}, which is looked for in {file_name(subject.case)} alone; rename the "
                "file, or delete it and save again with --nsight-save"
            )
    return Baselines(home, runs)


def save(
    folder: Path, model: str, runs: Sequence[RunSummary], keep: int = KEPT_RUNS, reason: str = ""
) -> tuple[Path, ...]:
    """Adds runs to the stored ones; subjects and files without new runs stay as they are.

    The files are read again under a lock, so that two sessions that save at once lose nothing, and replaced
    whole, so that a reader or a crash never sees half a file. A run that is stored already is replaced.

    Args:
        folder: the folder of all baselines; made if missing.
        model: the name of the model's folder, see `model_slug`.
        runs: the runs to add.
        keep: how many runs of a subject to keep, the newest.
        reason: why these runs become the baseline, as the user wrote it; stored with each of them.

    Returns:
        The files that now hold the runs, sorted.

    Raises:
        BaselineError: a file cannot be read or written, or another process holds the lock; the other files are
            saved, and the file in question is unchanged.
    """
    if keep < 1:
        raise ValueError(f"keep is {keep}, at least one run must be kept")
    home = folder / model
    saved: list[Path] = []
    failures: list[str] = []
    with explaining("write", home):
        refuse_broken_link(home)
        home.mkdir(parents=True, exist_ok=True)
    if reason:
        runs = [replace(run, reason=reason) for run in runs]
    with locked(home):
        remove_drafts(home)
        for name, added in sorted(_by_file(runs).items()):
            path = home / name
            try:
                save_file(path, added, keep)
                saved.append(path)
            except BaselineError as error:
                failures.append(str(error))
    if failures:
        others = f"; saved all the same: {', '.join(map(str, saved))}" if saved else ""
        raise BaselineError("; ".join(failures) + others)
    return tuple(saved)


def remove_abandoned_drafts(folder: Path) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """Removes the drafts, and the lock files, of savers that were killed.

    Args:
        folder: the folder of all baselines; it need not exist.

    Returns:
        The removed drafts; and why the folder of a model was left alone, for each that another process holds.
    """
    removed: list[Path] = []
    left: list[str] = []
    for home in sorted(folder.iterdir()) if folder.is_dir() else ():
        if home.is_dir() and (any(home.glob(".*.tmp")) or (home / LOCK_FILE).exists()):
            try:
                with locked(home, 0.0):
                    removed += remove_drafts(home)
            except BaselineError as error:
                left.append(str(error))
    return tuple(removed), tuple(left)


def fingerprint(folder: Path) -> str:
    """A text that is the same for the same files, "" for none.

    Args:
        folder: the folder of all baselines.

    Raises:
        BaselineError: a file cannot be read.
    """
    with explaining("read", folder):
        files = sorted(folder.glob("*/*.json"))
        digest = hashlib.sha256()
        for path in files:
            digest.update(f"{path.relative_to(folder).as_posix()}\0".encode(errors="surrogateescape"))
            digest.update(hashlib.sha256(read_regular_file(path)).digest())
    return digest.hexdigest()[:16] if files else ""


def check_writable(folder: Path) -> None:
    """Refuses a folder that cannot be written, before minutes of measuring; leaves nothing behind.

    Args:
        folder: the folder of all baselines; it need not exist.

    Raises:
        BaselineError: nothing can be written there.
    """
    with explaining("write", folder):
        refuse_broken_link(folder)
        nearest = next(path for path in (folder, *folder.parents) if path.exists())
        with tempfile.TemporaryFile(dir=nearest):
            pass


def file_name(case: str) -> str:
    """The file that holds a case: that of "perf_tests/test_norm.py::test_x" is "perf_tests.test_norm.json".

    Args:
        case: pytest node id, relative to the root folder.
    """
    module = case.split("::", 1)[0].removesuffix(".py")
    dotted = re.sub(r"[^\w.\-]", "_", module.replace("/", ".").replace("\\", ".")).strip(".")
    return f"{dotted or 'unnamed'}.json"


def model_slug(name: str) -> str:
    """The name of a model's folder: that of "NVIDIA H200" is "nvidia-h200".

    Clock and marketing words, which differ between two readings of one CPU, are left out.

    Args:
        name: product name of the GPU, or of the CPU where there is no GPU.
    """
    text = re.sub(r"@.*|\bw(ith\b|/).*|\((r|tm|c)\)|[®™©]", " ", name, flags=re.IGNORECASE)
    text = re.sub(r"\b(\w+-core|\d+(st|nd|rd|th) gen|cpu|processor)\b", " ", text, flags=re.IGNORECASE)
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "unknown"


def _list_files(folder: Path, home: Path) -> list[Path]:
    # glob() finds nothing in what is no folder, and an unfit path must not look like an empty one.
    refuse_broken_link(home)
    for path in (folder, home):
        if path.exists() and not path.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    return sorted(path for path in home.iterdir() if path.suffix == ".json") if home.exists() else []


def _by_file(runs: Iterable[RunSummary]) -> Mapping[str, list[RunSummary]]:
    files: dict[str, list[RunSummary]] = {}
    for run in runs:
        files.setdefault(file_name(run.subject.case), []).append(run)
    return files
