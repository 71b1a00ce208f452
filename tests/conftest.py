"""What all tests share."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests.processes.marked_processes import unique_token

# What a shell starts in the background ignores SIGINT, and so would every process that these tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def token() -> Iterator[str]:
    """What marks the processes of a test."""
    with unique_token() as value:
        yield value
