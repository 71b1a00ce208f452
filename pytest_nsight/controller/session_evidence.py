"""The evidence of a session under way: hashed before its first run and again after its last one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_nsight.controller.collection.chosen_tests import list_plugin_files
from pytest_nsight.controller.session_folders import EVIDENCE_FILE
from pytest_nsight.controller.settings import Settings
from pytest_nsight.controller.trees.git_revision import describe_commit
from pytest_nsight.controller.trees.tree_evidence import (
    TreeParts,
    find_changed,
    find_top,
    hash_tree,
)
from pytest_nsight.model.units import name_some

_COMMAND = "pytest-nsight verify"


class EvidenceOfSession:
    """The evidence of a kept session; empty for other sessions."""

    def __init__(self, settings: Settings, config: pytest.Config, items: Sequence[pytest.Item]) -> None:
        """Hashes the files that the tests import.

        Args:
            settings: what the user asked for.
            config: of the user's pytest.
            items: the tests that are measured.
        """
        self._evidence = None
        # A script's calls are no tests, and what it imports is known only when it runs.
        if settings.keep and settings.replay is None and settings.script is None:
            self._top = find_top(settings.root)
            parts = find_parts(self._top, settings, config)
            self._evidence = hash_tree(name_files(items), parts, describe_commit(settings.root))

    def write(self, session: Path) -> tuple[str, ...]:
        """Leaves the evidence in the session's folder.

        Returns:
            Sentences on why it proves nothing, or was not written.
        """
        if self._evidence is None:
            return ()
        changed = tuple(name for names in find_changed(self._evidence, self._top) for name in names)
        try:
            replace(self._evidence, changed=changed).write(session)
        except OSError as error:
            return (f"{session / EVIDENCE_FILE} was not written ({error.strerror}): {_COMMAND} will not accept it",)
        if changed:
            why = f"changed while this session measured, so {_COMMAND} will not accept it"
            return (f"{name_some(changed)} {why}: measure again",)
        return ()


def find_parts(top: Path, settings: Settings, config: pytest.Config) -> TreeParts:
    """What the tests depend on beside what they import."""
    return TreeParts(top, settings.root, settings.ini, list_plugin_files(config), settings.affected_by)


def name_files(items: Sequence[pytest.Item]) -> Mapping[str, Path]:
    """Node id -> file of each test."""
    return {item.nodeid: item.path for item in items}
