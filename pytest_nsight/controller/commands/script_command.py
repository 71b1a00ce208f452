"""`pytest-nsight run -- python bench.py`: reads the command after the dashes, and has a pytest measure it."""

from __future__ import annotations

import importlib.machinery
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from pytest_nsight.controller.pytest_input import run_pytest
from pytest_nsight.controller.rootdir import find_root
from pytest_nsight.model.errors import UsageError
from pytest_nsight.protocol.other_checkouts import INSTALLED
from pytest_nsight.protocol.script import Script, clean_name

_USAGE = "give a program of Python after --, such as: pytest-nsight run -- python bench.py"
_PYTESTS = ("pytest", "py.test")
_SIGNS_OF_IDS = ("::", "[")
_HARMLESS_OPTIONS = ("-u", "-B")
_ROOT_OPTIONS = ("-c", "--config-file", "--rootdir")


def run(options: Sequence[str], command: Sequence[str], name: str | None) -> int:
    """Measures a script and gates it like tests.

    Args:
        options: for pytest, those of the gate among them.
        command: what the user typed after the dashes.
        name: replaces the script's arguments in the ids of its cases; None for the arguments themselves.

    Returns:
        pytest's exit code.

    Raises:
        UsageError: the command is none that can be measured.
    """
    given = _without_interpreter(command)
    if given[0] in _PYTESTS or given[:2] == ("-m", "pytest"):
        arguments = given[1:] if given[0] in _PYTESTS else given[2:]
        return run_pytest(["--nsight", "-o", "nsight_mark=benchmark", *options, *arguments])
    script = read_script(given, name)
    if not getattr(sys.flags, "safe_path", False):
        # It led to this program, and a script started by Python would not have it.
        del sys.path[:1]
    from pytest_nsight.controller.script_plugin import ScriptPlugin  # noqa: PLC0415 - not for pytest's own tests

    return run_pytest(["--nsight", *options, *_choose_root(options, script), script.path], ScriptPlugin(script))


def _choose_root(options: Sequence[str], script: Script) -> tuple[str, ...]:
    """Options that have pytest take the current folder's root and ini file for a script that lies elsewhere.

    Else it would take those around the script: for an installed module another place for baselines, shared by all
    projects that use it.
    """
    given = [*shlex.split(os.environ.get("PYTEST_ADDOPTS", "")), *options]
    here = Path.cwd()
    if Path(script.path).is_relative_to(here) or any(one.startswith(_ROOT_OPTIONS) for one in given):
        return ()
    root, ini = find_root(here)
    return (f"--rootdir={root}", *(("-c", str(ini)) if ini is not None else ()))


def read_script(given: Sequence[str], name: str | None = None) -> Script:
    """The script of a command line.

    Args:
        given: `bench.py ...` or `-m package.bench ...`.
        name: stands for the arguments; None for the arguments themselves.

    Raises:
        UsageError: there is no such file or module.
    """
    if given[0] == "-m":
        module, *arguments = given[1:]
        path = find_module(module)
        if path is not None and _is_pythons_own(path):
            raise UsageError(
                f"-m {module} is a part of Python, which runs other programs; give such a program itself: "
                "pytest-nsight run -- python bench.py"
            )
        if path is None:
            raise UsageError(
                f"there is no module {module!r} that can be run; check its name and the current folder"
            )
    else:
        module, (first, *arguments) = "", given
        # Not resolve(): a symbolic link is run under its own name. pytest writes the path without "..", too.
        path = Path(os.path.normpath(Path(first).absolute()))
        if path.is_dir():
            main = Path(first) / "__main__.py"
            remedy = f"give its file, {main}" if main.is_file() else "give the script in it"
            raise UsageError(f"{first} is a folder, which run does not take for a script; {remedy}")
        if not path.is_file():
            raise UsageError(f"there is no script {first}; {_USAGE}")
    for sign in _SIGNS_OF_IDS:
        if sign in str(path):
            raise UsageError(
                f"{path}: in the ids of cases {sign} stands for something else; rename the script or its folder"
            )
    stands_for = clean_name(shlex.join(arguments) if name is None else name)
    return Script(str(path), module, tuple(arguments), stands_for)


