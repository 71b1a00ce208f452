"""A run's manifest and measured ranges become one RunSummary per subject. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Container, Mapping, Sequence

import pandas as pd

from pytest_nsight.manifest import Manifest, Round
from pytest_nsight.model import METRICS, Clocks, RunSummary, Shape, ShapeUse, Subject
from pytest_nsight.trace.measures import Measured

# What can be said of operators on a processor: they are not launched, copied for or waited for.
_OPERATOR_METRICS = ("kernel", "busy", "span", "gap", "wall")


def summarise(manifest: Manifest, measured: Measured) -> tuple[tuple[RunSummary, ...], dict[str, str]]:
    """Summarises what one worker measured.

    Args:
        manifest: which rounds it ran.
        measured: what the profiler saw of them.

    Returns:
        The summaries of all cases whose rounds were seen completely, and for each other case a sentence that
        says what is missing.
    """
    own = measured.ranges[(measured.ranges["process"] == manifest.pid) & (measured.ranges["id"] >= 0)]
    seen = own.reset_index(names="row").drop_duplicates("id").set_index("id")
    uses = _Uses(measured)
    rounds: dict[str, list[Round]] = {}
    for one in manifest.rounds:
        rounds.setdefault(one.case, []).append(one)
    summaries: list[RunSummary] = []
    problems: dict[str, str] = {}
    for case, own_rounds in rounds.items():
        missing = sum(one.id not in seen.index for one in own_rounds)
        if missing:
            problems[case] = f"{missing} of {len(own_rounds)} rounds are missing from the trace: its end was lost"
            continue
        for part, ids in _subjects(own_rounds, set(seen.index)).items():
            frames = [seen.loc[list(payloads)] for payloads in ids]
            shapes = [uses.of(frame) for frame in frames]
            if not part and not any(shapes):
                problems[case] = _nothing_launched(manifest)
                break
            summaries.append(_summary(manifest, Subject(case, part), own_rounds, frames, shapes, measured.shapes))
    return tuple(summaries), problems


def _subjects(rounds: Sequence[Round], seen: Container[int]) -> dict[str, list[tuple[int, ...]]]:
    """Part -> for each round the payloads of its ranges; a part may be opened several times in a round."""
    subjects: dict[str, list[tuple[int, ...]]] = {"": [(one.id,) for one in rounds]}
    for name in dict.fromkeys(name for one in rounds for _, name in one.parts):
        payloads = [tuple(id_ for id_, other in one.parts if other == name and id_ in seen) for one in rounds]
        # Rounds that skipped the part have nothing to tell of it.
        groups = [group for group in payloads if group]
        if groups:
            subjects[name] = groups
    return subjects


def _nothing_launched(manifest: Manifest) -> str:
    is_cpu = manifest.environment.get("collector") == "torch" and not manifest.board.startswith("GPU-")
    where = "CPU operator" if is_cpu else "GPU kernel"
    return (
        f"no {where} ran in the measured rounds: does the measured function do its work on the device, and "
        "is the work in the function rather than in its arguments?"
    )


class _Uses:
    """Finds the shapes that were launched in given ranges."""

    def __init__(self, measured: Measured) -> None:
        columns = ("range", "shape", "count", "total_ns", "first_start_ns")
        self._by_row: dict[int, list[tuple[int, int, int, int]]] = {}
        for row, *use in zip(*(measured.kernels[column].tolist() for column in columns), strict=True):
            self._by_row.setdefault(row, []).append((use[0], use[1], use[2], use[3]))

    def of(self, frame: pd.DataFrame) -> dict[int, tuple[int, int, int]]:
        """Shape index -> (launches, total ns, first start) over the ranges of one round."""
        found: dict[int, tuple[int, int, int]] = {}
        for row in frame["row"]:
            for shape, count, total_ns, first_ns in self._by_row.get(row, ()):
                before = found.get(shape, (0, 0, first_ns))
                found[shape] = (before[0] + count, before[1] + total_ns, min(before[2], first_ns))
        return found


def _summary(
    manifest: Manifest,
    subject: Subject,
    rounds: Sequence[Round],
    frames: Sequence[pd.DataFrame],
    shapes: Sequence[Mapping[int, tuple[int, int, int]]],
    names: Sequence[Shape],
) -> RunSummary:
    kinds = {names[index].kind for one in shapes for index in one}
    metrics = _OPERATOR_METRICS if kinds == {"operator"} else METRICS
    counts = [{index: use[0] for index, use in one.items()} for one in shapes]
    return RunSummary(
        subject=subject,
        run=manifest.run,
        session=manifest.session,
        board=manifest.board,
        rounds={name: tuple(int(frame[f"{name}_ns"].sum()) for frame in frames) for name in metrics},
        shapes=_uses(shapes, names),
        is_stable=all(count == counts[0] for count in counts),
        copied_bytes=int(statistics.median(int(frame["copied_bytes"].sum()) for frame in frames)),
        clocks=_clocks(rounds),
        environment={**manifest.environment, "cold_cache": "on" if rounds[0].cold_cache else "off"},
        recorded=manifest.recorded,
        commit=manifest.commit,
        # What a part of the round has to do, nobody said.
        work=None if subject.part else manifest.work.get(subject.case),
    )


def _uses(shapes: Sequence[Mapping[int, tuple[int, int, int]]], names: Sequence[Shape]) -> tuple[ShapeUse, ...]:
    """What a typical round launches, in order of first launch."""
    first_ns: dict[int, int] = {}
    for one in shapes:
        for index, (_, _, start_ns) in one.items():
            first_ns.setdefault(index, start_ns)
    uses = []
    for index in sorted(first_ns, key=lambda index: first_ns[index]):
        launches = [one.get(index, (0, 0, 0)) for one in shapes]
        uses.append(
            ShapeUse(
                shape=names[index],
                count=statistics.mode(count for count, _, _ in launches),
                median_ns=int(statistics.median(total_ns for _, total_ns, _ in launches)),
            )
        )
    return tuple(use for use in uses if use.count)


def _clocks(rounds: Sequence[Round]) -> Clocks:
    readings = [one.reading for one in rounds]
    sm_mhz = [reading.sm_mhz for reading in readings if reading.sm_mhz is not None]
    power_w = [reading.power_w for reading in readings if reading.power_w is not None]
    temperature_c = [reading.temperature_c for reading in readings if reading.temperature_c is not None]
    return Clocks(
        sm_mhz=int(statistics.median(sm_mhz)) if sm_mhz else None,
        power_w=round(statistics.median(power_w), 1) if power_w else None,
        temperature_c=max(temperature_c, default=None),
        throttled=sum(bool(reading.reasons) for reading in readings) / len(readings) if sm_mhz else None,
        reasons=tuple(sorted({reason for reading in readings for reason in reading.reasons})),
    )
