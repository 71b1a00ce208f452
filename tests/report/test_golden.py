"""Each report of the canned session is, to the letter, the file under golden/ that a person has looked at.

PYTEST_NSIGHT_REWRITE_GOLDEN=1 writes the files anew; the tests then skip, and `git diff` shows what changed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_nsight.report import ci_formats, markdown, pytest_benchmark_json, terminal
from tests.report import canned

FOLDER = Path(__file__).parent / "golden"


@pytest.mark.parametrize(
    ("name", "render"),
    [
        ("full_80.txt", lambda: terminal.render(canned.full(), 80)),
        ("full_80_unicode.txt", lambda: terminal.render(canned.full(), 80, unicode=True)),
        ("full_140.txt", lambda: terminal.render(canned.full(), 140)),
        ("full_140_verbose.txt", lambda: terminal.render(canned.full(strict=True), 140, verbose=True)),
        ("full_100_color.txt", lambda: terminal.render(canned.full(), 100, unicode=True, color=True)),
        ("quiet_80.txt", lambda: terminal.render(canned.quiet(), 80)),
        ("saved_80.txt", lambda: terminal.render(canned.saved_only(), 80)),
        ("full.md", lambda: markdown.render(canned.full())),
        ("full_8_rows.md", lambda: markdown.render(canned.full(), rows=8)),
        ("full.json", lambda: pytest_benchmark_json.render(canned.full())),
        ("worked_80.txt", lambda: terminal.render(canned.worked(), 80)),
        ("worked_110.txt", lambda: terminal.render(canned.worked(), 110)),
        ("worked_140_verbose.txt", lambda: terminal.render(canned.worked(), 140, verbose=True)),
        ("worked_unlimited_120.txt", lambda: terminal.render(canned.worked(limits={}), 120)),
        ("worked.md", lambda: markdown.render(canned.worked())),
        ("worked.json", lambda: pytest_benchmark_json.render(canned.worked())),
        ("full_annotations.txt", lambda: ci_formats.workflow_annotations(canned.full())),
    ],
)
def test_the_report_is_the_golden_file(name: str, render: Callable[[], str]) -> None:
    path = FOLDER / name
    text = render()
    if os.environ.get("PYTEST_NSIGHT_REWRITE_GOLDEN") == "1":
        path.write_text(text, encoding="utf-8")
        pytest.skip(f"{name} was written anew")

    assert _round(text) == _round(path.read_text(encoding="utf-8"))


def _round(text: str) -> str:
    """The text with its fractions at twelve digits: versions of Python add up floats in different ways."""
    return re.sub(r"\d+\.\d+(?:e-?\d+)?", lambda number: f"{float(number[0]):.12g}", text)
