"""The text of a baseline file to runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NoReturn

from pytest_nsight.baselines.encode import FORMAT_VERSION, MergeConflictError, NewerFormatError, Runs, by_age
from pytest_nsight.baselines.strict_fields import Record, is_count
from pytest_nsight.model.errors import BaselineError
from pytest_nsight.model.values import METRICS, Clocks, RunSummary, Shape, ShapeUse, Subject, Work

# A count in the file must not be able to ask for all memory.
_MOST_ROUNDS = 1_000_000


def decode(text: str) -> Runs:
    """The runs in the text of a baseline file.

    Raises:
        BaselineError: if the text is no JSON, of a newer format, or holds anything that this format does not;
            the message names line or record, field and value, but neither the file nor a remedy.
    """
    file = Record(_parse(text), "the file")
    version = file.integer("format")
    if version > FORMAT_VERSION:
        raise NewerFormatError(
            f"written by a newer pytest-nsight (format {version}, this one reads up to {FORMAT_VERSION})"
        )
    if version < 1:
        raise file.wrong("format", version, "a version of at least 1")
    environments = _decode_environments(file.record("environments"))
    shapes = _decode_shapes(file.record("shapes"))
    runs: dict[Subject, tuple[RunSummary, ...]] = {}
    for number, item in enumerate(file.items("subjects"), 1):
        entry = Record(item, f"subject {number}")
        subject = Subject(entry.text("case"), entry.text("part"))
        if subject in runs:
            raise BaselineError(f"{subject.label} is stored twice")
        decoded = (_decode_run(run, subject, environments, shapes) for run in entry.items("runs"))
        runs[subject] = tuple(sorted(decoded, key=by_age))
        entry.finish()
        _refuse_repeats(subject, runs[subject])
    file.finish()
    return runs


def _refuse_repeats(subject: Subject, runs: Sequence[RunSummary]) -> None:
    seen: set[str] = set()
    for run in runs:
        if run.run in seen:
            raise BaselineError(f"run {run.run} of {subject.label} is stored twice")
        seen.add(run.run)


def _parse(text: str) -> object:
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("<<<<<<< "):
            raise MergeConflictError(f"unresolved git merge conflict at line {number}")
    try:
        return json.loads(text, object_pairs_hook=_fields, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise BaselineError(f"invalid JSON at line {error.lineno} ({error.msg.lower()})") from error
    except (RecursionError, ValueError) as error:
        raise BaselineError("invalid JSON (nested too deeply, or a number too long)") from error


def _fields(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    fields: dict[str, object] = {}
    for name, value in pairs:
        if name in fields:
            raise BaselineError(f'field "{name}" twice in one object')
        fields[name] = value
    return fields


def _refuse_constant(name: str) -> NoReturn:
    raise BaselineError(f"{name}, which is not a number")


def _decode_environments(entries: Record) -> Mapping[str, Mapping[str, str]]:
    environments = {}
    for key in entries.names():
        fields = Record(entries.take(key), f"environment {key}")
        environments[key] = {name: fields.text(name) for name in fields.names()}
    return environments


def _decode_shapes(entries: Record) -> Mapping[str, Shape]:
    shapes = {}
    for key in entries.names():
        fields = Record(entries.take(key), f"shape {key}")
        shapes[key] = Shape(
            kind=fields.text("kind"),
            name=fields.text("name"),
            full_name=fields.text("full_name"),
            grid=_decode_extent(fields, "grid"),
            block=_decode_extent(fields, "block"),
            registers=fields.integer("registers"),
            shared_bytes=fields.integer("shared_bytes"),
        )
        fields.finish()
    return shapes


def _decode_extent(fields: Record, field: str) -> tuple[int, int, int]:
    match fields.items(field):
        case [int(x), int(y), int(z)] as extent if all(map(is_count, extent)):
            return x, y, z
        case other:
            raise fields.wrong(field, other, "three whole numbers")


def _decode_run(
    item: object,
    subject: Subject,
    environments: Mapping[str, Mapping[str, str]],
    shapes: Mapping[str, Shape],
) -> RunSummary:
    fields = Record(item, f"a run of {subject.label}")
    run = fields.text("run")
    fields.where = f"run {run} of {subject.label}"
    environment = fields.text("environment")
    if environment not in environments:
        raise fields.wrong("environment", environment, 'a key of "environments"')
    summary = RunSummary(
        subject=subject,
        run=run,
        session=fields.text("session"),
        board=fields.text("board"),
        rounds=_decode_rounds(fields.record("rounds")),
        shapes=tuple(_decode_use(use, fields, shapes) for use in fields.items("launches")),
        is_stable=fields.flag("is_stable"),
        copied_bytes=fields.integer("copied_bytes"),
        clocks=_decode_clocks(fields.record("clocks")),
        environment=environments[environment],
        recorded=fields.text("recorded"),
        commit=fields.text("commit"),
        work=_decode_work(fields.optional_record("work")),
    )
    fields.finish()
    return summary


def _decode_use(item: object, fields: Record, shapes: Mapping[str, Shape]) -> ShapeUse:
    match item:
        case [str(key), int(count), int(median_ns)] if is_count(count) and is_count(median_ns):
            if key not in shapes:
                raise fields.wrong("launches", key, 'keys of "shapes"')
            return ShapeUse(shapes[key], count, median_ns)
        case _:
            raise fields.wrong("launches", item, "[key of a shape, launches, ns]")


def _decode_clocks(fields: Record) -> Clocks:
    clocks = Clocks(
        sm_mhz=fields.optional_integer("sm_mhz"),
        power_w=fields.optional_number("power_w"),
        temperature_c=fields.optional_integer("temperature_c"),
        throttled=fields.optional_number("throttled"),
        reasons=fields.texts("reasons"),
        foreign_processes=fields.texts("others") if "others" in fields.names() else (),
        round_mhz=fields.counts("round_mhz") if "round_mhz" in fields.names() else (),
    )
    fields.finish()
    return clocks


def _decode_work(fields: Record | None) -> Work | None:
    if fields is None:
        return None
    work = Work(bytes_moved=fields.integer("bytes_moved"), flops=fields.integer("flops"))
    fields.finish()
    return work


def _decode_rounds(fields: Record) -> Mapping[str, tuple[int, ...]]:
    rounds: dict[str, tuple[int, ...]] = {}
    for metric in fields.names():
        value = fields.take(metric)
        if metric not in METRICS:
            raise BaselineError(f'{fields.where} has an unknown metric "{metric}", known: {", ".join(METRICS)}')
        match value:
            case str() if value in rounds:
                rounds[metric] = rounds[value]
            case list() if all(map(is_count, value)):
                rounds[metric] = tuple(value)
            case {"value": int(ns), "rounds": int(number), **other} if (
                is_count(ns) and is_count(number) and 1 <= number <= _MOST_ROUNDS and not other
            ):
                rounds[metric] = (ns,) * number
            case list():
                bad = next(item for item in value if not is_count(item))
                raise fields.wrong(metric, bad, "whole numbers of ns, at least 0")
            case _:
                raise fields.wrong(metric, value, "a list of whole numbers of ns")
    return rounds
