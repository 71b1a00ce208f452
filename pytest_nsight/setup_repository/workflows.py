"""The GitHub workflows from their templates: actions pinned by hash, the project's branch, paths and installation.

The workflows of this project's own repository are made from the same templates; a test compares them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from pytest_nsight.setup_repository.project_files import is_installable

ACTIONS = {
    "CHECKOUT": "actions/checkout@11bd71901bbe5b1630ceea73d27597364c9af683 # v4.2.2",
    "UPLOAD": "actions/upload-artifact@ea165f8d65b6e75b540449e92b4886f43607fa02 # v4.6.2",
    "DOWNLOAD": "actions/download-artifact@d3f86a106a0bac45b974a628896c90dbdf5c8093 # v4.3.0",
}
"""Placeholder -> the action, by the hash of a commit: a tag can be moved to other code."""

_SUFFIX = ".template"
_ON_PATH = 'echo "$PWD/.venv/bin" >>"$GITHUB_PATH"'


def render_workflows(
    templates: Mapping[str, str], *, branch: str, paths: str, install: Sequence[str]
) -> dict[str, str]:
    """The workflow files.

    Args:
        templates: file name, ending in ".template" -> text with placeholders such as @BRANCH@.
        branch: the branch that pull requests go to.
        paths: what to measure, separated by spaces.
        install: shell commands that install the project and the plugin in .venv.

    Returns:
        File name -> text, sorted by name.
    """
    values = {**ACTIONS, "BRANCH": _quotable(branch), "PATHS": _quotable(paths)}
    return {
        name.removesuffix(_SUFFIX): _fill(templates[name], values, (*install, _ON_PATH))
        for name in sorted(templates)
        if name.endswith(_SUFFIX)
    }


def install_commands(root: Path) -> tuple[str, ...]:
    """Shell commands that install the project and the plugin in .venv, by the files that the project has."""
    packages = [f"'{_requirement()}'"]
    if is_installable(root):
        packages.append("--editable .")
    if (root / "requirements.txt").exists():
        packages.append("--requirement requirements.txt")
    return "python3 -m venv .venv", f".venv/bin/pip install {' '.join(packages)}"


def came_from_a_folder() -> bool:
    """Whether this copy of the plugin was installed from the local disk, where no runner finds it."""
    return str(_origin().get("url", "")).startswith("file:")


def _requirement() -> str:
    """What pip installs the plugin from: the git commit that this copy came from, if it did, else the index."""
    origin = _origin()
    version_control, url = origin.get("vcs_info", {}), str(origin.get("url", ""))
    if version_control.get("vcs") != "git" or not re.fullmatch(r"(https|ssh)://[\w@:%./~+-]+", url):
        return "pytest-nsight[gpu]"
    return f"pytest-nsight[gpu] @ git+{url}@{version_control['commit_id']}"


def _origin() -> dict[str, Any]:
    """What pip has recorded of the place that this copy was installed from; empty for the index.

    Source of the file: PEP 610, "Recording the Direct URL Origin of installed distributions".
    """
    try:
        recorded = distribution("pytest-nsight").read_text("direct_url.json")
    except PackageNotFoundError:
        recorded = None
    return json.loads(recorded) if recorded else {}


def _fill(template: str, values: Mapping[str, str], install: Sequence[str]) -> str:
    """The template with all placeholders replaced; @INSTALL@ becomes lines of its own indentation."""
    lines: list[str] = []
    for line in template.splitlines():
        if line.strip() == "@INSTALL@":
            indent = line[: len(line) - len(line.lstrip())]
            lines += [indent + command for command in install]
            continue
        for name, value in values.items():
            line = line.replace(f"@{name}@", value)  # noqa: PLW2901 - one line, value by value
        lines.append(line)
    return "\n".join(lines) + "\n"


def _quotable(text: str) -> str:
    """Text that may stand between quotes in YAML; git allows a quote in the name of a branch."""
    return text.replace("\\", "\\\\").replace('"', '\\"')
