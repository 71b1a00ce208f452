"""What surrounds a case of the validation study: its device, its share of more work, the negative controls.

NSIGHT_CONTROL=hot burns the GPU before each case, idle leaves it alone for as long, no-warmup measures the first
call, reversed turns the order round.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Iterator

import pytest
import torch

CONTROLS = ("hot", "idle", "no-warmup", "reversed")
_SURROUNDING_S = 0.5


def pytest_configure() -> None:
    if control() not in ("", *CONTROLS):
        raise pytest.UsageError(f"NSIGHT_CONTROL is {control()!r}; choose one of {', '.join(CONTROLS)}")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # A worker gets its order from its assignment.
    if control() == "reversed" and not config.pluginmanager.hasplugin("nsight-worker"):
        items.reverse()


def control() -> str:
    return os.environ.get("NSIGHT_CONTROL", "")


@pytest.fixture(scope="session")
def device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture
def run_id(request: pytest.FixtureRequest) -> str:
    """The run that this process is; "" outside of one."""
    worker = request.config.pluginmanager.get_plugin("nsight-worker")
    return worker.run_id if worker else ""


@pytest.fixture
def warmup() -> int | None:
    return 0 if control() == "no-warmup" else None


@pytest.fixture(autouse=True)
def _surroundings(device: str) -> Iterator[None]:
    if device == "cuda" and control() == "hot":
        x = torch.rand(4096, 4096, device="cuda", dtype=torch.bfloat16)
        began_s = time.monotonic()
        while time.monotonic() - began_s < _SURROUNDING_S:
            for _ in range(20):
                torch.matmul(x, x)
            torch.cuda.synchronize()
        del x
    elif control() == "idle":
        time.sleep(_SURROUNDING_S)
    yield
    if device == "cuda":
        gc.collect()
        torch.cuda.empty_cache()
