"""docs/questions.md: every command of the page runs, and prints the lines that the page gives as its answer."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from pytest_nsight.cli import main

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "questions.md").read_text(encoding="utf-8")
PLACES = dict(re.findall(r"^\$ (\w)=(\S+)", PAGE, re.MULTILINE))
ANSWERS = [
    (number, command, answer)
    for number, command, answer in re.findall(
        r"^(?:\*\*(\d+)\. )?[^\n`]* `pytest-nsight ([^`]+)`\n\n```text\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL
    )
]
SHOWN: dict[str, list[str]] = {}
"""Command -> the lines of its output: several questions share one."""

pytestmark = pytest.mark.slow


def test_there_are_33_questions_and_each_recording_is_used() -> None:
    assert [number for number, _, _ in ANSWERS if number] == [str(number) for number in range(1, 34)]
    assert {name for _, command, _ in ANSWERS for name in re.findall(r"\$(\w)", command)} == set(PLACES)


@pytest.mark.parametrize(
    ("number", "command", "answer"), ANSWERS, ids=[number or "more" for number, _, _ in ANSWERS]
)
def test_the_command_gives_the_answer(
    number: str,
    command: str,
    answer: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    if command not in SHOWN:
        monkeypatch.setenv("COLUMNS", "100")
        words = [
            re.sub(r"^\$(\w)$", lambda match: str(ROOT / PLACES[match[1]]), word) for word in shlex.split(command)
        ]
        monkeypatch.chdir(tmp_path)
        code = main(words)
        SHOWN[command] = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
        assert code in (0, 1), "compare exits with 1 on a regression"

    # In their order: a row stands below the title and the column names that the page gives it.
    printed = iter(SHOWN[command])
    assert [line for line in answer.splitlines() if line not in printed] == []
