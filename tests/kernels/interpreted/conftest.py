from __future__ import annotations

import pytest

from kernels import _triton


@pytest.fixture(autouse=True)
def _few_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small shapes take the path of large ones, where a program works on several rows."""
    monkeypatch.setattr(_triton, "_PROGRAMS_WANTED", 3)
