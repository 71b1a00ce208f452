"""Runs to the text of a baseline file.

MERGED: What a baseline file holds, and the order of runs in it; encode.py writes it, decode.py reads it.

Versions of the format (`format` in the file):

1. `environments`, `shapes` and `subjects`. The first two hold what runs share, once, under a key made from
   their content, so that a new run changes no line of the old ones. A run is one line of facts and one line
   per metric: its rounds in ns, or `{"value": 0, "rounds": 40}` where all are equal, or the name of an
   earlier metric that has exactly the same numbers. `clocks` may name `others`, if there were any, and
   the SM clock of each round as `round_mhz`, where it changed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone

from pytest_nsight.model.errors import BaselineError
from pytest_nsight.model.values import METRICS, RunSummary, Shape, Subject


def encode(runs: Runs) -> str:
    """The text of a baseline file: sorted by subject, stable, one line per fact, newline at the end.

    Args:
        runs: what the file is to hold; subjects without runs are left out.
    """
    stored = [run for subject in sorted(runs) for run in runs[subject]]
    environments = {_key(dict(run.environment)): dict(run.environment) for run in stored}
    shapes = {_key(fields): fields for run in stored for fields in map(_shape_fields, _shapes(run))}
    subjects = [_encode_subject(subject, runs[subject]) for subject in sorted(runs) if runs[subject]]
    lines = [
        "{",
        f'"format": {FORMAT_VERSION},',
        *_block("environments", environments),
        *_block("shapes", shapes),
        '"subjects": [',
        ",\n".join(subjects),
        "]",
        "}",
    ]
    return "\n".join(line for line in lines if line) + "\n"


def _key(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


def _block(name: str, entries: Mapping[str, object]) -> Iterator[str]:
    yield f'"{name}": {{'
    yield ",\n".join(f' "{key}": {json.dumps(entries[key], sort_keys=True)}' for key in sorted(entries))
    yield "},"


def _shapes(run: RunSummary) -> Iterator[Shape]:
    return (use.shape for use in run.shapes)


def _shape_fields(shape: Shape) -> dict[str, object]:
    return {
        "kind": shape.kind,
        "name": shape.name,
        "full_name": shape.full_name,
        "grid": list(shape.grid),
        "block": list(shape.block),
        "registers": shape.registers,
        "shared_bytes": shape.shared_bytes,
    }


def _encode_subject(subject: Subject, runs: Sequence[RunSummary]) -> str:
    head = f' {{"case": {json.dumps(subject.case)}, "part": {json.dumps(subject.part)}, "runs": ['
    body = ",\n".join(_encode_run(run) for run in sorted(runs, key=by_age))
    return f"{head}\n{body}\n ]}}"


def _encode_run(run: RunSummary) -> str:
    clocks = {
        "sm_mhz": run.clocks.sm_mhz,
        "power_w": run.clocks.power_w,
        "temperature_c": run.clocks.temperature_c,
        "throttled": run.clocks.throttled,
        "reasons": list(run.clocks.reasons),
        "others": list(run.clocks.foreign_processes) or None,
        "round_mhz": list(run.clocks.round_mhz) if len(set(run.clocks.round_mhz)) > 1 else None,
    }
    facts: dict[str, object] = {
        "run": run.run,
        "session": run.session,
        "recorded": run.recorded,
        "commit": run.commit,
        "board": run.board,
        "environment": _key(dict(run.environment)),
        "clocks": {name: value for name, value in clocks.items() if value is not None},
        "is_stable": run.is_stable,
        "copied_bytes": run.copied_bytes,
        "launches": [[_key(_shape_fields(use.shape)), use.count, use.median_ns] for use in run.shapes],
    }
    if run.work is not None:
        facts["work"] = {"bytes_moved": run.work.bytes_moved, "flops": run.work.flops}
    lines = [f'  {json.dumps(facts)[:-1]}, "rounds": {{']
    rounds = ",\n".join(f'   "{metric}": {text}' for metric, text in _encode_rounds(run.rounds))
    return "\n".join([*lines, *([rounds] if rounds else []), "  }}"])


def _encode_rounds(rounds: Mapping[str, tuple[int, ...]]) -> Iterator[tuple[str, str]]:
    names: dict[tuple[int, ...], str] = {}
    for metric in sorted(rounds, key=_metric_order):
        durations = rounds[metric]
        if len(durations) > 1 and len(set(durations)) == 1:
            yield metric, json.dumps({"value": durations[0], "rounds": len(durations)})
        elif durations and durations in names:
            yield metric, json.dumps(names[durations])
        else:
            yield metric, "[" + ",".join(map(str, durations)) + "]"
        names.setdefault(durations, metric)


def _metric_order(metric: str) -> int:
    return METRICS.index(metric) if metric in METRICS else len(METRICS)


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
