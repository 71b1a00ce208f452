"""Follows pytest through a collection: what it found, what was deselected, and what it could not collect."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from pytest_nsight.controller.collection.raised_calls import NO_RAISED, RaisedCalls
from pytest_nsight.controller.collection.untested_files import NO_FILES, CollectedFiles
from pytest_nsight.controller.settings import Settings
from pytest_nsight.model.verdicts import AffectedCases
from pytest_nsight.protocol.mark import is_marked

FIXTURE = "nsight"


@dataclass(frozen=True, slots=True)
class Collected:
    """What pytest collected.

    Attributes:
        known: node ids of every test of this tree, selected or not.
        without_mark: of those the ones that were looked at and are not marked.
        unmarked: of those selected ones that use the fixture without the mark: they run, and nothing is measured.
        partial: files that were not collected as a whole, so that their other tests are unknown.
        affected: which marked tests were chosen by what has changed, None where all are measured.
        fingerprint: of the division among shards, "" where this plugin has divided nothing.
        scope: where a script was measured: the node id of its cases, less their own names; else "".
        files: what pytest was asked to collect, and which files gave a test.
        raised: calls of a script that raised, so that they are no cases.
        unmeasured: sentences on other calls of a script that nothing measures.
        marked_others: node ids of marked tests, or of a script's cases, that were not selected.
        selection: the options that select tests, as the user types them.
    """

    known: frozenset[str] = frozenset()
    without_mark: frozenset[str] = frozenset()
    unmarked: tuple[str, ...] = ()
    partial: frozenset[str] = frozenset()
    affected: AffectedCases | None = None
    fingerprint: str = ""
    scope: str = ""
    files: CollectedFiles = NO_FILES
    raised: RaisedCalls = NO_RAISED
    unmeasured: tuple[str, ...] = ()
    marked_others: tuple[str, ...] = ()
    selection: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        items: Sequence[pytest.Item],
        others: Mapping[str, pytest.Item],
        config: pytest.Config,
        files: CollectedFiles,
    ) -> Collected:
        """The facts of a collection.

        Args:
            items: the selected tests.
            others: by node id the tests that were found, and those that were deselected.
            config: says what pytest was asked to collect.
            files: what pytest was asked to collect, and which files gave a test.
        """
        names = {item.nodeid.partition("::")[0] for item in items}
        selected = {item.nodeid for item in items}
        return cls(
            known=frozenset((*selected, *others)),
            without_mark=frozenset(item.nodeid for item in items if not is_marked(item)),
            unmarked=tuple(
                item.nodeid
                for item in items
                if FIXTURE in getattr(item, "fixturenames", ()) and not is_marked(item)
            ),
            partial=frozenset(file for file in names if _is_partial(file, config)),
            files=files,
            marked_others=tuple(id_ for id_, one in others.items() if id_ not in selected and is_marked(one)),
            selection=_list_selection(config),
        )

    def find_removed(self, stored: Iterable[str], root: Path) -> tuple[str, ...]:
        """The cases that are in the baselines and no longer in this tree, sorted.

        A case counts as removed if its file was collected as a whole without it, or does not exist. A script that
        was run with some arguments says nothing of the cases that it has with others.

        Args:
            stored: node ids that baselines hold.
            root: pytest's root folder.
        """
        if self.scope:
            return tuple(
                case for case in sorted(set(stored) - self.known) if case.rpartition("::")[0] == self.scope
            )
        files = {case.partition("::")[0] for case in self.known} - self.partial
        removed = []
        for case in sorted(set(stored) - self.known):
            file = case.partition("::")[0]
            if file in files or not (root / file).exists():
                removed.append(case)
        return tuple(removed)

    def find_without_mark(self, stored: Iterable[str]) -> tuple[str, ...]:
        """The cases that are in the baselines and whose tests have lost the mark, sorted.

        Args:
            stored: node ids that baselines hold.
        """
        return tuple(sorted(self.without_mark.intersection(stored).difference(self.unmarked)))


def _is_partial(file: str, config: pytest.Config) -> bool:
    """Whether the command line names tests of the file one by one, or leaves those out that have not failed."""
    named = [argument.partition("::")[0] for argument in config.args if "::" in argument]
    if getattr(config.option, "lf", False) or (named and config.option.pyargs):
        return True
    path, started_in = (config.rootpath / file).resolve(), config.invocation_params.dir
    return any((started_in / name).resolve() == path for name in named)


def _list_selection(config: pytest.Config) -> tuple[str, ...]:
    """The options that select tests, as the user types them, whether or not the ini file gives them."""
    option = config.option
    given = [("-k", option.keyword), ("-m", option.markexpr)]
    given += [("--deselect", one) for one in option.deselect or ()]
    selection = [f"{name} {shlex.quote(value)}" for name, value in given if value]
    return (*selection, "--lf") if getattr(option, "lf", False) else tuple(selection)


NOTHING_COLLECTED = Collected()


class CollectionRecord:
    """What the hooks of a collection have said so far.

    Attributes:
        deselected: tests that the user did not select.
        raised: name of a script's call that raised in the first pass -> its error.
        unmeasured: sentences on calls of a script that nothing measures.
    """

    def __init__(self) -> None:
        self.deselected: list[pytest.Item] = []
        self.raised: Mapping[str, str] = {}
        self.unmeasured: tuple[str, ...] = ()
        self._found: dict[str, pytest.Item] = {}
        self._without_tests: list[pytest.CollectReport] = []

    def add_found(self, items: Sequence[pytest.Item]) -> None:
        """Remembers the tests that were there before a conftest left some out."""
        self._found |= {item.nodeid: item for item in items}

    def add_deselected(self, items: Sequence[object]) -> None:
        """Remembers tests that were not selected; plugins also pass objects that pytest only counts."""
        self.deselected += [item for item in items if isinstance(item, pytest.Item)]

    def add_report(self, report: pytest.CollectReport) -> None:
        """Remembers a file or folder that was skipped as a whole, or that could not be collected."""
        if not report.passed:
            self._without_tests.append(report)

    def summarise(self, session: pytest.Session, settings: Settings) -> Collected:
        """The collection as a value, once it has ended."""
        # A hook that leaves tests out does so on purpose, whether it calls them deselected or not.
        others = self._found | {item.nodeid: item for item in self.deselected}
        known = (*others, *(item.nodeid for item in session.items))
        files = CollectedFiles.of(session.config, (case.partition("::")[0] for case in known), self._without_tests)
        if settings.script is None:
            return Collected.of(session.items, others, session.config, files)
        # What it is asked to collect is the script alone, whose calls depend on its arguments.
        collected = Collected.of(session.items, others, session.config, replace(files, asked=()))
        scope = settings.script.scope
        return replace(collected, scope=scope, raised=RaisedCalls(scope, self.raised), unmeasured=self.unmeasured)
