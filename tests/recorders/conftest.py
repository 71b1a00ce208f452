from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pytest_nsight.recorders.cupti.library import VARIABLE
from tests.recorders.fake_cupti import FakeDevice, compile_fake


@pytest.fixture(scope="session")
def compiled_cupti(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_fake(tmp_path_factory.mktemp("cupti"))


@pytest.fixture
def device(compiled_cupti: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    """A device that the CUPTI of this process records; a library of its own, so that its state is new."""
    path = Path(shutil.copy(compiled_cupti, tmp_path / "libcupti_of_test.so"))
    monkeypatch.setenv(VARIABLE, str(path))
    return FakeDevice(path)
