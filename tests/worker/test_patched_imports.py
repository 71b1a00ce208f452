"""A module is changed before anybody has taken a name from it."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from pytest_nsight.worker.patched_imports import patch_imports


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A package whose `__init__` takes a function from its module, as FlashInfer does."""
    folder = tmp_path / "patched_example"
    folder.mkdir()
    (folder / "__init__.py").write_text("from .timing import measure\n")
    (folder / "timing.py").write_text("imports = []\n\ndef measure():\n    return 'theirs'\n")
    monkeypatch.syspath_prepend(tmp_path)
    finders = list(sys.meta_path)
    yield "patched_example"
    sys.meta_path[:] = finders
    for name in [name for name in sys.modules if name.startswith("patched_example")]:
        del sys.modules[name]


def change(module: ModuleType) -> None:
    vars(module)["measure"] = lambda: "ours"
    vars(module)["imports"].append(module.__name__)


def test_who_takes_a_name_during_the_import_gets_the_new_one(package: str) -> None:
    patch_imports({f"{package}.timing": change})

    module = importlib.import_module(package)

    assert module.measure() == "ours"
    assert module.timing.imports == ["patched_example.timing"]


def test_a_module_that_is_there_already_is_changed_at_once_and_once(package: str) -> None:
    module = importlib.import_module(f"{package}.timing")

    patch_imports({f"{package}.timing": change})
    again = importlib.import_module(f"{package}.timing")

    assert again.measure() == "ours"
    assert module.imports == ["patched_example.timing"]


def test_other_modules_and_the_source_of_a_changed_one_stay_what_they_are(package: str) -> None:
    patch_imports({f"{package}.timing": change, "no_such_module": change})

    module = importlib.import_module(package)

    assert "def measure" in inspect.getsource(module.timing)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("no_such_module")
