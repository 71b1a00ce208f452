"""Hashes of the files that tests import: what they cover, and what a hostile list of them reaches."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from pytest_nsight.controller.session_folders import EVIDENCE_FILE
from pytest_nsight.controller.trees.tree_evidence import (
    TreeEvidence,
    TreeParts,
    find_changed,
    hash_file,
    hash_tree,
    list_unproved,
    read_evidence,
)
from pytest_nsight.model.errors import RecordingError


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "tree"
    write(
        folder,
        {
            "pytest.ini": "[pytest]\n",
            "conftest.py": "",
            "evidence_ops/__init__.py": "from evidence_ops import fast\n",
            "evidence_ops/fast.py": "",
            "evidence_ops/unused.py": "",
            "kernels/norm.cu": "__global__ void norm() {}\n",
            "kernels/notes.md": "",
            "perf/test_case.py": "import evidence_ops\n",
            "perf/test_others.py": "",
        },
    )
    monkeypatch.syspath_prepend(str(folder))
    return folder


def evidence_of(tree: Path, *declared: str, root: str = "") -> TreeEvidence:
    parts = TreeParts(tree, tree / root, tree / "pytest.ini", (), declared)
    return hash_tree({"perf/test_case.py::test_a": tree / "perf/test_case.py"}, parts)


def test_it_covers_tests_imports_conftests_and_settings_and_no_more(tree: Path) -> None:
    covered = {"pytest.ini", "conftest.py", "evidence_ops/__init__.py", "evidence_ops/fast.py", "perf/test_case.py"}

    assert set(evidence_of(tree).files) == covered
    assert set(evidence_of(tree, "kernels/*.cu").files) == {*covered, "kernels/norm.cu"}
    assert evidence_of(tree, "*.cu").files["kernels/norm.cu"] == hash_file(tree / "kernels/norm.cu")


def test_declared_files_are_none_of_sessions_and_baselines(tree: Path) -> None:
    write(
        tree,
        {
            "csrc/tuning.json": "{}",
            "csrc/evidence.json": "{}",
            "mybase/model/perf.test_case.json": '{\n"format": 2,\n"environments": {\n',
            "gpu-evidence/run-001/job.json": "{}",
            "gpu-evidence/session.json": "{}",
        },
    )
    evidence = evidence_of(tree)
    evidence.write(tree / "gpu-evidence")
    evidence.write(tree)

    declared = set(evidence_of(tree, "*.json").files) - set(evidence.files)

    # The root folder is no session's, whatever somebody has unpacked there.
    assert declared == {"csrc/tuning.json", "csrc/evidence.json", "evidence.json"}


def test_evidence_beside_sources_takes_only_what_a_session_writes_out_of_the_hashes(tree: Path) -> None:
    sources = {"csrc/k.cu", "csrc/deep/k.cu", "csrc/deep/session.json", "csrc/tuning.json"}
    write(tree, dict.fromkeys((*sources, "csrc/run-001/k.cu", "csrc/session.json"), "{}"))
    bare = evidence_of(tree)
    assert evidence_of(tree, "csrc/*").unseen == {}
    bare.write(tree / "csrc")

    evidence = evidence_of(tree, "csrc/*")

    assert set(evidence.files) - set(bare.files) == sources
    what = "all of it, a file of a recorded session"
    assert evidence.unseen == dict.fromkeys(("csrc/evidence.json", "csrc/run-001/k.cu", "csrc/session.json"), what)
    (tree / "csrc/k.cu").write_text("changed")
    assert find_changed(evidence, tree) == (("csrc/k.cu",), ())


def test_many_files_that_are_left_out_are_named_by_their_folder(tree: Path) -> None:
    stored = '{\n"format": 2,\n"environments": {\n'
    write(tree, {f"mybase/model/{number}.json": stored for number in range(20)})
    write(tree, {f"gpu-evidence/run-{number:03}/job.json": "{}" for number in range(20)})
    write(tree, {"gpu-evidence/run-001/k.cu": "", "one/stored.json": stored})
    evidence_of(tree).write(tree / "gpu-evidence")

    assert evidence_of(tree, "*.json", "*/k.cu").unseen == {
        "gpu-evidence": "22 files of a recorded session: *.cu, *.json",
        "mybase/model": "20 files of baselines, as it seems: *.json",
        "one/stored.json": "all of it, a file of baselines, as it seems",
    }


def test_an_equal_tree_belongs_and_another_is_named(tree: Path) -> None:
    evidence = evidence_of(tree)
    assert find_changed(evidence, tree) == ((), ())

    (tree / "evidence_ops/unused.py").write_text("changed = 1\n")
    assert find_changed(evidence, tree) == ((), ())
    (tree / "evidence_ops/fast.py").write_text("changed = 1\n")
    (tree / "conftest.py").unlink()
    assert find_changed(evidence, tree) == (("evidence_ops/fast.py",), ("conftest.py",))


def test_a_file_that_the_session_has_not_hashed_is_found(tree: Path) -> None:
    evidence = evidence_of(tree)
    less = {name: digest for name, digest in evidence.files.items() if name != "evidence_ops/fast.py"}

    assert list_unproved(dataclasses.replace(evidence, files=less), evidence) == ("evidence_ops/fast.py",)
    assert list_unproved(evidence, evidence) == ()


def test_paths_out_of_the_tree_are_none_of_it(tree: Path) -> None:
    secret = tree.parent / "secret"
    secret.write_text("x")
    (tree / "link").symlink_to(secret)
    (tree / "folder").symlink_to(tree.parent)
    os.mkfifo(tree / "pipe")
    names = ("../secret", str(secret), "link", "folder/secret", "pipe", "a\0b", "a\nb", "", "perf", "x" * 5000)

    evidence = TreeEvidence(1, "", "", (), dict.fromkeys(names, hash_file(secret)))

    assert find_changed(evidence, tree) == ((), tuple(sorted(names)))


def test_a_helper_that_is_a_link_out_of_the_tree_is_named_and_not_hashed(tree: Path) -> None:
    outside = tree.parent / "shared.py"
    outside.write_text("")
    (tree / "evidence_ops/fast.py").unlink()
    (tree / "evidence_ops/fast.py").symlink_to(outside)

    evidence = evidence_of(tree)

    assert evidence.unseen == {"evidence_ops/fast.py": "all of it, because it is a link out of the tree"}
    assert find_changed(evidence, tree) == ((), ())
    assert list_unproved(evidence, evidence_of(tree)) == ()


def test_what_is_written_is_read_back(tree: Path) -> None:
    evidence = dataclasses.replace(evidence_of(tree), commit="abc+", unseen={"a.py": "b"}, changed=("c.py",))
    evidence.write(tree)

    assert read_evidence(tree) == evidence
    assert evidence.test_files() == ("perf/test_case.py",)


def test_what_cannot_be_read_is_one_sentence(tree: Path) -> None:
    evidence, file = evidence_of(tree), tree / EVIDENCE_FILE

    with pytest.raises(RecordingError, match=r"does not say which files it measured .* --nsight-keep"):
        read_evidence(tree)
    with pytest.raises(RecordingError, match="is no folder"):
        read_evidence(tree / "nowhere")
    file.symlink_to("/dev/zero")
    with pytest.raises(RecordingError, match="is a link, not a regular file"):
        read_evidence(tree)
    file.unlink()
    for text in ("", "[]", "{}", '{"format": "one"}', "[" * 100_000):
        file.write_text(text)
        with pytest.raises(RecordingError, match="is damaged"):
            read_evidence(tree)
    dataclasses.replace(evidence, format=2).write(tree)
    with pytest.raises(RecordingError, match="has format 2, 1 is known; upgrade"):
        read_evidence(tree)
    for root in ("..", "/", "a/../.."):
        dataclasses.replace(evidence, root=root).write(tree)
        with pytest.raises(RecordingError, match="is outside of the tree"):
            read_evidence(tree)


def test_tests_of_files_without_a_hash_are_not_collected(tree: Path) -> None:
    evidence = evidence_of(tree)

    for case in ("../evil.py::test", "--pdb::test", "perf/test_others.py::test"):
        with pytest.raises(RecordingError, match="holds no hash of it"):
            dataclasses.replace(evidence, cases=(case,)).test_files()
    with pytest.raises(RecordingError, match="names no test"):
        dataclasses.replace(evidence, cases=()).test_files()
