"""The folder of baselines: nothing is lost, whatever happens while it is written."""

from __future__ import annotations

import dataclasses
import errno
import multiprocessing
import os
import random
import subprocess
from pathlib import Path

import pytest

from pytest_nsight.baselines import atomic_files as disk
from pytest_nsight.baselines.baseline_file import read_file
from pytest_nsight.baselines.store import Baselines, check_writable, file_name, load, model_slug, save
from pytest_nsight.model.errors import BaselineError
from pytest_nsight.model.values import METRICS, Subject
from tests.baselines.examples import CASE, run

MODEL = "nvidia-h200"
OTHER = "perf_tests/test_softmax.py::test_softmax"
FILE = "perf_tests.test_rms_norm.json"


def stored_ids(folder: Path, case: str = CASE) -> list[str]:
    return [stored.run for stored in load(folder, MODEL).of(Subject(case))]


def test_saved_runs_are_loaded_oldest_first(tmp_path: Path) -> None:
    paths = save(tmp_path, MODEL, [run(12), run(3), run(9, OTHER)])

    assert paths == (tmp_path / MODEL / FILE, tmp_path / MODEL / "perf_tests.test_softmax.json")
    assert load(tmp_path, MODEL).of(Subject(CASE)) == (run(3), run(12))
    assert load(tmp_path, MODEL).of(Subject(OTHER)) == (run(9, OTHER),)


def test_only_the_files_of_the_given_cases_are_read(tmp_path: Path) -> None:
    save(tmp_path, MODEL, [run(1), run(1, OTHER)])
    (tmp_path / MODEL / FILE).write_text("damaged")

    assert list(load(tmp_path, MODEL, [OTHER]).runs) == [Subject(OTHER)]


def test_a_folder_that_does_not_exist_holds_nothing(tmp_path: Path) -> None:
    assert load(tmp_path / "none", MODEL) == Baselines(tmp_path / "none" / MODEL)


def test_saving_keeps_the_subjects_that_did_not_run(tmp_path: Path) -> None:
    save(tmp_path, MODEL, [run(1), run(1, CASE, "forward")])
    save(tmp_path, MODEL, [run(2)])

    assert load(tmp_path, MODEL).of(Subject(CASE)) == (run(1), run(2))
    assert load(tmp_path, MODEL).of(Subject(CASE, "forward")) == (run(1, CASE, "forward"),)


def test_the_newest_runs_of_each_subject_are_kept(tmp_path: Path) -> None:
    save(tmp_path, MODEL, [run(5), run(1, CASE, "forward")], keep=2)
    save(tmp_path, MODEL, [run(4), run(6), run(3)], keep=2)

    assert stored_ids(tmp_path) == ["run-5", "run-6"]
    assert len(load(tmp_path, MODEL).of(Subject(CASE, "forward"))) == 1


def test_the_same_run_saved_twice_is_stored_once(tmp_path: Path) -> None:
    save(tmp_path, MODEL, [run(1)])
    before = (tmp_path / MODEL / FILE).read_bytes()
    save(tmp_path, MODEL, [run(1), run(1)])

    assert stored_ids(tmp_path) == ["run-1"]
    assert (tmp_path / MODEL / FILE).read_bytes() == before


def test_keeping_no_run_at_all_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="keep is 0"):
        save(tmp_path, MODEL, [run(1)], keep=0)


def _save_each(folder: Path, numbers: range, barrier: object) -> None:
    barrier.wait()  # type: ignore[attr-defined]
    for number in numbers:
        save(folder, MODEL, [run(number), run(number, OTHER)], keep=100)


