"""Hooks and imports of a worker that measures another tree than the user's.

Tests may be missing there, and new ones exist. Nothing may be imported from the user's tree.
"""

from __future__ import annotations

import importlib
import importlib.abc
import os
import sys
from collections.abc import Generator, Iterator, Sequence
from dataclasses import asdict
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from pytest_nsight.protocol.installed_copies import equal_files, installed_copies
from pytest_nsight.protocol.job import TreeMapping
from pytest_nsight.protocol.journal import Journal
from pytest_nsight.protocol.manifest_events import WrongImport
from pytest_nsight.protocol.mark import is_marked
from pytest_nsight.protocol.other_checkouts import INSTRUMENT, imported_files, imports_from_other_checkouts


class OtherTreePlugin:
    """Hooks of a worker's pytest, beside the worker's own."""

    __name__ = "nsight-other-tree"  # pytest registers a plugin object under this name

    def __init__(self, journal: Journal, mapping: TreeMapping) -> None:
        self._journal = journal
        self._mapping = mapping
        self._selects_by_name = False
        self._has_wrong_imports = False
        self._ignored: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Takes whole files that exist: a test or a file that this tree lacks is no error here."""
        config.option.continue_on_collection_errors = True
        if config.option.pyargs:
            return
        self._selects_by_name = any("::" in argument for argument in config.args)
        files = dict.fromkeys(argument.partition("::")[0] for argument in config.args)
        config.args[:] = [file for file in files if Path(config.invocation_params.dir, file).exists()]

    @pytest.hookimpl(wrapper=True)
    def pytest_ignore_collect(
        self, collection_path: Path, config: pytest.Config
    ) -> Generator[None, bool | None, bool | None]:
        """Notes what is ignored: a rule on absolute paths may be about the folder that this tree is in."""
        is_ignored = yield
        if is_ignored and collection_path.is_relative_to(config.rootpath):
            self._ignored.append(collection_path.relative_to(config.rootpath).as_posix())
        return is_ignored

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self) -> None:
        """Measures nothing if the modules of the tests are the wrong ones already."""
        self._journal.write("ignored", paths=self._ignored)
        if self._record_wrong_imports():
            pytest.exit("the wrong tree was imported")

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """Records what was imported since."""
        if not self._has_wrong_imports:
            self._record_wrong_imports()

    def _record_wrong_imports(self) -> bool:
        for found in find_wrong_imports(self._mapping):
            self._journal.write("wrong_import", **asdict(found))
            self._has_wrong_imports = True
        return self._has_wrong_imports

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Records marked tests that the session's own tree may lack."""
        if not self._selects_by_name:
            cases = [item.nodeid for item in items if is_marked(item)]
            self._journal.write("only_there", cases=cases)


def install_mapping(mapping: TreeMapping) -> None:
    """Redirects this process's imports from the user's tree to the other one."""
    sys.meta_path.insert(0, RedirectingFinder(mapping))
    importlib.invalidate_caches()


class RedirectingFinder(importlib.abc.MetaPathFinder):
    """Asks the finders after this one, and redirects modules found in the user's tree to the other tree."""

    def __init__(self, mapping: TreeMapping) -> None:
        self._mapping = mapping

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a module as Python finds it, in the other tree.

        Raises:
            ModuleNotFoundError: the user's tree has it and the other one does not.
        """
        if fullname.partition(".")[0] == INSTRUMENT:
            return None
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            find = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(fullname, path, target) if find else None
            if spec is not None:
                return self._redirect(spec)
        return None

    def _redirect(self, spec: ModuleSpec) -> ModuleSpec | None:
        folders = spec.submodule_search_locations
        mapped = None if folders is None else [self._mapping.map(folder) for folder in list(folders)]
        if spec.origin and spec.has_location and self._mapping.owns(spec.origin):
            origin = self._mapping.map(spec.origin)
            if not os.path.exists(origin):
                raise ModuleNotFoundError(
                    f"{spec.name} is in {spec.origin}, which the revision lacks: an untracked file or a build "
                    "product, for which nsight_against_build can name a command",
                    name=spec.name,
                )
            return spec_from_file_location(spec.name, origin, submodule_search_locations=mapped)
        if spec.origin is None and mapped is not None and mapped != list(folders or ()):
            redirected = ModuleSpec(spec.name, None, is_package=True)
            redirected.submodule_search_locations = mapped
            return redirected
        return spec


def find_wrong_imports(mapping: TreeMapping) -> Iterator[WrongImport]:
    """All modules that this process imported from the user's tree, an installed copy of it, or another checkout."""
    copies = frozenset(installed_copies(mapping.root, mapping.owns))
    equal = equal_files(mapping.root, mapping.owns)
    found = set()
    for name, file in imported_files():
        real = os.path.realpath(file)
        # What both trees have alike may come from anywhere.
        is_one_trees = real in equal and equal[real].differs_in(mapping.map)
        if is_one_trees or mapping.owns(file) or real in copies:
            found.add(name)
            yield WrongImport(name, file)
    elsewhere = imports_from_other_checkouts(mapping, with_copies=True)
    yield from (one for one in elsewhere if one.module not in found)
