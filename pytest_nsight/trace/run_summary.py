"""One RunSummary per subject, from the manifest of a run and its measured ranges. Pure.

A round's cost of a subject is the sum over the subject's ranges in that round, and over the ranges of the capture
whose graph the round replayed.
"""

from __future__ import annotations

import statistics
from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from pytest_nsight.model.identity import CHOOSERS
from pytest_nsight.model.shapes import Shape, ShapeSpread, ShapeUse
from pytest_nsight.model.units import count
from pytest_nsight.model.values import METRICS, Clocks, RunSummary, Subject, is_gpu
from pytest_nsight.protocol.conditions import Conditions
from pytest_nsight.protocol.manifest import Manifest
from pytest_nsight.protocol.manifest_events import NEVER_CALLED, Round
from pytest_nsight.trace.graph_captures import Captured
from pytest_nsight.trace.measures import Measured
from pytest_nsight.trace.range_sums import RangeSums, RangeSumTable, sum_captured_parts

# Operators on a CPU have no launch calls, no copies and no synchronisation.
_OPERATOR_METRICS = ("kernel", "busy", "span", "gap", "wall")

_ONLY_OPERATORS = (
    "torch.profiler recorded operators of the CPU and nothing that the GPU ran: if the measured function works on "
    "the GPU, another profiler uses CUPTI, or CUPTI does not work here; measure with --nsight-collector nsys, and "
    "see pytest-nsight doctor"
)

_NO_DEVICE = (
    "the machine has no visible CUDA device, and nsys records no CPU operators; leave --nsight-collector nsys "
    "out to measure them, or see pytest-nsight doctor"
)


def summarise(
    manifest: Manifest, measured: Measured, captured: Captured | None = None, *, damage: str = ""
) -> tuple[tuple[RunSummary, ...], dict[str, str]]:
    """The summaries of what one worker measured.

    Args:
        manifest: the rounds that it ran.
        measured: the attributed launches of its trace.
        captured: what the ranges of captured graphs cost in replays, None without replays.
        damage: what the profiler reports as missing from the trace, "" for nothing.

    Returns:
        The summaries of all cases whose rounds are all in the trace; and case -> what is missing, for each other
        case.
    """
    own = measured.ranges[(measured.ranges["process"] == manifest.pid) & (measured.ranges["id"] >= 0)]
    seen = own.reset_index(names="row").drop_duplicates("id").set_index("id")
    recorded = _RecordedRanges.of(seen)
    table = RangeSumTable(measured.ranges, measured.kernels)
    rounds: dict[str, list[Round]] = {}
    for one in manifest.rounds:
        rounds.setdefault(one.case, []).append(one)
    round_ids = [one.id for one in manifest.rounds if one.id in recorded.row_of]
    replayed = sum_captured_parts(captured, seen.loc[round_ids]) if captured is not None else {}
    summaries: list[RunSummary] = []
    problems: dict[str, str] = {}
    for case, own_rounds in rounds.items():
        if why := recorded.explain_missing(own_rounds, damage):
            problems[case] = why
            continue
        sums = {
            part: {
                round_id: table.add_up([recorded.row_of[id_] for id_ in ids]) for round_id, ids in groups.items()
            }
            for part, groups in _subjects(own_rounds, recorded.row_of).items()
        }
        kinds = {measured.shapes[index].kind for one in sums[""].values() for index in one.shapes}
        if why := _explain_unmeasured(manifest, case, kinds):
            problems[case] = why
            continue
        _add_replayed(sums, replayed, [one.id for one in own_rounds])
        summaries += [
            _summary(manifest, Subject(case, part), own_rounds, list(by_round.values()), measured.shapes)
            for part, by_round in sums.items()
        ]
    return tuple(summaries), problems


@dataclass(frozen=True, slots=True)
class _RecordedRanges:
    """The ranges of a worker that are in its trace, by their payloads.

    Asked for each round of each case: a look-up in a table of pandas takes a hundred times as long.

    Attributes:
        row_of: payload -> row of `Measured.ranges`.
        lost_of: payload -> launches in it whose kernels are not in the trace.
    """

    row_of: Mapping[int, int]
    lost_of: Mapping[int, int]

    @classmethod
    def of(cls, seen: pd.DataFrame) -> _RecordedRanges:
        """Those of a table by payload."""
        row_of = dict(zip(seen.index.tolist(), seen["row"].tolist(), strict=True))
        return cls(row_of, dict(zip(seen.index.tolist(), seen["lost"].tolist(), strict=True)))

    def explain_missing(self, rounds: Sequence[Round], damage: str) -> str:
        """Why the rounds of a case cannot be judged: some, or kernels of some, are not in the trace; "" if all are.

        Args:
            rounds: of the case.
            damage: what the profiler reports as missing, "" for nothing.
        """
        if missing := sum(one.id not in self.row_of for one in rounds):
            reason = damage or "the profiler reports no reason; measure again"
            of_all = f"of {len(rounds)} rounds"
            lost = count(missing, f"{of_all} is missing", f"{of_all} are missing")
            return f"{lost} from the trace: {reason}"
        if unrecorded := [self.lost_of[one.id] for one in rounds if self.lost_of[one.id]]:
            return _explain_lost(sum(unrecorded), len(unrecorded), len(rounds), damage)
        return ""


def _explain_lost(launches: int, rounds: int, of_rounds: int, damage: str) -> str:
    """Why a case has too little time: kernels of its rounds are not in the trace."""
    reason = damage or (
        "they failed, or the profiler lost their records; check the test for launches that fail "
        "(CUDA_LAUNCH_BLOCKING=1), or measure again"
    )
    where = f"in {rounds} of {count(of_rounds, 'round')}"
    return f"{count(launches, 'launch', 'launches')} {where} left no kernel in the trace: {reason}"


