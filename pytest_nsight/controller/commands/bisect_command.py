"""`pytest-nsight bisect GOOD BAD -k CASE`: starts the pytest that searches, prints the answer and writes it."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_nsight.baselines.atomic_files import explaining
from pytest_nsight.controller.bisection.bisect_plugin import BisectPlugin, BisectRequest
from pytest_nsight.controller.pytest_input import run_pytest
from pytest_nsight.model.errors import NsightError, UsageError
from pytest_nsight.report.bisection_report import render_json, render_text


def bisect(request: BisectRequest, arguments: Sequence[str], width: int) -> tuple[str, int]:
    """Searches for the first bad commit.

    Args:
        request: what to search.
        arguments: for pytest: where the case is, and options of the gate.
        width: columns of the terminal.

    Returns:
        The answer, and 0 if it is one commit, 1 if several may be the first bad one.

    Raises:
        NsightError: there is nothing to search, or GOOD or BAD cannot be measured.
        KeyboardInterrupt: the user has ended it; pytest's output says what was found so far.
    """
    if request.json is not None and not request.json.absolute().parent.is_dir():
        raise UsageError(
            f"bisect: --json {request.json}: there is no such folder; make it, or choose another place"
        )
    plugin = BisectPlugin(request)
    # The plugin decides what CASE selects. An empty -k overrides one of the ini file, in the workers, too.
    selected = ["-k", ""] if request.case else []
    code = run_pytest(["--nsight", *selected, *arguments], plugin)
    if plugin.error is not None:
        raise plugin.error
    found = plugin.found
    if plugin.interrupt is not None:
        raise plugin.interrupt
    if found is None:
        raise UsageError(f"bisect: nothing was measured: pytest ended with exit code {code}, see above")
    text = f"\n{render_text(found, width)}"
    if request.json is not None:
        try:
            with explaining("write", request.json, "choose another place with --json"):
                request.json.write_text(render_json(found), encoding="utf-8")
        except NsightError:
            # The search took minutes or hours: what it found must not be lost with the file.
            print(text, flush=True)  # noqa: T201
            raise
    return text, 0 if found.first_bad is not None else 1
