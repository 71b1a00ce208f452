"""Sessions some of whose records cannot be read: an importer fails by chance, and then nothing is lost."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SOUND = """
@pytest.mark.nsight
@pytest.mark.parametrize("number", range(4))
def test_sound(number):
    square(torch.ones(2000 + number))
"""

PLUGINS = Path(__file__).parents[1] / "fakes/plugins"


@pytest.fixture
def unreadable(
    gate: Callable[..., pytest.RunResult], pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., pytest.RunResult]:
    """Runs four sound tests, some of whose records cannot be read; see tests/fakes/plugins/unread.py."""
    monkeypatch.setenv("PYTHONPATH", str(PLUGINS), prepend=os.pathsep)

    def run(unread: str, *options: str) -> pytest.RunResult:
        monkeypatch.setenv("UNREAD", unread)
        return gate("-p", "unread", "--nsight-collector=torch", *options, body=SOUND)

    return run


NOTE = "the record of a process could not be read, and its tests were measured again: The importer failed."


def test_a_record_that_cannot_be_read_once_loses_nothing(
    unreadable: Callable[..., pytest.RunResult], gate: Callable[..., pytest.RunResult], pytester: pytest.Pytester
) -> None:
    live = unreadable("1", "--nsight-save", "--nsight-runs=3", "--nsight-keep")
    (session,) = pytester.path.glob(".nsight/2*")
    replayed = gate("--nsight-save", "--nsight-replay", session)

    assert NOTE in " ".join(live.stdout.str().split())
    for result in (live, replayed):
        assert result.ret == 0, result.stdout.str()
        assert "4 verdicts: 4 saved" in result.stdout.str()
        assert ", 3 runs" in result.stdout.str()


@pytest.mark.long
def test_a_record_that_cannot_be_read_twice_is_measured_in_halves_and_a_replay_does_the_same(
    unreadable: Callable[..., pytest.RunResult], gate: Callable[..., pytest.RunResult], pytester: pytest.Pytester
) -> None:
    live = unreadable("1 2", "--nsight-save", "--nsight-runs=2", "--nsight-keep")
    (session,) = pytester.path.glob(".nsight/2*")
    replayed = gate("--nsight-save", "--nsight-replay", session)

    for result in (live, replayed):
        assert result.ret == 0, result.stdout.str()
        assert "4 verdicts: 4 saved" in result.stdout.str()
        assert "the record of its process could not be read: The importer failed." in result.stdout.str()
    assert len(list(session.glob("run-*"))) == 5


@pytest.mark.long
def test_a_case_that_makes_every_record_unreadable_fails_alone(
    unreadable: Callable[..., pytest.RunResult],
) -> None:
    result = unreadable("test_sound[2]", "--nsight-save", "--nsight-runs=2", "-v")

    result.assert_outcomes(passed=3, failed=1)
    text = " ".join(result.stdout.str().split())
    assert "test_sound[2] FAILED" in text
    assert "the record of its process could not be read: The importer failed." in text


@pytest.mark.parametrize(("options", "runs"), [((), 8), (("-p", "two_gpus", "-n", "2"), 2)])
def test_where_no_record_can_be_read_the_session_ends_with_the_reason(
    unreadable: Callable[..., pytest.RunResult], pytester: pytest.Pytester, options: tuple[str, ...], runs: int
) -> None:
    result = unreadable("test_sound", *options)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "The importer failed." in result.stderr.str() + result.stdout.str()
    assert len(list(pytester.path.glob(".nsight/2*/run-*"))) == runs


UNWRITTEN = """
@pytest.mark.nsight
def test_unwritten(nsight, monkeypatch):
    def refuse(*_, **__):
        raise OSError("no room for the record")
    monkeypatch.setattr("gzip.open", refuse)
    nsight(square, torch.ones(8))
"""


@pytest.mark.parametrize("options", [(), ("-p", "two_gpus", "-n", "2")])
def test_where_a_record_could_not_be_written_the_reason_is_that_of_the_test(
    gate: Callable[..., pytest.RunResult], monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(PLUGINS), prepend=os.pathsep)

    result = gate("--nsight-collector=torch", *options, body=UNWRITTEN)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    said = result.stderr.str() + result.stdout.str()
    assert "torch.profiler left no trace in" in said
    assert "test_case.py::test_unwritten failed there: OSError: no room for the record" in said
