"""Sets a repository up: finds out what it can, creates what is missing, and changes nothing that exists."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from pytest_nsight.model.errors import UsageError
from pytest_nsight.processes.git_calls import ask_git, find_work_tree
from pytest_nsight.setup_repository.project_files import explain_discovery, has_pytest_table, takes_table
from pytest_nsight.setup_repository.workflows import came_from_a_folder, install_commands, render_workflows

TESTS = "perf_tests"
WORKFLOWS = ".github/workflows"
TEMPLATES = Path(__file__).parent / "templates"
ATTRIBUTES = "baselines/**/*.json -diff linguist-generated merge=pytest-nsight"
MERGE_DRIVER = {
    "merge.pytest-nsight.name": "unite the runs of both baselines",
    "merge.pytest-nsight.driver": "pytest-nsight merge-baselines %O %A %B %P",
}
_SETTINGS = {"nsight_band": "1%", "nsight_baselines": "baselines"}
_PYTEST_FILES = ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini")


class Outcome(Enum):
    """What became of one file or setting."""

    CREATED = "created"
    EXTENDED = "extended"
    KEPT = "kept"
    LEFT_OUT = "left out"


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that was set up or was there.

    Attributes:
        name: path from the repository's root, or a git setting.
        outcome: what became of it.
        remark: what the user may still do, "" if nothing.
        asks_to_edit: whether that is an edit of this file.
    """

    name: str
    outcome: Outcome
    remark: str = ""
    asks_to_edit: bool = False


@dataclass(frozen=True, slots=True)
class SetUp:
    """What `pytest-nsight init` did.

    Attributes:
        steps: what became of each file and setting, in the order of writing.
        packages: what the user adds so that the project stays installable, "" if nothing.
        uncommitted: those of the files that differ from the last commit: an earlier call may have written them.
        way: path from the user's folder to the repository's root, where all of it was done.
    """

    steps: tuple[Step, ...]
    packages: str = ""
    uncommitted: frozenset[str] = frozenset()
    way: str = "."


def set_up(folder: Path) -> SetUp:
    """Writes a perf test, settings, git attributes and workflows into the repository that the folder is in.

    Args:
        folder: in a git repository; everything is written at its root.

    Raises:
        UsageError: git names no files of a repository there, or a file cannot be read or written.
    """
    found = find_work_tree(folder)
    if not found.has_repository:
        raise UsageError(f"{folder} is in no git repository; run `git init` there first")
    if found.top is None:
        raise UsageError(found.reason)
    root = found.top
    packages = explain_discovery(root)
    try:
        steps = tuple(_steps(root))
        way = os.path.relpath(root, folder.resolve())
        return SetUp(steps, packages, _find_uncommitted(root, steps), way)
    except OSError as error:
        is_file = isinstance(error, FileExistsError | NotADirectoryError)
        remedy = "it is a file, and has to be a folder: rename it" if is_file else "let it be written (chmod u+w)"
        raise UsageError(
            f"cannot write {error.filename}: {error.strerror}; {remedy}, then run `pytest-nsight init` again; what "
            "was written before stays"
        ) from error


def render(done: SetUp) -> str:
    """The steps as lines, and what to type next."""
    steps = done.steps
    width = max(len(step.name) for step in steps)
    lines = [f"{step.outcome.value:<8}  {step.name:<{width}}  {step.remark}".rstrip() for step in steps]
    changed = [
        step.name
        for step in steps
        if step.outcome in (Outcome.CREATED, Outcome.EXTENDED) or step.asks_to_edit or step.name in done.uncommitted
    ]
    changed += ["pyproject.toml"] if done.packages else []
    folders = (name.split("/")[0] for name in changed if not name.startswith("git "))
    to_commit = dict.fromkeys([*folders, "baselines"])
    is_elsewhere = done.way != "."
    return "\n".join(
        [
            *([f"In {done.way}, the top folder of the repository:"] if is_elsewhere else []),
            *lines,
            "",
            *([done.packages, ""] if done.packages else []),
            "Next, on a machine like the one that will gate:",
            *([f"  cd {shlex.quote(done.way)}"] if is_elsewhere else []),
            "  pytest-nsight doctor",
            f"  pytest --nsight --nsight-save {TESTS}/",
            f"  git add {' '.join(to_commit)} && git commit",
            f"Then `pytest --nsight {TESTS}/` fails the tests that get slower.",
            *_what_to_edit(steps),
        ]
    )


def _what_to_edit(steps: Sequence[Step]) -> list[str]:
    """The line of the new workflows that no runner can follow as it stands, if there is one."""
    is_new = any(step.name.startswith(WORKFLOWS) and step.outcome is Outcome.CREATED for step in steps)
    if not is_new or not came_from_a_folder():
        return []
    note = (
        f"Note: the line `.venv/bin/pip install 'pytest-nsight[gpu]' ...` in {WORKFLOWS}/*.yml takes the plugin "
        "from the package index, because this copy was installed from a folder of this machine: put "
        "'pytest-nsight[gpu] @ git+<URL of its repository>' there, or install the plugin from that URL, delete "
        "these workflows and run `pytest-nsight init` again."
    )
    return ["", note]


