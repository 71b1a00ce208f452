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
    """Runs four sound tests; the records of the processes with these numbers cannot be read."""
    monkeypatch.setenv("PYTHONPATH", str(PLUGINS), prepend=os.pathsep)

    def run(numbers: str, *options: str) -> pytest.RunResult:
        monkeypatch.setenv("UNREAD", numbers)
        return gate("-p", "unread", "--nsight-collector=torch", *options, body=SOUND)

    return run


def test_a_record_that_cannot_be_read_once_loses_nothing_and_a_replay_says_the_same(
    unreadable: Callable[..., pytest.RunResult], gate: Callable[..., pytest.RunResult], pytester: pytest.Pytester
) -> None:
    live = unreadable("1", "--nsight-save", "--nsight-runs=2", "--nsight-keep")
    (session,) = pytester.path.glob(".nsight/2*")
    replayed = gate("--nsight-save", "--nsight-replay", session)

    for result in (live, replayed):
        assert result.ret == 0, result.stdout.str()
        assert "4 verdicts: 4 saved" in result.stdout.str()
        assert "note: The importer failed. What it measured was measured again" in result.stdout.str()


def test_where_no_record_can_be_read_the_session_ends_with_the_reason(
    unreadable: Callable[..., pytest.RunResult],
) -> None:
    result = unreadable("0 1 2 3 4 5")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "The importer failed." in result.stderr.str() + result.stdout.str()
