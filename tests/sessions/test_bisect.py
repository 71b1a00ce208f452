"""`pytest-nsight bisect` on real repositories: CPU operators, worktrees, interrupts."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

COMMAND = (sys.executable, "-m", "pytest_nsight.cli", "bisect")
CLOCK = Path(__file__).parents[1] / "examples/clock_collector"
PLUGINS = Path(__file__).parents[1] / "fakes/plugins"

FUSED = "import torch\n\ndef work(x):\n    return x * 2.0\n"
UNFUSED = "import torch\n\ndef work(x):\n    return (x + x).clone()\n"
SLOW = "import torch\n\nBIG = torch.ones(1200, 1200)\n\ndef work(x):\n    return BIG * 2.0\n"
BROKEN = "raise ImportError('no such kernel')\n"

SUITE = """
import pytest, torch
import ops

@pytest.mark.nsight(rounds=10)
def test_work(nsight):
    nsight(ops.work, torch.ones(300, 300))

@pytest.mark.nsight
def test_work_of_others(nsight):
    nsight(ops.work, torch.ones(8))
"""


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=n", "-c", "user.email=e@example.org")
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def make_repository(folder: Path, commits: int, contents: Mapping[int, Mapping[str, str]]) -> list[str]:
    """A repository with this many commits after the first one; from a position on, files have other contents.

    Returns:
        The hashes, the first one's at 0.
    """
    (folder / "src").mkdir(parents=True)
    (folder / "pytest.ini").write_text("[pytest]\npythonpath = src\n")
    git(folder, "init", "--quiet", "--initial-branch", "main")
    hashes = []
    for number in range(commits + 1):
        for name, text in contents.get(number, {}).items():
            (folder / name).write_text(text)
        (folder / "number").write_text(str(number))
        git(folder, "add", "--all")
        git(folder, "commit", "--quiet", "--message", f"commit {number}")
        hashes.append(git(folder, "rev-parse", "HEAD"))
    return hashes


def bisect(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = (*COMMAND, *arguments, "-p", "no:randomly")
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def assert_clean(folder: Path) -> None:
    """No worktree, no branch, no ref, no file: what git knows is what the user made."""
    assert git(folder, "worktree", "list", "--porcelain").count("worktree ") == 1
    # Python's bytecode lies beside the modules, as after every run of pytest.
    changed = git(folder, "status", "--porcelain").splitlines()
    assert [line for line in changed if "__pycache__" not in line] == []
    assert git(folder, "for-each-ref", "--format=%(refname)") == "refs/heads/main"
    assert git(folder, "symbolic-ref", "HEAD") == "refs/heads/main"
    left = {path.name for path in folder.glob(".nsight/2*/*") if path.is_dir()}
    assert all(name.startswith(("run-", "identity-")) for name in left)


def begin_to_hang(folder: Path, marker: Path) -> subprocess.Popen[bytes]:
    """A search whose first measured test has begun, and does not end."""
    hangs = f"    import time\n    open({str(marker)!r}, 'w').close()\n    time.sleep(600)\n"
    suite = SUITE.replace("    nsight(ops.work, torch.ones(300, 300))\n", hangs)
    make_repository(folder, 2, {0: {"src/ops.py": FUSED, "test_case.py": suite}})
    started = subprocess.Popen(
        (*COMMAND, "HEAD~2", "HEAD", "-k", "test_work", "-p", "no:randomly"),
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while not marker.exists():
        assert started.poll() is None
        time.sleep(0.05)
    return started


def test_an_answer_that_could_not_be_written_is_refused_before_the_search(tmp_path: Path) -> None:
    result = bisect(tmp_path, "HEAD~1", "HEAD", "-k", "test_work", "--json", "absent/answer.json")

    assert result.returncode == 2
    assert "--json absent/answer.json: there is no such folder" in result.stderr


@pytest.mark.long
def test_an_answer_whose_file_cannot_be_written_is_printed(tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    make_repository(folder, 1, {0: {"src/ops.py": FUSED, "test_case.py": SUITE}, 1: {"src/ops.py": UNFUSED}})
    (tmp_path / "answer.json").mkdir()

    result = bisect(folder, "HEAD~1", "HEAD", "-k", "test_work", "--json", str(tmp_path / "answer.json"))

    assert result.returncode != 0
    assert "the first bad commit is" in result.stdout
    assert "choose another place with --json" in result.stderr


@pytest.mark.long
def test_a_lost_fusion_among_commits_that_cannot_be_measured(tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    hashes = make_repository(
        folder,
        6,
        {
            0: {"src/ops.py": FUSED, "test_case.py": SUITE},
            3: {"src/ops.py": BROKEN},
            4: {"src/ops.py": UNFUSED},
        },
    )
    before = (folder / "number").read_text()

    result = bisect(folder, "HEAD~6", "HEAD", "-k", "test_work", "--json", str(tmp_path / "answer.json"))

    assert result.returncode == 1, result.stdout + result.stderr
    text = " ".join(result.stdout.split())
    assert "test_case.py::test_work: the first bad commit is one of these 2" in text
    assert f"{hashes[3][:7]} skipped: its file cannot be imported in {hashes[3][:7]}: " in text
    assert "no such kernel" in text
    assert f"launches of a round from {hashes[2][:7]} to {hashes[4][:7]}: 1 -> 2" in text
    assert "- 1 launch: mul + 2 launches: add, clone" in text
    assert f"kernel time from {hashes[2][:7]} to {hashes[4][:7]}: " in text
    answer = json.loads((tmp_path / "answer.json").read_text())
    assert answer["first_bad"] == ""
    found = answer["bisection"]
    assert [one["hash"] for one in found["candidates"]] == hashes[3:5]
    assert found["criterion"] == "structure"
    assert found["comparison"]["ratio"] > 0
    assert (folder / "number").read_text() == before
    assert_clean(folder)


@pytest.mark.long
def test_a_commit_whose_record_cannot_be_read_once_is_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "repository"
    files = {0: {"src/ops.py": FUSED, "test_case.py": SUITE}, 2: {"src/ops.py": UNFUSED}}
    hashes = make_repository(folder, 2, files)
    monkeypatch.setenv("PYTHONPATH", str(PLUGINS), prepend=os.pathsep)
    monkeypatch.setenv("UNREAD", "2")

    result = bisect(folder, "HEAD~2", "HEAD", "-k", "test_work", "-p", "unread", "--nsight-collector=torch")

    assert result.returncode == 0, result.stdout + result.stderr
    text = " ".join(result.stdout.split())
    assert f"the first bad commit is {hashes[2][:7]}" in text
    assert "3 commits of 3 measured, by structure" in text


@pytest.mark.long
def test_a_lost_fusion_among_32_commits(tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    hashes = make_repository(
        folder, 32, {0: {"src/ops.py": FUSED, "test_case.py": SUITE}, 21: {"src/ops.py": UNFUSED}}
    )

    result = bisect(folder, hashes[0], "main", "-k", "test_work", "--json", str(tmp_path / "answer.json"))

    assert result.returncode == 0, result.stdout + result.stderr
    answer = json.loads((tmp_path / "answer.json").read_text())
    assert answer["first_bad"] == hashes[21]
    assert len(answer["bisection"]["measured"]) <= 7
    assert "  " + hashes[21][:7] in result.stdout
    assert "commit 21" in result.stdout
    assert_clean(folder)


# The measured code moves on the clock that the collector of the examples reads, and no other program takes the
# CPU away: everything else (worktrees, workers, pairs, the gate) is as it always is.
VIRTUAL = """
import random, time, types
import clock_collector
from pytest_nsight.protocol.conditions import CpuTimes
from pytest_nsight.worker import device

