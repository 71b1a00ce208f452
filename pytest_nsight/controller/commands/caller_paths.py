"""Relative paths that a command was given, for a pytest that it starts in another folder."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from pytest_nsight.controller.options import PATH_OPTIONS, REPORT_OPTION, SWITCH_OPTIONS

_OF_PYTEST = ("--junitxml", "--junit-xml")
_WITH_PATH = (*PATH_OPTIONS, REPORT_OPTION, *_OF_PYTEST)


def place_options(arguments: Sequence[str], here: Path) -> list[str]:
    """The arguments with absolute paths as values of this plugin's options, and of pytest's own report.

    Args:
        arguments: for pytest.
        here: where relative paths start.
    """
    return list(_place_options(list(arguments), here))


def _place_options(arguments: list[str], here: Path) -> Iterator[str]:
    while arguments:
        argument = arguments.pop(0)
        option, equals, value = argument.partition("=")
        if option not in _WITH_PATH:
            yield argument
        elif equals or (arguments and not arguments[0].startswith("-")):
            value = value if equals else arguments.pop(0)
            # An empty value is refused with a sentence, as without a command.
            yield f"{option}={_place(option, value, here) if value else value}"
        else:
            # pytest says that its value is missing.
            yield argument


def _place(option: str, value: str, here: Path) -> str:
    name, equals, path = value.partition("=") if option == REPORT_OPTION else ("", "", value)
    # A slash at the end names a folder, and a Path drops it.
    return f"{name}{equals}{os.path.join(here, path)}" if path else value  # noqa: PTH118


def _may_take_value(argument: str, unknown: Sequence[str]) -> bool:
    """Whether it is an option of a plugin, which pytest does not know yet, and what follows may be its value."""
    is_option = argument.startswith("--") and "=" not in argument
    return is_option and argument in unknown and argument not in SWITCH_OPTIONS


class CallerPaths:
    """A plugin: paths of tests that exist where the command was started are those, others start in the tree.

    A path that exists in both is the tree's, unless the command was started in the tree itself. A word directly
    behind an option of another plugin stays as it is, since it may be the value.
    """

    __name__ = "nsight-caller-paths"  # pytest registers a plugin object under this name

    def __init__(self, here: Path, tree: Path) -> None:
        """Remembers the folders.

        Args:
            here: where the command was started.
            tree: top folder of the tree that pytest collects.
        """
        self._here, self._tree = here, tree
        self._parser: pytest.Parser | None = None

    def pytest_addoption(self, parser: pytest.Parser) -> None:
        """Remembers what knows paths from values of options."""
        self._parser = parser

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_parse(self, args: list[str]) -> None:
        """Makes the paths absolute before pytest reads them."""
        named: list[str] = []
        unknown: list[str] = []
        # pytest reports what it cannot read itself.
        with contextlib.suppress(pytest.UsageError):
            if self._parser is not None:
                known, unknown = self._parser.parse_known_and_unknown_args(list(args))
                named = list(known.file_or_dir)
        # From the end: the value of an option may be the same word.
        for index in reversed(range(len(args))):
            if args[index] in named:
                named.remove(args[index])
                if not _may_take_value(args[index - 1] if index else "", unknown):
                    args[index] = self._place(args[index])

    def _place(self, argument: str) -> str:
        path, colons, test = argument.partition("::")
        found = self._here / path
        if not path or not found.exists():
            return argument
        is_meant = found.resolve().is_relative_to(self._tree) or not Path(path).exists()
        return f"{found}{colons}{test}" if is_meant else argument
