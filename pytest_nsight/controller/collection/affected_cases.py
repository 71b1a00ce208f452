"""The cases that a change affects: their tests, imported files, baselines or libraries differ since a revision.

Every case is affected if a shared file changed: the configuration, requirements, conftest files, plugins of the
project, this plugin, the canaries' baselines, or a file that the user has declared.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

import pytest_nsight
from pytest_nsight.baselines import store
from pytest_nsight.controller.collection.changed_files import ChangedFiles
from pytest_nsight.controller.collection.import_graph import ImportGraph
from pytest_nsight.model.units import count, name_cases, name_some
from pytest_nsight.model.values import CANARIES, RunSummary
from pytest_nsight.model.verdicts import AffectedCases
from pytest_nsight.protocol.conditions import LIBRARIES
from pytest_nsight.protocol.mark import find_partners

_CONFTEST = "conftest.py"
_MOST_NAMES = 3


@dataclass(frozen=True, slots=True)
class Project:
    """What the cases belong to.

    Attributes:
        root: pytest's root folder.
        baselines: folder of the baselines, None where two trees are compared.
        stored: newest stored run of each case.
        plugins: files of the project that pytest has loaded as plugins.
        declared: globs, relative to the root folder, of files that concern all cases.
    """

    root: Path
    baselines: Path | None = None
    stored: Mapping[str, RunSummary] | None = None
    plugins: tuple[Path, ...] = ()
    declared: tuple[str, ...] = ()


def find_affected(items: Sequence[pytest.Item], changes: ChangedFiles, project: Project) -> AffectedCases:
    """The measured tests that the changes concern, and the others.

    Args:
        items: tests with the mark.
        changes: since the revision.
        project: what they belong to.
    """
    finder = _CauseFinder(changes, project)
    shared = finder.find_shared(_folders(items))
    own = {item.nodeid: cause for item in items if (cause := shared or finder.find_own(item))}
    causes = _with_partners(own, items)
    revision = changes.revision
    name = f"{revision.name} ({revision.short})" if revision.name != revision.short else revision.short
    graph = finder.graph
    return AffectedCases(
        since=name,
        causes={item.nodeid: causes[item.nodeid] for item in items if item.nodeid in causes},
        left_out=tuple(item.nodeid for item in items if item.nodeid not in causes),
        unseen={} if shared else {finder.name(file): what for file, what in sorted(graph.unseen.items())},
    )


class _CauseFinder:
    """Looks for the first reason why a case must be measured."""

    def __init__(self, changes: ChangedFiles, project: Project) -> None:
        self._changes, self._project = changes, project
        self._root = project.root.resolve()
        self.graph = ImportGraph(changes.revision.repository, changes.missing)
        self._by_file: dict[Path, str] = {}
        self._versions = {"plugin": pytest_nsight.__version__, **_installed()}

    def name(self, path: Path) -> str:
        """A path as people read it, from pytest's root folder."""
        return str(path.relative_to(self._root) if path.is_relative_to(self._root) else path)

    def find_shared(self, folders: Iterable[Path]) -> str:
        """Why all cases must be measured, "" if not all must."""
        changes, root = self._changes, self._root
        if file := changes.find_configuration(root):
            return f"{self.name(file)}, which configures the project"
        if declared := changes.find_declared(root, self._project.declared):
            return f"{self.name(declared[0])}, by nsight_affected_by = {declared[1]}"
        above = {parent for folder in folders for parent in (folder, *folder.parents)}
        for path in sorted(changes.files):
            if path.name == _CONFTEST and path.parent in above:
                return self.name(path)
        own = changes.below(Path(pytest_nsight.__file__).resolve().parent)
        if own:
            return f"{self.name(own[0])}, a file of pytest-nsight"
        baselines = self._project.baselines
        if baselines is not None:
            for path in changes.below(baselines.resolve()):
                if path.name == store.file_name(CANARIES):
                    return f"{self.name(path)}, the baselines of the canaries"
        plugins = [path.resolve() for path in self._project.plugins if path.name != _CONFTEST]
        return self._find_changed([path for path in plugins if self.graph.is_own(path)], "a plugin")

    def find_own(self, item: pytest.Item) -> str:
        """Why this case must be measured, "" if nothing concerns it."""
        file = item.path.resolve()
        if file not in self._by_file:
            self._by_file[file] = self._find_changed([file, *self._conftests(file)], "") or self._find_baseline(
                item.nodeid
            )
        return self._by_file[file] or self._find_library(item.nodeid)

    def _find_changed(self, roots: Sequence[Path], what: str) -> str:
        reached = self.graph.reach(roots)
        for path in sorted(reached.keys() & self._changes.files, key=lambda path: (path not in roots, path)):
            importer = reached[path]
            if importer == path:
                return f"{self.name(path)}, {what}" if what else self.name(path)
            return f"{self.name(path)}, imported by {self.name(importer)}"
        # A changed submodule is a single path: everything inside it may have changed.
        for path in sorted(self._changes.files):
            if path.is_dir() and (inside := next((file for file in reached if file.is_relative_to(path)), None)):
                return f"{self.name(path)}, which holds {self.name(inside)}"
        return ""

    def _conftests(self, file: Path) -> Iterator[Path]:
        for folder in file.parents:
            if folder.is_relative_to(self._root) and (folder / _CONFTEST).is_file():
                yield folder / _CONFTEST

    def _find_baseline(self, case: str) -> str:
        if self._project.baselines is not None:
            for path in self._changes.below(self._project.baselines.resolve()):
                if path.name == store.file_name(case):
                    return f"{self.name(path)}, its baseline"
        return ""

    def _find_library(self, case: str) -> str:
        stored = (self._project.stored or {}).get(case)
        environment = {} if stored is None else stored.environment
        for library, now in self._versions.items():
            before = environment.get(library, "")
            if before and before != now:
                return f"{library} {before} -> {now} since its baseline"
        return ""


