"""The arrows of docs/architecture.md: who may import whom, and how long a module may get."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "pytest_nsight"

VALUES = {"model", "result", "errors", "units", "roofline", "datasheet", "_version"}
"""What everybody may import."""

STAGES = {
    "trace": set(),
    "collect": {"trace"},
    "measure": {"fixture", "manifest"},
    "judge": set(),
    "baselines": set(),
    "report": set(),
    "summarise": {"manifest", "trace"},
    # Knows the order of the stages it replays, as gate.py does.
    "calibrate": {"baselines", "judge", "report", "trace"},
}
"""Stage -> what else of the package it may import."""

EDGE = {
    "plugin.py",
    "options.py",
    "settings.py",
    "mark.py",
    "controller.py",
    "outcome.py",
    "worker.py",
    "case_worker.py",
    "rank_worker.py",
    "benchmark_worker.py",
    "against/visitor.py",
}
"""What may import pytest."""

MOST_LINES = 300


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def part_of(path: Path) -> str:
    """The stage's folder, or the name of a module at the top."""
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imported_parts(path: Path) -> set[str]:
    """Parts of the package that a module imports, anywhere in its text."""
    parts = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("pytest_nsight"):
            names = node.module.split(".")[1:] or [alias.name for alias in node.names]
            parts.add(names[0])
    return parts


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_arrows_point_one_way(path: Path) -> None:
    part = part_of(path)
    if part in STAGES:
        allowed = STAGES[part] | VALUES | {part, "__version__"}

        assert imported_parts(path) <= allowed


def imported_packages(path: Path) -> set[str]:
    """Top-level packages that a module imports, anywhere in its text."""
    packages = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            packages |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            packages.add(node.module.partition(".")[0])
    return packages


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_only_the_edge_knows_pytest_and_only_the_nsys_folder_knows_sqlite(path: Path) -> None:
    packages = imported_packages(path)

    if str(path.relative_to(PACKAGE)) not in EDGE:
        assert not packages & {"pytest", "_pytest"}
    if "nsys" not in path.parts:
        assert "sqlite3" not in packages


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_stays_readable(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES
