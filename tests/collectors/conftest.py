from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from pytest_nsight.collectors.cupti.library import VARIABLE
from pytest_nsight.collectors.nsys.find import Installation
from tests.collectors.fake_cupti import FakeDevice, compile_fake
from tests.collectors.real import ROOT, require_nsys


@pytest.fixture(scope="session")
def installation() -> Installation:
    return require_nsys()


@pytest.fixture
def plant_nsys():
    """Puts the fake nsys at a path, runnable with this Python wherever it lies."""

    def plant(path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        text = (ROOT / "tests/fakes/nsys").read_text().partition("\n")[2]
        path.write_text(f"#!{sys.executable}\n{text}")
        path.chmod(0o755)
        return path

    return plant


@pytest.fixture
def plant_importer():
    """Puts a program without missing libraries where an importer belongs."""

    def plant(folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        importer = folder / "QdstrmImporter"
        importer.write_bytes(Path("/bin/true").read_bytes())
        importer.chmod(0o755)
        return importer

    return plant


@pytest.fixture
def fake(plant_nsys, tmp_path) -> Installation:
    return Installation(plant_nsys(tmp_path / "fake" / "nsys"), (2025, 3, 2, 0))


@pytest.fixture(scope="session")
def compiled_cupti(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_fake(tmp_path_factory.mktemp("cupti"))


@pytest.fixture
def device(compiled_cupti: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    """A device that the CUPTI of this process records; a library of its own, so that its state is new."""
    path = Path(shutil.copy(compiled_cupti, tmp_path / "libcupti_of_test.so"))
    monkeypatch.setenv(VARIABLE, str(path))
    return FakeDevice(path)
