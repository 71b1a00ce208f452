"""What all tests share."""

from __future__ import annotations

import signal

import pytest

# What a shell starts in the background ignores SIGINT, and so would every process that these tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_NSYS_MODULES = {"test_ranges.py", "test_nsys.py", "test_nsys_workers.py", "test_show.py", "test_standby.py"}

_LONG_MODULES = {
    "test_against.py",
    "test_canaries.py",
    "test_nsys_workers.py",
    "test_races.py",
    "test_ranks.py",
    "test_standby.py",
    "test_suite.py",
    "test_analysis.py",
    "test_work.py",
    "test_workers.py",
}
"""Their slow tests run whole sessions one after the other, half an hour in all on two cores."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests that start nsys in one process; set the longest of the slow ones apart.

    Two sessions of nsys 2022.4 that start at one moment can end each other.
    """
    for item in items:
        if "nsys" in item.path.parts or item.path.name in _NSYS_MODULES:
            item.add_marker(pytest.mark.xdist_group("nsys"))
        if item.path.name in _LONG_MODULES and item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.long)
