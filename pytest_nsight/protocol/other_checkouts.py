"""Finds modules that were imported from another checkout of the project than those that a comparison measures.

A worktree and a second clone hold the same packages. Where pip installed one of them as editable, or PYTHONPATH
names one, the tests of the other import from there, whichever tree they belong to. A folder is another checkout if
git keeps it in the same repository, or if a project in it has the name of the one at the same place in the tree. A
repository with packages of the same name by coincidence is none.

While the other tree is measured, a copy of a package counts that nothing ties to the project, such as a folder on
PYTHONPATH or a wheel whose name the project's files do not give. It counts if the trees have different files of
what was imported; outside of packages, if it also equals one of them.
"""

from __future__ import annotations

import filecmp
import os
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from pytest_nsight.protocol.installed_copies import PROJECT_FILES, SOURCES, named_in
from pytest_nsight.protocol.job import TreeMapping
from pytest_nsight.protocol.manifest_events import WrongImport

INSTRUMENT = "pytest_nsight"
"""The plugin's own package."""

_GIT = ".git"
_INIT = "__init__.py"
INSTALLED = frozenset(("site-packages", "dist-packages"))
"""Folders of installed packages."""


def imported_files() -> Iterator[tuple[str, str]]:
    """The modules of this process, by name, each with its file; without the plugin's own.

    They measure both trees with the same code, even where the trees hold versions of it.
    """
    for name, module in sorted(sys.modules.items()):
        fields = getattr(module, "__dict__", {})
        file = fields.get("__file__") if isinstance(fields, Mapping) else None
        if isinstance(file, str) and name.partition(".")[0] != INSTRUMENT:
            yield name, file


def imports_from_other_checkouts(mapping: TreeMapping, *, with_copies: bool = False) -> Iterator[WrongImport]:
    """All modules that this process imported from another checkout than the trees of a comparison.

    Args:
        mapping: from the user's tree to the other one.
        with_copies: whether copies count, too, as they do while the other tree is measured.
    """
    checkouts = OtherCheckouts(mapping)
    for name, file in imported_files():
        real = os.path.realpath(file)
        if found := checkouts.find(name, real) or (with_copies and checkouts.find_copy(name, real)):
            yield WrongImport(name, file, found)


class OtherCheckouts:
    """The checkouts beside the two trees of a comparison."""

    def __init__(self, mapping: TreeMapping) -> None:
        own = (mapping.root, mapping.tree, *mapping.shared)
        library = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib")}
        self._trees = (Path(mapping.root), Path(mapping.tree))
        self._passed_over = tuple(os.path.realpath(path).rstrip(os.sep) + os.sep for path in (*own, *library))
        self._find_top = cache(_find_top)
        self._names = cache(_names)
        self._projects_of = cache(self._list_projects)
        self._sources_of = cache(self._list_sources)

    def find(self, module: str, file: str) -> str:
        """The top folder of the other checkout that a module is from, if the trees have such a module, too.

        Args:
            module: its dotted name.
            file: real path of what was imported.

        Returns:
            The folder; "" where the module is from a tree, was installed, or has nothing to do with them.
        """
        path = Path(file)
        if file.startswith(self._passed_over) or INSTALLED.intersection(path.parts) or not _is_at(path, module):
            return ""
        top = self._find_top(path.parent)
        if top is None:
            return ""
        place = path.relative_to(top)
        for project in self._projects_of(path.parent):
            for tree in self._trees:
                if (tree / place).is_file() or _holds(tree / project, module.partition(".")[0]):
                    return str(top)
        return ""

    def find_copy(self, module: str, file: str) -> str:
        """The folder on sys.path that a module of the other tree is from, if that tree's own file is another one.

        Args:
            module: its dotted name.
            file: real path of what was imported while the other tree was measured.

        Returns:
            The folder; "" where the module is the tree's own, or the trees do not differ in it.
        """
        path = Path(file)
        # An environment may lie in the user's tree.
        is_own = file.startswith(self._passed_over) and not INSTALLED.intersection(path.parts)
        if is_own or not _is_at(path, module):
            return ""
        folder = path.parents[module.count(".") + (path.stem == "__init__")]
        of_package = self._sources_of(module.partition(".")[0])
        for source in of_package or SOURCES:
            places = [tree.joinpath(*source, path.relative_to(folder)) for tree in self._trees]
            files = [place for place in places if place.is_file()]
            differ = len(files) == 1 or (files and not filecmp.cmp(files[0], files[1], shallow=False))
            # A module outside of a package may be another project's of the same name.
            if differ and (of_package or any(filecmp.cmp(path, one, shallow=False) for one in files)):
                return str(folder)
        return ""

    def _list_sources(self, package: str) -> tuple[tuple[str, ...], ...]:
        """The folders of sources in which either tree has this package."""
        return tuple(
            source
            for source in SOURCES
            if any(tree.joinpath(*source, package, _INIT).is_file() for tree in self._trees)
        )

    def _list_projects(self, folder: Path) -> tuple[Path, ...]:
        """Where projects of the tree are that a folder of another checkout is in, too, below the top of both."""
        top, root = self._find_top(folder), self._trees[0]
        if top is None:
            return ()
        above = [folder.relative_to(top), *folder.relative_to(top).parents]
        shared = [place for place in above if self._names(top / place) & self._names(root / place)]
        repository = _repository(top)
        if repository is not None and repository == _repository(root):
            shared.append(Path())
        return tuple(dict.fromkeys(shared))


def _find_top(folder: Path) -> Path | None:
    """The top of the checkout that a folder is in; without git the innermost project's."""
    above = (folder, *folder.parents)
    project = (path for path in above if any((path / name).is_file() for name in PROJECT_FILES))
    return next((path for path in above if (path / _GIT).exists()), None) or next(project, None)


def _repository(top: Path) -> Path | None:
    """What all worktrees of a repository have in common: its own folder."""
    link = top / _GIT
    try:
        own = link if link.is_dir() else top / _read(link).removeprefix("gitdir:").strip()
        common = own / "commondir"
        return (own / _read(common) if common.is_file() else own).resolve()
    except OSError:
        return None


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="surrogateescape").strip()


def _is_at(path: Path, module: str) -> bool:
    """Whether a file lies where a module of this name is looked for; it may have been loaded under another one."""
    stem = path.name.partition(".")[0]
    parts = path.parent.parts if stem == "__init__" else (*path.parent.parts, stem)
    names = tuple(module.split("."))
    return parts[-len(names) :] == names


def _holds(project: Path, package: str) -> bool:
    """Whether a project has a module or a package of this name."""
    places = (project.joinpath(*source) for source in SOURCES)
    return any((path / f"{package}.py").is_file() or (path / package / _INIT).is_file() for path in places)


def _names(folder: Path) -> set[str]:
    return named_in(str(folder), PROJECT_FILES)
