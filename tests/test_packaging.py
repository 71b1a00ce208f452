"""What is declared about the package agrees: lower bounds, their constraints, and the files of a wheel."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")

UNTESTED = {
    "torch",
    "triton",
    "mkdocs-material",
    "nvidia-cuda-cupti-cu12",
    "nvidia-cuda-nvrtc-cu12",
    "setuptools",
    "setuptools-scm",
}
"""Gigabytes for an old torch; the others are tools, installed in their newest version."""


def bounds() -> dict[str, str]:
    """Dependency -> its lower bound."""
    return dict(re.findall(r'"([A-Za-z][\w-]*)>=([\d.]+)', PYPROJECT))


def test_the_oldest_versions_that_are_tested_are_the_lower_bounds() -> None:
    text = (ROOT / "constraints-oldest.txt").read_text(encoding="utf-8")
    oldest = dict(re.findall(r"^([\w-]+)==([\d.]+)$", text, re.MULTILINE))

    assert set(oldest) == set(bounds()) - UNTESTED
    assert {
        name: version for name, version in oldest.items() if not f"{version}.".startswith(f"{bounds()[name]}.")
    } == {}


@pytest.mark.parametrize("name", ["3.10", "3.11", "3.12", "3.13", "3.14"])
def test_every_python_that_is_promised_is_tested(name: str) -> None:
    assert f"Programming Language :: Python :: {name}" in PYPROJECT
    assert f'"{name}"' in (ROOT / ".github/workflows/test.yml").read_text(encoding="utf-8")


def test_the_templates_are_declared_as_package_data() -> None:
    """Else `pytest-nsight init` works from a checkout and fails from a wheel."""
    (declared,) = re.findall(r"^pytest_nsight = \[(.*)\]$", PYPROJECT, re.MULTILINE)
    patterns = re.findall(r'"([^"]+)"', declared)
    matched = {path for pattern in patterns for path in (ROOT / "pytest_nsight").glob(pattern)}
    others = {
        path
        for path in (ROOT / "pytest_nsight").rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc")
    }

    assert others <= matched | {path for path in others if any(parent in matched for parent in path.parents)}
