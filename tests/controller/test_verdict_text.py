"""A failing verdict among pytest's failures: as wide as the terminal, with commands that can be copied."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pytest_nsight.controller.outcomes import VerdictText
from pytest_nsight.report.next_steps import plan_next_steps
from tests.report.test_html_report import with_baseline


@pytest.mark.parametrize("width", [60, 80, 200])
def test_a_failure_is_as_wide_as_the_terminal_but_for_its_commands(width: int) -> None:
    result = with_baseline()
    failing = [verdict for verdict in result.verdicts if verdict.kind.fails]
    steps = plan_next_steps(failing, result)
    assert steps is not None
    item: Any = SimpleNamespace(path="test_x.py", location=("test_x.py", 1, "test_x"))
    text = VerdictText(failing, item, steps.lines)
    lines: list[str] = []

    text.toterminal(SimpleNamespace(fullwidth=width, line=lambda line, **_: lines.append(line)))

    commands = steps.lines[1:]
    assert lines[-len(commands) :] == commands
    assert max(map(len, lines[: -len(commands)])) <= width
    assert " ".join(" ".join(lines).split()) == " ".join(str(text).split()), "nothing is lost"
    # As --tb=line prints it.
    assert str(text.reprcrash).startswith("test_x.py:2: ")
