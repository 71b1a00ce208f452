"""Finds what a session leaves out though its user may think it was measured: no case passes by being absent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_nsight.model.units import count, name_cases, name_some
from pytest_nsight.model.verdicts import AffectedCases
from pytest_nsight.protocol.mark import is_marked

FIXTURE = "nsight"
_MOST_NAMES = 3


@dataclass(frozen=True, slots=True)
class Collected:
    """What pytest collected.

    Attributes:
        known: node ids of every test of this tree, selected or not.
        unmarked: of those selected ones that use the fixture without the mark: they run, and nothing is measured.
        partial: files whose tests the command line names one by one, so that their others are unknown.
        affected: which marked tests were chosen by what has changed, None where all are measured.
        fingerprint: of the division among shards, "" where this plugin has divided nothing.
        scope: where a script was measured: the node id of its cases, less their own names; else "".
    """

    known: frozenset[str] = frozenset()
    unmarked: tuple[str, ...] = ()
    partial: frozenset[str] = frozenset()
    affected: AffectedCases | None = None
    fingerprint: str = ""
    scope: str = ""

    @classmethod
    def of(
        cls, items: Sequence[pytest.Item], deselected: Iterable[str], arguments: Iterable[str], scope: str = ""
    ) -> Collected:
        """The facts of a collection.

        Args:
            items: the selected tests.
            deselected: node ids of the others.
            arguments: what pytest was asked to collect.
            scope: of the script that was run, "" for tests.
        """
        named = [argument.partition("::")[0] for argument in arguments if "::" in argument]
        files = {item.nodeid.partition("::")[0] for item in items}
        return cls(
            known=frozenset((*(item.nodeid for item in items), *deselected)),
            unmarked=tuple(
                item.nodeid
                for item in items
                if FIXTURE in getattr(item, "fixturenames", ()) and not is_marked(item)
            ),
            partial=frozenset(file for file in files if any(file.endswith(Path(name).name) for name in named)),
            scope=scope,
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


NOTHING_COLLECTED = Collected()


def describe_unmarked(unmarked: Sequence[str]) -> str:
    """A sentence on tests that use the fixture without the mark, "" if there are none."""
    if not unmarked:
        return ""
    verb = "uses" if len(unmarked) == 1 else "use"
    return (
        f"{count(len(unmarked), 'test')} {verb} the fixture {FIXTURE} without the mark, so nothing is measured: "
        f"{name_cases(unmarked)}; add @pytest.mark.nsight"
    )


def describe_removed(removed: Sequence[str]) -> str:
    """A sentence on stored cases whose tests are gone, "" if there are none."""
    if not removed:
        return ""
    verb = "has" if len(removed) == 1 else "have"
    cases = name_cases(removed)
    return (
        f"{count(len(removed), 'stored case')} {verb} no test any more, so nothing checks them: {cases}; "
        "if that is intended, remove them with: pytest-nsight baselines prune --delete"
    )


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


def describe_nothing_measured(collected: Collected) -> str:
    """A sentence for a session that had no test to measure."""
    tests = count(len(collected.known), "collected test")
    return f"nothing was measured: no selected test has the mark nsight ({tests}); add @pytest.mark.nsight to one"


def describe_skipped(cases: Sequence[str]) -> tuple[str, ...]:
    """A sentence for a session all of whose cases were skipped; none where there are no such cases."""
    if not cases:
        return ()
    were = "was" if len(cases) == 1 else "were all"
    measured = f"{count(len(cases), 'selected case')} {were} skipped ({name_cases(cases)})"
    return (f"nothing was measured: {measured}; pytest -rs shows why",)


def describe_unchecked(cases: Sequence[str]) -> tuple[str, ...]:
    """A sentence for skipped cases that have stored runs of the machine's model; none where there are none."""
    if not cases:
        return ()
    were = "was" if len(cases) == 1 else "were"
    skipped = f"{count(len(cases), 'case')} with stored runs of this model {were} skipped ({name_cases(cases)})"
    return (f"not checked: {skipped}; pytest -rs shows why, and --deselect takes out what need not run here",)
