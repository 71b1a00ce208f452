"""What all tests share."""

from __future__ import annotations

import fcntl
import importlib.util
import re
import signal
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

# A pytest inside this process forgets what it imports, and numpy and scipy cannot be imported twice.
import pytest_nsight.controller.controller_plugin  # noqa: F401
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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Runs the tests of an xdist_group one at a time on a machine, whatever else tests there.

    With pytest 9.2, which takes no other node ids from a plugin, pytest-xdist 3.8 sends a group to all workers.
    """
    groups = sorted({str(mark.args[0]) for mark in item.iter_markers("xdist_group")})
    with ExitStack() as stack:
        for group in groups:
            path = Path(tempfile.gettempdir(), f"pytest-nsight-tests-{re.sub(r'[^a-z0-9]', '-', group)}.lock")
            fcntl.flock(stack.enter_context(path.open("w")), fcntl.LOCK_EX)
        return (yield)


@pytest.fixture
def token() -> Iterator[str]:
    """What marks the processes of a test."""
    with unique_token() as value:
        yield value