def _folders(items: Iterable[pytest.Item]) -> set[Path]:
    return {item.path.resolve().parent for item in items}


def _installed() -> dict[str, str]:
    """The versions of libraries, read as a worker reads them where the tests have imported them."""
    found = {}
    for name in LIBRARIES:
        module = sys.modules.get(name)
        try:
            found[name] = str(getattr(module, "__version__", "")) or version(name)
        except PackageNotFoundError:
            continue
    return found


def _with_partners(causes: Mapping[str, str], items: Sequence[pytest.Item]) -> dict[str, str]:
    """The causes, extended to cases that a claim ties to an affected one: a claim needs both cases."""
    pairs = find_partners(items)
    found = dict(causes)
    waiting = list(found)
    tied: dict[str, list[str]] = {}
    for case, partner in pairs.items():
        tied.setdefault(case, []).append(partner)
        tied.setdefault(partner, []).append(case)
    known = {item.nodeid for item in items}
    while waiting:
        case = waiting.pop()
        for other in tied.get(case, ()):
            if other in known and other not in found:
                found[other] = f"a claim compares it with {case}"
                waiting.append(other)
    return found


def describe_affected(affected: AffectedCases | None) -> tuple[str, ...]:
    """Sentences on the cases that --nsight-affected has chosen, and why; none where all are measured."""
    if affected is None:
        return ()
    total = len(affected.causes) + len(affected.left_out)
    measured = f"since {affected.since}: {len(affected.causes)} of {count(total, 'case')} affected"
    sentences = [
        f"{measured}, {len(affected.left_out)} NOT_AFFECTED and not measured: nothing that they are known to "
        "depend on has changed"
        if affected.left_out
        else measured
    ]
    by_cause: dict[str, list[str]] = {}
    for case, cause in affected.causes.items():
        by_cause.setdefault(cause, []).append(case)
    sentences += [f"affected by {cause}: {name_cases(cases)}" for cause, cases in by_cause.items()]
    unseen = [f"{file} ({what})" for file, what in affected.unseen.items()]
    if unseen and affected.left_out:
        names = name_some(unseen, _MOST_NAMES)
        sentences.append(
            f"changes that --nsight-affected does not see: {names}; declare their files with nsight_affected_by"
        )
    return tuple(sentences)
