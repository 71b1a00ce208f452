"""The part of a trace that the user asked for, measured.

MERGED: Ranges whose names only count up, such as step#0 to step#99, are one kind of range.
"""

from __future__ import annotations

import dataclasses
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from pytest_nsight.model.errors import UsageError
from pytest_nsight.model.trace import Flags, Ranges, Trace
from pytest_nsight.trace.measures import Measured, measure

_NAMES_TOLD = 8


@dataclass(frozen=True)
class View:
    """What is shown.

    Attributes:
        trace: the recording with the chosen ranges only; calls and launches are all there.
        measured: of these ranges.
        is_chosen: whether ranges were chosen, so that launches outside of them do not count.
    """

    trace: Trace
    measured: Measured
    is_chosen: bool

    @property
    def is_shown(self) -> Flags:
        """Which launches count, shape (launches,)."""
        return self.measured.is_inside if self.is_chosen else np.ones(len(self.trace.launches), np.bool_)


def choose(trace: Trace, name: str, domain: str | None) -> View:
    """Limits a trace to some ranges and measures them.

    Args:
        trace: any trace.
        name: what the names of the ranges must contain; "" for all.
        domain: their NVTX domain, "" for the default one; None for all.

    Raises:
        UsageError: no range is like that.
        TraceError: the ranges nest too deep.
    """
    is_chosen = bool(name) or domain is not None
    if is_chosen:
        trace = dataclasses.replace(trace, ranges=_filter(trace, name, domain))
    return View(trace, measure(trace, None), is_chosen)


def _filter(trace: Trace, name: str, domain: str | None) -> Ranges:
    ranges = trace.ranges
    fits_name = np.array([name in text for text in trace.strings], np.bool_)
    fits_domain = np.array([domain in (None, text) for text in trace.strings], np.bool_)
    is_fitting = fits_name[ranges.name] & fits_domain[ranges.domain] if len(ranges) else np.zeros(0, np.bool_)
    if not is_fitting.any():
        raise UsageError(_explain_none(trace, name, domain))
    return Ranges(**{column: getattr(ranges, column)[is_fitting] for column in Ranges.__slots__})


def _explain_none(trace: Trace, name: str, domain: str | None) -> str:
    if not len(trace.ranges):
        return "the recording holds no range to choose from; leave out --range and --domain"
    domains = sorted({trace.strings[number] for number in np.unique(trace.ranges.domain)})
    if domain is not None and domain not in domains:
        return f"no range has the domain {domain!r}; there are {_list(domains)}"
    names = sorted(set(fold_counters(trace.strings[number] for number in np.unique(trace.ranges.name)).values()))
    place = f" in the domain {domain!r}" if domain is not None else ""
    return f"no range{place} has a name with {name!r} in it; the recording has {_list(names)}"


def _list(names: list[str]) -> str:
    told = ", ".join(map(repr, names[:_NAMES_TOLD]))
    return f"{told} and {len(names) - _NAMES_TOLD} others" if len(names) > _NAMES_TOLD else told


FEWEST = 3
_NUMBER = re.compile(r"(?s)(.*?)(\d{1,18})(\D*)")


def fold_counters(names: Iterable[str]) -> dict[str, str]:
    """A common name, with * for the number, for names of which the last number counts up without a hole.

    Sizes and widths, as in matmul_1024 and matmul_4096 or fp16 and fp32, do not count up and stay apart.

    Args:
        names: any names; repetitions do not matter.

    Returns:
        Each name's common name, or itself.
    """
    families: defaultdict[str, dict[int, str]] = defaultdict(dict)
    folded = {name: name for name in names}
    for name in folded:
        if match := _NUMBER.fullmatch(name):
            before, number, after = match.groups()
            families[f"{before}*{after}"][int(number)] = name
    for family, members in families.items():
        if len(members) >= FEWEST and max(members) - min(members) == len(members) - 1:
            folded.update(dict.fromkeys(members.values(), family))
    return folded
