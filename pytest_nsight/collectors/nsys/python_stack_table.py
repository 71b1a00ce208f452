"""Stacks of Python, which nsys writes with `--python-backtrace=cuda` and `--python-sampling=true`.

Each stack is an NVTX mark of a domain of its own, with a binary payload that the table of payload schemas
describes: the thread's state, the number of frames, and for each frame the numbers of two strings, the function and
the file, and the line. An export has the payloads only if `nsys export --include-blobs=true` wrote it.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_nsight.collectors.nsys.columns import ID_BITS, process_ids, thread_ids
from pytest_nsight.collectors.nsys.nvtx_table import DOMAIN_CREATE, NVTX
from pytest_nsight.collectors.nsys.open_export import Export
from pytest_nsight.collectors.nsys.string_table import read_texts
from pytest_nsight.model.python_stacks import PYTHON_DOMAINS, SAMPLE_DOMAIN, PythonPlace, PythonStacks
from pytest_nsight.model.sorted_keys import distinct, rank_groups
from pytest_nsight.model.units import count

SCHEMAS, ENTRIES = "NVTX_PAYLOAD_SCHEMAS", "NVTX_PAYLOAD_SCHEMA_ENTRIES"
PAYLOAD = "binaryData"
INCLUDE_PAYLOADS = "--include-blobs=true"
"""What makes `nsys export` write payloads."""

_MARK = 34
_WORD = 8
# Of a blob: number of payloads, then schema, length and offset of each.
_SCHEMA_WORD, _LENGTH_WORD, _OFFSET_WORD, _HEADER_WORDS = 1, 2, 3, 4
# The form that nsys 2025.3 writes: entry -> offset in bytes.
_STACK_FORM = {"Thread state ID": 0, "Thread state": 8, "Frames count": 12, "Frames": 16}
_FRAME_FORM = {"Function": 0, "File": 8, "Line": 16}
_FRAMES_WORD, _FRAME_WORDS = 2, 3

Words = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class StackMarks(NamedTuple):
    """What shows that a mark is a stack of Python.

    Attributes:
        schemas: number of a payload -> name of its form; each domain numbers its own, so that others may share it.
        domains: process, as in global ids, and number of a domain in it -> name.
    """

    schemas: Mapping[int, str]
    domains: Mapping[tuple[int, int], str]

    def find_domain(self, global_tid: object, domain: object, schema: int | None) -> str | None:
        """The domain of a stack, one of PYTHON_DOMAINS; None where a mark is none.

        Args:
            global_tid: of the mark; a damaged row may hold anything.
            domain: its number, likewise.
            schema: number of its payload, None where it has none.
        """
        if not isinstance(global_tid, int) or not isinstance(domain, int) or not domain:
            return None
        if schema is None or schema not in self.schemas:
            return None
        name = self.domains.get((global_tid >> ID_BITS, domain), self.schemas[schema])
        return name if name in PYTHON_DOMAINS else None


class _Blobs(NamedTuple):
    """The payloads, one behind the other."""

    at_ns: Words
    global_tid: Words
    domain: Words
    words: Words
    first: Words
    length: Words


class _Frames(NamedTuple):
    """The frames of all stacks that are whole, shape (stacks,) for the first four and (frames,) for the others.

    ``function`` and ``file`` are numbers of strings.
    """

    at_ns: Words
    global_tid: Words
    is_sample: Flags
    first: Words
    function: Words
    file: Words
    line: Words


def read_python_stacks(export: Export) -> tuple[PythonStacks, tuple[str, ...]]:
    """The stacks of Python, and notes on those that cannot be read.

    Args:
        export: the file.

    Raises:
        TraceError: the file is damaged.
    """
    frames, unread = _read_frames(export)
    what = count(unread, "stack of Python has a form", "stacks of Python have a form")
    notes = (f"{what} that this version of pytest-nsight does not know, and no table counts it",) if unread else ()
    if frames is None or not len(frames.at_ns):
        return PythonStacks(unread=unread), notes
    place, places = rank_groups(rank_groups(frames.function, frames.file)[0], frames.line)
    one = np.zeros(places, np.int64)
    one[place] = np.arange(len(place))
    function, file = frames.function[one], frames.file[one]
    texts = read_texts(export, distinct(np.concatenate([function, file])))
    columns = (column.tolist() for column in (function, file, frames.line[one]))
    stacks = PythonStacks(
        at_ns=frames.at_ns,
        process=process_ids(frames.global_tid),
        thread=thread_ids(frames.global_tid),
        is_sample=frames.is_sample,
        first=frames.first,
        place=place.astype(np.int32),
        places=tuple(
            PythonPlace(html.unescape(texts.get(name, "?")), html.unescape(texts.get(path, "?")), number)
            for name, path, number in zip(*columns, strict=True)
        ),
        unread=unread,
    )
    return stacks, notes


def find_string_ids(export: Export) -> tuple[Words, Words]:
    """The numbers of the strings that name functions, and of those that name files, each once.

    Args:
        export: the file.

    Raises:
        TraceError: the file is damaged.
    """
    frames, _ = _read_frames(export)
    none = np.zeros(0, np.int64)
    return (none, none) if frames is None else (distinct(frames.function), distinct(frames.file))


def find_marks(export: Export) -> StackMarks:
    """The payloads that are stacks of Python, and the domains of all processes.

    Args:
        export: the file.

    Raises:
        TraceError: the file is damaged.
    """
    if not export.has(SCHEMAS, "schemaId", "name") or not export.has(
        NVTX, PAYLOAD, "globalTid", "domainId", "text"
    ):
        return StackMarks({}, {})
    rows = export.query(f"SELECT schemaId, name FROM {SCHEMAS} WHERE typeof(schemaId) = 'integer'")
    schemas = {schema: name for schema, name in rows if name in PYTHON_DOMAINS}
    if not schemas:
        return StackMarks({}, {})
    rows = export.query(
        f"SELECT globalTid, domainId, text FROM {NVTX} WHERE eventType = {DOMAIN_CREATE} AND text IS NOT NULL "
        "AND typeof(globalTid) = 'integer' AND typeof(domainId) = 'integer'"
    )
    return StackMarks(schemas, {(task >> ID_BITS, number): name for task, number, name in rows})


def payload_schema(blob: bytes | None) -> int | None:
    """The number of the form of a payload, None where there is none."""
    if blob is None or len(blob) < _WORD * _HEADER_WORDS:
        return None
    return int.from_bytes(blob[_WORD * _SCHEMA_WORD :][:_WORD], "little")


def _read_frames(export: Export) -> tuple[_Frames | None, int]:
    """The frames, None where the export has no such payload; and how many stacks have another form."""
    marks = find_marks(export)
    if not marks.schemas:
        return None, 0
    blobs = _read_blobs(export)
    if not len(blobs.first):
        return None, 0
    is_stack, is_sample = _flag_stacks(marks, blobs)
    start, is_whole = _find_first_frames(blobs, [schema for schema in marks.schemas if _has_form(export, schema)])
    unread = int((is_stack & ~is_whole).sum())
    rows = np.flatnonzero(is_stack & is_whole)
    frames = _count_frames(blobs.words, start[rows] - 1)
    first = np.cumsum(frames) - frames
    within = np.arange(int(frames.sum())) - np.repeat(first, frames)
    at = np.repeat(start[rows], frames) + _FRAME_WORDS * within
    found = _Frames(
        at_ns=blobs.at_ns[rows],
        global_tid=blobs.global_tid[rows],
        is_sample=is_sample[rows],
        first=first,
        function=blobs.words[at],
        file=blobs.words[at + 1],
        # The upper half of the word is padding, with whatever was there before.
        line=blobs.words[at + 2].astype(np.int32).astype(np.int64),
    )
    return found, unread


def _flag_stacks(marks: StackMarks, blobs: _Blobs) -> tuple[Flags, Flags]:
    """Which payloads are stacks of Python, and which of these are samples, shape (payloads,) each."""
    columns = blobs.global_tid >> ID_BITS << ID_BITS, blobs.domain, blobs.words[blobs.first + _SCHEMA_WORD]
    kind, kinds = rank_groups(rank_groups(*columns[:2])[0], columns[2])
    one = np.zeros(kinds, np.int64)
    one[kind] = np.arange(len(kind))
    names = [marks.find_domain(*row) for row in zip(*(column[one].tolist() for column in columns), strict=True)]
    is_stack = np.array([name is not None for name in names], np.bool_)[kind]
    return is_stack, np.array([name == SAMPLE_DOMAIN for name in names], np.bool_)[kind]


def _has_form(export: Export, schema: int) -> bool:
    """Whether payloads of a schema are laid out as they are read here."""
    wanted = ("schemaId", "name", "type", "offset")
    if not export.has(ENTRIES, *wanted):
        return False

    def read_form(number: object) -> tuple[dict[str, int], dict[str, object]]:
        rows = export.query(f"SELECT name, ifnull(offset, 0), type FROM {ENTRIES} WHERE schemaId = ?", number)
        return {name: offset for name, offset, _ in rows}, {name: kind for name, _, kind in rows}

    form, kinds = read_form(schema)
    return form == _STACK_FORM and read_form(kinds["Frames"])[0] == _FRAME_FORM


def _read_blobs(export: Export) -> _Blobs:
    """The payloads of all marks, as words of 8 bytes."""
    rows = export.query(
        f"SELECT start, globalTid, domainId, {PAYLOAD} FROM {NVTX} WHERE eventType = {_MARK} "
        "AND typeof(start) = 'integer' AND typeof(globalTid) = 'integer' AND typeof(domainId) = 'integer' "
        f"AND typeof({PAYLOAD}) = 'blob' AND length({PAYLOAD}) >= ?",
        _WORD * _HEADER_WORDS,
    )
    parts = [blob[: len(blob) // _WORD * _WORD] for *_, blob in rows]
    length = np.array([len(part) // _WORD for part in parts], np.int64)
    return _Blobs(
        at_ns=np.array([start for start, *_ in rows], np.int64),
        global_tid=np.array([thread for _, thread, *_ in rows], np.int64),
        domain=np.array([domain for _, _, domain, _ in rows], np.int64),
        words=np.frombuffer(b"".join(parts), "<i8"),
        first=np.cumsum(length) - length,
        length=length,
    )


def _find_first_frames(blobs: _Blobs, schemas: Sequence[int]) -> tuple[Words, Flags]:
    """The word at which the frames of each payload begin, and whether they are all there, and one at least."""
    words, first, length = blobs.words, blobs.first, blobs.length
    bytes_in, offset = words[first + _LENGTH_WORD], words[first + _OFFSET_WORD]
    fits = np.isin(words[first + _SCHEMA_WORD], schemas) & (words[first] == 1) & (offset % _WORD == 0)
    fits &= (offset >= _WORD * _HEADER_WORDS) & (offset <= _WORD * (length - _FRAMES_WORD))
    start = first + np.where(fits, offset // _WORD, 0) + _FRAMES_WORD
    frames = _count_frames(words, start - 1)
    available = np.minimum(bytes_in, _WORD * length - offset) // _WORD - _FRAMES_WORD
    return start, fits & (frames > 0) & (frames * _FRAME_WORDS <= available)


def _count_frames(words: Words, at: Words) -> Words:
    """The upper half of a word; the lower one is the thread's state."""
    if not len(words):
        return np.zeros(0, np.int64)
    frames: Words = words[np.minimum(at, len(words) - 1)] >> 32
    return frames
