"""Changes modules right after their import, before anybody has taken a name from them.

A script that says `from triton.testing import do_bench` gets what stands there when the import ends.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

Patch = Callable[[ModuleType], None]


def patch_imports(patches: Mapping[str, Patch]) -> None:
    """Applies each patch once: now to a module that is imported already, else at the end of its import.

    Args:
        patches: dotted name of a module -> what changes it.
    """
    later = dict(patches)
    for name in [name for name in patches if name in sys.modules]:
        later.pop(name)(sys.modules[name])
    sys.meta_path.insert(0, PatchingFinder(later))


class PatchingFinder(importlib.abc.MetaPathFinder):
    """Lets the other finders find a module, and has it changed once its own code has run."""

    def __init__(self, patches: Mapping[str, Patch]) -> None:
        self._patches = patches
        self._searching: set[str] = set()

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002 - the protocol's
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """The spec of a module to change, with a loader that does so; None for every other module."""
        if fullname not in self._patches or fullname in self._searching:
            return None
        self._searching.add(fullname)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._searching.discard(fullname)
        if spec is not None and spec.loader is not None:
            _patch_after(spec.loader, self._patches[fullname])
        return spec


def _patch_after(loader: importlib.abc.Loader, patch: Patch) -> None:
    """Makes this loader of one module change the module after its code has run; all else about it stays."""
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        execute(module)
        patch(module)

    loader.exec_module = exec_module  # type: ignore[method-assign]
