"""Which tree a kept session measured: the hashes of the files that its tests depend on, found from their text.

The session writes them to evidence.json; `pytest-nsight verify` works them out again from another copy of the tree.
"""

from __future__ import annotations

import fnmatch
import hashlib
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from pytest_nsight.baselines.file_format import begins_as_baselines
from pytest_nsight.controller.collection.import_graph import ImportGraph
from pytest_nsight.controller.session_folders import EVIDENCE_FILE, is_written_by_session
from pytest_nsight.model.errors import RecordingError, TraceError, UsageError
from pytest_nsight.model.units import name_some
from pytest_nsight.processes.git_calls import ask_git
from pytest_nsight.processes.regular_files import check_regular
from pytest_nsight.protocol.json_files import read_json_file, write_json

_FORMAT = 1
_CHUNK_BYTES = 1 << 20
_HEAD_BYTES = 1 << 12
_BUILT = (".so", ".pyd")
"""Modules that were built on one machine are the same on no other; the graph names them as not seen."""

_SHOWN = 100
_MOST_NAMED = 3
"""More files that are left out for one reason are named by their folder."""

_CONFTEST = "conftest.py"


@dataclass(frozen=True, slots=True)
class TreeEvidence:
    """What a session says of the tree that it measured.

    Attributes:
        format: version of the file.
        commit: of the tree, with "+" where files differed from it; "" where git does not know.
        root: pytest's root folder, relative to the top of the tree; "" for the top itself.
        cases: node ids of the tests that the session selected.
        files: path from the top of the tree -> SHA-256 of the file's bytes, in hexadecimal.
        unseen: path -> what no hash covers: imports that cannot be followed, and declared files that are left out.
        changed: files that were changed while the session measured.
    """

    format: int
    commit: str
    root: str
    cases: tuple[str, ...]
    files: Mapping[str, str]
    unseen: Mapping[str, str] = field(default_factory=dict)
    changed: tuple[str, ...] = ()

    def write(self, session: Path) -> None:
        """Writes the file into the session's folder.

        Raises:
            OSError: it cannot be written.
        """
        (session / EVIDENCE_FILE).write_text(write_json(self), encoding="utf-8")

    def test_files(self) -> tuple[str, ...]:
        """The files of the selected tests, from the top of the tree.

        Raises:
            RecordingError: there is none, or one has no hash.
        """
        files = dict.fromkeys(
            (PurePosixPath(self.root) / case.partition("::")[0]).as_posix() for case in self.cases
        )
        for file in files:
            if file not in self.files:
                raise RecordingError(
                    f"{EVIDENCE_FILE} names tests in {file[:_SHOWN]!a} and holds no hash of it; record it again"
                )
        if not files:
            raise RecordingError(f"{EVIDENCE_FILE} names no test; record the session again with --nsight-keep")
        return tuple(files)


@dataclass(frozen=True, slots=True)
class TreeParts:
    """What the tests of a tree depend on, apart from what they import.

    Attributes:
        top: top folder of the tree.
        root: pytest's root folder.
        ini: the file that pytest took its settings from, None for none.
        plugins: files that pytest has loaded as plugins.
        declared: globs of nsight_affected_by, relative to the root.
    """

    top: Path
    root: Path
    ini: Path | None = None
    plugins: tuple[Path, ...] = ()
    declared: tuple[str, ...] = ()


def find_top(root: Path) -> Path:
    """Top folder of the repository that a folder lies in; the folder itself where there is none."""
    try:
        found = ask_git(root, "rev-parse", "--show-toplevel")
    except UsageError:
        return root.resolve()
    return Path(found.text.strip()).resolve() if found.code == 0 else root.resolve()


def hash_tree(tests: Mapping[str, Path], parts: TreeParts, commit: str = "") -> TreeEvidence:
    """The evidence of a tree as it is now.

    Args:
        tests: node id -> file, of the tests that are measured.
        parts: of the tree.
        commit: of the tree.
    """
    top, root = parts.top.resolve(), parts.root.resolve()
    graph = ImportGraph(top)
    roots = {path.resolve() for path in tests.values()}
    above = {folder / _CONFTEST for path in roots for folder in path.parents}
    roots |= {path for path in above if path.is_file()}
    roots |= {path.resolve() for path in parts.plugins}
    reached = set(graph.reach([path for path in sorted(roots) if graph.is_own(path)]))
    reached |= {path.resolve() for path in (parts.ini,) if path is not None}
    declared, left_out = _find_declared(root, parts.declared)
    reached |= declared
    files, unseen = {}, {path.relative_to(top).as_posix(): what for path, what in sorted(graph.unseen.items())}
    for path in sorted(reached):
        if graph.is_own(path) and path.is_file() and path.suffix not in _BUILT:
            name = path.relative_to(top).as_posix()
            if not path.resolve().is_relative_to(top):
                unseen[name] = "all of it, because it is a link out of the tree"
                continue
            try:
                files[name] = hash_file(path)
            except OSError as error:
                unseen[name] = f"all of it, because it cannot be read ({error.strerror})"
    unseen |= _name_left_out({path: why for path, why in left_out.items() if path not in reached}, top)
    relative = root.relative_to(top).as_posix() if root.is_relative_to(top) else ""
    return TreeEvidence(_FORMAT, commit, "" if relative == "." else relative, tuple(tests), files, unseen)


