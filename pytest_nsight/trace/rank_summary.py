"""One manifest and one set of summaries for all ranks of a case, and a summary of each rank. Pure.

A step of a parallel program ends when its slowest rank ends. So each metric of a round is the value of the slowest
rank. docs/decisions/0012-many-gpus.md says why it is not the fastest.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from pytest_nsight.model.shapes import Shape, ShapeUse
from pytest_nsight.model.values import Clocks, RunSummary, Subject
from pytest_nsight.protocol.manifest import Manifest
from pytest_nsight.protocol.phase_reports import PhaseReport

T = TypeVar("T", int, float)

PART = "rank {}"
"""Name of the part of a case that holds one rank's results."""


def is_rank_part(name: str) -> bool:
    """Whether a part's name is reserved for the results of a rank."""
    return re.fullmatch(r"rank \d+", name) is not None


Summarised = tuple[Sequence[RunSummary], Mapping[str, str]]


def join_manifests(manifests: Sequence[Manifest], failed: Container[int] = ()) -> Manifest:
    """One manifest for all ranks.

    Args:
        manifests: of rank 0, 1, and so on, of one run.
        failed: ranks whose process failed. In the case that such a rank ran, the failures of other ranks follow
            from its failure.

    Returns:
        The manifest of rank 0. A case has ended if it ended on every rank or its test failed on one. The reports
        of a case are those of the rank on which it failed first, else those of rank 0.
    """
    first = manifests[0]
    started = tuple(dict.fromkeys(case for manifest in manifests for case in manifest.started))
    reporting_rank = {case: _find_reporting_rank(case, manifests) for case in started}
    fatal = {
        case
        for rank, manifest in enumerate(manifests)
        if rank in failed
        for case in manifest.started
        if case not in manifest.ended
    }
    ended = tuple(
        case
        for case in started
        if all(case in manifest.ended for manifest in manifests)
        or (has_failed(manifests[reporting_rank[case]], case) and case not in fatal)
    )
    reports = tuple(
        PhaseReport(case, _name_rank(one, reporting_rank[case], len(manifests)))
        for case in started
        for one in manifests[reporting_rank[case]].reports
        if one.case == case
    )
    return dataclasses.replace(
        first,
        board=_boards(manifest.board for manifest in manifests),
        started=started,
        ended=ended,
        reports=reports,
        faults=tuple(fault for manifest in manifests for fault in manifest.faults),
    )


def has_failed(manifest: Manifest, case: str) -> bool:
    """Whether the test failed on this rank; a process that crashed or still waited reported no failure."""
    return any(one.case == case and one.outcome == "failed" for one in manifest.reports)


def _find_reporting_rank(case: str, manifests: Sequence[Manifest]) -> int:
    """The rank that failed first: later failures may follow from it."""
    failures = [
        (one.stop_s, rank)
        for rank, manifest in enumerate(manifests)
        for one in manifest.reports
        if one.case == case and one.outcome == "failed"
    ]
    return min(failures)[1] if failures else 0


def _name_rank(phase: PhaseReport, rank: int, ranks: int) -> dict[str, Any]:
    """The report; one of a failure names the rank."""
    recorded = phase.report.get("sections", ())
    sections = list(recorded) if isinstance(recorded, (list, tuple)) else []
    if phase.outcome == "failed":
        sections.append(["nsight", f"this is rank {rank} of {ranks}"])
    return {**phase.report, "sections": sections}


