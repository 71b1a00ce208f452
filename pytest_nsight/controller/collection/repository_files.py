"""Files of a repository by the names that Python could import them under, wherever sys.path begins."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from importlib.machinery import SOURCE_SUFFIXES
from pathlib import Path, PurePath

from pytest_nsight.model.errors import UsageError
from pytest_nsight.processes.git_calls import ask_git, find_work_tree

_LEFT_OUT = {".git", ".nsight", "__pycache__"}
_ENVIRONMENT = "pyvenv.cfg"


class ModuleFiles:
    """The source files of a repository.

    Args:
        repository: its top folder.
        missing: files that are gone.
    """

    def __init__(self, repository: Path, missing: Collection[Path] = ()) -> None:
        self._by_name: dict[str, set[Path]] = {}
        for path in (*_list_sources(repository), *missing):
            self._by_name.setdefault(_last_name(path), set()).add(path)

    def find(self, name: str) -> list[Path]:
        """The files that are this module if sys.path has the folder that its name begins in, sorted.

        Args:
            name: dotted.
        """
        endings = _endings(name)
        found = self._by_name.get(name.rpartition(".")[2], ())
        return sorted(path for path in found if f"/{path.as_posix()}".endswith(endings))


def _endings(name: str) -> tuple[str, str]:
    path = name.replace(".", "/")
    return f"/{path}.py", f"/{path}/__init__.py"


def _last_name(path: PurePath) -> str:
    return path.parent.name if path.name == "__init__.py" else path.stem


def _list_sources(repository: Path) -> Iterator[Path]:
    """The files that git knows or would add; where there is no git, all but those of virtual environments."""
    listed = _list_known_to_git(repository)
    paths = _walk(repository) if listed is None else (repository / name for name in listed)
    return (path for path in paths if path.suffix in SOURCE_SUFFIXES and path.is_file())


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
        folders[:] = [
            name for name in folders if name not in _LEFT_OUT and not Path(home, name, _ENVIRONMENT).exists()
        ]
        yield from (Path(home, name) for name in files)