@pytest.mark.slow
def test_savers_at_once_lose_nothing(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(4)
    savers = [
        context.Process(target=_save_each, args=(tmp_path, range(first, 40, 4), barrier)) for first in range(4)
    ]
    for saver in savers:
        saver.start()
    for saver in savers:
        saver.join()

    assert [saver.exitcode for saver in savers] == [0, 0, 0, 0]
    assert stored_ids(tmp_path) == [f"run-{number}" for number in range(40)]
    assert stored_ids(tmp_path, OTHER) == [f"run-{number}" for number in range(40)]


def test_nothing_but_baselines_is_left_in_the_folder(tmp_path: Path) -> None:
    save(tmp_path, MODEL, [run(1)])

    assert [path.name for path in (tmp_path / MODEL).iterdir()] == [FILE]


def test_a_lock_left_by_a_killed_saver_does_not_block(tmp_path: Path) -> None:
    (tmp_path / MODEL).mkdir()
    (tmp_path / MODEL / ".lock").touch()

    save(tmp_path, MODEL, [run(1)])

    assert stored_ids(tmp_path) == ["run-1"]


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "no space left on device; free some space"),
        (errno.EROFS, "read-only file system; the file system is read-only, choose another"),
        (errno.EACCES, "permission denied; check who owns it"),
    ],
)
@pytest.mark.parametrize("call", ["fsync", "open"])
def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, remedy: str, call: str
) -> None:
    save(tmp_path, MODEL, [run(1)])

    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(disk.os, call, fail)
    with pytest.raises(BaselineError) as caught:
        save(tmp_path, MODEL, [run(2)])
    monkeypatch.undo()

    assert str(caught.value).startswith(f"cannot write {tmp_path / MODEL}")
    assert remedy in str(caught.value)
    assert "--nsight-baselines" in str(caught.value) or number == errno.ENOSPC
    assert stored_ids(tmp_path) == ["run-1"]
    assert [path.name for path in (tmp_path / MODEL).iterdir()] == [FILE]


@pytest.mark.skipif(os.geteuid() == 0, reason="permissions do not bind the superuser")
def test_a_folder_without_permission_to_write_is_told(tmp_path: Path) -> None:
    (tmp_path / MODEL).mkdir(mode=0o555)

    with pytest.raises(BaselineError, match="permission denied; check who owns it"):
        save(tmp_path, MODEL, [run(1)])


@pytest.mark.parametrize("where", ["", MODEL])
def test_a_file_where_the_folder_should_be_is_told(tmp_path: Path, where: str) -> None:
    folder = tmp_path / "baselines"
    if where:
        folder.mkdir()
    (folder / where).touch()

    with pytest.raises(BaselineError, match="move away the file"):
        save(folder, MODEL, [run(1)])
    with pytest.raises(BaselineError, match="move away the file"):
        load(folder, MODEL)
    with pytest.raises(BaselineError, match="move away the file"):
        check_writable(folder / where / "deeper")


def test_a_folder_that_could_be_made_is_writable_and_stays_unmade(tmp_path: Path) -> None:
    check_writable(tmp_path / "not" / "yet")
    check_writable(tmp_path)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"format": 1,', "invalid JSON at line 1"),
        (b"\xff\xfe", "not UTF-8 text at byte 0"),
        (b'{"format": 1, "environments": 3}', 'has no field "shapes"'),
        (b'{"format": 5}', "written by a newer pytest-nsight (format 5, this one reads up to 4); upgrade"),
        (
            b"<<<<<<< HEAD\n",
            "merge conflict at line 1; unite both versions with `pytest-nsight merge-baselines",
        ),
    ],
)
def test_a_damaged_file_is_named_and_never_overwritten(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / MODEL / FILE
    path.parent.mkdir()
    path.write_bytes(content)

    with pytest.raises(BaselineError) as loading:
        load(tmp_path, MODEL)
    with pytest.raises(BaselineError) as saving:
        save(tmp_path, MODEL, [run(1), run(1, OTHER)])

    assert message in str(loading.value)
    assert str(path) in str(loading.value)
    assert message in str(saving.value)
    assert path.read_bytes() == content
    assert "perf_tests.test_softmax.json" in str(saving.value), "the other file is saved, and that is said"
    assert read_file(tmp_path / MODEL / "perf_tests.test_softmax.json")


def test_damage_tells_how_to_restore(tmp_path: Path) -> None:
    path = tmp_path / "a model.json"
    path.write_text("{")
    run_git(tmp_path, "init", "--quiet")
    run_git(tmp_path, "add", path.name)

    with pytest.raises(BaselineError, match=r"restore it with `git checkout -- '.*a model.json'`, or delete it"):
        read_file(path)


def test_the_command_that_unites_versions_can_be_typed_whatever_the_folder_is_called(tmp_path: Path) -> None:
    path = tmp_path / "a model.json"
    path.write_bytes(b"<<<<<<< HEAD\n")

    with pytest.raises(BaselineError, match=r"`pytest-nsight merge-baselines '.*a model.json'`"):
        read_file(path)


@pytest.mark.parametrize("has_repository", [True, False])
def test_a_damaged_file_that_git_does_not_track_is_not_restored(tmp_path: Path, *, has_repository: bool) -> None:
    path = tmp_path / "other.json"
    path.write_text("{}")
    if has_repository:
        run_git(tmp_path, "init", "--quiet")

    with pytest.raises(BaselineError) as found:
        read_file(path)

    assert str(found.value).endswith(f"; delete it and save again, or move it out of {tmp_path}")


def test_a_pointer_of_git_lfs_is_to_be_fetched_and_not_deleted(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n")

    with pytest.raises(BaselineError) as found:
        read_file(path)

    assert "run `git lfs pull`" in str(found.value)
    assert "delete" not in str(found.value)


def run_git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(folder), *arguments], check=True)


