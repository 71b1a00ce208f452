"""Files of a repository by the names that Python could import them under, wherever sys.path begins."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from importlib.machinery import SOURCE_SUFFIXES
from pathlib import Path, PurePath

from pytest_nsight.model.errors import UsageError
from pytest_nsight.processes.git_calls import ask_git, find_work_tree

_LEFT_OUT = ("__pycache__", "node_modules", "site-packages")
_ENVIRONMENT = ("pyvenv.cfg", "conda-meta")


class ModuleFiles:
    """The source files of a repository.

    Args:
        repository: its top folder.
        missing: files that are gone.
    """

    def __init__(self, repository: Path, missing: Collection[Path] = ()) -> None:
        self._repository, self._missing = repository, frozenset(missing)
        self._missing_by_name = _by_last_name(self._missing)
        self._by_name: Mapping[str, set[Path]] | None = None

    def find(self, name: str) -> list[Path]:
        """The files that are this module if sys.path has the folder that its name begins in, sorted.

        None if that folder is a package: then sys.path would have the inside of a package.

        Args:
            name: dotted.
        """
        if self._by_name is None:
            self._by_name = _by_last_name((*_list_sources(self._repository), *self._missing))
        found = self._select(name, self._by_name)
        return [path for path in found if path in self._missing or path.is_file()]

    def find_missing(self, name: str) -> list[Path]:
        """Those of them that are gone, sorted; lists no folder."""
        return self._select(name, self._missing_by_name)

    def _select(self, name: str, by_name: Mapping[str, set[Path]]) -> list[Path]:
        endings = _endings(name)
        found = []
        for path in by_name.get(name.rpartition(".")[2], ()):
            # The folder that the repository lies in begins no name.
            below = f"/{path.relative_to(self._repository).as_posix()}" if self._is_below(path) else ""
            ending = next(filter(below.endswith, endings), None)
            if ending and not (self._repository / below[1 : -len(ending)] / "__init__.py").is_file():
                found.append(path)
        return sorted(found)

    def _is_below(self, path: Path) -> bool:
        return path.is_relative_to(self._repository)


def _endings(name: str) -> tuple[str, str]:
    path = name.replace(".", "/")
    return f"/{path}.py", f"/{path}/__init__.py"


def _by_last_name(paths: Iterable[Path]) -> Mapping[str, set[Path]]:
    found: dict[str, set[Path]] = {}
    for path in paths:
        found.setdefault(_last_name(path), set()).add(path)
    return found


def _last_name(path: PurePath) -> str:
    return path.parent.name if path.name == "__init__.py" else path.stem


def _list_sources(repository: Path) -> Iterator[Path]:
    """The files that git knows or would add; without git, all but those of environments and hidden folders."""
    listed = _list_known_to_git(repository)
    paths = _walk(repository) if listed is None else (repository / name for name in listed)
    return (path for path in paths if path.suffix in SOURCE_SUFFIXES)


def _list_known_to_git(repository: Path) -> Iterable[str] | None:
    """The names of files from the top folder; None where the folder is not that of a repository."""
    try:
        # A copy may lie in another repository, which ignores it.
        if find_work_tree(repository).top != repository.resolve():
            return None
        answers = [
            ask_git(repository, "ls-files", *which, "-z")
            for which in (("--cached", "--recurse-submodules"), ("--others", "--exclude-standard"))
        ]
    except UsageError:
        return None
    if any(answer.code for answer in answers):
        return None
    return [os.fsdecode(name) for answer in answers for name in answer.output.split(b"\0") if name]


def _walk(folder: Path) -> Iterator[Path]:
    for home, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not _is_left_out(Path(home, name))]
        yield from (Path(home, name) for name in files)


def _is_left_out(folder: Path) -> bool:
    if folder.name.startswith(".") or folder.name in _LEFT_OUT:
        return True
    return any((folder / name).exists() for name in _ENVIRONMENT)
