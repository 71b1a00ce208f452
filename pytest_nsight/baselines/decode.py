"""The text of a baseline file to runs, in any format of `file_format`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import sub
from typing import TypeVar

from pytest_nsight.baselines.file_format import (
    FORMAT_VERSION,
    GAP_IS_DERIVED,
    MOST_DURATIONS,
    MOST_ROUNDS,
    FirstFormat,
    MergeConflictError,
    NewerFormatError,
    Runs,
    SecondFormat,
    StoredConstant,
    StoredRun,
    StoredStructure,
    StoredWholeRun,
    StoredWork,
    by_age,
)
from pytest_nsight.baselines.packed_integers import PackingError, unpack
from pytest_nsight.baselines.stored_identities import restore_identities
from pytest_nsight.model.decoding import read
from pytest_nsight.model.errors import BaselineError
from pytest_nsight.model.identity import Identity, TunedKernel
from pytest_nsight.model.json_text import DecodingError, parse, shown
from pytest_nsight.model.kernel_names import normalise
from pytest_nsight.model.values import METRICS, Clocks, RunSummary, Shape, ShapeUse, Subject, Work

_Entry = TypeVar("_Entry")
_Rounds = Mapping[str, tuple[int, ...]]


def decode(text: str) -> Runs:
    """The runs in the text of a baseline file.

    Raises:
        BaselineError: the text is no JSON, of a newer format, or holds anything that its format does not; the
            message has place and value, but neither the file nor a remedy.
    """
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("<<<<<<< "):
            raise MergeConflictError(f"unresolved git merge conflict at line {number}")
    try:
        content = parse(text)
        version = _read_version(content)
        decoded = _decode_first(read(FirstFormat, content)) if version == 1 else _decode_second(content)
        return _sort(decoded)
    except DecodingError as error:
        raise BaselineError(str(error)) from error


def _read_version(content: object) -> int:
    if not isinstance(content, dict):
        raise DecodingError("", f"holds no JSON object of baselines, but {shown(content)}")
    version = content.get("format")
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise DecodingError(".format", f"is {shown(version)}, expected 1 to {FORMAT_VERSION}")
    if version > FORMAT_VERSION:
        known = f"this one reads up to {FORMAT_VERSION}"
        raise NewerFormatError(f"written by a newer pytest-nsight (format {shown(version)}, {known})")
    return version


def _sort(subjects: Iterable[tuple[Subject, Sequence[RunSummary]]]) -> Runs:
    runs: dict[Subject, tuple[RunSummary, ...]] = {}
    for subject, found in subjects:
        if not found:
            continue
        if subject in runs:
            raise BaselineError(f"{shown(subject.label)} is stored twice")
        runs[subject] = tuple(sorted(found, key=by_age))
        seen: set[str] = set()
        for run in runs[subject]:
            if run.run in seen:
                raise BaselineError(f"run {shown(run.run)} of {shown(subject.label)} is stored twice")
            seen.add(run.run)
    return runs


class _Durations:
    """Counts the durations of a file, so that a short text cannot ask for all memory."""

    def __init__(self) -> None:
        self._left = MOST_DURATIONS

    def take(self, durations: tuple[int, ...]) -> tuple[int, ...]:
        """The durations, unless they are too many."""
        self._left -= len(durations)
        if self._left < 0:
            raise DecodingError("", f"holds more than {MOST_DURATIONS:,} durations, the most that are read")
        return durations


def _look_up(entries: Mapping[str, _Entry], key: str, table: str) -> _Entry:
    try:
        return entries[key]
    except KeyError:
        raise DecodingError("", f'has the key {shown(key)}, which is not in "{table}"') from None


def _each(place: str, items: Sequence[_Entry], decode_item: Callable[[_Entry], RunSummary]) -> list[RunSummary]:
    found: list[RunSummary] = []
    try:
        for item in items:
            found.append(decode_item(item))  # noqa: PERF401 - the error counts them
    except DecodingError as error:
        raise DecodingError(f"{place}[{len(found)}]{error.place}", error.fault) from None
    return found


def _name_today(kind: str, name: str, full_name: str) -> str:
    """The normalised name of a shape: the version that stored it may have made another one of the full name."""
    return normalise(full_name) if kind == "kernel" and full_name else name


def _decode_first(file: FirstFormat) -> Iterator[tuple[Subject, Sequence[RunSummary]]]:
    shapes = {
        key: Shape(
            stored.kind,
            _name_today(stored.kind, stored.name, stored.full_name),
            stored.full_name,
            stored.grid,
            stored.block,
            stored.registers,
            stored.shared_bytes,
        )
        for key, stored in file.shapes.items()
    }
    durations = _Durations()
    for number, entry in enumerate(file.subjects):
        subject = Subject(entry.case, entry.part)
        decode_run = partial(_decode_whole_run, subject, file, shapes, durations)
        yield subject, _each(f".subjects[{number}].runs", entry.runs, decode_run)


def _decode_whole_run(
    subject: Subject,
    file: FirstFormat,
    shapes: Mapping[str, Shape],
    durations: _Durations,
    stored: StoredWholeRun,
) -> RunSummary:
    return RunSummary(
        subject=subject,
        run=stored.run,
        session=stored.session,
        board=stored.board,
        rounds=_decode_lists(stored.rounds, durations),
        shapes=tuple(
            ShapeUse(_look_up(shapes, key, "shapes"), count, median) for key, count, median in stored.launches
        ),
        is_stable=stored.is_stable,
        copied_bytes=stored.copied_bytes,
        clocks=Clocks(
            stored.clocks.sm_mhz,
            stored.clocks.power_w,
            stored.clocks.temperature_c,
            stored.clocks.throttled,
            stored.clocks.reasons,
            foreign_processes=stored.clocks.others,
            round_mhz=stored.clocks.round_mhz,
        ),
        environment=_look_up(file.environments, stored.environment, "environments"),
        recorded=stored.recorded,
        commit=stored.commit,
        work=_decode_work(stored.work),
    )


def _decode_lists(stored: Mapping[str, tuple[int, ...] | str | StoredConstant], durations: _Durations) -> _Rounds:
    rounds: dict[str, tuple[int, ...]] = {}
    for metric, value in stored.items():
        _check_metric(metric)
        if isinstance(value, StoredConstant):
            rounds[metric] = durations.take((value.value,) * value.rounds)
        elif isinstance(value, str):
            rounds[metric] = _look_up(rounds, value, "rounds")
        else:
            rounds[metric] = durations.take(value)
        if len(rounds[metric]) > MOST_ROUNDS:
            raise DecodingError(
                f".rounds.{metric}", f"has {len(rounds[metric])} rounds, expected up to {MOST_ROUNDS}"
            )
    return rounds


def _check_metric(metric: str) -> None:
    if metric not in METRICS:
        raise DecodingError(".rounds", f"has an unknown metric {shown(metric)}, known: {', '.join(METRICS)}")


def _decode_work(stored: StoredWork | None) -> Work | None:
    return None if stored is None else Work(stored.bytes_moved, stored.flops)


def _decode_second(content: object) -> Iterator[tuple[Subject, Sequence[RunSummary]]]:
    file = read(SecondFormat, content)
    kernels = file.kernels
    shapes = {}
    for key, shape in file.shapes.items():
        kernel = _look_up(kernels, shape.kernel, "kernels")
        shapes[key] = Shape(
            shape.kind,
            _name_today(shape.kind, kernel.name, kernel.full_name),
            kernel.full_name,
            shape.grid,
            shape.block,
            shape.registers,
            shape.shared_bytes,
        )
    identities = restore_identities(file.launches, file.identities)
    durations = _Durations()
    for number, entry in enumerate(file.subjects):
        subject = Subject(entry.case, entry.part)
        decode_run = partial(_decode_run, subject, file, shapes, identities, durations)
        yield subject, _each(f".subjects[{number}].runs", entry.runs, decode_run)


def _decode_run(
    subject: Subject,
    file: SecondFormat,
    shapes: Mapping[str, Shape],
    identities: Mapping[str, Identity],
    durations: _Durations,
    stored: StoredRun,
) -> RunSummary:
    origin = _look_up(file.origins, stored.origin, "origins")
    structure = _look_up(file.structures, stored.structure, "structures")
    return RunSummary(
        subject=subject,
        run=origin.runs + stored.end_of_id,
        session=origin.session,
        board=origin.board,
        rounds=_decode_packed(stored.rounds, durations),
        shapes=_decode_uses(structure, stored.medians, shapes),
        is_stable=structure.is_stable,
        copied_bytes=structure.copied_bytes,
        clocks=Clocks(
            *stored.clocks,
            reasons=stored.reasons,
            foreign_processes=stored.foreign,
            round_mhz=_unpack(stored.round_mhz, ".round_mhz", durations) if stored.round_mhz else (),
            processor_lost=stored.processor_lost,
        ),
        environment=_look_up(file.environments, origin.environment, "environments"),
        recorded=origin.recorded,
        commit=origin.commit,
        work=_decode_work(structure.work),
        reason=origin.reason,
        cases=origin.cases,
        elapsed_ms=stored.elapsed_ms,
        identity=_look_up(identities, structure.identity, "identities") if structure.identity else None,
        tuned=tuple(TunedKernel(*fields) for fields in structure.tuned),
    )


def _decode_uses(
    structure: StoredStructure, medians: Sequence[int], shapes: Mapping[str, Shape]
) -> tuple[ShapeUse, ...]:
    if len(medians) != len(structure.launches):
        raise DecodingError(
            ".medians",
            f"has {len(medians)} items, expected {len(structure.launches)}, as its structure has launches",
        )
    return tuple(
        ShapeUse(_look_up(shapes, key, "shapes"), count, median)
        for (key, count), median in zip(structure.launches, medians, strict=True)
    )


def _decode_packed(stored: Mapping[str, str], durations: _Durations) -> _Rounds:
    rounds: dict[str, tuple[int, ...]] = {}
    for metrics, packed in stored.items():
        is_derived = metrics == "gap" and packed == GAP_IS_DERIVED
        found = () if is_derived else _unpack(packed, f".rounds[{shown(metrics)}]", durations)
        for metric in metrics.split(" "):
            _check_metric(metric)
            if metric in rounds:
                raise DecodingError(".rounds", f'has the metric "{metric}" twice')
            rounds[metric] = found
    if stored.get("gap") == GAP_IS_DERIVED:
        span, busy = rounds.get("span", ()), rounds.get("busy", ())
        rounds["gap"] = durations.take(tuple(map(sub, span, busy)))
        if len(span) != len(busy) or min(rounds["gap"], default=0) < 0:
            raise DecodingError(".rounds.gap", "is the span less the busy time, and these do not fit")
    return rounds


def _unpack(packed: str, place: str, durations: _Durations) -> tuple[int, ...]:
    try:
        return durations.take(unpack(packed, MOST_ROUNDS))
    except PackingError as error:
        raise DecodingError(place, str(error)) from None
