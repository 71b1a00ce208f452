"""`pytest-nsight bisect` over 32 commits on a real GPU: a lost fusion, and a kernel that does 3 % more."""

from __future__ import annotations

import json
from pathlib import Path

from pytest_nsight.collectors.nsys.find import Installation
from tests.gpu.conftest import PROGRAMS, Json
from tests.sessions.test_bisect import assert_clean, bisect, make_repository

LOOPS = 100
"""Iterations of the kernel's loop: three more are 3 % more work, by the same launch."""

SUITE = """
import pytest, torch
from work import work

@pytest.mark.nsight(rounds=20, rest="1ms")
def test_work(nsight):
    x = torch.rand(1 << 22, device="cuda")
    nsight(work, x, torch.empty_like(x))
"""
WORK = "from own_kernel import repeat\n\ndef work(x, y):\n    repeat(x, y, {})\n"
UNFUSED = "from own_kernel import repeat\n\ndef work(x, y):\n    repeat(x, y, {half})\n    repeat(y, y, {half})\n"


def search(folder: Path, changed_in: int, change: str) -> tuple[Json, str, list[str]]:
    """The answer, the output and the hashes; machine code changes for nothing in commit 5, too."""
    own_kernel = (PROGRAMS / "own_kernel.py").read_text()
    other_code = own_kernel.replace("+ 1.0", "+ 1.25")
    assert other_code != own_kernel
    contents = {
        0: {"src/own_kernel.py": own_kernel, "src/work.py": WORK.format(LOOPS), "test_case.py": SUITE},
        5: {"src/own_kernel.py": other_code},
        changed_in: {"src/work.py": change},
    }
    hashes = make_repository(folder, 32, contents)
    written = folder.parent / "answer.json"
    result = bisect(
        folder, hashes[0], hashes[32], "-k", "test_work", "--nsight-collector=nsys", f"--json={written}"
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert_clean(folder)
    return json.loads(written.read_text()), " ".join(result.stdout.split()), hashes


def test_a_lost_fusion(gpu: Installation, tmp_path: Path) -> None:
    answer, text, hashes = search(tmp_path / "repository", 21, UNFUSED.format(half=LOOPS // 2))

    assert answer["first_bad"] == hashes[21]
    assert answer["bisection"]["criterion"] == "structure"
    assert len(answer["bisection"]["measured"]) <= 7
    assert f"kernel time from {hashes[20][:7]} to {hashes[21][:7]}: " in text


def test_3_percent_more_of_the_same_launch(gpu: Installation, tmp_path: Path) -> None:
    answer, text, hashes = search(tmp_path / "repository", 27, WORK.format(LOOPS + 3))

    assert answer["first_bad"] == hashes[27]
    assert answer["bisection"]["criterion"] == "time"
    assert len(answer["bisection"]["measured"]) <= 9
    assert "machine code changed: " in text
    compared = answer["bisection"]["comparison"]
    # 3 % more iterations took 4.2 % longer on an H100: the unrolled loop is 1 MB of code.
    assert compared is None or 1.02 < compared["ratio"] < 1.06
    by_time = [one for one in answer["bisection"]["measured"] if one["comparison"] is not None]
    assert len(by_time) <= 2, text
