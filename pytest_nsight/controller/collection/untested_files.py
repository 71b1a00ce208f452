"""Stored cases of files that pytest was asked to collect and found no test in: they would pass by absence."""

from __future__ import annotations

import ast
import fnmatch
import importlib.util
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath

import pytest

from pytest_nsight.model.units import count, name_cases, name_some
from pytest_nsight.protocol.mark import MARKABLE
from pytest_nsight.report.escapes import visible

_MARK = "nsight"
_MEASURING = frozenset((_MARK, MARKABLE))
_MOST_NAMES = 3
_KIND = re.compile(r"^(Skipped|unittest\.case\.SkipTest): ")


@dataclass(frozen=True, slots=True)
class CollectedFiles:
    """What pytest was asked to collect, and what it made of it.

    Attributes:
        asked: absolute paths of the files and folders to collect as a whole.
        left_out: absolute paths that the user lets pytest ignore.
        patterns: of further such paths.
        deselected: beginnings of node ids that the user lets pytest deselect.
        functions: names of tests, their beginnings or patterns.
        with_tests: files that have a test here, selected or not, as node ids name them.
        skipped: node id of a file or folder that skipped itself -> the reason.
        broken: node ids of files and folders that pytest could not collect, which it reports as errors.
        has_filter: whether -k or -m selects by what is unknown of a test that was not collected.
    """

    asked: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    deselected: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    with_tests: frozenset[str] = frozenset()
    skipped: Mapping[str, str] = field(default_factory=dict)
    broken: frozenset[str] = frozenset()
    has_filter: bool = False

    @classmethod
    def of(
        cls, config: pytest.Config, with_tests: Iterable[str], reports: Sequence[pytest.CollectReport]
    ) -> CollectedFiles:
        """The facts of a collection.

        Args:
            config: says what pytest was asked to collect.
            with_tests: files that have a test here, selected or not, as node ids name them.
            reports: of what was skipped as a whole or could not be collected.
        """
        option, here = config.option, config.invocation_params.dir
        whole = [argument for argument in config.args if "::" not in argument]
        named = [place for one in whole for place in _locate(one)] if option.pyargs else whole
        reasons = {report.nodeid: _read_reason(report) for report in reports if report.skipped}
        return cls(
            # --lf leaves out files that have not failed.
            asked=() if getattr(option, "lf", False) else _resolve(here, named),
            left_out=_resolve(here, option.ignore or ()),
            patterns=_resolve(here, option.ignore_glob or ()),
            deselected=tuple(option.deselect or ()),
            functions=tuple(config.getini("python_functions")) if config.pluginmanager.hasplugin("python") else (),
            with_tests=frozenset(with_tests),
            skipped=reasons,
            broken=frozenset(report.nodeid for report in reports if report.failed),
            has_filter=bool(option.keyword or option.markexpr),
        )

    def find_untested(self, stored: Iterable[str], root: Path) -> tuple[str, ...]:
        """The cases whose file exists, was asked for and gave no test, sorted.

        Args:
            stored: node ids that baselines hold.
            root: pytest's root folder.
        """
        by_file: dict[str, list[str]] = {}
        for case in sorted(stored):
            if not case.startswith(self.deselected):
                by_file.setdefault(_file_of(case), []).append(case)
        untested = {file: cases for file, cases in by_file.items() if self._is_untested(file, root)}
        return tuple(case for file, cases in untested.items() for case in self._select_tests(cases, root / file))

    def find_reason(self, file: str) -> str | None:
        """Why the file, or a folder that it is in, skipped itself; None if none did."""
        return next((self.skipped[node] for node in _lineage(file) if node in self.skipped), None)

    def _select_tests(self, cases: Iterable[str], file: Path) -> Iterator[str]:
        """The cases that are tests: the calls of a script are cases, too, and pytest collects none.

        A name that python_functions does not have any more is a test's if the file defines a measured one of it.
        """
        defined = _find_measured_functions(file)
        for case in cases:
            name = case.partition("::")[2].partition("[")[0].rpartition("::")[2]
            is_named = any(name.startswith(pattern) or fnmatch.fnmatch(name, pattern) for pattern in self.functions)
            if is_named or name in defined:
                yield case

    def _is_untested(self, file: str, root: Path) -> bool:
        path = Path(os.path.normpath(root / file))
        if file in self.with_tests or not self.broken.isdisjoint(_lineage(file)) or not path.is_file():
            return False
        lineage = tuple(map(str, (path, *path.parents)))
        is_left_out = not set(lineage).isdisjoint(self.left_out) or any(
            fnmatch.fnmatch(one, pattern) for one in lineage for pattern in self.patterns
        )
        return not is_left_out and not set(lineage).isdisjoint(self.asked)


