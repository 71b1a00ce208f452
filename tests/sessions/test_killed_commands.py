"""SIGKILL of pytest, calibrate and show while what they started is busy: no process stays behind."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.collectors.real import ROOT, require_nsys
from tests.processes.marked_processes import VARIABLE, carriers, unique_token, wait_until

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("nsys")]

# Holds the interpreter's lock: no thread of the worker gets its turn.
LONG_C_CALL = """
import ctypes
import pytest

@pytest.mark.nsight
def test_long_call():
    open("here", "w").close()
    ctypes.PyDLL(None).sleep(600)
"""
QUICK = """
import pytest, torch

@pytest.mark.nsight
def test_quick(nsight):
    nsight(torch.exp, torch.ones(8))
"""
PYTEST = (sys.executable, "-m", "pytest", "--nsight", "-p", "no:cacheprovider", "--nsight-rounds=3")


@pytest.fixture
def token() -> Iterator[str]:
    with unique_token() as value:
        yield value


@pytest.fixture
def begin(pytester: pytest.Pytester, token: str) -> Callable[..., subprocess.Popen[bytes]]:
    """Starts a command in pytester's folder."""

    def begin(*command: str, **environ: str) -> subprocess.Popen[bytes]:
        pytester.makeini("[pytest]\n")
        return subprocess.Popen(
            command,
            cwd=pytester.path,
            env={**os.environ, VARIABLE: token, **environ},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    return begin


def assert_nothing_outlives(command: subprocess.Popen[bytes], token: str) -> None:
    assert len(carriers(token)) > 2
    command.kill()
    command.wait()
    wait_until(lambda: carriers(token) == [])


def plant_fake_nsys(folder: Path) -> str:
    """A program that stands in for nsys."""
    path = folder / "fake-nsys"
    text = (ROOT / "tests/fakes/nsys").read_text(encoding="utf-8").partition("\n")[2]
    path.write_text(f"#!{sys.executable}\n{text}")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("collector", ["nsys", "torch"])
def test_a_worker_inside_a_long_c_call(
    collector: str, begin: Callable[..., subprocess.Popen[bytes]], pytester: pytest.Pytester, token: str
) -> None:
    if collector == "nsys":
        require_nsys()
    pytester.makepyfile(test_case=LONG_C_CALL)
    session = begin(*PYTEST, f"--nsight-collector={collector}")
    wait_until((pytester.path / "here").exists, 120)

    assert_nothing_outlives(session, token)


def test_ranks_inside_a_long_c_call(
    begin: Callable[..., subprocess.Popen[bytes]], pytester: pytest.Pytester, token: str
) -> None:
    require_nsys()
    pytester.makepyfile(test_case=LONG_C_CALL.replace("mark.nsight", "mark.nsight(ranks=2)"))
    session = begin(*PYTEST, "--nsight-collector=nsys")
    wait_until((pytester.path / "here").exists, 120)

    assert_nothing_outlives(session, token)


def test_an_export_in_a_session(
    begin: Callable[..., subprocess.Popen[bytes]], pytester: pytest.Pytester, token: str
) -> None:
    pytester.makepyfile(test_case=QUICK)
    fake = {"PYTEST_NSIGHT_NSYS": plant_fake_nsys(pytester.path), "NSYS_FAKE": "export-never-ends"}
    session = begin(*PYTEST, "--nsight-collector=nsys", **fake)
    wait_until(lambda: list(pytester.path.rglob("*.part*.sqlite")), 120)

    assert_nothing_outlives(session, token)


def test_an_export_of_show(
    begin: Callable[..., subprocess.Popen[bytes]], pytester: pytest.Pytester, token: str
) -> None:
    (pytester.path / "r.nsys-rep").write_bytes(b"report")
    temporary = pytester.mkdir("temporary")
    fake = {"PYTEST_NSIGHT_NSYS": plant_fake_nsys(pytester.path), "NSYS_FAKE": "export-never-ends"}
    show = begin(sys.executable, "-m", "pytest_nsight.cli", "show", "r.nsys-rep", TMPDIR=str(temporary), **fake)
    wait_until(lambda: list(temporary.rglob("*.part*.sqlite")), 120)

    assert_nothing_outlives(show, token)


def test_a_build_of_a_revision(
    begin: Callable[..., subprocess.Popen[bytes]], pytester: pytest.Pytester, token: str
) -> None:
    pytester.makepyfile(test_case=QUICK)
    pytester.makeini("[pytest]\n")
    identity = ("-c", "user.name=n", "-c", "user.email=e@example.org")
    for arguments in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "first")):
        subprocess.run(["git", *identity, *arguments], cwd=pytester.path, check=True)
    built = pytester.path / "built"
    session = begin(
        *PYTEST, "--nsight-against=HEAD", "-o", f"nsight_against_build=touch {built}; trap '' TERM INT; sleep 600"
    )
    wait_until(built.exists, 120)

    assert_nothing_outlives(session, token)


def test_calibrate(begin: Callable[..., subprocess.Popen[bytes]], pytester: pytest.Pytester, token: str) -> None:
    pytester.makepyfile(test_case=LONG_C_CALL)
    calibrate = begin(sys.executable, "-m", "pytest_nsight.cli", "calibrate", "--runs=2", "test_case.py")
    wait_until((pytester.path / "here").exists, 120)

    assert_nothing_outlives(calibrate, token)
