"""The folder of a live session and the trees that it measures: this one, and that of --nsight-against."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from pathlib import Path

from pytest_nsight.controller.abandoned_sessions import begin_session
from pytest_nsight.controller.settings import Settings
from pytest_nsight.controller.trees.git_revision import (
    Revision,
    describe_commit,
    describe_same_tree,
    has_uncommitted,
    refuse_nested,
    resolve,
)
from pytest_nsight.controller.trees.revision_tree import Build, Tree, Workspace
from pytest_nsight.model.values import Case


class SessionTrees:
    """Makes the folder, then looks the trees up; the worktree of a revision is in the folder until it is removed.

    Attributes:
        folder: the session's.
        owned_folder: holds the folder's lock until its context ends.
        revision: what --nsight-against names, None without it.
        all: the trees; empty until they are looked up.
    """

    def __init__(self, settings: Settings, folder: Path, arguments: Sequence[str], where: Path) -> None:
        """Resolves the revision; makes nothing.

        Args:
            settings: what the user asked for.
            folder: the session's.
            arguments: what a worker's pytest is called with.
            where: folder that pytest was started in.

        Raises:
            NsightError: there is no such revision, or it cannot be measured as asked.
        """
        self._settings, self._arguments, self._where = settings, arguments, where
        self.folder = folder
        self.owned_folder: AbstractContextManager[object] = nullcontext()
        self.revision: Revision | None = None
        self.all: tuple[Tree, ...] = ()
        self._workspace: Workspace | None = None
        if settings.against:
            self.revision = resolve(settings.root, settings.against, may_build=bool(settings.against_build))
            self._workspace = Workspace(self.revision, folder)

    @cached_property
    def commit(self) -> str:
        """Git commit of the user's tree, "" when unknown."""
        return describe_commit(self._settings.root)

    def commit_with(self, cases: Sequence[Case]) -> str:
        """Git commit of the user's tree, with "+" also where it lacks a file of a test that is measured.

        A shard that is judged with others names it as they do, whichever tests it has.

        Args:
            cases: what is measured.
        """
        commit, settings = self.commit, self._settings
        if not commit or commit.endswith("+") or (settings.shard is not None and not settings.save):
            return commit
        files = dict.fromkeys(case.id.partition("::")[0] for case in cases)
        return f"{commit}+" if has_uncommitted(settings.root, files) else commit

    @property
    def notes(self) -> tuple[str, ...]:
        """A sentence where both trees are the same."""
        if self.revision is None or self.commit != self.revision.commit:
            return ()
        return (describe_same_tree(self.revision),)

    def begin(self) -> None:
        """Makes the folder and takes its lock.

        Raises:
            NsightError: the folder cannot be written.
        """
        self.owned_folder = begin_session(self.folder, self._settings.baselines, keeps=self._settings.keep)

    def check_out(self) -> None:
        """Looks the trees up before the cases are known; the revision's worktree is not built.

        Raises:
            NsightError: the worktree cannot be made.
        """
        given = self._settings
        if self._workspace is None:
            self.all = (Tree(self._where, tuple(self._arguments), tuple(sys.path)),)
        else:
            self._workspace.check_out(given.root, self._where)
            self.all = self._workspace.describe(given.root, given.ini, self._where, self._arguments)

    def prepare(self, cases: Sequence[Case]) -> None:
        """Looks the trees up again, as the collection may have changed sys.path, and builds the worktree.

        Args:
            cases: what to measure.

        Raises:
            NsightError: a tree cannot be made, or the tests are not in the revision's repository.
        """
        given = self._settings
        if self._workspace is None or self.revision is None:
            self.check_out()
        else:
            refuse_nested(self.revision, given.root, [case.id for case in cases])
            build = Build(given.against_build, given.timeout_s)
            self.all = self._workspace.prepare(given.root, given.ini, self._where, self._arguments, build)

    def remove(self) -> None:
        """Removes the worktree, and what was built in it."""
        if self._workspace is not None:
            self._workspace.remove()