NO_FILES = CollectedFiles()


def describe_untested(files: CollectedFiles, cases: Sequence[str], folder: str) -> tuple[str, ...]:
    """Sentences on stored cases of files that gave no test: those that skipped themselves, and all others.

    Args:
        files: what pytest collected.
        cases: node ids, as `CollectedFiles.find_untested` gives them.
        folder: of all baselines as the user gave it, "" for the one that the ini file or the default names.
    """
    reasons = {case: files.find_reason(_file_of(case)) for case in cases}
    uncollected = [case for case, reason in reasons.items() if reason is None]
    skipped = {case: reason for case, reason in reasons.items() if reason is not None}
    return tuple(filter(None, (_describe_skipped_files(skipped), _describe_uncollected(uncollected, folder))))


def write_prune(cases: Sequence[str], folder: str) -> str:
    """The command that removes the stored runs of cases.

    Args:
        cases: their node ids; without any, of all cases without a test.
        folder: of all baselines as the user gave it, "" for the one that the ini file or the default names.
    """
    where = f" --baselines {shlex.quote(folder)}" if folder else ""
    return " ".join([f"pytest-nsight baselines prune --delete{where}", *map(shlex.quote, cases)])


def _describe_skipped_files(reasons: Mapping[str, str]) -> str:
    """A sentence on cases of files that were skipped as a whole: case -> the reason."""
    if not reasons:
        return ""
    reason_of_file = {_file_of(case): reason for case, reason in reasons.items()}
    files = tuple(reason_of_file)
    verb = "is" if len(reasons) == 1 else "are"
    which, them = ("a file that was", "it") if len(files) == 1 else ("files that were", "them")
    why = name_some(dict.fromkeys(reason_of_file.values()), _MOST_NAMES, "; ")
    return (
        f"not checked: {count(len(reasons), 'case')} with stored runs of this model {verb} in {which} skipped as a "
        f"whole ({name_some(files, _MOST_NAMES)}): {why}; make {them} run here, or leave out what need not "
        f"run here with --ignore={shlex.quote(files[0])}"
    )


def _describe_uncollected(cases: Sequence[str], folder: str) -> str:
    """A sentence on cases of files that were not collected, or hold no test any more."""
    if not cases:
        return ""
    files = tuple(dict.fromkeys(map(_file_of, cases)))
    verb, them = ("is", "it") if len(cases) == 1 else ("are", "them")
    which, lie = ("a file", "it lies") if len(files) == 1 else ("files", "they lie")
    return (
        f"{count(len(cases), 'stored case')} {verb} in {which} without a collected test, though {lie} in what "
        f"pytest was asked to collect, so nothing checks {them}: {name_cases(cases)}; collect {them} again "
        "(python_files, python_functions and collect_ignore decide), leave out what need not run here with "
        f"--ignore={shlex.quote(files[0])}, or remove the stored runs with: "
        f"{write_prune(cases, folder)}"
    )


def _file_of(case: str) -> str:
    return case.partition("::")[0]


def _lineage(file: str) -> tuple[str, ...]:
    """The node ids of a file and of every folder around it; pytest calls the outermost "." or ""."""
    return (file, *(str(folder) for folder in PurePath(file).parents), "")


def _find_measured_functions(file: Path) -> frozenset[str]:
    """Names of the functions that have the mark, or a fixture that measures; none if the file is no Python."""
    try:
        module = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return frozenset()
    is_marked = any(
        isinstance(one, ast.Assign) and "pytestmark" in map(ast.unparse, one.targets) and _MARK in ast.unparse(one)
        for one in module.body
    )
    return frozenset(
        node.name
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (
            is_marked
            or any(_MARK in ast.unparse(decorator) for decorator in node.decorator_list)
            or not _MEASURING.isdisjoint(argument.arg for argument in node.args.args)
        )
    )


def _locate(argument: str) -> tuple[str, ...]:
    """Where the package or module of an argument is, as --pyargs looks for it; else the argument itself."""
    try:
        found = importlib.util.find_spec(argument)
    except (ImportError, AttributeError, ValueError):
        found = None
    if found is None:
        return (argument,)
    return tuple(found.submodule_search_locations or filter(None, [found.origin]))


def _resolve(here: Path, paths: Iterable[object]) -> tuple[str, ...]:
    """Absolute paths. Symbolic links stay: a file is collected where pytest finds it."""
    return tuple(os.path.normpath(here / str(path)) for path in paths)


def _read_reason(report: pytest.CollectReport) -> str:
    """Why a file or folder skipped itself, on one line."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return visible(" ".join(_KIND.sub("", text).split())) or "no reason given"
