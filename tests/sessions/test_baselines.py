"""Saving, judging, replaying: the whole way on CPU operators."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_nsight.baselines.baseline_file import read_file

pytestmark = pytest.mark.slow

Gate = Callable[..., pytest.RunResult]

BODY = """
FUSED = os.environ.get("SPOIL") != "unfused"

@pytest.mark.nsight
@pytest.mark.parametrize("variant", ["fused", "unfused"])
def test_op(nsight, variant):
    x = torch.ones(256, 256)
    nsight(square if variant == "fused" and FUSED else chain, x)
"""


def _saved(pytester: pytest.Pytester) -> Path:
    (path,) = (pytester.path / "baselines").glob("*/test_case.json")
    return path


def test_saving_then_checking_passes_and_a_lost_fusion_fails_as_structure(
    gate: Gate, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = gate("--nsight-save", "--nsight-runs=2", body=BODY)
    assert not list((pytester.path / ".nsight").rglob("trace-*"))
    unchanged = gate("--nsight-keep")
    monkeypatch.setenv("SPOIL", "unfused")
    spoiled = gate("--nsight-keep", "--nsight-markdown=out.md")
    monkeypatch.delenv("SPOIL")
    # As a shell expands .nsight/*, for `pytest-nsight report`.
    sessions = sorted((pytester.path / ".nsight").glob("[!.]*"))
    replayed = gate("--nsight-replay", str(sessions[-1]))

    assert all((session / "session.json").exists() for session in sessions)
    saved.assert_outcomes(passed=2)
    runs = json.loads(_saved(pytester).read_text())
    assert "test_case.py::test_op[fused]" in json.dumps(runs)
    unchanged.assert_outcomes(passed=2)
    for result in (spoiled, replayed):
        result.assert_outcomes(passed=1, failed=1)
        said = " ".join(result.stdout.str().split())
        assert "as when a fusion is lost; " in said
        assert re.search(r" 1 -> 0 (operator )?mul 0 -> 1 (operator )?exp 0 -> 1 (operator )?sum 0 -> 1 ", said)
        result.stdout.fnmatch_lines(["STRUCTURE *test_op[[]fused[]]*launches changed*"])
    assert "STRUCTURE" in (pytester.path / "out.md").read_text()


def test_a_damaged_baseline_is_one_sentence_and_stays_as_it_is(gate: Gate, pytester: pytest.Pytester) -> None:
    gate("--nsight-save", "--nsight-runs=1", body=BODY)
    path = _saved(pytester)
    path.write_text(path.read_text()[:100])
    before = path.read_text()

    checked = gate()
    saved = gate("--nsight-save", "--nsight-runs=1")

    assert checked.ret == pytest.ExitCode.USAGE_ERROR
    checked.stderr.fnmatch_lines(["ERROR: *test_case.json*"])
    assert "Traceback" not in checked.stderr.str() + saved.stderr.str()
    assert saved.ret == pytest.ExitCode.USAGE_ERROR
    assert path.read_text() == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_told_before_measuring(gate: Gate, pytester: pytest.Pytester) -> None:
    baselines = pytester.mkdir("baselines")
    baselines.chmod(stat.S_IRUSR | stat.S_IXUSR)

    result = gate("--nsight-save", body=BODY)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert not list((pytester.path / ".nsight").glob("2*/run-*"))


def test_a_damaged_file_of_other_tests_is_named_before_measuring(gate: Gate, pytester: pytest.Pytester) -> None:
    gate("--nsight-save", "--nsight-runs=1", body=BODY)
    _saved(pytester).with_name("test_other.json").write_text("{}")
    before = set((pytester.path / ".nsight").glob("2*/run-*"))

    result = gate()

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: baseline file *test_other.json: format is null*"])
    assert set((pytester.path / ".nsight").glob("2*/run-*")) == before


@pytest.mark.long
def test_fewer_than_three_stored_runs_never_fail_on_time(gate: Gate) -> None:
    gate("--nsight-save", "--nsight-runs=1", body=BODY)

    result = gate("--nsight-band=0.1%", "-v")

    result.assert_outcomes(passed=2)
    assert "REGRESSION" not in result.stdout.str()


def test_a_reason_is_stored_with_each_run_that_was_saved(gate: Gate, pytester: pytest.Pytester) -> None:
    gate("--nsight-save", "--nsight-runs=1", body=BODY)
    gate("--nsight-save", "--nsight-runs=1", "--nsight-reason", " exp is\nexact now ")

    runs = read_file(_saved(pytester))
    assert runs
    assert {tuple(run.reason for run in stored) for stored in runs.values()} == {("", "exp is exact now")}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--nsight-reason=x"], "*give it with --nsight-save*"),
        (["--nsight-save", "--nsight-reason="], "*--nsight-reason is empty*"),
        (["--nsight-save", "--nsight-reason=a\x1b[31mb"], "*give text without control characters*"),
        (["--nsight-save", "--nsight-reason=" + 501 * "x"], "*has 501 characters; give at most 500*"),
    ],
)
def test_a_reason_that_makes_no_sense_is_refused(gate: Gate, arguments: list[str], message: str) -> None:
    result = gate(*arguments, body="")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])


@pytest.mark.parametrize(("threshold", "is_poor"), [("-1.0", True), ("2.0", False)])
def test_a_save_says_that_other_programs_had_the_cpu(
    gate: Gate, pytester: pytest.Pytester, threshold: str, is_poor: bool
) -> None:
    """The threshold stands in for the load: no test may depend on what else this machine does."""
    pytester.makeconftest(f"import pytest_nsight.judge.environment_checks as c; c.LOST_SHARE = {threshold}")
    body = """
