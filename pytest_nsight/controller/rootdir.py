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
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from _pytest.config.findpaths import determine_setup  # pytest has no public name for it

from pytest_nsight.controller.option_values import GivenValues
from pytest_nsight.controller.options import DEFAULT_BASELINES
from pytest_nsight.model.errors import UsageError

_PREFIX = "--nsight"


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
        if value not in tests and (folder / value).exists()
    ]
    if not taken:
        return
    root, ini = _find_without_options(config)
    if (root, ini) != (config.rootpath, config.inipath):
        option, value = taken[0]
        found, wanted = _describe(config.rootpath, config.inipath), _describe(root, ini)
        raise UsageError(
            f"pytest took {value}, the value of {option}, for a test, and so its root folder for {found}; it is "
            f"{wanted}. Other baselines and settings would count; write {option}={value}"
        )


def _check_ini_option(config: pytest.Config) -> None:
    known, given = config.known_args_namespace, GivenValues(config)
    if not known.inifilename or known.rootdir or given.is_option("baselines"):
        return
    root, _ = _determine(
        inifile=None,
        override_ini=known.override_ini,
        args=known.file_or_dir,
        rootdir_cmd_arg=None,
        invocation_dir=config.invocation_params.dir,
    )
    left, used = root / (given("baselines") or DEFAULT_BASELINES), given.baselines()
    if used != left and left.is_dir() and not used.exists():
        raise UsageError(
            f"-c {known.inifilename} makes {config.rootpath} the root folder, where there are no baselines, and "
            f"those in {left} would not count; add --rootdir={root}, or name the baselines with --nsight-baselines"
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


def _find_without_options(config: pytest.Config) -> tuple[Path, Path | None]:
    """The root folder and the ini file that pytest finds where it knows which arguments are tests."""
    known = config.known_args_namespace
    return _determine(
        inifile=known.inifilename,
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
    try:
        root, ini = _determine(
            inifile=None, override_ini=None, args=[], rootdir_cmd_arg=None, invocation_dir=folder
        )
    # A file that is no UTF-8 is a ValueError, and an outdated section of setup.cfg a failed test.
    except (pytest.UsageError, ValueError, pytest.fail.Exception) as error:
        reason = " ".join(str(error).split())
        raise UsageError(
            f"the settings of the project around {folder} cannot be read ({reason}), so its root folder is "
            "unknown; mend that file"
        ) from None
    return root if ini is not None else None


def _determine(**available: Any) -> tuple[Path, Path | None]:
    # Its parameters differ among the versions of pytest; their names have stayed.
    wanted = inspect.signature(determine_setup).parameters
    root, ini, *_ = determine_setup(**{name: value for name, value in available.items() if name in wanted})
    return root, ini
