"""What surrounds a case: the device, the prologue, and a log of where in its process each case ran.

CONTEXT_LOG names a file that gets one JSON line per case: run, place in its process, predecessor.
"""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from benchmarks.context.suite import prologue

_ran: list[str] = []


def pytest_configure() -> None:
    try:
        prologue.chosen()
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None


@pytest.fixture(scope="session")
def device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture
def prologues() -> frozenset[str]:
    return prologue.chosen()


@pytest.fixture(autouse=True)
def _surroundings(request: pytest.FixtureRequest, device: str, prologues: frozenset[str]) -> Iterator[None]:
    prologue.run(device, prologues)
    _log(request, device)
    yield
    _ran.append(request.node.nodeid)
    gc.collect()


def _log(request: pytest.FixtureRequest, device: str) -> None:
    worker = request.config.pluginmanager.get_plugin("nsight-worker")
    path = os.environ.get("CONTEXT_LOG")
    if not worker or not path:
        return
    entry = {
        "run": worker.run_id,
        "case": request.node.nodeid,
        "place": len(_ran),
        "predecessor": _ran[-1] if _ran else "",
        "reserved_bytes": torch.cuda.memory_reserved() if device == "cuda" else 0,
    }
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")
