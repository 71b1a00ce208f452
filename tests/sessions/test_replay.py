"""Sessions recorded on an H200, judged again here: the three outcomes that the gate exists for.

tests/data/sessions/README.md says how they were made.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SESSIONS = ROOT / "tests/data/sessions"


def replay(
    session: str, *arguments: str, baselines: Path = SESSIONS / "baselines"
) -> subprocess.CompletedProcess[str]:
    """Judges a recorded session, against the baselines of its time unless others are given."""
    command = [
        *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--nsight"),
        *("--nsight-replay", str(SESSIONS / session), "--nsight-baselines", str(baselines)),
        *("perf_tests/test_rms_norm.py", *arguments),
    ]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_unchanged_kernels_pass() -> None:
    result = replay("unchanged", "--nsight-strict")

    assert result.returncode == pytest.ExitCode.OK, result.stdout
    assert "6 verdicts: 0 regressions, 0 improvements, 6 unchanged" in result.stdout
    # The heading has a line of its own, and the text begins right below it.
    assert re.search(r"\[100%\]\n+=+ nsight =+\nNVIDIA H200, collector nsys, replay of tests/data/", result.stdout)


@pytest.mark.slow
def test_a_slowed_kernel_fails_its_cases_and_only_those_with_the_sentence() -> None:
    result = replay("slow")

    assert result.returncode == pytest.ExitCode.TESTS_FAILED
    assert "2 failed, 4 passed" in result.stdout
    lines = result.stdout.splitlines()
    said = re.sub(r"\n +", " ", result.stdout)
    for case in ("fused-b8x512", "fused-b32x2048"):
        (sentence,) = {line for line in said.splitlines() if line.startswith(f"test_rms_norm[{case}]: ")}
        assert "us (+" in sentence
        assert "band 2 %" in sentence
        assert "+9 runs, p " in sentence
        assert "; slower kernel: _rms_norm_fused_kernel" in sentence
        assert any(line.startswith("REGRESSION ") and case in line for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize("ci", ["", "true"], ids=["terminal", "ci"])
def test_a_broken_fusion_fails_as_structure_and_shows_kernels_gained_and_lost(
    ci: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # pytest's short summary cuts a failure's line to the terminal's width, and in CI it prints all of it.
    monkeypatch.delenv("BUILD_NUMBER", raising=False)
    monkeypatch.setenv("CI", ci)

    result = replay("unfused")

    said = " ".join(result.stdout.split())
    assert result.returncode == pytest.ExitCode.TESTS_FAILED
    assert "2 failed, 4 passed" in said
    headline = "launches changed, 1 -> 8 per round, as when a fusion is lost;"
    assert f"test_rms_norm[fused-b8x512]: {headline}" in said
    assert "1 -> 0 _rms_norm_fused_kernel" in said
    assert said.count("reduce_kernel(MeanOps)") == 2, "each of two cases lists its launches once"
    assert "--nsight-baselines tests/data/sessions/baselines" in said
    assert "0 regressions, 0 improvements, 2 structure changes, 4 unchanged" in said


@pytest.mark.slow
def test_cases_that_were_not_recorded_are_skipped() -> None:
    result = replay("unchanged", "perf_tests/test_softmax.py")

    assert result.returncode == pytest.ExitCode.OK
    assert "6 passed, 6 skipped" in result.stdout


@pytest.mark.slow
def test_a_folder_without_a_recording_is_one_sentence() -> None:
    result = replay("baselines")

    assert result.returncode == pytest.ExitCode.USAGE_ERROR
    assert "holds no recorded run" in result.stderr
    assert "Traceback" not in result.stderr
