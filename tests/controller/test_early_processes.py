"""Processes that start before the collection: how many, which of them are kept, and who starts further ones."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pytest_nsight.controller.workers import early_processes
from pytest_nsight.controller.workers.early_processes import EarlyProcesses
from pytest_nsight.protocol.job import OTHER_TREE


def session(**environment: str) -> Any:
    return SimpleNamespace(trees={"": None, OTHER_TREE: None}, environment=environment, collector=None)


class Starter:
    """Starts workers that only wait, and notes for which session each was started."""

    def __init__(self, known: Any) -> None:
        self.session = known

    def use(self, known: Any) -> None:
        self.session = known

    def start(self, tree: str) -> Any:
        worker = SimpleNamespace(tree=tree, session=self.session, process=SimpleNamespace(poll=lambda: None))
        worker.pipe = SimpleNamespace(close=lambda: None)
        worker.call_off = lambda _collector: None
        return worker


@pytest.fixture(autouse=True)
def starter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early_processes, "IdentityStarter", Starter)


def test_one_that_started_early_is_taken_on_each_tree_and_further_ones_start_for_what_is_known_later() -> None:
    before, after = session(torch="2.9"), session(torch="2.9")
    early = EarlyProcesses(before)

    early.start(is_narrowed=True)
    early.dismiss_outdated(after)
    spare = early.hand_over(after)

    trees = ["", OTHER_TREE, ""]
    assert [spare.take(tree).session for tree in trees] == [before, before, after]


def test_none_is_taken_that_would_store_other_names_and_values() -> None:
    before, after = session(torch="2.9"), session(torch="2.10")
    early = EarlyProcesses(before)

    early.start(is_narrowed=True)
    early.dismiss_outdated(after)

    assert early.hand_over(after).take("").session is after


def test_after_the_end_none_is_taken_that_started_before_it() -> None:
    known = session()
    early = EarlyProcesses(known)
    early.start(is_narrowed=True)

    early.close()

    later = session()
    assert early.hand_over(later).take("").session is later
