"""What a comparison with a revision needs on disk while it runs: its worktree, its build, caches for both trees."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pytest_nsight.controller.pytest_input import CUT_OPTION
from pytest_nsight.controller.trees.git_revision import Revision, check_out, remove_worktree
from pytest_nsight.controller.trees.third_checkout import refuse_other_checkout
from pytest_nsight.model.errors import CollectorError, UsageError, unwritable
from pytest_nsight.model.units import duration
from pytest_nsight.processes.child_process import start
from pytest_nsight.processes.git_calls import drop_repository
from pytest_nsight.processes.log_files import last_lines
from pytest_nsight.protocol.job import OTHER_TREE, THIS_TREE, TreeMapping

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

WORKTREE = "against"

TARGET_VARIABLE = "PYTEST_NSIGHT_AGAINST_TARGET"
"""Names, for the build command, a folder that comes first on the revision's sys.path (`pip install --target`)."""

_CACHES = {
    "TRITON_CACHE_DIR": "triton",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TORCH_EXTENSIONS_DIR": "extensions",
    "CUDA_CACHE_PATH": "cuda",
}
"""Compiled kernels: both trees begin with none, and keep what they compile for their later runs."""

_INI_FILES = {
    "pytest.toml": "",
    ".pytest.toml": "",
    "pytest.ini": "",
    ".pytest.ini": "",
    "pyproject.toml": "[tool.pytest",
    "tox.ini": "[pytest]",
    "setup.cfg": "[tool:pytest]",
}
"""Where pytest looks for its settings, and what such a file must hold to count."""


@dataclass(frozen=True, slots=True)
class Build:
    """What makes a revision's worktree ready.

    Attributes:
        command: for the shell, "" for none.
        limit_s: how long it may take.
    """

    command: str
    limit_s: float


