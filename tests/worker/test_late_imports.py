"""What a case imports late is recorded once, unless a variable was set for it, and imported early elsewhere."""

from __future__ import annotations

import importlib
import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_nsight.protocol.journal import Journal
from pytest_nsight.worker import late_imports
from pytest_nsight.worker.late_imports import LateImports, import_early

NAMES = ("heavy.one", "heavy.two")


@pytest.fixture(autouse=True)
def heavy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package whose modules are slow to import."""
    (tmp_path / "heavy").mkdir()
    for name in ("__init__", "one", "two"):
        (tmp_path / f"heavy/{name}.py").write_text("import warnings\nwarnings.warn('imported', stacklevel=1)\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(late_imports, "SLOW_IMPORTS", NAMES)
    meta_path = list(sys.meta_path)
    yield
    sys.meta_path[:] = meta_path
    for name in ("heavy", *NAMES):
        sys.modules.pop(name, None)


def watch(folder: Path) -> None:
    LateImports(Journal(folder / "journal")).watch()


def recorded(folder: Path) -> list[str]:
    events = [json.loads(line) for line in (folder / "journal").read_text().splitlines()]
    assert all(event["event"] == "late_import" for event in events)
    return [event["module"] for event in events]


@pytest.mark.filterwarnings("ignore")
def test_an_import_is_recorded_once_and_not_what_the_collection_has_imported(tmp_path: Path) -> None:
    importlib.import_module("heavy.one")
    watch(tmp_path)

    importlib.import_module("heavy.one")
    importlib.import_module("heavy.two")
    sys.modules.pop("heavy.two")
    importlib.import_module("heavy.two")

    assert recorded(tmp_path) == ["heavy.two"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("variable", "expected"), [("TORCHINDUCTOR_MAX_AUTOTUNE", []), ("CUDA_MODULE_LOADING", ["heavy.one"])]
)
def test_a_variable_of_the_compilers_that_a_test_has_set_keeps_others_from_importing_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, expected: list[str]
) -> None:
    watch(tmp_path)
    monkeypatch.setenv(variable, "1")

    importlib.import_module("heavy.one")

    assert recorded(tmp_path) == expected


def test_only_a_known_module_of_an_imported_package_is_imported_early_without_a_warning(tmp_path: Path) -> None:
    (tmp_path / "heavy/three.py").write_text("")

    import_early("heavy.one")
    assert "heavy" not in sys.modules
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module("heavy")
    import_early("heavy.three")
    import_early("heavy.one")

    assert "heavy.three" not in sys.modules
    assert "heavy.one" in sys.modules


@pytest.mark.filterwarnings("ignore")
def test_a_module_that_cannot_be_imported_is_left_to_the_test(tmp_path: Path) -> None:
    (tmp_path / "heavy/one.py").write_text("raise RuntimeError('not here')\n")
    importlib.import_module("heavy")

    import_early("heavy.one")

    assert "heavy.one" not in sys.modules