def _steps(root: Path) -> Iterator[Step]:
    if any((root / TESTS).glob("**/*.py")):
        yield Step(TESTS, Outcome.KEPT, "it has tests already")
    else:
        yield _create(root, f"{TESTS}/test_example.py", _read(TEMPLATES / "test_example.py.template"))
    yield _add_settings(root)
    yield _add_attributes(root)
    for key, value in MERGE_DRIVER.items():
        yield _set_git(root, key, value)
    remote = _git(root, "remote", "get-url", "origin")
    if remote and "github" not in remote:
        remark = f"the remote {remote} is not on GitHub, which they are for; give it a GitHub remote, or see "
        page = "docs/howto/runners-and-forks.md of pytest-nsight for GitLab"
        yield Step(WORKFLOWS, Outcome.LEFT_OUT, f"{remark}{page}")
        return
    for name, text in render_workflows(
        {path.name: _read(path) for path in (TEMPLATES / "workflows").iterdir()},
        branch=_default_branch(root),
        paths=f"{TESTS}/",
        install=install_commands(root),
    ).items():
        yield _create(root, f"{WORKFLOWS}/{name}", text)


def _create(root: Path, name: str, text: str) -> Step:
    path = root / name
    if path.exists() or path.is_symlink():
        return Step(name, Outcome.KEPT)
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.parent.resolve().is_relative_to(root.resolve()):
        return Step(name, Outcome.KEPT, f"not written: {path.parent} leads out of the repository")
    with path.open("x", encoding="utf-8") as file:
        file.write(text)
    return Step(name, Outcome.CREATED)


def _extend(root: Path, name: str, text: str) -> Step:
    """Appends lines to a file that may not exist yet."""
    path = root / name
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    gap = "" if not before or before.endswith("\n") else "\n"
    with path.open("a", encoding="utf-8") as file:
        file.write(gap + text)
    return Step(name, Outcome.EXTENDED if before else Outcome.CREATED)


def _add_settings(root: Path) -> Step:
    """The settings go where the project's pytest settings are; existing settings stay as they are."""
    for name in _PYTEST_FILES:
        if (root / name).exists():
            return _keep_settings(name, (root / name).read_text(encoding="utf-8"))
    if has_pytest_table(root):
        return _keep_settings("pyproject.toml", (root / "pyproject.toml").read_text(encoding="utf-8"))
    for name, header in (("tox.ini", "[pytest]"), ("setup.cfg", "[tool:pytest]")):
        if (root / name).exists() and header in (text := (root / name).read_text(encoding="utf-8")):
            return _keep_settings(name, text)
    table = "\n".join(["", "[tool.pytest.ini_options]", *_settings_for("pyproject.toml"), ""])
    if takes_table(root, table):
        return _extend(root, "pyproject.toml", table)
    return _create(root, "pytest.ini", "\n".join(["[pytest]", *_settings_for("pytest.ini"), ""]))


def _settings_for(name: str) -> list[str]:
    """The settings as such a file has them: only TOML puts texts in quotes."""
    mark = '"' if name.endswith(".toml") else ""
    return [f"{key} = {mark}{value}{mark}" for key, value in _SETTINGS.items()]


def _keep_settings(name: str, text: str) -> Step:
    if "nsight_" in text:
        return Step(name, Outcome.KEPT)
    return Step(name, Outcome.KEPT, f"add there, if you like: {'; '.join(_settings_for(name))}", asks_to_edit=True)


def _add_attributes(root: Path) -> Step:
    path = root / ".gitattributes"
    if path.exists() and ATTRIBUTES in path.read_text(encoding="utf-8").splitlines():
        return Step(".gitattributes", Outcome.KEPT)
    return _extend(root, ".gitattributes", f"{ATTRIBUTES}\n")


def _set_git(root: Path, key: str, value: str) -> Step:
    """A setting of this clone: git takes no merge driver from the repository itself."""
    name = f"git config {key}"
    if _git(root, "config", "--get", key):
        return Step(name, Outcome.KEPT)
    answer = ask_git(root, "config", "--local", key, value)
    if answer.code:
        remedy = f"correct what it names, then type: git config {key} {shlex.quote(value)}"
        return Step(name, Outcome.LEFT_OUT, f"git refused: {answer.complaint}; {remedy}")
    return Step(name, Outcome.CREATED, "for this clone; every clone runs `pytest-nsight init` once")


def _find_uncommitted(root: Path, steps: Sequence[Step]) -> frozenset[str]:
    paths = [step.name for step in steps if not step.name.startswith("git ")]
    listed = _git(root, "ls-files", "-z", "--others", "--modified", "--exclude-standard", "--", *paths)
    differing = listed.split("\0")
    return frozenset(
        path for path in paths if any(name == path or name.startswith(f"{path}/") for name in differing)
    )


def _default_branch(root: Path) -> str:
    """The branch that pull requests go to: the remote's default, else the current one."""
    remote = _git(root, "symbolic-ref", "--short", "refs/remotes/origin/HEAD")
    return remote.removeprefix("origin/") or _git(root, "symbolic-ref", "--short", "HEAD") or "main"


def _read(template: Path) -> str:
    return template.read_text(encoding="utf-8")


def _git(folder: Path, *arguments: str) -> str:
    """What git prints, "" if it finds nothing."""
    answer = ask_git(folder, *arguments)
    return answer.text.strip() if answer.code == 0 else ""
