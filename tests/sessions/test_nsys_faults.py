"""What goes wrong around Nsight Systems, for real: each costs what it must, and leaves no secret behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.collectors.real import require_nsys

Gate = Callable[..., pytest.RunResult]

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("real_nsys"), pytest.mark.xdist_group("nsys")]

SECRET = "planted-hunter2"

BODY = """
import sys

@pytest.mark.nsight(rounds=3)
@pytest.mark.parametrize("number", range(2))
def test_many(nsight, number):
    nsight(square, torch.ones(8, 8))

@pytest.mark.nsight(rounds=3)
def test_odd(nsight):
    os.write(1, b"not UTF-8: \\xff\\xfe\\n")
    print("\\udcff".encode(errors="surrogateescape"))
    nsight(square, torch.ones(8, 8))
"""

SLOW = """
import time

@pytest.mark.nsight
def test_slow(nsight):
    nsight(time.sleep, 600)
"""


@pytest.fixture
def real_nsys() -> None:
    require_nsys()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a file system of 64 kB that is full."""
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(small)]
    if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("may not mount a tmpfs here")
    try:
        with (small / "filling").open("wb") as file:
            file.write(bytes(64 * 1024))
        yield small
    finally:
        subprocess.run(["umount", str(small)], check=True)


def files_with_secret(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


def test_a_full_temporary_folder_is_not_needed(
    gate: Gate, small_disk: Path, monkeypatch: pytest.MonkeyPatch, pytester: pytest.Pytester
) -> None:
    monkeypatch.setenv("TMPDIR", str(small_disk))
    monkeypatch.setenv("API_TOKEN", SECRET)

    # pytest's own captured output goes to TMPDIR, too.
    result = gate("--nsight-collector=nsys", "--nsight-keep", "-s", "-k", "many", body=BODY)

    output = result.stdout.str()
    assert "rounds are missing" not in output
    assert "no GPU kernel ran" in output
    assert sorted(path.name for path in small_disk.iterdir()) == ["filling"]
    assert list((pytester.path / ".nsight").rglob("trace.sqlite"))
    assert files_with_secret(pytester.path / ".nsight") == []


def test_output_that_is_no_text_does_no_harm(gate: Gate) -> None:
    result = gate("--nsight-collector=nsys", "-k", "odd", body=BODY)

    output = result.stdout.str()
    assert "no GPU kernel ran" in output
    assert "INTERNALERROR" not in output
    assert "Traceback" not in output


@pytest.mark.parametrize("victim", ["nsys", "worker", "everything"])
def test_what_is_killed_leaves_neither_process_nor_secret(victim: str, pytester: pytest.Pytester) -> None:
    """With SIGKILL, which nothing can answer; the worker of a killed session ends by itself."""
    pytester.makepyfile(test_case="import pytest\n" + SLOW)
    temporary = pytester.mkdir("temporary")
    command = [sys.executable, "-m", "pytest", "--nsight", "--nsight-collector=nsys", "--nsight-rounds=3"]
    environ = {**os.environ, "TMPDIR": str(temporary), "API_TOKEN": SECRET}
    session = subprocess.Popen(command, cwd=pytester.path, env=environ, stdout=subprocess.PIPE, text=True)
    wait_until_measuring(pytester.path)
    family = psutil.Process(session.pid).children(recursive=True)
    (nsys,) = [one for one in psutil.Process(session.pid).children() if "profile" in one.cmdline()]
    worker = int((next((pytester.path / ".nsight").rglob("target.pid"))).read_text())

    os.kill({"nsys": nsys.pid, "worker": worker, "everything": session.pid}[victim], signal.SIGKILL)

    if victim == "everything":
        session.wait(60)
        # The agent of nsys writes its report when its target has ended.
        wait_for_ends(family)
    else:
        output, _ = session.communicate(timeout=200)
        assert session.returncode == pytest.ExitCode.TESTS_FAILED, output
        assert "SIGKILL" in output
        assert not list((pytester.path / ".nsight").rglob("*.nsys-rep"))
        assert not list((pytester.path / ".nsight").rglob("*.qdstrm"))
    assert [one for one in family if one.is_running() and one.status() != psutil.STATUS_ZOMBIE] == []
    assert list(temporary.iterdir()) == []
    assert files_with_secret(pytester.path) == []
    for folder in (pytester.path / ".nsight").glob("2*/run-*/nsys"):
        assert folder.stat().st_mode & 0o077 == 0
    if victim == "everything":
        # The next session removes what the killed one could not.
        pytester.makepyfile(test_case="import pytest\n@pytest.mark.nsight\ndef test_none(): pass")
        pytester.runpytest_subprocess("--nsight", "--nsight-collector=nsys", "--nsight-rounds=3")
        assert not list((pytester.path / ".nsight").glob("2*/run-*/nsys"))


def wait_until_measuring(folder: Path) -> None:
    for _ in range(1200):
        for path in (folder / ".nsight").glob("2*/run-001/manifest.jsonl"):
            if re.search('"case"', path.read_text(encoding="utf-8")):
                time.sleep(1)
                return
        time.sleep(0.1)
    raise AssertionError("no case began")


def wait_for_ends(family: list[psutil.Process]) -> None:
    psutil.wait_procs(family, timeout=60)
