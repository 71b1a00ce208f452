"""What all tests share."""

from __future__ import annotations

import pytest

_NSYS_MODULES = {"test_ranges.py", "test_nsys.py", "test_show.py"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests that start nsys in one process: two that start at one moment can end each other (2022.4)."""
    for item in items:
        if "nsys" in item.path.parts or item.path.name in _NSYS_MODULES:
            item.add_marker(pytest.mark.xdist_group("nsys"))
