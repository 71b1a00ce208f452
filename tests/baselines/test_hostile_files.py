"""Baselines that are no files, or no folders: one sentence with a remedy, at once, and never "no baseline"."""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from pathlib import Path

import pytest

from pytest_nsight.baselines import folder_lock
from pytest_nsight.baselines.atomic_files import MOST_BYTES, read_regular_file
from pytest_nsight.baselines.baseline_file import read_file
from pytest_nsight.baselines.folder_lock import locked
from pytest_nsight.baselines.store import check_writable, load, save
from pytest_nsight.model.errors import BaselineError
from tests.baselines.examples import run

MODEL = "nvidia-h200"
FILE = "perf_tests.test_rms_norm.json"


def refusal(folder: Path) -> str:
    """What `load` and `save` say; both in one line."""
    with pytest.raises(BaselineError) as loading:
        load(folder, MODEL)
    with pytest.raises(BaselineError) as saving:
        save(folder, MODEL, [run(1)])
    assert "\n" not in f"{loading.value}{saving.value}"
    return str(loading.value)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / MODEL).mkdir()
    return tmp_path / MODEL


def test_a_pipe_is_refused_and_not_waited_for(home: Path) -> None:
    os.mkfifo(home / FILE)

    assert f"{home / FILE} is a pipe, not a file; put the file there" in refusal(home.parent)


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null"])
def test_a_link_to_a_device_is_refused(home: Path, device: str) -> None:
    (home / FILE).symlink_to(device)

    assert "is a device, not a file" in refusal(home.parent)


def test_a_folder_in_the_place_of_a_file_is_refused(home: Path) -> None:
    (home / FILE).mkdir()

    assert "is a directory; move away the folder that is where a file is needed" in refusal(home.parent)


def test_a_link_to_nothing_in_the_place_of_a_file_is_refused(home: Path) -> None:
    (home / FILE).symlink_to(home / "gone.json")

    assert f"{home / FILE} is a link to {home / 'gone.json'}, which leads to nothing" in refusal(home.parent)


def test_a_link_to_a_file_is_read(home: Path) -> None:
    (path,) = save(home.parent, MODEL, [run(1)])
    path.rename(home.parent / "elsewhere.json")
    path.symlink_to(home.parent / "elsewhere.json")

    assert read_file(path)


@pytest.mark.parametrize("where", ["baselines", f"baselines/{MODEL}"])
@pytest.mark.parametrize("target", ["gone", "baselines", MODEL])
def test_a_folder_that_is_a_link_to_nothing_is_no_empty_folder(tmp_path: Path, where: str, target: str) -> None:
    link = tmp_path / where
    link.parent.mkdir(exist_ok=True)
    # A relative link to its own name is a loop.
    link.symlink_to(target)
    assert not link.exists()

    message = refusal(tmp_path / "baselines")

    assert f"{link} is a link to {target}, which leads to nothing; mend or remove the link" in message
    with pytest.raises(BaselineError, match="which leads to nothing"):
        check_writable(link / "deeper")


def test_a_file_that_is_too_large_is_refused_before_it_is_read(home: Path) -> None:
    with (home / FILE).open("wb") as file:
        file.truncate(MOST_BYTES + 1)

    assert f"has 134,217,729 bytes, and {MOST_BYTES:,} is the most that is read" in refusal(home.parent)


def test_a_file_that_grows_while_it_is_read_is_cut_short(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(11))

    with pytest.raises(BaselineError, match="has 11 bytes, and 10 is the most"):
        read_regular_file(tmp_path / "a", 10)
    assert read_regular_file(tmp_path / "a", 11) == bytes(11)


def _hold(folder: Path, held: object, release: object) -> None:
    with locked(folder):
        held.set()  # type: ignore[attr-defined]
        release.wait()  # type: ignore[attr-defined]


def test_a_lock_that_stays_held_is_an_error_that_says_by_whom(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = multiprocessing.get_context("fork")
    held, release = context.Event(), context.Event()
    holder = context.Process(target=_hold, args=(home, held, release))
    holder.start()
    held.wait()

    with pytest.raises(BaselineError) as caught, locked(home, longest_wait_s=0.2):
        pytest.fail("two hold the lock")
    release.set()
    holder.join()

    assert f"{home / '.lock'} is locked by process {holder.pid} on " in str(caught.value)
    assert " since '20" in str(caught.value)
    assert "then save again" in str(caught.value)
    with locked(home, longest_wait_s=0.0):
        written = json.loads((home / ".lock").read_text())
    assert written["process"] == os.getpid()
    assert list(home.iterdir()) == []


def test_a_lock_file_with_other_content_is_still_a_lock(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    holder = os.open(home / ".lock", os.O_RDWR | os.O_CREAT)
    os.write(holder, b"[\xff")
    folder_lock.fcntl.flock(holder, folder_lock.fcntl.LOCK_EX)
    monkeypatch.setattr(folder_lock, "_PAUSE_S", 0.001)
    begun = time.monotonic()

    with pytest.raises(BaselineError, match="is locked by another process"), locked(home, longest_wait_s=0.05):
        pytest.fail("two hold the lock")

    os.close(holder)
    assert time.monotonic() - begun >= 0.05


def test_the_draft_of_a_killed_saver_is_removed_and_that_of_a_living_one_is_not(home: Path) -> None:
    drafts = [home / f".{FILE}.{process}.tmp" for process in (2**22 + 1, os.getppid())]
    foreign = home / ".mine.tmp"
    for path in (*drafts, foreign):
        path.touch()

    save(home.parent, MODEL, [run(1)])

    assert [path.exists() for path in drafts] == [False, True]
    assert foreign.exists()


def test_a_lock_that_is_a_link_is_not_followed(home: Path) -> None:
    victim = home.parent / "victim"
    victim.write_text("keep")
    (home / ".lock").symlink_to(victim)

    with pytest.raises(BaselineError, match=r"cannot write .*\.lock"):
        save(home.parent, MODEL, [run(1)])

    assert victim.read_text() == "keep"


def test_a_lock_on_a_full_disk_is_an_error_and_leaves_no_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(folder_lock.os, "write", refuse)

    with (
        pytest.raises(BaselineError, match=r"cannot write .*\.lock: no space left on device; free some space"),
        locked(home),
    ):
        pytest.fail("locked without a word of who holds it")

    assert list(home.iterdir()) == []
