"""Makes a worker that measures another tree import that tree, and finds what it took from the user's instead.

Three ways lead from a process into the user's tree: entries of sys.path (PYTHONPATH, .pth files, conftests), the
finders of editable installs, and distributions that were installed from the tree as a copy. The first are mapped
before anything is imported, the second are asked and their answer is mapped, the third are told and refused.
"""

from __future__ import annotations

import importlib
import importlib.abc
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from types import ModuleType
from typing import Any

from pytest_nsight.against.copies import installed_copies

_INSTRUMENT = "pytest_nsight"
"""Measures both trees with the same code, even where the trees hold versions of it."""


@dataclass(frozen=True, slots=True)
class Mirror:
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
    def of(cls, fields: Mapping[str, Any]) -> Mirror:
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

    def install(self) -> None:
        """Has this process import from the other tree whatever it would from the user's."""
        sys.meta_path.insert(0, MirrorFinder(self))
        importlib.invalidate_caches()


class MirrorFinder(importlib.abc.MetaPathFinder):
    """Asks the finders behind it, and turns what leads into the user's tree to the other one."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Finds a module as Python would, in the other tree.

        Raises:
            ModuleNotFoundError: the user's tree has it and the other one does not.
        """
        if fullname.partition(".")[0] == _INSTRUMENT:
            return None
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            find = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(fullname, path, target) if find else None
            if spec is not None:
                return self._turn(spec)
        return None

    def _turn(self, spec: ModuleSpec) -> ModuleSpec | None:
        folders = spec.submodule_search_locations
        mapped = None if folders is None else [self._mirror.map(folder) for folder in list(folders)]
        if spec.origin and spec.has_location and self._mirror.owns(spec.origin):
            origin = self._mirror.map(spec.origin)
            if not os.path.exists(origin):
                raise ModuleNotFoundError(
                    f"{spec.name} is in {spec.origin}, which the revision lacks: an untracked file or a build "
                    "product, for which nsight_against_build can name a command",
                    name=spec.name,
                )
            return spec_from_file_location(spec.name, origin, submodule_search_locations=mapped)
        if spec.origin is None and mapped is not None and mapped != list(folders or ()):
            turned = ModuleSpec(spec.name, None, is_package=True)
            turned.submodule_search_locations = mapped
            return turned
        return spec


def find_leaks(mirror: Mirror) -> Iterator[tuple[str, str]]:
    """Yields (module, file) of all that this process imported from the user's tree or from a copy of it."""
    copies = frozenset(installed_copies(mirror.root, mirror.owns))
    for name, module in sorted(sys.modules.items()):
        fields = getattr(module, "__dict__", {})
        file = fields.get("__file__") if isinstance(fields, Mapping) else None
        if not isinstance(file, str) or name.partition(".")[0] == _INSTRUMENT:
            continue
        if mirror.owns(file) or os.path.realpath(file) in copies:
            yield name, file


def explain_leaks(commit: str, leaks: Sequence[tuple[str, str]]) -> str:
    """A sentence that names what a worker took from the wrong tree."""
    named = ", ".join(f"{module} from {file}" for module, file in leaks[:3])
    more = f" and {len(leaks) - 3} more" if len(leaks) > 3 else ""
    return (
        f"the runs of {commit[:7]} imported {named}{more}, which belongs to this tree: both sides would measure "
        "the same code; install the package with pip install --editable, or have nsight_against_build put the "
        "revision's own into $PYTEST_NSIGHT_AGAINST_TARGET"
    )


def _is_below(path: str, folders: Sequence[str]) -> bool:
    return any(path == folder or path.startswith(folder.rstrip(os.sep) + os.sep) for folder in folders)