def join_summaries(ranks: Sequence[Summarised]) -> tuple[tuple[RunSummary, ...], dict[str, str]]:
    """Summaries of a case and its parts over all ranks, and of each rank.

    Args:
        ranks: summaries and problems of rank 0, 1, and so on.

    Returns:
        Summaries; and case -> why it cannot be judged.
    """
    problems: dict[str, str] = {}
    for rank, (_, wrong) in enumerate(ranks):
        for case, sentence in wrong.items():
            problems.setdefault(case, f"rank {rank}: {sentence}")
    summaries_by_rank = [{summary.subject: summary for summary in summaries} for summaries, _ in ranks]
    joined: list[RunSummary] = []
    for subject in summaries_by_rank[0]:
        by_rank = [summaries[subject] for summaries in summaries_by_rank if subject in summaries]
        if subject.case in problems or len(by_rank) < len(ranks):
            # The structure of the ranks shows a part that only some of them have.
            continue
        counts = [len(next(iter(one.rounds.values()))) for one in by_rank]
        if len(set(counts)) > 1:
            problems[subject.case] = (
                f"the ranks measured {', '.join(map(str, counts))} rounds: each must call nsight(...) alike"
            )
            continue
        joined.append(join_ranks(subject, by_rank))
        if not subject.part:
            joined += [
                dataclasses.replace(one, subject=Subject(subject.case, PART.format(rank)))
                for rank, one in enumerate(by_rank)
            ]
    return tuple(one for one in joined if one.subject.case not in problems), problems


def join_ranks(subject: Subject, by_rank: Sequence[RunSummary]) -> RunSummary:
    """What a subject cost its slowest rank, round by round.

    Args:
        subject: a case or a part of it.
        by_rank: its summaries of rank 0, 1, and so on, with equally many rounds.

    Returns:
        A summary in which every duration is the longest over the ranks, and every count of a shape is the largest.
    """
    metrics = [name for name in by_rank[0].rounds if all(name in one.rounds for one in by_rank)]
    return dataclasses.replace(
        by_rank[0],
        subject=subject,
        board=_boards(one.board for one in by_rank),
        rounds={
            name: tuple(max(values) for values in zip(*(one.rounds[name] for one in by_rank), strict=True))
            for name in metrics
        },
        shapes=_most_used(by_rank),
        is_stable=all(one.is_stable for one in by_rank),
        varying=tuple(dict.fromkeys(spread for one in by_rank for spread in one.varying)),
        copied_bytes=max(one.copied_bytes for one in by_rank),
        clocks=_worst_clocks([one.clocks for one in by_rank]),
        environment={**by_rank[0].environment, "ranks": str(len(by_rank))},
        tuned=tuple(sorted({kernel for one in by_rank for kernel in one.tuned})),
    )


def _most_used(by_rank: Sequence[RunSummary]) -> tuple[ShapeUse, ...]:
    most: dict[Shape, ShapeUse] = {}
    for use in (use for one in by_rank for use in one.shapes):
        known = most.get(use.shape, use)
        most[use.shape] = ShapeUse(use.shape, max(known.count, use.count), max(known.median_ns, use.median_ns))
    return tuple(most.values())


def _worst_clocks(clocks: Sequence[Clocks]) -> Clocks:
    return Clocks(
        sm_mhz=_extreme(min, (one.sm_mhz for one in clocks)),
        power_w=_extreme(max, (one.power_w for one in clocks)),
        temperature_c=_extreme(max, (one.temperature_c for one in clocks)),
        throttled=_extreme(max, (one.throttled for one in clocks)),
        reasons=tuple(sorted({reason for one in clocks for reason in one.reasons})),
        foreign_processes=tuple(sorted({name for one in clocks for name in one.foreign_processes})),
        round_mhz=_slowest_rounds([one.round_mhz for one in clocks]),
        processor_lost=_extreme(max, (one.processor_lost for one in clocks)),
    )


def _slowest_rounds(clocks: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The lowest clock of each round; empty unless every rank recorded one for every round."""
    if len({len(one) for one in clocks}) > 1:
        return ()
    return tuple(min(one) for one in zip(*clocks, strict=True))


def _extreme(choose: Any, values: Iterable[T | None]) -> T | None:
    known = [value for value in values if value is not None]
    chosen: T | None = choose(known) if known else None
    return chosen


def _boards(boards: Iterable[str]) -> str:
    """The boards of all ranks, in their order, as one name."""
    return "+".join(dict.fromkeys(boards))
