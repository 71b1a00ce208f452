"""What a project's own files say: whether pip can install it, and whether new folders at its root break that.

Where a project names no packages, setuptools takes every folder at the root for one, and refuses several. Then a
folder of perf tests, or one of baselines, ends `pip install -e .`, although it was never meant to be installed.

Source of the rules: "Automatic discovery" in setuptools' user guide, and `setuptools.discovery` of version 80.
"""

from __future__ import annotations

import configparser
import re
import sys
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from pytest_nsight.model.errors import UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

OURS = ("perf_tests", "baselines")
"""Folders at the root that the gate needs and that nobody installs."""

_TEST_FOLDERS = ("test", "tests", "unit_test", "unit_tests", "example", "examples", "benchmark", "benchmarks")
_NO_PACKAGES = (
    *_TEST_FOLDERS,
    *("ci", "bin", "debian", "doc", "docs", "documentation", "manpages", "news", "newsfragments", "changelog"),
    *("scripts", "tools", "util", "utils", "python", "build", "exercise", "exercises", "htmlcov", "[._]*"),
)
_NO_MODULES = (
    *("setup", "conftest", "test", "tests", "example", "examples", "build", "toxfile", "noxfile", "pavement"),
    *("dodo", "tasks", "fabfile", "[Ss][Cc]onstruct", "conanfile", "manage", "benchmark", "benchmarks"),
    *("exercise", "exercises", "[._]*"),
)
_NAMED_IN_SETUP = re.compile(r"\b(packages|py_modules|ext_modules|package_dir)\b")


def is_installable(root: Path) -> bool:
    """Whether `pip install .` has something to install: a pyproject.toml may hold settings of tools alone.

    Raises:
        UsageError: pyproject.toml or setup.cfg cannot be read.
    """
    if (root / "setup.py").exists():
        return True
    project = read_pyproject(root)
    if project is None:
        return False
    return bool({"project", "build-system"} & set(project)) or _read_setup_cfg(root).has_section("metadata")


def explain_discovery(root: Path) -> str:
    """What to add to pyproject.toml so that setuptools goes on finding the project's own code; "" if nothing.

    Raises:
        UsageError: pyproject.toml or setup.cfg cannot be read.
    """
    if not is_installable(root) or not _discovers_by_itself(root):
        return ""
    packages, modules = _find_packages(root), _find_modules(root)
    outermost = [name for name in packages if "." not in name]
    # Several were an error before: nothing says which of them the project is.
    if len(outermost) > 1 or (not packages and len(modules) > 1):
        return ""
    folders = " and ".join(f"{name}/" for name in OURS)
    return (
        f"Add to pyproject.toml, else `pip install -e .` takes {folders} for packages of the project and fails "
        f"or leaves your code out:\n{_lines_to_add(packages, modules)}"
    )


def _lines_to_add(packages: list[str], modules: list[str]) -> str:
    if len(packages) > 1:
        # A list of all would lose the next one.
        return f'  [tool.setuptools.packages.find]\n  include = ["{packages[0]}", "{packages[0]}.*"]'
    name, found = ("packages", packages) if packages or not modules else ("py-modules", modules)
    quoted = ", ".join(f'"{one}"' for one in found)
    return f"  [tool.setuptools]\n  {name} = [{quoted}]"


def _discovers_by_itself(root: Path) -> bool:
    """Whether setuptools builds the project and has to find its packages by itself."""
    project = read_pyproject(root) or {}
    backend = project.get("build-system", {}).get("build-backend", "setuptools")
    settings = project.get("tool", {}).get("setuptools", {})
    if not str(backend).startswith("setuptools") or {"packages", "py-modules", "ext-modules", "package-dir"} & set(
        settings
    ):
        return False
    options = _read_setup_cfg(root)
    if options.has_section("options") and {"packages", "py_modules", "package_dir"} & set(options["options"]):
        return False
    script = root / "setup.py"
    if script.exists() and _NAMED_IN_SETUP.search(script.read_text(encoding="utf-8", errors="replace")):
        return False
    return not (root / "src").is_dir()


def _find_packages(root: Path) -> list[str]:
    """Names of the packages that setuptools finds at the root, those within them included, without ours."""
    found = []
    for folder in sorted(path for path in root.iterdir() if path.is_dir() and path.name not in OURS):
        if folder.name.isidentifier() and not any(fnmatchcase(folder.name, pattern) for pattern in _NO_PACKAGES):
            found += [folder.name, *_find_inside(folder)]
    return found


def _find_inside(package: Path) -> list[str]:
    """Packages within a package, those without an `__init__.py` only where they hold code."""
    folders = sorted({path.parent for path in package.rglob("*.py")} - {package})
    names = [(package.name, *folder.relative_to(package).parts) for folder in folders]
    return [".".join(parts) for parts in names if all(part.isidentifier() for part in parts)]


def _find_modules(root: Path) -> list[str]:
    names = sorted(path.stem for path in root.glob("*.py") if path.is_file())
    return [
        name
        for name in names
        if name.isidentifier() and not any(fnmatchcase(name, pattern) for pattern in _NO_MODULES)
    ]


def has_pytest_table(root: Path) -> bool:
    """Whether pyproject.toml holds settings of pytest, in whichever of TOML's ways.

    Raises:
        UsageError: it cannot be read.
    """
    tool = (read_pyproject(root) or {}).get("tool")
    return isinstance(tool, Mapping) and "pytest" in tool


def takes_table(root: Path, text: str) -> bool:
    """Whether pyproject.toml is there and stays TOML with a table at its end; an inline `tool` takes none.

    Args:
        root: the project's folder.
        text: the table.
    """
    try:
        tomllib.loads(f"{(root / 'pyproject.toml').read_text(encoding='utf-8')}\n{text}")
    except (OSError, tomllib.TOMLDecodeError):
        return False
    return True


def read_pyproject(root: Path) -> Mapping[str, Any] | None:
    """The project's pyproject.toml, None if it has none.

    Raises:
        UsageError: it cannot be read.
    """
    path = root / "pyproject.toml"
    if not path.exists():
        return None
    try:
        found: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}; mend it and run `pytest-nsight init` again") from None
    return found


def _read_setup_cfg(root: Path) -> configparser.ConfigParser:
    found = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        found.read(root / "setup.cfg", encoding="utf-8")
    except (UnicodeDecodeError, configparser.Error) as error:
        raise UsageError(
            f"{root / 'setup.cfg'} cannot be read: {error}; mend it and run `pytest-nsight init` again"
        ) from None
    return found
