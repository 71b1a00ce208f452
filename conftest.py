"""What the tests of kernels and the perf tests share."""

from __future__ import annotations

import random

import pytest

pytest_plugins = ("pytester",)


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """A seed that is new in every run; a failure shows it."""
    value = random.SystemRandom().randrange(2**31)
    request.node.add_report_section("setup", "seed", f"random inputs come from seed {value}")
    return value
