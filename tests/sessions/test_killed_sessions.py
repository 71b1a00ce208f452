"""SIGKILL at random moments of whole sessions under nsys, then one more session: only manifests and logs are left.

`PYTEST_NSIGHT_KILLS=200` kills more of them, `PYTEST_NSIGHT_SEED=...` chooses the moments again.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_nsight.processes.owned_folder import IN_USE
from tests.collectors.real import require_nsys
from tests.processes.marked_processes import VARIABLE, carriers, unique_token, wait_until

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("nsys")]

KILLS = int(os.environ.get("PYTEST_NSIGHT_KILLS", "20"))
SECRET = "planted-hunter2"

# The child of the worker carries the secret in its environment, which nsys records.
SUITE = """
import subprocess, sys
import pytest

@pytest.mark.nsight(rounds=3)
def test_child(nsight):
    nsight(sum, range(1000))
    subprocess.run([sys.executable, "-c", "pass"], check=True)
"""
PYTEST = (sys.executable, "-m", "pytest", "--nsight", "--nsight-collector=nsys", "-p", "no:cacheprovider")
WAYS = ((), ("--nsight-save",), ("--nsight-against=HEAD",))
STAYS = {"manifest.jsonl", "worker.log", "export.log", "result.json", "session.json"}


@pytest.fixture
def token() -> Iterator[str]:
    with unique_token() as value:
        yield value


@pytest.fixture
def project(pytester: pytest.Pytester) -> Path:
    pytester.makeini("[pytest]\n")
    pytester.makepyfile(test_case=SUITE)
    (pytester.path / ".gitignore").write_text("*\n!test_case.py\n!pytest.ini\n!tox.ini\n")
    identity = ("-c", "user.name=n", "-c", "user.email=e@example.org")
    for arguments in (("init", "-q"), ("add", "."), ("commit", "-qm", "first")):
        subprocess.run(["git", *identity, *arguments], cwd=pytester.path, check=True)
    return pytester.path


def begin(project: Path, token: str, *arguments: str) -> subprocess.Popen[bytes]:
    temporary = project.with_name(f"{project.name}-temporary")
    temporary.mkdir(exist_ok=True)
    # The value of the token passes nsys; the secret does not, but for what a test starts.
    environ = {**os.environ, VARIABLE: token, "API_TOKEN": SECRET, "TMPDIR": str(temporary)}
    return subprocess.Popen(
        (*PYTEST, *arguments),
        cwd=project,
        env=environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def sessions_of(project: Path) -> list[Path]:
    return list((project / ".nsight").glob("2*"))


def files_with_secret(*folders: Path) -> list[Path]:
    paths = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return [path for path in paths if SECRET.encode() in path.read_bytes()]


def test_killed_at_random_moments(project: Path, token: str, capsys: pytest.CaptureFixture[str]) -> None:
    require_nsys()
    seed = int(os.environ.get("PYTEST_NSIGHT_SEED", "0")) or random.SystemRandom().getrandbits(32)
    print(f"PYTEST_NSIGHT_SEED={seed}")
    generator = random.Random(seed)
    began_s = time.monotonic()
    begin(project, token).wait()
    whole_s = time.monotonic() - began_s
    ended = set(sessions_of(project))
    secrets_found = 0

    for number in range(KILLS):
        way = WAYS[number % len(WAYS)]
        # A session against a revision has twice the processes.
        moment_s = generator.uniform(0, whole_s * (2 if "against" in str(way) else 1))
        earlier = set(sessions_of(project))
        session = begin(project, token, *way)
        time.sleep(moment_s)
        session.kill()
        session.wait()
        # One that was killed at its very end had finished, and given its folder free, before.
        ended.update(folder for folder in set(sessions_of(project)) - earlier if not (folder / IN_USE).exists())
        print(f"{number}: {way} killed after {moment_s:.2f} s")
        wait_until(lambda: carriers(token) == [])
        secrets_found += bool(files_with_secret(project / ".nsight"))

    killed = [folder for folder in sessions_of(project) if folder not in ended]
    # Without a GPU there is no kernel; what counts is that the session comes to its end.
    assert begin(project, token).wait() == pytest.ExitCode.TESTS_FAILED
    temporary = project.with_name(f"{project.name}-temporary")
    assert files_with_secret(project, temporary) == []
    assert carriers(token) == []
    left = [path for folder in killed for path in folder.rglob("*") if not path.is_dir()]
    assert sorted(str(path) for path in left if path.name not in STAYS) == []
    assert list(project.rglob(".*.tmp")) == []
    assert [path for path in temporary.iterdir() if path.name.startswith("pytest-nsight-")] == []
    listing = subprocess.run(["git", "worktree", "list"], cwd=project, capture_output=True, text=True, check=True)
    assert len(listing.stdout.splitlines()) == 1
    with capsys.disabled():
        print(f"\n{KILLS} sessions of {whole_s:.1f} s killed, after {secrets_found} of them a secret lay on disk")
