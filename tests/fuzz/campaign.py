"""Tries inputs made from random seeds: a few, or for 600 s with `PYTEST_NSIGHT_FUZZ_S=600`."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable

import pytest

SECONDS = float(os.environ.get("PYTEST_NSIGHT_FUZZ_S", "0"))
LEAST = 10


def fuzz(try_seed: Callable[[int], bool], capsys: pytest.CaptureFixture[str]) -> None:
    """Calls `try_seed`, which says whether its input was read. Prints the seed of a failure, and the numbers."""
    generator = random.SystemRandom()
    deadline_s = time.monotonic() + SECONDS
    tried = read = 0
    while tried < LEAST or time.monotonic() < deadline_s:
        seed = generator.getrandbits(48)
        try:
            read += try_seed(seed)
        except BaseException:
            print(f"seed {seed}")
            raise
        tried += 1
    with capsys.disabled():
        print(f"\n{tried} inputs, {read} of them read")
