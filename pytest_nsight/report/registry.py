"""Writes reports where they were asked for; one that cannot be written never takes the others with it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from pytest_nsight.model.verdicts import SessionResult
from pytest_nsight.report import ci_formats as github
from pytest_nsight.report import markdown
from pytest_nsight.report import pytest_benchmark_json as json_file


def publish(
    result: SessionResult,
    *,
    result_file: Path | None = None,
    json: Path | None = None,
    markdown_file: Path | None = None,
    step_summary: Path | None = None,
) -> tuple[str, ...]:
    """Renders and writes.

    Args:
        result: what to report.
        result_file: the session's own copy of the JSON report.
        json: file for the JSON report.
        markdown_file: file for the Markdown report.
        step_summary: file that GitHub shows on a job's page; Markdown is appended to it.

    Returns:
        A sentence for each report that could not be written.
    """
    jobs: list[tuple[Path | None, Callable[[SessionResult], str], str]] = [
        (result_file, json_file.render, "w"),
        (json, json_file.render, "w"),
        (markdown_file, markdown.render, "w"),
        (step_summary, markdown.render, "a"),
    ]
    troubles = []
    for path, render, mode in jobs:
        if path is None:
            continue
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open(mode, encoding="utf-8") as file:
                file.write(render(result))
        except OSError as error:
            troubles.append(f"{path} was not written ({os.strerror(error.errno or 0)}); choose another place")
    return tuple(troubles)


def step_summary_path() -> Path | None:
    """Where GitHub Actions wants a job's summary; None elsewhere."""
    name = os.environ.get("GITHUB_STEP_SUMMARY")
    return Path(name) if name else None


def workflow_commands(result: SessionResult) -> str:
    """Workflow commands that mark failing tests on GitHub; "" elsewhere."""
    return github.workflow_annotations(result) if os.environ.get("GITHUB_ACTIONS") == "true" else ""