NOW_NS = [0]
clock_collector.time = types.SimpleNamespace(perf_counter_ns=lambda: NOW_NS[0])
device.read_cpu_times = lambda: CpuTimes(0, 0, 0, 0, 0, 0)
OF_THIS_RUN = random.gauss(0, 0.002)

def spend(ns):
    NOW_NS[0] += round(ns * (1 + OF_THIS_RUN + random.gauss(0, 0.002)))
"""
TIMED = """
import pytest
import ops

@pytest.mark.nsight(rounds=10, rest="0ms")
def test_work(nsight):
    nsight(ops.work)
"""
TAKES = "import virtual\n\ndef work():\n    virtual.spend({})\n"


@pytest.mark.long
def test_3_percent_among_32_commits_that_all_launch_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(CLOCK), prepend=os.pathsep)
    folder = tmp_path / "repository"
    files = {"src/ops.py": TAKES.format(200_000), "src/virtual.py": VIRTUAL, "test_case.py": TIMED}
    hashes = make_repository(folder, 32, {0: files, 11: {"src/ops.py": TAKES.format(206_000)}})

    options = ("-k", "test_work", "--nsight-collector=clock", "--nsight-no-canaries")
    result = bisect(folder, hashes[0], hashes[32], *options, "--json", str(tmp_path / "answer.json"))

    assert result.returncode == 0, result.stdout + result.stderr
    answer = json.loads((tmp_path / "answer.json").read_text())
    assert answer["first_bad"] == hashes[11]
    found = answer["bisection"]
    assert found["criterion"] == "time"
    assert len(found["measured"]) <= 9
    assert f"kernel time from GOOD ({hashes[0][:7]}) to {hashes[11][:7]}, bad: " in " ".join(result.stdout.split())
    assert_clean(folder)


@pytest.mark.long
def test_a_slowdown_among_32_commits_that_all_launch_the_same(tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    hashes = make_repository(
        folder, 32, {0: {"src/ops.py": FUSED, "test_case.py": SUITE}, 11: {"src/ops.py": SLOW}}
    )

    result = bisect(folder, hashes[0], hashes[32], "-k", "test_work", "--json", str(tmp_path / "answer.json"))

    assert result.returncode == 0, result.stdout + result.stderr
    answer = json.loads((tmp_path / "answer.json").read_text())
    assert answer["first_bad"] == hashes[11]
    found = answer["bisection"]
    assert found["criterion"] == "time"
    assert len(found["measured"]) <= 9
    text = " ".join(result.stdout.split())
    assert "launches of a round: 1 in " in text
    assert f"kernel time from GOOD ({hashes[0][:7]}) to {hashes[11][:7]}, bad: " in text
    assert_clean(folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("HEAD", "HEAD", "-k", "test_work"), "HEAD and HEAD are the same commit"),
        (("HEAD", "HEAD~1", "-k", "test_work"), "HEAD~1 is older than HEAD; give GOOD, the older one, first"),
        (("HEAD~1", "HEAD", "-k", "nothing_of_this_name"), "no test with the mark nsight matches"),
        (
            ("HEAD~1", "HEAD"),
            "2 cases match: test_case.py::test_work, test_case.py::test_work_of_others; give one",
        ),
        (("HEAD~1", "HEAD", "--nsight-save"), "run it without --nsight-save"),
        (("HEAD~1", "HEAD", "--minutes", "0"), "argument --minutes: '0' is not a number above 0"),
    ],
)
def test_what_cannot_be_searched_is_one_sentence(tmp_path: Path, arguments: tuple[str, ...], sentence: str) -> None:
    folder = tmp_path / "repository"
    make_repository(folder, 1, {0: {"src/ops.py": FUSED, "test_case.py": SUITE}})

    result = bisect(folder, *arguments)

    assert result.returncode == 2, result.stdout + result.stderr
    assert sentence in result.stdout + result.stderr
    assert "Traceback" not in result.stdout + result.stderr
    assert_clean(folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ends", "sentence"),
    [
        (("gone", "HEAD"), "bisect gone: git knows no such commit; "),
        (("HEAD", "gone"), "bisect gone: git knows no such commit; "),
        (("HEAD", "HEAD"), "HEAD and HEAD are the same commit"),
    ],
)
def test_commits_are_looked_up_before_any_test_is_imported(
    tmp_path: Path, ends: tuple[str, str], sentence: str
) -> None:
    folder = tmp_path / "repository"
    make_repository(folder, 1, {0: {"test_case.py": "open('imported', 'w').close()\n" + SUITE}})

    result = bisect(folder, *ends, "-k", "test_work")

    assert result.returncode == 2, result.stdout + result.stderr
    assert sentence in result.stderr
    assert "nothing was measured" not in result.stderr
    assert_clean(folder)


@pytest.mark.slow
def test_without_a_repository_no_test_is_imported(tmp_path: Path) -> None:
    (tmp_path / "test_case.py").write_text("open('imported', 'w').close()\n")

    result = bisect(tmp_path, "HEAD~1", "HEAD", "-k", "test_work")

    assert result.returncode == 2, result.stdout + result.stderr
    assert f"bisect HEAD~1: {tmp_path} is in no git repository; " in result.stderr
    assert not (tmp_path / "imported").exists()


PARAMETRIZED = """
import pytest, torch
import ops