@pytest.mark.nsight
@pytest.mark.parametrize("p", [1], ids=["first" + 4000 * "x" + "last"])
def test_one(nsight, p):
    nsight(square, torch.ones(64, 64))
"""

    result = gate("--nsight-save", "--nsight-runs=1", "--nsight-markdown=nsight.md", body=body)

    assert result.ret == 0
    result.stdout.fnmatch_lines(["nsight: report written: nsight.md"])
    poor = r"poor baseline of 1 case \(test_one\W+first[x.]{95,105}last\W+ other programs"
    for text in (result.stdout.str(), (pytester.path / "nsight.md").read_text()):
        said = " ".join(text.split())
        assert bool(re.search(poor, said)) == is_poor
        assert ("other programs had the CPU in " in said) == is_poor
        assert ("save again when the machine is idle" in said) == is_poor


@pytest.mark.long
def test_a_kept_session_names_the_command_that_shows_a_run_of_it(gate: Gate, pytester: pytest.Pytester) -> None:
    body = "@pytest.mark.nsight\ndef test_one(nsight):\n    nsight(square, torch.ones(64, 64))\n"

    kept = gate("--nsight-keep", body=body)
    other = gate()

    (line,) = [line for line in kept.outlines if line.startswith("nsight: session kept")]
    command = line.partition(": pytest-nsight ")[2].split()
    shown = pytester.run(sys.executable, "-m", "pytest_nsight.cli", *command)
    assert command[0] == "show"
    assert shown.ret == 0, shown.stderr.str()
    assert "operator" in shown.stdout.str()
    assert "session kept" not in other.stdout.str()


@pytest.mark.long
def test_of_an_interrupted_save_the_runs_that_came_to_their_end_can_be_saved(
    gate: Gate, pytester: pytest.Pytester
) -> None:
    assert gate("--nsight-save", "--nsight-runs=2", "--nsight-keep", body=BODY).ret == pytest.ExitCode.OK
    (session,) = (pytester.path / ".nsight").glob("2*")
    shutil.rmtree(pytester.path / "baselines")
    # What an interrupt of the second run leaves: its worker's folder is marked.
    (session / "run-002/interrupted").touch()

    saved = gate("--nsight-save", f"--nsight-replay={session}", body=BODY)

    assert saved.ret == pytest.ExitCode.OK, saved.stdout.str()
    assert {len(runs) for runs in read_file(_saved(pytester)).values()} == {1}

    (session / "run-001/interrupted").touch()
    refused = gate("--nsight-save", f"--nsight-replay={session}", body=BODY)

    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    assert "no run of " in refused.stdout.str() + refused.stderr.str()
    assert "measure again with --nsight --nsight-save" in refused.stdout.str() + refused.stderr.str()


@pytest.mark.long
def test_a_case_whose_save_failed_is_named_by_the_next_check_until_it_is_stored(
    gate: Gate, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = """
@pytest.mark.nsight
@pytest.mark.parametrize("width", [8, 16])
def test_op(nsight, width):
    assert width == 8 or not os.environ.get("BROKEN"), "sixteen is too wide"
    nsight(square, torch.ones(width))
"""
    monkeypatch.setenv("BROKEN", "1")
    save = gate("--nsight-save", "--nsight-runs=1", body=body)
    assert save.ret == 1
    (path,) = pytester.path.glob("baselines/*/nsight_failed_saves.jsonl")
    said = " ".join(save.stdout.str().split())
    assert (
        f"not saved: test_case.py::test_op[16]; the next check says so, by {path.relative_to(pytester.path)}"
        in said
    )
    monkeypatch.delenv("BROKEN")

    checked = gate("--nsight-strict", "--nsight-collector=torch")
    assert checked.ret == 1
    (sentence,) = re.findall(r"test_op\[16\]: (no baseline.*?mended)", " ".join(checked.stdout.str().split()))
    assert re.fullmatch(
        r"no baseline: its save of \d{4}-\d\d-\d\d failed \(AssertionError: sixteen is too wide.*\); "
        r"save 5 runs with --nsight-save once that is mended",
        sentence,
    )

    assert gate("--nsight-save", "--nsight-runs=1").ret == 0
    assert not path.exists()
    monkeypatch.setenv("BROKEN", "1")
    assert gate("--nsight-save", "--nsight-runs=1").ret == 1
    monkeypatch.delenv("BROKEN")

    said = " ".join(gate().stdout.str().split())
    assert "1 case (test_op[16]) is judged by runs that an older save stored: its save of" in said

    pytester.path.joinpath("test_case.py").write_text(
        pytester.path.joinpath("test_case.py").read_text().replace("[8, 16]", "[8]")
    )
    assert gate("--nsight-save", "--nsight-runs=1").ret == 0
    assert not path.exists(), "a case that is gone needs no save"