def _add_replayed(
    sums: dict[str, dict[int, RangeSums]], replayed: Mapping[str, Mapping[int, RangeSums]], rounds: Sequence[int]
) -> None:
    """Adds the parts of replayed graphs to the parts that the rounds opened."""
    for part, by_round in replayed.items():
        for round_id in rounds:
            if round_id in by_round:
                own = sums.setdefault(part, {})
                own[round_id] = own[round_id].join(by_round[round_id]) if round_id in own else by_round[round_id]


def _subjects(rounds: Sequence[Round], seen: Container[int]) -> dict[str, dict[int, list[int]]]:
    """Part -> round -> the payloads of its ranges; a part may be opened several times in a round."""
    subjects: dict[str, dict[int, list[int]]] = {"": {one.id: [one.id] for one in rounds}}
    for name in dict.fromkeys(name for one in rounds for _, name in one.parts):
        payloads = {one.id: [id_ for id_, other in one.parts if other == name and id_ in seen] for one in rounds}
        # A round that skipped the part has no value for it.
        groups = {round_id: group for round_id, group in payloads.items() if group}
        if groups:
            subjects[name] = groups
    return subjects


def _explain_unmeasured(manifest: Manifest, case: str, kinds: Collection[str]) -> str:
    """Why what the rounds of a case launched is nothing to judge, "" if it is something.

    Args:
        manifest: of its process.
        case: its id.
        kinds: of the shapes that its rounds launched.
    """
    if not kinds:
        return _nothing_launched(manifest, case)
    return _ONLY_OPERATORS if kinds == {"operator"} and is_gpu(manifest.board) else ""


def _nothing_launched(manifest: Manifest, case: str) -> str:
    is_cpu = manifest.environment.get("collector") == "torch" and not is_gpu(manifest.board)
    where = "CPU operator" if is_cpu else "GPU kernel"
    if manifest.environment.get("collector") == "nsys" and not is_gpu(manifest.board):
        return f"no {where} ran in the measured rounds: {_NO_DEVICE}"
    if any(one.case == case and one.text == NEVER_CALLED for one in manifest.warnings):
        return f"no {where} ran in the measured rounds: {NEVER_CALLED}"
    return (
        f"no {where} ran in the measured rounds: does the measured function do its work on the device, and "
        "is the work in the function rather than in its arguments?"
    )


def _summary(
    manifest: Manifest,
    subject: Subject,
    rounds: Sequence[Round],
    sums: Sequence[RangeSums],
    names: Sequence[Shape],
) -> RunSummary:
    shapes = [one.shapes for one in sums]
    kinds = {names[index].kind for one in shapes for index in one}
    metrics = _OPERATOR_METRICS if kinds == {"operator"} else METRICS
    counts = [{index: use[0] for index, use in one.items()} for one in shapes]
    is_stable = all(count == counts[0] for count in counts)
    launched = {names[index].name for count in counts for index in count}
    return RunSummary(
        subject=subject,
        run=manifest.run,
        session=manifest.session,
        board=manifest.board,
        rounds={
            name: tuple(one.times_ns[name] for one in sums)
            for name in metrics
            if all(name in one.times_ns for one in sums)
        },
        shapes=_uses(shapes, names),
        is_stable=is_stable,
        varying=() if is_stable else find_varying(counts, names),
        copied_bytes=int(statistics.median(one.copied_bytes for one in sums)),
        clocks=_clocks(rounds, manifest.conditions.get(subject.case)),
        environment={**manifest.environment, "cold_cache": "on" if rounds[0].cold_cache else "off"},
        recorded=manifest.recorded,
        commit=manifest.commit,
        # Work is declared for a whole round only.
        work=None if subject.part else manifest.work.get(subject.case),
        cases=manifest.case_count,
        elapsed_ms=0 if subject.part else manifest.elapsed_ms.get(subject.case, 0),
        tuned=tuple(
            kernel for kernel in manifest.tuned.get(subject.case, ()) if kernel.name in {*CHOOSERS, *launched}
        ),
    )


def _uses(shapes: Sequence[Mapping[int, tuple[int, int, int]]], names: Sequence[Shape]) -> tuple[ShapeUse, ...]:
    """The launches of a typical round, in order of first launch."""
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


def _clocks(rounds: Sequence[Round], conditions: Conditions | None) -> Clocks:
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
        foreign_processes=tuple(sorted(conditions.foreign_processes)) if conditions else (),
        round_mhz=tuple(sm_mhz) if len(sm_mhz) == len(readings) else (),
        processor_lost=_processor_lost(conditions),
    )


def _processor_lost(conditions: Conditions | None) -> float | None:
    lost = conditions.processor.lost_share if conditions and conditions.processor else None
    return None if lost is None else round(lost, 4)


def find_varying(rounds: Sequence[Mapping[int, int]], names: Sequence[Shape]) -> tuple[ShapeSpread, ...]:
    """Which shapes are not launched equally often in all rounds.

    Args:
        rounds: for each round, index of a shape -> how often it was launched.
        names: the shapes.
    """
    spreads = []
    for shape in dict.fromkeys(shape for one in rounds for shape in one):
        counts = [one.get(shape, 0) for one in rounds]
        if min(counts) < max(counts):
            spreads.append(ShapeSpread(names[shape], min(counts), max(counts)))
    return tuple(spreads)