def test_what_could_not_be_read_back_is_not_written(tmp_path: Path) -> None:
    save(tmp_path, MODEL, [run(1)])
    spoiled = run(2, environment={"threads": 8})  # type: ignore[dict-item]

    with pytest.raises(BaselineError, match=r"was not changed.*is 8, expected a string"):
        save(tmp_path, MODEL, [spoiled])

    assert stored_ids(tmp_path) == ["run-1"]


def test_one_subject_in_two_files_is_told(tmp_path: Path) -> None:
    (path,) = save(tmp_path, MODEL, [run(1)])
    path.with_name("copy.json").write_bytes(path.read_bytes())

    with pytest.raises(BaselineError, match=rf"copy\.json.*hold test_rms_norm\[fused-4096\].*not named {FILE}"):
        load(tmp_path, MODEL)


def test_a_file_of_another_name_is_refused_as_no_check_would_find_its_cases(tmp_path: Path) -> None:
    (path,) = save(tmp_path, MODEL, [run(1)])
    path.rename(path.with_name("tidied.json"))

    with pytest.raises(
        BaselineError, match=rf"tidied\.json holds .*, which is looked for in {path.name} alone; rename"
    ):
        load(tmp_path, MODEL)


@pytest.mark.slow
def test_a_file_that_is_a_link_stays_one_and_the_file_behind_it_is_saved(tmp_path: Path) -> None:
    save(tmp_path, "h200", [run(1)])
    (path,) = (tmp_path / "h200").glob("*.json")
    shared = tmp_path / "shared.json"
    path.rename(shared)
    path.symlink_to(shared)

    save(tmp_path, "h200", [run(2)])

    assert path.is_symlink()
    assert len(read_file(shared)[run(1).subject]) == 2


def test_a_full_file_stays_small(tmp_path: Path) -> None:
    """12 subjects, 20 runs, 8 metrics, 40 rounds, none of them constant or equal."""
    noise = random.Random(1)
    runs = [
        dataclasses.replace(
            run(number, f"{CASE[:-1]}-{variant}]"),
            rounds={name: tuple(noise.randrange(100_000, 999_999) for _ in range(40)) for name in METRICS},
        )
        for number in range(20)
        for variant in range(12)
    ]

    (path,) = save(tmp_path, MODEL, runs)

    assert path.stat().st_size < 350_000


@pytest.mark.parametrize(
    ("case", "name"),
    [
        ("perf_tests/test_rms_norm.py::test_rms_norm[a::b/c.py]", "perf_tests.test_rms_norm.json"),
        ("test_x.py::TestGroup::test_y", "test_x.json"),
        ("../other/test x.py::test_y", "other.test_x.json"),
        ("docs/guide.rst::guide.rst", "docs.guide.rst.json"),
    ],
)
def test_a_file_is_named_after_the_module(case: str, name: str) -> None:
    assert file_name(case) == name


@pytest.mark.parametrize(
    ("product", "slug"),
    [
        ("NVIDIA H200", "nvidia-h200"),
        ("NVIDIA H100 80GB HBM3", "nvidia-h100-80gb-hbm3"),
        ("NVIDIA H200 MIG 1g.18gb", "nvidia-h200-mig-1g-18gb"),
        ("Intel(R) Xeon(R) Platinum 8488C CPU @ 2.40GHz", "intel-xeon-platinum-8488c"),
        ("13th Gen Intel(R) Core(TM) i7-1370P", "intel-core-i7-1370p"),
        ("AMD EPYC 9654 96-Core Processor", "amd-epyc-9654"),
        ("AMD Ryzen 7 7840U w/ Radeon 780M Graphics", "amd-ryzen-7-7840u"),
        ("Neoverse-N1", "neoverse-n1"),
        ("", "unknown"),
    ],
)
def test_a_model_folder_is_short_and_stable(product: str, slug: str) -> None:
    assert model_slug(product) == slug
