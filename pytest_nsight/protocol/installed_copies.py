"""Finds distributions that pip installed from the user's tree as a copy: both trees of a comparison import them.

A folder that was installed is a copy, and so is the tree's own project, wherever its wheel came from. Another
archive that lies in the tree may be unrelated, such as a wheel of a dependency. It is unrelated if no project of
the tree has its name, and no file or folder near the tree's top has the name of one of its modules. A project below
the top may be a dependency, too, whose released version is installed: then equal files show it.
"""

from __future__ import annotations

import contextlib
import filecmp
import importlib.metadata
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import Distribution, PackagePath
from pathlib import Path
from urllib.parse import unquote, urlparse

_MODULE_SUFFIXES = {".py", ".so", ".pyd"}
PROJECT_FILES = {"pyproject.toml", "setup.cfg", "setup.py"}
_NAME = re.compile(r"""(?<![\w.-])name\s*=\s*["']?([A-Za-z0-9][\w.-]*)""")
_OWN_SECTION = re.compile(r"^\[(?:project|tool\.poetry|metadata)\]$(.*?)(?=^\[|\Z)", re.MULTILINE | re.DOTALL)

SOURCES = ((), ("src",), ("python",), ("lib",))
"""Folders of a project that hold its modules."""

_DEPTH = 3
"""Folders between the top and the sources: `packages/name/src/name`."""


def installed_copies(root: str, owns: Callable[[str], bool]) -> Iterator[str]:
    """Real paths of the files of distributions that are copies of the tree.

    The files of an editable install are left out: they only point into the tree.

    Args:
        root: top folder of the tree.
        owns: whether a path is the tree's own.
    """

    @cache
    def read_tree() -> tuple[frozenset[str], frozenset[str]]:
        return _read_tree(root, owns)

    for own in named_in(root, PROJECT_FILES):
        for distribution in importlib.metadata.distributions(name=own):
            yield from _locate(distribution, _modules(distribution))
    for distribution in importlib.metadata.distributions():
        try:
            origin = json.loads(distribution.read_text("direct_url.json") or "{}")
            url = urlparse(origin.get("url", ""))
        except (ValueError, AttributeError):
            continue
        if url.scheme == "file" and owns(unquote(url.path)):
            is_archive = "archive_info" in origin
            files = _copied(distribution, read_tree) if is_archive else _modules(distribution)
            yield from _locate(distribution, files)


@dataclass(frozen=True, slots=True)
class EqualFile:
    """A file of the tree that an installed module equals.

    Attributes:
        source: the file.
        project: folder of the project that it belongs to.
    """

    source: str
    project: str

    def differs_in(self, locate: Callable[[str], str]) -> bool:
        """Whether another tree has this project, and another such file or none.

        Args:
            locate: path in the tree -> its place in the other one.
        """
        project, other = Path(locate(self.project)), Path(locate(self.source))
        if not any((project / name).is_file() for name in PROJECT_FILES):
            return False
        return not other.is_file() or not filecmp.cmp(self.source, other, shallow=False)


def equal_files(root: str, owns: Callable[[str], bool]) -> dict[str, EqualFile]:
    """Real paths of installed modules, each with the equal file of a project below the tree's top.

    Args:
        root: top folder of the tree.
        owns: whether a path is the tree's own.
    """
    return {
        installed: EqualFile(source, folder)
        for folder, distribution in _installed_projects(root, owns)
        for file in _modules(distribution)
        for installed in _locate(distribution, [file])
        for source in (str(Path(folder, *place, file)) for place in SOURCES)
        if _is_equal(installed, source)
    }


def _installed_projects(root: str, owns: Callable[[str], bool]) -> Iterator[tuple[str, Distribution]]:
    """The folder of each project below the tree's top, and what is installed under its name."""
    for folder, below, files in os.walk(root):
        depth = len(Path(folder).relative_to(root).parts)
        below[:] = [name for name in below if name[0] != "." and depth < _DEPTH and owns(f"{folder}/{name}")]
        for project in named_in(folder, PROJECT_FILES.intersection(files)) if depth else ():
            for distribution in importlib.metadata.distributions(name=project):
                yield folder, distribution


def _is_equal(one: str, other: str) -> bool:
    """Whether both files can be read and have the same bytes."""
    try:
        return filecmp.cmp(one, other, shallow=False)
    except OSError:
        return False


def _locate(distribution: Distribution, files: Iterable[PackagePath]) -> Iterator[str]:
    for file in files:
        yield os.path.realpath(str(distribution.locate_file(file)))


def _copied(
    distribution: Distribution, read_tree: Callable[[], tuple[frozenset[str], frozenset[str]]]
) -> Iterator[PackagePath]:
    """The modules of an archive that come from the tree."""
    projects, names = read_tree()
    # A tree whose projects have no readable name may have built anything.
    is_built_here = not projects or _name_of(distribution) in projects
    for file in _modules(distribution):
        if is_built_here or _stem(file.parts[0]) in names:
            yield file


def _modules(distribution: Distribution) -> Iterator[PackagePath]:
    for file in distribution.files or ():
        if file.suffix in _MODULE_SUFFIXES and "editable" not in file.name and file.parts[0] != os.pardir:
            yield file


def _read_tree(root: str, owns: Callable[[str], bool]) -> tuple[frozenset[str], frozenset[str]]:
    """Names of the projects in the tree, and of all files and folders near its top."""
    projects, names = set(), set()
    for folder, below, files in os.walk(root):
        below[:] = [name for name in below if name[0] != "." and owns(f"{folder}/{name}")]
        if len(Path(folder).relative_to(root).parts) <= _DEPTH:
            names |= {_stem(name) for name in (*below, *files) if name[0] != "."}
        projects |= named_in(folder, PROJECT_FILES.intersection(files))
    return frozenset(projects), frozenset(names)


def named_in(folder: str, files: Iterable[str]) -> set[str]:
    """Names of the projects that a folder's files declare."""
    names = set()
    for file in files:
        with contextlib.suppress(OSError):
            text = Path(folder, file).read_text(encoding="utf-8", errors="replace")
            # In setup.py a name may stand anywhere, elsewhere below the project's own heading.
            sections = [text] if file == "setup.py" else _OWN_SECTION.findall(text)
            names |= {_normalise(name) for section in sections for name in _NAME.findall(section)}
    return names


def _name_of(distribution: Distribution) -> str:
    return _normalise(distribution.metadata["Name"] or "")


def _normalise(name: str) -> str:
    """A project's name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _stem(name: str) -> str:
    return name.partition(".")[0]
