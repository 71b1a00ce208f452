from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pytest_nsight.collectors.nsys.find import Installation
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
