"""Calls of a script that raised in its first pass: the script has handled the error, and nothing measures them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pytest_nsight.model.units import count, name_cases, name_some, shorten
from pytest_nsight.report.escapes import visible

_LONGEST_ERROR = 160
_MOST_NAMES = 3


@dataclass(frozen=True, slots=True)
class RaisedCalls:
    """The calls that raised.

    Attributes:
        scope: the node id of the script's cases, less their own names.
        errors: name of a call -> its error, on one line.
    """

    scope: str = ""
    errors: Mapping[str, str] = field(default_factory=dict)

    def find_stored(self, cases: Iterable[str]) -> tuple[str, ...]:
        """Those of the cases whose call raised, in their order."""
        raised = {f"{self.scope}::{name}" for name in self.errors}
        return tuple(case for case in cases if case in raised)

    def describe(self) -> tuple[str, ...]:
        """A sentence on the calls and their errors; none where no call raised."""
        if not self.errors:
            return ()
        verb = "is" if len(self.errors) == 1 else "are"
        each = (f"{name}: {shorten(visible(error), _LONGEST_ERROR, '...')}" for name, error in self.errors.items())
        calls = count(len(self.errors), "call")
        return (f"{calls} raised in the first pass and {verb} not measured: {name_some(each, _MOST_NAMES, '; ')}",)


NO_RAISED = RaisedCalls()


def describe_stored(cases: tuple[str, ...]) -> str:
    """A sentence on stored cases whose calls raised, "" if there are none."""
    if not cases:
        return ""
    them, calls = ("it", "its call") if len(cases) == 1 else ("them", "their calls")
    return (
        f"nothing checks {count(len(cases), 'stored case')}, because {calls} raised in the first pass: "
        f"{name_cases(cases)}; correct the script so that it can measure {them} again"
    )