class Workspace:
    """The revision's tree on disk: made before the first run, removed when the session ends in any way."""

    def __init__(self, revision: Revision, folder: Path) -> None:
        """Names the places; makes nothing.

        Args:
            revision: what to compare with.
            folder: where they are: the session's folder, or one in it.
        """
        self._revision = revision
        self._folder = folder
        self._tree = folder / WORKTREE
        self._target = folder / "against-target"
        self._caches = folder / "caches"
        self._empty_ini = folder / "against.ini"
        self._is_there = False
        self._mapping = TreeMapping(
            str(revision.repository),
            str(self._tree.resolve()),
            (str(folder.resolve()), *_environments(revision.repository)),
        )

    def check_out(self, root: Path, where: Path) -> None:
        """Makes the worktree, unless it is there.

        Args:
            root: pytest's root folder.
            where: folder that pytest was started in.

        Raises:
            UsageError: pytest was started outside of the repository, or git cannot check the revision out.
            CollectorError: the session's folder cannot be written.
        """
        self._refuse_outside(where)
        if self._is_there:
            return
        check_out(self._revision, self._tree)
        try:
            for folder in (self._place(where), self._place(root), self._target):
                # The revision may lack a folder that is new in the user's tree; it is then empty there.
                folder.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise UsageError(
                f"{self._revision.option} {self._revision.name}: that revision has a file where this tree has the "
                f"folder {os.path.relpath(folder, self._tree)}; start pytest in a folder that both have"
            ) from None
        except OSError as error:
            raise unwritable(folder, error) from None
        self._is_there = True

    def prepare(
        self, root: Path, ini: Path | None, where: Path, arguments: Sequence[str], build: Build
    ) -> tuple[Tree, ...]:
        """Checks the revision out, if that has not been done, and builds it.

        Args:
            root: pytest's root folder.
            ini: the file that pytest took its settings from.
            where: folder that pytest was started in.
            arguments: what a worker's pytest is called with.
            build: what to run in the worktree first.

        Returns:
            Both trees, ready to be measured.

        Raises:
            UsageError: pytest was started outside of the repository, the tests measure another checkout, git cannot
                check the revision out, or pytest could not read its settings there.
            CollectorError: the build fails, or the session's folder cannot be written.
        """
        self._refuse_outside(where)
        refuse_other_checkout(self._revision, self._mapping)
        self.check_out(root, where)
        if build.command:
            self._build(build, self._place(root))
        return self.describe(root, ini, where, arguments)

    def describe(self, root: Path, ini: Path | None, where: Path, arguments: Sequence[str]) -> tuple[Tree, ...]:
        """Both trees, with the sys.path of this process; the arguments are those of `prepare`.

        Raises:
            UsageError: pytest could not read its settings in the worktree.
        """
        return self._this(where, arguments), self._other(self._place(where), self._place(root), ini, arguments)

    def remove(self) -> None:
        """Removes worktree, settings, build and caches."""
        remove_worktree(self._revision.repository, self._tree)
        for folder in (self._target, self._caches):
            shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            self._empty_ini.unlink()
        self._is_there = False

    def _refuse_outside(self, where: Path) -> None:
        if not self._mapping.owns(str(where)):
            raise UsageError(
                f"{self._revision.option} {self._revision.name}: start it inside of the repository "
                f"{self._revision.repository}"
            )

    def _place(self, path: Path) -> Path:
        """Where a path of the user's tree is in the worktree."""
        return Path(self._mapping.map(str(path)))

    def _this(self, where: Path, arguments: Sequence[str]) -> Tree:
        return Tree(where, tuple(arguments), tuple(sys.path), self._cache_variables("this"))

    def _other(self, where: Path, root: Path, ini: Path | None, arguments: Sequence[str]) -> Tree:
        own = [f"--rootdir={root}", f"{CUT_OPTION}{self._find_cut(root, arguments)}"]
        own += ["-c", str(self._find_ini(root, ini))]
        path = [self._mapping.map(entry) for entry in sys.path]
        environ = self._cache_variables("against")
        if inherited := os.environ.get("PYTHONPATH"):
            entries = [self._mapping.map(entry) for entry in inherited.split(os.pathsep)]
            environ["PYTHONPATH"] = os.pathsep.join(entries)
        if options := os.environ.get("PYTEST_ADDOPTS"):
            environ["PYTEST_ADDOPTS"] = shlex.join(map(self._mapping.map_argument, shlex.split(options)))
        return Tree(
            where=where,
            arguments=(*map(self._mapping.map_argument, arguments), *own),
            path=(str(self._target), *path),
            environ=environ,
            name=OTHER_TREE,
            commit=self._revision.commit,
            mapping=self._mapping,
        )

    def _find_cut(self, root: Path, arguments: Sequence[str]) -> Path:
        """The folder above which the revision's pytest loads no conftest.py: never one outside of its worktree."""
        given = [one.removeprefix(CUT_OPTION) for one in arguments if one.startswith(CUT_OPTION)]
        cut = self._place(Path(given[-1])) if given else root
        if not cut.is_relative_to(tree := self._tree.resolve()):
            return tree
        # The revision may lack a folder that is new in the user's tree.
        return next(folder for folder in (cut, *cut.parents) if folder.is_dir())

    def _find_ini(self, root: Path, ini: Path | None) -> Path:
        """The revision's own settings; an empty file if it has none: pytest would look in the folders above.

        Raises:
            UsageError: pytest could not read them.
        """
        mapped = [self._place(ini)] if ini is not None else []
        for path in (*mapped, *(root / name for name in _INI_FILES)):
            if path.is_file() and _has_settings(path.name, content := path.read_bytes()):
                self._check_text(path, content)
                return path
        self._empty_ini.write_text("[pytest]\n", encoding="utf-8")
        return self._empty_ini

    def _check_text(self, path: Path, content: bytes) -> None:
        try:
            content.decode()
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            raise UsageError(
                f"{self._revision.option} {self._revision.name}: pytest cannot read its settings there, since line "
                f"{line} of {os.path.relpath(path, self._tree)} is no UTF-8; give a commit in which it is, or "
                "-c with a file outside of the repository"
            ) from None

    def _cache_variables(self, name: str) -> dict[str, str]:
        return {variable: str(self._caches / name / cache) for variable, cache in _CACHES.items()}

    def _build(self, build: Build, where: Path) -> None:
        log = self._folder / "against-build.log"
        environ = {**drop_repository(os.environ), TARGET_VARIABLE: str(self._target)}
        with start(("/bin/sh", "-c", build.command), log, where, environ) as process:
            code = process.wait(build.limit_s)
        if code is None:
            raise CollectorError(
                f"nsight_against_build ({build.command}) took longer than {duration(1e9 * build.limit_s)} in "
                f"{self._revision.short} and was ended; its output is in {log}; set nsight_timeout if it needs more"
            )
        if code:
            raise CollectorError(
                f"nsight_against_build ({build.command}) failed with exit code {code} in {self._revision.short}; "
                "type it in a checkout of that revision, and correct the setting; "
                f"its output ({log}) ends with:\n" + (last_lines(log) or "(nothing)")
            )


def _has_settings(name: str, content: bytes) -> bool:
    """Whether pytest takes its settings from a file of this name and content."""
    header = _INI_FILES.get(name, "").encode()
    if name != "pyproject.toml":
        return header in content
    try:
        tool = tomllib.loads(content.decode()).get("tool")
    except ValueError:
        # pytest itself says what is wrong with it.
        return header in content
    # TOML has more ways to write a table than by its header.
    return isinstance(tool, dict) and "pytest" in tool


def _environments(repository: Path) -> tuple[str, ...]:
    """Python's own folders that lie inside of the repository: a virtual environment in the project's folder."""
    prefixes = {os.path.abspath(path) for path in (sys.prefix, sys.exec_prefix, sys.base_prefix)}
    return tuple(
        sorted(
            path
            for path in prefixes
            if Path(os.path.realpath(path)) != repository
            and Path(os.path.realpath(path)).is_relative_to(repository)
        )
    )


@dataclass(frozen=True, slots=True)
class Tree:
    """How a worker is started for one tree.

    Attributes:
        where: folder to start it in.
        arguments: what its pytest is called with.
        path: its sys.path.
        environ: environment variables that it gets beside those of this process; of these it gets none that names
            the user's repository or index, unless this is the user's tree.
        name: THIS_TREE or OTHER_TREE.
        commit: of the tree, "" for that of the session.
        mapping: what leads its imports to the tree, None where they go there by themselves.
    """

    where: Path
    arguments: tuple[str, ...]
    path: tuple[str, ...]
    environ: Mapping[str, str] = field(default_factory=dict)
    name: str = THIS_TREE
    commit: str = ""
    mapping: TreeMapping | None = None