@pytest.mark.nsight(rounds=10)
@pytest.mark.parametrize("size", [8, 300], ids=["n=3, x", "n=3, xy"])
def test_work(nsight, size):
    nsight(ops.work, torch.ones(size, size))
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["test_work[n=3, x]", "tests/test_case.py::test_work[n=3, x]"])
def test_a_case_is_selected_by_each_name_that_is_printed(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "repository"
    (folder / "tests").mkdir(parents=True)
    make_repository(folder, 1, {0: {"src/ops.py": FUSED, "tests/test_case.py": PARAMETRIZED}})

    result = bisect(folder, "HEAD~1", "HEAD", "-k", name, "--collect-only", "--quiet")

    assert "tests/test_case.py::test_work[n=3, x]\n" in result.stdout, result.stdout + result.stderr
    assert "1/2 tests collected (1 deselected)" in result.stdout


@pytest.mark.long
def test_the_command_printed_for_a_merge_searches_its_branch(tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    (folder / "tests").mkdir(parents=True)
    make_repository(folder, 1, {0: {"src/ops.py": FUSED, "tests/test_case.py": PARAMETRIZED}})
    git(folder, "checkout", "--quiet", "-b", "branch")
    for number, text in enumerate((FUSED, UNFUSED)):
        (folder / "src/ops.py").write_text(f"{text}# {number}\n")
        git(folder, "commit", "--quiet", "--all", "--message", f"branch {number}")
    git(folder, "checkout", "--quiet", "main")
    git(folder, "merge", "--quiet", "--no-ff", "--message", "the merge", "branch")

    first = bisect(folder, "HEAD~1", "HEAD", "-k", "test_work[n=3, x]")
    command = next(line for line in first.stdout.splitlines() if line.startswith("  pytest-nsight bisect "))
    second = bisect(folder, *shlex.split(command)[2:])

    assert second.returncode == 0, first.stdout + second.stdout + second.stderr
    assert "the first bad commit is" in second.stdout
    assert "branch 1" in second.stdout


@pytest.mark.long
def test_ends_that_do_not_differ_or_lack_the_case_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    hashes = make_repository(
        folder,
        3,
        {
            0: {"src/ops.py": FUSED, "test_case.py": "def test_nothing(): pass\n"},
            1: {"test_case.py": SUITE},
        },
    )

    without = bisect(folder, hashes[0], hashes[3], "-k", "test_work")
    alike = bisect(folder, hashes[1], hashes[3], "-k", "test_work")

    assert without.returncode == alike.returncode == 2
    assert f"bisect: GOOD ({hashes[0][:7]}) cannot be measured: the test " in without.stderr
    assert f"test_case.py::test_work is not in {hashes[0][:7]}; give a later GOOD" in without.stderr
    said = " ".join(alike.stderr.split())
    assert f"GOOD ({hashes[1][:7]}) and BAD ({hashes[3][:7]}) launch the same, and their times do not " in said
    assert_clean(folder)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_no_worktree_behind(tmp_path: Path, number: signal.Signals) -> None:
    folder, marker = tmp_path / "repository", tmp_path / "marker"
    started = begin_to_hang(folder, marker)
    assert git(folder, "worktree", "list", "--porcelain").count("worktree ") == 2

    started.send_signal(number)

    assert started.wait(60) in (128 + signal.SIGINT, 128 + number)
    assert_clean(folder)


@pytest.mark.slow
def test_clean_removes_what_a_killed_search_left(tmp_path: Path) -> None:
    folder, marker = tmp_path / "repository", tmp_path / "marker"
    started = begin_to_hang(folder, marker)
    started.kill()
    started.wait(60)

    clean = (sys.executable, "-m", "pytest_nsight.cli", "clean")
    result = subprocess.run(clean, cwd=folder, capture_output=True, text=True, check=True)

    assert "against" in result.stdout
    assert_clean(folder)
