"""The arrows of docs/architecture.md: who may import whom, in which process, and how long a module may get."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "pytest_nsight"

LAYERS: tuple[tuple[str, ...], ...] = (
    ("model",),
    ("protocol", "processes"),
    ("recorders",),
    ("collectors", "trace", "judge", "baselines"),
    ("report", "gate", "analysis"),
    ("calibrate", "compare", "history", "setup_repository", "show", "worker"),
    ("supervisor", "controller"),
    ("api", "hookspecs"),
    ("plugin", "cli"),
    ("__main__",),
)
"""Every part of the package, lowest first: a part imports parts of lower layers, and none of its own layer."""

LAYER = {part: number for number, layer in enumerate(LAYERS) for part in layer}

SEPARATE = (
    ("controller", "worker"),
    ("controller", "recorders"),
    ("supervisor", "worker"),
    ("supervisor", "recorders"),
    ("supervisor", "controller"),
)
"""Parts that run in different processes: what passes between them is in protocol/."""

PYTEST = {"plugin", "hookspecs", "controller", "worker", "protocol.mark"}
"""What may import pytest; all else works without it."""

MOST_LINES = 300
FEWEST_LINES = 45
MOST_LOOSE = 5
NAMED_BY_PYTHON = {"__init__.py", "__main__.py"}


@cache
def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def name_of(path: Path) -> str:
    """The module's dotted name inside the package, "" for the package itself."""
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix("__init__").removesuffix(".")


def part_of(name: str) -> str:
    return name.partition(".")[0]


@cache
def imported(path: Path) -> frozenset[str]:
    """Absolute names of all modules that a module imports, anywhere in its text."""
    names: set[str] = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: relative import"
            names.update((str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)))
    return frozenset(names)


@cache
def own_names() -> frozenset[str]:
    return frozenset(name_of(module) for module in modules()) - {""}


def imported_modules(path: Path) -> set[str]:
    """Names of the package's own modules that a module imports."""
    names = (name.removeprefix("pytest_nsight.") for name in imported(path) if name.startswith("pytest_nsight."))
    return {name for name in names if name in own_names()}


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_imports_point_to_lower_layers(path: Path) -> None:
    part = part_of(name_of(path))
    if not part:
        assert imported_modules(path) <= {"model.errors", "model"}
        return

    wrong = {
        name for name in imported_modules(path) if part_of(name) != part and LAYER[part_of(name)] >= LAYER[part]
    }

    assert not wrong


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_what_runs_in_another_process_is_not_imported(path: Path) -> None:
    part = part_of(name_of(path))
    others = {two if part == one else one for one, two in SEPARATE if part in (one, two)}

    assert not {name for name in imported_modules(path) if part_of(name) in others}


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_a_worker_knows_a_collector_by_its_interface_and_its_name_alone(path: Path) -> None:
    if part_of(name_of(path)) != "worker":
        return

    assert {name for name in imported_modules(path) if part_of(name) in ("collectors", "recorders")} <= {
        "collectors",
        "collectors.base",
        "collectors.lookup",
    }


def test_no_modules_import_one_another_in_a_circle() -> None:
    arrows = {name_of(path): imported_modules(path) - {name_of(path)} for path in modules()}
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " -> ".join((*trail[trail.index(name) :], name))
        if name not in done:
            for other in sorted(arrows[name]):
                visit(other, (*trail, name))
            done.add(name)

    for name in arrows:
        visit(name, ())


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_few_know_pytest_and_only_the_nsys_folder_knows_sqlite(path: Path) -> None:
    packages = {name.partition(".")[0] for name in imported(path)}
    name = name_of(path)

    if name not in PYTEST and part_of(name) not in PYTEST:
        assert not packages & {"pytest", "_pytest"}
    if not name.startswith("collectors.nsys"):
        assert "sqlite3" not in packages


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_a_module_is_neither_too_long_nor_a_crumb(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())

    assert lines <= MOST_LINES
    if path.name not in NAMED_BY_PYTHON:
        assert lines >= FEWEST_LINES


def test_the_top_of_the_package_tells_the_story() -> None:
    loose = [path.name for path in PACKAGE.glob("*.py") if path.name not in NAMED_BY_PYTHON]
    folders = [path for path in PACKAGE.iterdir() if (path / "__init__.py").exists()]

    assert len(loose) <= MOST_LOOSE
    for folder in folders:
        text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
        assert "process" in text, f"{folder.name}/__init__.py does not say which process runs it"


def test_no_file_name_and_no_class_name_stands_twice() -> None:
    files = Counter(path.name for path in modules() if path.name != "__init__.py")
    classes = Counter(
        node.name.lstrip("_")
        for path in modules()
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ClassDef)
    )

    assert [name for name, count in (files + classes).items() if count > 1] == []


def test_every_part_has_a_layer() -> None:
    parts = {part_of(name_of(path)) for path in modules()} - {""}

    assert parts == set(LAYER)
    assert "pytest_nsight" in sys.modules
