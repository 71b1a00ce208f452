"""Chooses the tests that this session measures: the affected ones, and among them those of its shard.

All others are deselected, as with -k: pytest counts them as deselected, not as passed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from pytest_nsight.baselines import store
from pytest_nsight.controller.collection.affected_cases import Project, find_affected
from pytest_nsight.controller.collection.changed_files import list_changes
from pytest_nsight.controller.collection.shards import describe_division, divide_items, read_durations
from pytest_nsight.controller.settings import Settings
from pytest_nsight.controller.trees.git_revision import refuse_nested
from pytest_nsight.gate.measured_shard import ShardBy
from pytest_nsight.model.units import count
from pytest_nsight.model.values import RunSummary
from pytest_nsight.model.verdicts import AffectedCases
from pytest_nsight.processes.machine import measured_product
from pytest_nsight.protocol.mark import is_marked


class ChosenTests:
    """What --nsight-affected and --nsight-shard leave of a collection.

    Attributes:
        affected: which marked tests are affected, None without --nsight-affected.
        fingerprint: of the division among shards, "" where this plugin has divided nothing.
        has_emptied: whether there were marked tests, and none is left.
        lines: what to say after the collection.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.affected: AffectedCases | None = None
        self.fingerprint = ""
        self.has_emptied = False
        self.lines: list[str] = []

    def apply(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Deselects the other tests.

        Raises:
            NsightError: the changes or the durations cannot be read.
        """
        had_marked = any(map(is_marked, items))
        if self._settings.affected:
            self._keep_affected(config, items)
        shard = self._settings.shard
        if shard is not None and shard.by is ShardBy.DURATION:
            self._keep_shard(config, items)
        is_part = bool(self._settings.affected) or shard is not None
        self.has_emptied = is_part and not any(map(is_marked, items)) and (had_marked or shard is not None)

    def _keep_affected(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        settings = self._settings
        marked = [item for item in items if is_marked(item)]
        has_baselines = not settings.against
        project = Project(
            root=settings.root,
            baselines=settings.baselines if has_baselines else None,
            stored=_newest_runs(settings.baselines, [item.nodeid for item in marked]) if has_baselines else None,
            plugins=list_plugin_files(config),
            declared=settings.affected_by,
        )
        changes = list_changes(settings.root, settings.affected)
        refuse_nested(changes.revision, settings.root, (item.nodeid for item in marked))
        self.affected = find_affected(marked, changes, project)
        left_out = set(self.affected.left_out)
        _deselect(config, items, [item for item in items if item.nodeid in left_out])
        total = count(len(marked), "case")
        self.lines.append(f"nsight: {len(marked) - len(left_out)} of {total} affected since {self.affected.since}")

    def _keep_shard(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        settings = self._settings
        assert settings.shard is not None
        marked = [item.nodeid for item in items if is_marked(item)]
        durations = read_durations(settings.baselines, settings.durations, marked)
        division = divide_items(items, durations, settings.shard.count)
        self.fingerprint = division.fingerprint
        own = set(division.shards[settings.shard.number - 1])
        _deselect(config, items, [item for item in items if item.nodeid not in own])
        text = describe_division(division, settings.shard, durations, sum(case in own for case in marked))
        self.lines.append(f"nsight: {text}")


def _deselect(config: pytest.Config, items: list[pytest.Item], unwanted: Sequence[pytest.Item]) -> None:
    if unwanted:
        gone = set(unwanted)
        items[:] = [item for item in items if item not in gone]
        config.hook.pytest_deselected(items=list(unwanted))


def _newest_runs(baselines: Path, cases: Sequence[str]) -> Mapping[str, RunSummary]:
    runs = store.load(baselines, store.model_slug(measured_product()), cases).runs
    return {subject.case: stored[-1] for subject, stored in runs.items() if stored and not subject.part}


def list_plugin_files(config: pytest.Config) -> tuple[Path, ...]:
    """The files of all modules that are registered as plugins."""
    files = (getattr(plugin, "__file__", None) for plugin in config.pluginmanager.get_plugins())
    return tuple(Path(file) for file in files if file)
