"""Runs to the text of a baseline file, in the newest format of `file_format`."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from operator import sub

from pytest_nsight.baselines.file_format import (
    FORMAT_VERSION,
    FORMAT_WITHOUT_IDENTITIES,
    FORMAT_WITHOUT_TUNING,
    GAP_IS_DERIVED,
    Runs,
    StoredKernel,
    StoredOrigin,
    StoredRun,
    StoredShape,
    StoredStructure,
    StoredWork,
    by_age,
)
from pytest_nsight.baselines.packed_integers import pack
from pytest_nsight.baselines.stored_identities import StoredCode, StoredIdentity, StoredLaunch, store_launch
from pytest_nsight.model.identity import Identity, LaunchIdentity
from pytest_nsight.model.shapes import Shape
from pytest_nsight.model.values import METRICS, RunSummary, Subject

_Fields = Mapping[str, object]


class _Shared:
    """What several runs hold, each once, under a key made from its content."""

    def __init__(self) -> None:
        self._entries: dict[str, _Fields] = {}

    def add(self, fields: _Fields) -> str:
        """The key of the fields, which are kept."""
        key = hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:12]
        self._entries[key] = fields
        return key

    def __bool__(self) -> bool:
        return bool(self._entries)

    def lines(self, name: str) -> Iterator[str]:
        """A line for each entry, in order of time where there is one, so that a new entry goes to the end."""
        entries = sorted(self._entries.items(), key=lambda item: (str(item[1].get("recorded", "")), item[0]))
        yield f'"{name}": {{'
        yield ",\n".join(f' "{key}": {_to_json(fields)}' for key, fields in entries)
        yield "},"


class _Encoder:
    """Collects what the runs of one file share while it encodes them."""

    def __init__(self) -> None:
        self.environments, self.kernels, self.shapes = _Shared(), _Shared(), _Shared()
        self.structures, self.origins = _Shared(), _Shared()
        self.launches, self.identities = _Shared(), _Shared()
        self.is_tuned = False
        self._launch_keys: dict[LaunchIdentity, str] = {}
        self._shape_keys: dict[Shape, str] = {}

    @property
    def format(self) -> int:
        """The oldest version that holds what was encoded."""
        if self.is_tuned:
            return FORMAT_VERSION
        return FORMAT_WITHOUT_TUNING if self.identities else FORMAT_WITHOUT_IDENTITIES

    def subject(self, subject: Subject, runs: Sequence[RunSummary]) -> str:
        """The lines of a subject: a head, a line for each run, an end."""
        head = f' {{"case": {json.dumps(subject.case)}, "part": {json.dumps(subject.part)}, "runs": ['
        body = ",\n".join(f"  {self._run(run)}" for run in sorted(runs, key=by_age))
        return f"{head}\n{body}\n ]}}"

    def _run(self, run: RunSummary) -> str:
        prefix = f"{run.session}/" if run.run.startswith(f"{run.session}/") else ""
        clocks = run.clocks
        stored = StoredRun(
            origin=self._origin(run, prefix),
            end_of_id=run.run.removeprefix(prefix),
            structure=self._structure(run),
            clocks=(clocks.sm_mhz, clocks.power_w, clocks.temperature_c, clocks.throttled),
            medians=tuple(use.median_ns for use in run.shapes),
            rounds=_pack_rounds(run.rounds),
            reasons=clocks.reasons,
            foreign=clocks.foreign_processes,
            round_mhz=pack(clocks.round_mhz) if len(set(clocks.round_mhz)) > 1 else "",
            processor_lost=clocks.processor_lost,
            elapsed_ms=run.elapsed_ms,
        )
        row = [(getattr(stored, field.name), field.default) for field in dataclasses.fields(stored)]
        while row[-1][0] == row[-1][1]:
            row.pop()
        return _to_json([value for value, _ in row])

    def _origin(self, run: RunSummary, prefix: str) -> str:
        stored = StoredOrigin(
            runs=prefix,
            session=run.session,
            recorded=run.recorded,
            commit=run.commit,
            board=run.board,
            environment=self.environments.add(dict(sorted(run.environment.items()))),
            reason=run.reason,
            cases=run.cases,
        )
        return self.origins.add(_fields(stored))

    def _structure(self, run: RunSummary) -> str:
        stored = StoredStructure(
            launches=tuple((self._shape(use.shape), use.count) for use in run.shapes),
            is_stable=run.is_stable,
            copied_bytes=run.copied_bytes,
            work=None if run.work is None else StoredWork(run.work.bytes_moved, run.work.flops),
            identity="" if run.identity is None else self._identity(run.identity),
            tuned=tuple(dataclasses.astuple(kernel) for kernel in run.tuned),
        )
        self.is_tuned |= bool(run.tuned)
        return self.structures.add(_fields(stored))

    def _identity(self, identity: Identity) -> str:
        keys = [self._launch(launch) for launch in identity.launches]
        order = tuple((keys[place], times) for place, times in identity.order)
        return self.identities.add(_fields(StoredIdentity(identity.digest, order, identity.reading)))

    def _launch(self, launch: LaunchIdentity) -> str:
        if launch not in self._launch_keys:
            self._launch_keys[launch] = self.launches.add(_fields(store_launch(launch)))
        return self._launch_keys[launch]

    def _shape(self, shape: Shape) -> str:
        if shape not in self._shape_keys:
            stored = StoredShape(
                kind=shape.kind,
                kernel=self.kernels.add(_fields(StoredKernel(shape.name, shape.full_name))),
                grid=shape.grid,
                block=shape.block,
                registers=shape.registers,
                shared_bytes=shape.shared_bytes,
            )
            self._shape_keys[shape] = self.shapes.add(_fields(stored))
        return self._shape_keys[shape]


def encode(runs: Runs) -> str:
    """The text of a baseline file: sorted by subject, the same for the same runs, a newline at its end.

    Args:
        runs: what the file is to hold; subjects without runs are left out.
    """
    encoder = _Encoder()
    subjects = [encoder.subject(subject, runs[subject]) for subject in sorted(runs) if runs[subject]]
    lines = [
        "{",
        f'"format": {encoder.format},',
        *encoder.environments.lines("environments"),
        *encoder.kernels.lines("kernels"),
        *encoder.shapes.lines("shapes"),
        *(encoder.launches.lines("launches") if encoder.identities else ()),
        *(encoder.identities.lines("identities") if encoder.identities else ()),
        *encoder.structures.lines("structures"),
        *encoder.origins.lines("origins"),
        '"subjects": [',
        ",\n".join(subjects),
        "]",
        "}",
    ]
    return "\n".join(line for line in lines if line) + "\n"


def _to_json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _fields(
    value: StoredKernel | StoredShape | StoredStructure | StoredOrigin | StoredLaunch | StoredIdentity,
) -> dict[str, object]:
    """The fields that differ from their defaults, in order."""
    found = ((field, getattr(value, field.name)) for field in dataclasses.fields(value))
    return {
        field.name: dataclasses.asdict(content) if isinstance(content, StoredWork | StoredCode) else content
        for field, content in found
        if content != field.default
    }


def _pack_rounds(rounds: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
    metrics: dict[tuple[int, ...], list[str]] = {}
    for metric in sorted(rounds, key=METRICS.index):
        metrics.setdefault(rounds[metric], []).append(metric)
    packed = {" ".join(names): pack(durations) for durations, names in metrics.items()}
    gap, span, busy = (rounds.get(name, ()) for name in ("gap", "span", "busy"))
    if "gap" in packed and len(gap) == len(span) == len(busy) and gap == tuple(map(sub, span, busy)):
        packed["gap"] = GAP_IS_DERIVED
    return packed