def find_module(name: str) -> Path | None:
    """The file that `python -m name` runs, found without importing anything; None if there is none."""
    path: Sequence[str] | None = [str(Path.cwd()), *sys.path]
    spec: importlib.machinery.ModuleSpec | None = None
    parts = name.split(".")
    if not all(parts):
        return None
    for depth in range(1, len(parts) + 1):
        spec = _find_spec(".".join(parts[:depth]), path)
        if spec is None:
            return None
        path = spec.submodule_search_locations
        if path is None and depth < len(parts):
            return None
    if spec is not None and path is not None:
        spec = _find_spec(f"{name}.__main__", path)
    return Path(spec.origin).absolute() if spec is not None and spec.origin and spec.has_location else None


def _is_pythons_own(path: Path) -> bool:
    """Whether it is a module of the standard library."""
    folder = Path(sysconfig.get_path("stdlib"))
    return path.is_relative_to(folder) and not INSTALLED.intersection(path.relative_to(folder).parts)


def _find_spec(name: str, path: Sequence[str] | None) -> importlib.machinery.ModuleSpec | None:
    found = importlib.machinery.PathFinder.find_spec(name, path)
    if found is not None:
        return found
    # Editable installs have finders of their own.
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        if find is not None and found is None:
            found = find(name, path if "." in name else None)
    return found


def _without_interpreter(command: Sequence[str]) -> tuple[str, ...]:
    """The command without the interpreter that it begins with, which must be this one.

    Raises:
        UsageError: it begins with another program, or with options that a worker would not get.
    """
    if not command:
        raise UsageError(_USAGE)
    first, *rest = command
    is_python = re.fullmatch(r"python(\d(\.\d+)?t?)?", Path(first).name) is not None
    if not is_python:
        if first.endswith(".py") or Path(first).name in _PYTESTS:
            return (Path(first).name if Path(first).name in _PYTESTS else first, *rest)
        raise UsageError(f"{first} is no program of Python; {_USAGE}")
    _check_interpreter(first)
    while rest and rest[0] in _HARMLESS_OPTIONS:
        rest = rest[1:]
    if not rest:
        raise UsageError(f"{first} without a script; {_USAGE}")
    if rest == ["-m"]:
        raise UsageError(f"{first} -m without a module; {_USAGE}, or -m and a module's name")
    if rest[0] == "-" or rest[0].startswith("-c"):
        raise UsageError(
            f"{first} {rest[0][:2]} has no file, and each process that measures runs the program again: write the "
            "program to a file, and name that file"
        )
    if rest[0].startswith("-") and rest[0] != "-m":
        raise UsageError(
            f"the option {rest[0]} of {first} does not reach the processes that measure; leave it out, or set its "
            "environment variable (PYTHONOPTIMIZE, PYTHONWARNINGS and so on)"
        )
    return tuple(rest)


def _check_interpreter(name: str) -> None:
    found = shutil.which(name)
    if found is None:
        raise UsageError(f"there is no program {name}; {_USAGE}")
    if (
        os.path.realpath(found) == os.path.realpath(sys.executable)
        and Path(found).parent == Path(sys.executable).parent
    ):
        return
    asked = (found, "-c", "import sys; print(sys.prefix)")
    prefix = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    if os.path.realpath(prefix or found) != os.path.realpath(sys.prefix):
        raise UsageError(
            f"{name} is {found}, and this pytest-nsight belongs to {sys.executable}: install it there as well, and "
            f"start it from there ({shlex.quote(found)} -m pip install pytest-nsight), or name the script without "
            "an interpreter"
        )
