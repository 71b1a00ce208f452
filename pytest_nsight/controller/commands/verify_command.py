"""`pytest-nsight verify SESSION`: whether a kept session belongs to this very tree, and its verdict; needs no GPU.

Files are compared first, and no code of the tree runs before they are equal. Then a pytest collects the session's
tests, as a replay does, and judges the recorded runs by the tree's own marks and baselines.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_nsight.controller.commands.caller_paths import CallerPaths, place_options
from pytest_nsight.controller.pytest_input import run_pytest
from pytest_nsight.controller.session_evidence import find_parts, name_files
from pytest_nsight.controller.settings import read_settings
from pytest_nsight.controller.trees.git_revision import describe_commit
from pytest_nsight.controller.trees.tree_evidence import (
    TreeEvidence,
    find_changed,
    hash_tree,
    list_unproved,
    read_evidence,
)
from pytest_nsight.controller.workers.identity_folders import FOLDERS
from pytest_nsight.model.errors import RecordingError, UsageError
from pytest_nsight.model.units import count, name_some, short_commit
from pytest_nsight.model.values import Subject
from pytest_nsight.protocol.job import OTHER_TREE, was_measured_again
from pytest_nsight.protocol.manifest import FILE_NAME, Manifest
from pytest_nsight.protocol.manifest_reader import read_manifest
from pytest_nsight.protocol.mark import is_marked
from pytest_nsight.report.escapes import visible

BELONGS, DOES_NOT, CANNOT = 0, 1, 4
"""Exit codes: the session belongs to the tree and the gate passes; it does not, or the gate fails; cannot say."""

_REPLAY = "--nsight-replay"


@dataclass(frozen=True, slots=True)
class Verified:
    """What the command says.

    Attributes:
        text: for the terminal.
        code: its exit code.
    """

    text: str
    code: int


def verify(session: Path, tree: Path, arguments: Sequence[str]) -> Verified:
    """Compares a session with a tree, and judges it again.

    Args:
        session: folder of a kept session, from anywhere.
        tree: top folder of the tree.
        arguments: for pytest.

    Raises:
        NsightError: the session cannot be read, or says nothing of its tree.
    """
    if any(argument.partition("=")[0] == _REPLAY for argument in arguments):
        raise UsageError(f"verify judges the session {session}; leave {_REPLAY} out")
    if not tree.is_dir():
        raise UsageError(f"--tree {tree}: no such folder; give the top folder of the tree")
    # pytest judges in another folder, from which a relative path would lead elsewhere.
    tree, session = tree.resolve(), session.resolve()
    evidence = read_evidence(session)
    files = evidence.test_files()
    timed, identified = _read_manifests(session, "run-*"), _read_manifests(session, FOLDERS)
    lines = [_describe_session(evidence, timed, tree)]
    if evidence.changed:
        names = visible(name_some(evidence.changed))
        return Verified("\n".join([*lines, f"NOT OF ONE TREE: {names} changed while it measured"]), DOES_NOT)
    other, missing = find_changed(evidence, tree)
    if other or missing:
        faults = (("other here than in what it measured", other), ("missing here", missing))
        lines += [f"NOT OF THIS TREE: {what}: {visible(name_some(names))}" for what, names in faults if names]
        if len(missing) == len(evidence.files):
            lines.append(f"{tree} has none of the files; give the top folder of the tree with --tree")
        return Verified("\n".join(lines), DOES_NOT)
    # A case that an identity pass has settled was not timed.
    ended = {case for manifest in (*timed, *identified) for case in manifest.ended}
    if unmeasured := [case for case in evidence.cases if case not in ended]:
        names = visible(name_some(unmeasured))
        return Verified("\n".join([*lines, f"NOT JUDGED: the session holds no run of {names}"]), CANNOT)
    print("\n".join(lines), flush=True)  # noqa: T201 - what follows is pytest's
    return _judge(evidence, files, session, tree, arguments)


def _judge(
    evidence: TreeEvidence, files: Sequence[str], session: Path, tree: Path, arguments: Sequence[str]
) -> Verified:
    plugin = VerifyPlugin(evidence, tree)
    paths = [str(tree / file) for file in files]
    here = Path.cwd()
    given = ["--nsight", f"{_REPLAY}={session}", *place_options(arguments, here), *paths]
    # Without pytest's own cache, what --lf in the ini file selects is everything.
    with tempfile.TemporaryDirectory() as cache, _working_in(tree / evidence.root):
        code = run_pytest(["-o", f"cache_dir={cache}", *given], plugin, CallerPaths(here, tree))
    if plugin.was_interrupted:
        raise KeyboardInterrupt
    if plugin.objections:
        return Verified("\n".join(map(visible, plugin.objections)), DOES_NOT)
    if plugin.lacking or not plugin.has_collected:
        lacking = visible(name_some(plugin.lacking) or "all of them")
        why = f"; not importable here: {visible(name_some(plugin.broken))}" if plugin.broken else ""
        return Verified(f"NOT JUDGED: tests of the session are not collected here: {lacking}{why}", CANNOT)
    if plugin.only_collects:
        text = "pytest has only collected; leave --collect-only out, also in addopts and PYTEST_ADDOPTS"
        return Verified(f"NOT JUDGED: {text}", CANNOT)
    if code == pytest.ExitCode.OK and not plugin.has_judged:
        text = "pytest was ended with exit code 0 before it was done; let nothing call pytest.exit(returncode=0)"
        return Verified(f"NOT JUDGED: {text}", CANNOT)
    hashed = count(len(evidence.files), "file")
    lines = [f"OF THIS TREE: {hashed} that its tests depend on have the hashes of the session"]
    if not_covered := {**plugin.unseen, **evidence.unseen}:
        unseen = name_some(f"{file} ({what})" for file, what in not_covered.items())
        lines.append(f"not covered by the hashes: {visible(unseen)}")
    if plugin.unrecorded:
        tests = count(len(plugin.unrecorded), "marked test")
        lines.append(f"the session has no record of {tests}: {visible(name_some(plugin.unrecorded))}")
        if plugin.is_strict and code == pytest.ExitCode.OK:
            lines.append("FAILED --nsight-strict: a marked test has no record")
            code = DOES_NOT
    codes = {int(pytest.ExitCode.OK): BELONGS, int(pytest.ExitCode.TESTS_FAILED): DOES_NOT}
    return Verified("\n".join(lines), codes.get(code, CANNOT))


class VerifyPlugin:
    """Hooks of the pytest that judges again, beside the controller's.

    Attributes:
        objections: why the session does not belong to the tree.
        lacking: tests of the session that are not collected here.
        unrecorded: marked tests here that the session did not select.
        unseen: path -> what no hash covers here; the session may say less, and need not say the same.
        has_collected: whether the collection came to its end.
        has_judged: whether the judgement did.
        broken: files and folders that pytest could not collect.
        was_interrupted: whether the user ended pytest, which gives collection errors the same exit code.
        is_strict: whether --nsight-strict is on.
        only_collects: whether --collect-only is on, with which pytest runs its loop and judges nothing.
    """

    __name__ = "nsight-verify"  # pytest registers a plugin object under this name

    def __init__(self, evidence: TreeEvidence, tree: Path) -> None:
        self._evidence, self._tree = evidence, tree
        self.objections: tuple[str, ...] = ()
        self.lacking: tuple[str, ...] = ()
        self.unrecorded: tuple[str, ...] = ()
        self.unseen: Mapping[str, str] = {}
        self.has_collected = False
        self.has_judged = False
        self.broken: tuple[str, ...] = ()
        self.was_interrupted = False
        self.is_strict = False
        self.only_collects = False

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Remembers what could not be collected, as where a library of the tests is missing."""
        if report.failed:
            self.broken += (report.nodeid,)

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Distinguishes Ctrl-C from what pytest and its plugins end in the same way."""
        self.was_interrupted = not isinstance(excinfo.value, pytest.Session.Interrupted | pytest.exit.Exception)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leaves the marked tests: verifying runs no test."""
        others = [item for item in items if not is_marked(item)]
        if others:
            items[:] = [item for item in items if is_marked(item)]
            config.hook.pytest_deselected(items=others)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Compares what the tests depend on here with what the session has hashed.

        Raises:
            pytest.exit.Exception: they depend on more, so the hashes prove too little.
        """
        settings = read_settings(session.config)
        known = set(self._evidence.cases)
        self.is_strict, self.has_collected = settings.strict, True
        self.only_collects = bool(session.config.option.collectonly)
        tests = {case: file for case, file in name_files(session.items).items() if case in known}
        self.lacking = tuple(case for case in self._evidence.cases if case not in tests)
        self.unrecorded = tuple(item.nodeid for item in session.items if item.nodeid not in known)
        here = hash_tree(tests, find_parts(self._tree, settings, session.config))
        self.unseen = here.unseen
        if unproved := list_unproved(self._evidence, here):
            self.objections = (
                f"NOT PROVED: its tests depend on {name_some(unproved)} here, which it has not hashed",
            )
        elif tests and not here.files:
            self.objections = (f"NOT PROVED: {self._tree} holds none of the files that its tests depend on",)
        if self.objections:
            pytest.exit("the session has not hashed all that its tests depend on")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        """Notes that all verdicts are there, and that nothing has ended pytest before."""
        result = yield
        self.has_judged = True
        return result


def _read_manifests(session: Path, folders: str) -> Sequence[Manifest]:
    """The accounts of the worker processes in folders of this pattern.

    Raises:
        RecordingError: one cannot be read, or measured another tree.
    """
    paths = sorted((*session.glob(f"{folders}/{FILE_NAME}"), *session.glob(f"{folders}/*/{FILE_NAME}")))
    counted = (path for path in paths if not any(was_measured_again(run) for run in path.parents[:2]))
    manifests = [read_manifest(path) for path in counted]
    if any(manifest.tree == OTHER_TREE for manifest in manifests):
        raise RecordingError(
            f"{session} compares two trees (--nsight-against), and verify judges by the tree's baselines; record a "
            "session without it"
        )
    return manifests


def _describe_session(evidence: TreeEvidence, manifests: Sequence[Manifest], tree: Path) -> str:
    device = next((one.device for one in manifests if one.device), "nothing")
    boards = dict.fromkeys(one.board for one in manifests if one.board)
    rounds = [Subject(one.case).is_canary for manifest in manifests for one in manifest.rounds]
    commit = short_commit(evidence.commit.removesuffix("+")) or "unknown"
    dirty = " with uncommitted changes" if evidence.commit.endswith("+") else ""
    here = short_commit(describe_commit(tree).removesuffix("+"))
    return visible(
        f"session of {device} ({name_some(boards, 2)}): {count(len(manifests), 'process')}, "
        f"{count(len(rounds) - sum(rounds), 'round')}, {sum(rounds)} of canaries; commit {commit}{dirty}"
        + (f", here {here}" if here and here != commit else "")
    )


@contextlib.contextmanager
def _working_in(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
