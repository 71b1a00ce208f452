"""Refuses to compare two trees where the tests measure the code of a third: another checkout of the project."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_nsight.controller.trees.git_revision import Revision
from pytest_nsight.model.errors import UsageError
from pytest_nsight.model.units import name_some
from pytest_nsight.protocol.job import TreeMapping
from pytest_nsight.protocol.manifest_events import WrongImport
from pytest_nsight.protocol.other_checkouts import imports_from_other_checkouts

_MOST_IMPORTS = 3


def refuse_other_checkout(revision: Revision, mapping: TreeMapping) -> None:
    """Looks at what this process has imported, as the workers of the user's tree will.

    Workers of the revision look themselves, since its tests may import other modules, and later.

    Args:
        revision: what to compare with.
        mapping: from the user's tree to its own.

    Raises:
        UsageError: a module is from another checkout.
    """
    if found := list(imports_from_other_checkouts(mapping)):
        who = f"{revision.option} {revision.name}: the tests"
        raise UsageError(describe_other_checkout(who, found))


def describe_other_checkout(who: str, imports: Sequence[WrongImport]) -> str:
    """A sentence that names what was taken from another checkout.

    Args:
        who: took it.
        imports: at least one.
    """
    named = name_some((f"{one.module} from {one.file}" for one in imports), _MOST_IMPORTS)
    return (
        f"{who} imported {named}, which belongs to another checkout of this project ({imports[0].checkout}): both "
        "trees would measure its code; type pip install --editable . in the tree that pytest was started in, or "
        "put the folder of that tree's modules first in PYTHONPATH"
    )
