"""The text of a baseline file to runs, in any format of `file_format`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeVar

from pytest_nsight.baselines.file_format import (
    FORMAT_VERSION,
    FirstFormat,
    MergeConflictError,
    NewerFormatError,
    Runs,
    SecondFormat,
    StoredRun,
    StoredStructure,
    StoredWholeRun,
    StoredWork,
    by_age,
)
from pytest_nsight.baselines.stored_identities import restore_identities
from pytest_nsight.baselines.stored_rounds import Durations, look_up, read_lists, read_one, read_packed
from pytest_nsight.model.decoding import read
from pytest_nsight.model.errors import BaselineError
from pytest_nsight.model.identity import Identity, TunedKernel
from pytest_nsight.model.json_text import DecodingError, parse, shown
from pytest_nsight.model.kernel_names import normalise
from pytest_nsight.model.shapes import Shape, ShapeUse
from pytest_nsight.model.values import Clocks, RunSummary, Subject, Work

_Entry = TypeVar("_Entry")


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
    durations = Durations()
    for number, entry in enumerate(file.subjects):
        subject = Subject(entry.case, entry.part)
        decode_run = partial(_decode_whole_run, subject, file, shapes, durations)
        yield subject, _each(f".subjects[{number}].runs", entry.runs, decode_run)


def _decode_whole_run(
    subject: Subject,
    file: FirstFormat,
    shapes: Mapping[str, Shape],
    durations: Durations,
    stored: StoredWholeRun,
) -> RunSummary:
    return RunSummary(
        subject=subject,
        run=stored.run,
        session=stored.session,
        board=stored.board,
        rounds=read_lists(stored.rounds, durations),
        shapes=tuple(
            ShapeUse(look_up(shapes, key, "shapes"), count, median) for key, count, median in stored.launches
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
        environment=look_up(file.environments, stored.environment, "environments"),
        recorded=stored.recorded,
        commit=stored.commit,
        work=_decode_work(stored.work),
    )


def _decode_work(stored: StoredWork | None) -> Work | None:
    return None if stored is None else Work(stored.bytes_moved, stored.flops)


def _decode_second(content: object) -> Iterator[tuple[Subject, Sequence[RunSummary]]]:
    file = read(SecondFormat, content)
    kernels = file.kernels
    shapes = {}
    for key, shape in file.shapes.items():
        kernel = look_up(kernels, shape.kernel, "kernels")
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
    durations = Durations()
    for number, entry in enumerate(file.subjects):
        subject = Subject(entry.case, entry.part)
        decode_run = partial(_decode_run, subject, file, shapes, identities, durations)
        yield subject, _each(f".subjects[{number}].runs", entry.runs, decode_run)


def _decode_run(
    subject: Subject,
    file: SecondFormat,
    shapes: Mapping[str, Shape],
    identities: Mapping[str, Identity],
    durations: Durations,
    stored: StoredRun,
) -> RunSummary:
    origin = look_up(file.origins, stored.origin, "origins")
    structure = look_up(file.structures, stored.structure, "structures")
    return RunSummary(
        subject=subject,
        run=origin.runs + stored.end_of_id,
        session=origin.session,
        board=origin.board,
        rounds=read_packed(stored.rounds, durations),
        shapes=_decode_uses(structure, stored.medians, shapes),
        is_stable=structure.is_stable,
        copied_bytes=structure.copied_bytes,
        clocks=Clocks(
            *stored.clocks,
            reasons=stored.reasons,
            foreign_processes=stored.foreign,
            round_mhz=read_one(stored.round_mhz, ".round_mhz", durations) if stored.round_mhz else (),
            processor_lost=stored.processor_lost,
        ),
        environment=look_up(file.environments, origin.environment, "environments"),
        recorded=origin.recorded,
        commit=origin.commit,
        work=_decode_work(structure.work),
        reason=origin.reason,
        cases=origin.cases,
        elapsed_ms=stored.elapsed_ms,
        identity=look_up(identities, structure.identity, "identities") if structure.identity else None,
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
        ShapeUse(look_up(shapes, key, "shapes"), count, median)
        for (key, count), median in zip(structure.launches, medians, strict=True)
    )
