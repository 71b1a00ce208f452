"""What a baseline file holds, and the order of runs in it; encode.py writes it, decode.py reads it.

Versions of the format (`format` in the file):

1. `environments`, `shapes` and `subjects`. The first two hold what runs share, once, under a key made from
   their content, so that a new run changes no line of the old ones. A run is one line of facts and one line
   per metric: its rounds in ns, or `{"value": 0, "rounds": 40}` where all are equal, or the name of an
   earlier metric that has exactly the same numbers. `clocks` may name `others`, if there were any, and
   the SM clock of each round as `round_mhz`, where it changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone

from pytest_nsight.errors import BaselineError
from pytest_nsight.model import RunSummary, Subject

FORMAT_VERSION = 1
"""The version written; files of this version and of all earlier ones are read."""

Runs = Mapping[Subject, tuple[RunSummary, ...]]
"""Stored runs of each subject, oldest first."""


class NewerFormatError(BaselineError):
    """A file in a format that only a later version of this plugin reads."""


class MergeConflictError(BaselineError):
    """A file that git could not merge."""


def by_age(run: RunSummary) -> tuple[datetime, str]:
    """Sorting key, oldest first; runs without a time come before all others.

    Raises:
        BaselineError: if the run's time is not ISO 8601.
    """
    return _moment(run), run.run


def _moment(run: RunSummary) -> datetime:
    if not run.recorded:
        return datetime.min.replace(tzinfo=timezone.utc)
    try:
        # Python 3.10 does not read the "Z".
        moment = datetime.fromisoformat(run.recorded.replace("Z", "+00:00"))
    except ValueError as error:
        where = f"run {run.run} of {run.subject.label}"
        raise BaselineError(
            f'field "recorded" of {where} is "{run.recorded}", expected a time in ISO 8601'
        ) from error
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
