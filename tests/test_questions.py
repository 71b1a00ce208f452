"""docs/questions.md: every command of its tables runs, and prints the line that the table gives as its answer."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from pytest_nsight.cli import main

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "questions.md").read_text(encoding="utf-8")
PLACES = dict(re.findall(r"^\$ (\w)=(\S+)", PAGE, re.MULTILINE))
ROWS = [
    (int(number), command, answer)
    for number, command, answer in re.findall(r"^\| (\d+) \| .* \| `([^`]+)` \| `([^`]+)` \|$", PAGE, re.MULTILINE)
]
SHOWN: dict[str, str] = {}
"""Command -> its output: several questions share one."""

pytestmark = pytest.mark.slow


def test_there_are_33_questions_and_each_recording_is_used() -> None:
    assert [number for number, _, _ in ROWS] == list(range(1, 34))
    assert {name for _, command, _ in ROWS for name in re.findall(r"\$(\w)", command)} == set(PLACES)


@pytest.mark.parametrize(("number", "command", "answer"), ROWS, ids=[f"{number}" for number, _, _ in ROWS])
def test_the_command_gives_the_answer(
    number: int,
    command: str,
    answer: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    if command not in SHOWN:
        monkeypatch.setenv("COLUMNS", "120")
        words = [
            re.sub(r"^\$(\w)$", lambda match: str(ROOT / PLACES[match[1]]), word) for word in shlex.split(command)
        ]
        monkeypatch.chdir(tmp_path)
        code = main(words)
        SHOWN[command] = " ".join(capsys.readouterr().out.split())
        assert code in (0, 1), "compare exits with 1 on a regression"

    assert " ".join(answer.split()) in SHOWN[command]
