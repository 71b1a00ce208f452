"""pytest's root folder: refuses one that pytest has found by mistake, and with it other baselines.

pytest looks for its root folder and its ini file before it knows the options of plugins. What follows
`--nsight-json` is then a path like any other. If it exists, pytest takes the common parent of the tests and that
path as the root folder. A first session writes a report outside of the project, which exists from then on. The next
session would look for baselines in another folder, find none, and pass. `-c`, which makes the folder of an ini file
the root folder, does the same.
"""

from __future__ import annotations

import inspect
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from _pytest.config.findpaths import determine_setup  # pytest has no public name for it

from pytest_nsight.controller.option_values import GivenValues
from pytest_nsight.controller.options import DEFAULT_BASELINES
from pytest_nsight.model.errors import UsageError

_PREFIX = "--nsight"

_UNREADABLE = (pytest.UsageError, ValueError, pytest.fail.Exception)
"""What pytest raises for an ini file: one that is no UTF-8 is a ValueError, an outdated section a failed test."""


def check_rootdir(config: pytest.Config) -> None:
    """Makes sure that no option has moved pytest's root folder, and with it the folder of the baselines.

    Args:
        config: pytest's, with all options read.

    Raises:
        UsageError: one has; the message says how to write it.
    """
    _check_ini_option(config)
    folder = config.invocation_params.dir
    given = [*shlex.split(os.environ.get("PYTEST_ADDOPTS", "")), *map(str, config.invocation_params.args)]
    tests = config.known_args_namespace.file_or_dir
    taken = [
        (option, value)
        for option, value in find_separate_values(given)
        # Path.exists() raises for a name that is too long.
        if value not in tests and os.path.exists(folder / value)  # noqa: PTH110
    ]
    if not taken:
        return
    root, ini, _ = _find_by_tests(config, ini_option=config.known_args_namespace.inifilename)
    if (root, ini) != (config.rootpath, config.inipath):
        option, value = taken[0]
        found, wanted = _describe(config.rootpath, config.inipath), _describe(root, ini)
        raise UsageError(
            f"pytest took {value}, the value of {option}, for a test, and so its root folder for {found}; it is "
            f"{wanted}. Other baselines and settings would count; write {option}={shlex.quote(value)}"
        )


def _check_ini_option(config: pytest.Config) -> None:
    """Makes sure that `-c` does not leave out the baselines of the project's own ini file, if it has any."""
    known, given = config.known_args_namespace, GivenValues(config)
    if not known.inifilename or given.is_option("baselines") or config.getoption("nsight_against"):
        return
    try:
        root, _, own = _find_by_tests(config, ini_option=None)
    except _UNREADABLE:
        # The user may give -c for this very reason.
        return
    used, left = given.baselines(), root / own.get("nsight_baselines", DEFAULT_BASELINES)
    if used != left and not used.exists() and any(left.glob("*/*.json")):
        is_elsewhere = root != config.rootpath
        option, folder = ("--rootdir", root) if is_elsewhere else ("--nsight-baselines", left)
        raise UsageError(
            f"with -c {known.inifilename} there are no baselines, because it makes {used} their folder, and those "
            f"in {left} would not count; add {option}={shlex.quote(str(folder))}, or name another folder with "
            "--nsight-baselines"
        )


def _describe(root: Path, ini: Path | None) -> str:
    return f"{root} with {ini}" if ini is not None else f"{root} without an ini file"


def find_separate_values(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Options of this plugin that a value of its own follows, and these values.

    Args:
        arguments: of the command line.
    """
    for argument, following in pairwise(arguments):
        if argument.startswith(_PREFIX) and "=" not in argument and not following.startswith("-"):
            yield argument, following


def _find_by_tests(config: pytest.Config, ini_option: str | None) -> tuple[Path, Path | None, Mapping[str, Any]]:
    """What pytest finds with this value of `-c` where it knows which arguments are tests."""
    known = config.known_args_namespace
    return _determine(
        inifile=ini_option,
        override_ini=known.override_ini,
        args=known.file_or_dir,
        rootdir_cmd_arg=known.rootdir or None,
        invocation_dir=config.invocation_params.dir,
    )


def find_configured_root(folder: Path) -> Path | None:
    """The root folder of a pytest that is started in a folder; None where no ini file names one.

    Raises:
        UsageError: pytest cannot read an ini file there, so it is unknown what it names.
    """
    root, ini = find_root(folder)
    return root if ini is not None else None


def find_root(folder: Path) -> tuple[Path, Path | None]:
    """The root folder and the ini file, if any, of a pytest that is started in a folder without tests to run.

    Raises:
        UsageError: pytest cannot read an ini file there, so it is unknown what it names.
    """
    try:
        root, ini, _ = _determine(
            inifile=None, override_ini=None, args=[], rootdir_cmd_arg=None, invocation_dir=folder
        )
    except _UNREADABLE as error:
        reason = " ".join(str(error).split())
        raise UsageError(
            f"the settings of the project around {folder} cannot be read ({reason}), so its root folder is "
            "unknown; correct that file, or name the folder with --rootdir"
        ) from None
    return root, ini


def find_baselines(folder: Path) -> Path:
    """Where a pytest started in a folder has its baselines, relative to it.

    It is the default where no setting names another and the root folder has none.
    """
    try:
        root, _, settings = _determine(
            inifile=None, override_ini=None, args=[], rootdir_cmd_arg=None, invocation_dir=folder
        )
    except _UNREADABLE:
        return Path(DEFAULT_BASELINES)
    named = settings.get("nsight_baselines")
    found = root / str(named or DEFAULT_BASELINES)
    return Path(os.path.relpath(found, folder)) if named or found.is_dir() else Path(DEFAULT_BASELINES)


def _determine(**available: Any) -> tuple[Path, Path | None, Mapping[str, Any]]:
    """The root folder, the ini file and its settings."""
    # Its parameters differ among the versions of pytest; their names have stayed.
    wanted = inspect.signature(determine_setup).parameters
    root, ini, found, *_ = determine_setup(**{name: value for name, value in available.items() if name in wanted})
    # Since pytest 9 a value has its origin with it.
    return root, ini, {name: getattr(value, "value", value) for name, value in found.items()}
