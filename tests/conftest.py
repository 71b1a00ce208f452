"""What all tests share."""

from __future__ import annotations

import importlib.util
import signal
from collections.abc import Iterator

import pytest

from tests.processes.marked_processes import unique_token

# What a shell starts in the background ignores SIGINT, and so would every process that these tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_NEED_TORCH = (
    "gpu/foreign",
    "kernels",
    "spoiled/test_spoil.py",
    "validation/test_analysis.py",
    "validation/test_context.py",
    "validation/test_forced_looks.py",
    "validation/test_study_document.py",
    "validation/test_suite.py",
    "worker/test_canaries.py",
)
"""What imports torch at its top. The package does without torch, and one job of the workflow tests it so."""

collect_ignore = [] if importlib.util.find_spec("torch") else list(_NEED_TORCH)


def pytest_report_header() -> list[str]:
    return [f"left out without torch: {', '.join(collect_ignore)}"] if collect_ignore else []


@pytest.fixture
def token() -> Iterator[str]:
    """What marks the processes of a test."""
    with unique_token() as value:
        yield value
