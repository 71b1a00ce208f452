"""Makes a worker that measures another tree import that tree, and finds what it took from the user's instead.

Three ways lead from a process into the user's tree: entries of sys.path (PYTHONPATH, .pth files, conftests), the
finders of editable installs, and distributions that were installed from the tree as a copy. The first are mapped
before anything is imported, the second are asked and their answer is mapped, the third are told and refused.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_INSTRUMENT = "pytest_nsight"
"""Measures both trees with the same code, even where the trees hold versions of it."""


@dataclass(frozen=True, slots=True)
class TreeMapping:
    """Where each path of one tree is in another.

    Attributes:
        root: top folder of the user's tree.
        tree: top folder of the other tree.
        shared: folders inside of `root` that both sides use: virtual environments, the other tree itself.
    """

    root: str
    tree: str
    shared: tuple[str, ...]

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> TreeMapping:
        """Reads what `dataclasses.asdict` and JSON made of one."""
        return cls(fields["root"], fields["tree"], tuple(fields["shared"]))

    def owns(self, path: str) -> bool:
        """Whether a path lies in the user's tree, and not in what both sides share."""
        if _is_below(os.path.abspath(path), self.shared):
            return False
        real = os.path.realpath(path)
        return _is_below(real, (self.root,)) and not _is_below(real, self.shared)

    def map(self, path: str) -> str:
        """The place of a path in the other tree; a path that is not the user's tree's stays."""
        if not path or not self.owns(path):
            return path
        return os.path.normpath(os.path.join(self.tree, os.path.relpath(os.path.realpath(path), self.root)))

    def map_argument(self, argument: str) -> str:
        """The same for a command line argument: a path, `--option=path`, or `path::test`."""
        option, equals, value = argument.partition("=") if argument.startswith("-") else ("", "", argument)
        path, colons, rest = value.partition("::")
        return option + equals + (self.map(path) if os.path.isabs(path) else path) + colons + rest


def _is_below(path: str, folders: Sequence[str]) -> bool:
    return any(path == folder or path.startswith(folder.rstrip(os.sep) + os.sep) for folder in folders)