def _find_declared(root: Path, globs: Sequence[str]) -> tuple[set[Path], Mapping[Path, tuple[Path, str]]]:
    """The files that match one of the globs, in which * also matches /; those of hidden folders are left out.

    Returns:
        The files; and of recorded sessions and baselines, on which no test depends, file -> (folder, what it is).
    """
    paths = list(root.rglob("*")) if globs else []
    sessions = {path.parent for path in paths if path.name == EVIDENCE_FILE and _is_session(path.parent)} - {root}
    found: set[Path] = set()
    left_out: dict[Path, tuple[Path, str]] = {}
    for path in sorted(paths):
        name = path.relative_to(root)
        is_hidden = any(part.startswith(".") for part in name.parts)
        if is_hidden or not any(fnmatch.fnmatchcase(name.as_posix(), glob) for glob in globs) or not path.is_file():
            continue
        above = (folder for folder in path.parents if folder in sessions)
        session = next((folder for folder in above if is_written_by_session(path.relative_to(folder))), None)
        if session is not None:
            left_out[path] = session, "of a recorded session"
        elif _holds_baselines(path):
            left_out[path] = path.parent, "of baselines, as it seems"
        else:
            found.add(path.resolve())
    return found, left_out


def _name_left_out(left_out: Mapping[Path, tuple[Path, str]], top: Path) -> dict[str, str]:
    """Path -> what is not hashed; the folder where there are many."""
    groups: dict[tuple[Path, str], list[Path]] = {}
    for path, why in left_out.items():
        if path.is_relative_to(top):
            groups.setdefault(why, []).append(path)
    named: dict[str, str] = {}
    for (folder, what), paths in groups.items():
        if len(paths) <= _MOST_NAMED:
            named |= {path.relative_to(top).as_posix(): f"all of it, a file {what}" for path in paths}
        else:
            name = folder.relative_to(top).as_posix()
            endings = {f"*{path.suffix}" if path.suffix else path.name for path in paths}
            text = f"{len(paths)} files {what}: {name_some(sorted(endings))}"
            named[name] = f"{named[name]}; {text}" if name in named else text
    return named


def _is_session(folder: Path) -> bool:
    try:
        read_evidence(folder)
    except RecordingError:
        return False
    return True


def _holds_baselines(file: Path) -> bool:
    """Whether a file is one of baselines, in whatever folder: an option may name another one for each session."""
    if file.suffix != ".json":
        return False
    try:
        with file.open("rb") as opened:
            return begins_as_baselines(opened.read(_HEAD_BYTES))
    except OSError:
        return False


def hash_file(path: Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal.

    Raises:
        OSError: it cannot be read.
    """
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def find_changed(evidence: TreeEvidence, top: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The files of the evidence that differ in a tree, and those that are missing there, sorted.

    Args:
        evidence: of a session that may come from anywhere; a path that leads out of the tree counts as missing.
        top: top folder of the tree.
    """
    top = top.resolve()
    other, missing = [], []
    for name, digest in sorted(evidence.files.items()):
        path = _find_inside(top, name)
        if path is None:
            missing.append(name)
        elif _try_to_hash(path) != digest:
            other.append(name)
    return tuple(other), tuple(missing)


def _try_to_hash(path: Path) -> str:
    """The hash of a file; "", which no file has, where it cannot be read."""
    try:
        return hash_file(path)
    except OSError:
        return ""


def _find_inside(top: Path, name: str) -> Path | None:
    """A regular file of the tree by its path from the top; None where there is none, or it is outside."""
    if not name.isprintable() or not is_inside(name):
        return None
    try:
        path = (top / name).resolve()
        is_regular = stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return None
    return path if is_regular and path.is_relative_to(top) else None


def is_inside(name: str) -> bool:
    """Whether a relative path does not lead out of the folder that it starts from."""
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts


def read_evidence(session: Path) -> TreeEvidence:
    """The evidence of a kept session.

    Raises:
        RecordingError: there is none, or it cannot be read.
    """
    file = session / EVIDENCE_FILE
    if not session.is_dir():
        raise RecordingError(f"{session} is no folder; give that of a session that was kept with --nsight-keep")
    try:
        check_regular(file, follows_links=False)
    except TraceError as error:
        if not file.is_symlink() and not file.exists():
            raise RecordingError(
                f"{session} does not say which files it measured ({EVIDENCE_FILE} is missing): an older version "
                "has recorded it, or it was not kept; record it again with --nsight-keep"
            ) from None
        raise RecordingError(str(error)) from None
    found = read_json_file(TreeEvidence, file)
    if found.format != _FORMAT:
        raise RecordingError(f"{file} has format {found.format}, {_FORMAT} is known; upgrade pytest-nsight")
    if not is_inside(found.root):
        raise RecordingError(f"{file} is damaged: its root folder {found.root[:_SHOWN]!a} is outside of the tree")
    return found


def list_unproved(evidence: TreeEvidence, tree: TreeEvidence) -> tuple[str, ...]:
    """The files that the tests depend on in a tree and the session's evidence does not hold, sorted."""
    return tuple(sorted(set(tree.files) - set(evidence.files)))
