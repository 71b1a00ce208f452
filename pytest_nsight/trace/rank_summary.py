"""The ranks of one case become one: its manifest, and its summaries with a row for each rank. Pure.

A step of a parallel program is over when its slowest rank is, so a round costs what it costs the slowest rank,
metric by metric. docs/decisions/0012-many-gpus.md argues why not the fastest.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from pytest_nsight.model.values import Clocks, RunSummary, Shape, ShapeUse, Subject
from pytest_nsight.protocol.manifest import Manifest

T = TypeVar("T", int, float)

PART = "rank {}"
"""Part of a case that is one rank's side of it."""


def is_rank_part(name: str) -> bool:
    """Whether a part of this name would be taken for a rank's."""
    return re.fullmatch(r"rank \d+", name) is not None


Summarised = tuple[Sequence[RunSummary], Mapping[str, str]]


def join_manifests(manifests: Sequence[Manifest], died: Container[int] = ()) -> Manifest:
    """One account of what all ranks did together.

    Args:
        manifests: of rank 0, 1, and so on, of one run.
        died: ranks that died of themselves; what fails on the others in that case fails for want of them.

    Returns:
        Rank 0's, with what ended on every rank, or failed on any, as ended. The reports of a case are those of
        the rank on which it failed first, else rank 0's.
    """
    first = manifests[0]
    started = tuple(dict.fromkeys(case for manifest in manifests for case in manifest.started))
    spokesman = {case: _spokesman(case, manifests) for case in started}
    fatal = {
        case
        for rank, manifest in enumerate(manifests)
        if rank in died
        for case in manifest.started
        if case not in manifest.ended
    }
    ended = tuple(
        case
        for case in started
        if all(case in manifest.ended for manifest in manifests)
        or (has_failed(manifests[spokesman[case]], case) and case not in fatal)
    )
    reports = tuple(
        (case, _signed(report, spokesman[case], len(manifests)))
        for case in started
        for owner, report in manifests[spokesman[case]].reports
        if owner == case
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
    """Whether a rank's test failed, as opposed to having died or been left waiting."""
    return any(owner == case and report["outcome"] == "failed" for owner, report in manifest.reports)


def _spokesman(case: str, manifests: Sequence[Manifest]) -> int:
    """The rank that failed first: the others may have failed only because it left them."""
    failures = [
        (float(report.get("stop", 0)), rank)
        for rank, manifest in enumerate(manifests)
        for owner, report in manifest.reports
        if owner == case and report["outcome"] == "failed"
    ]
    return min(failures)[1] if failures else 0


def _signed(report: Mapping[str, Any], rank: int, ranks: int) -> dict[str, Any]:
    """A failure says on which rank it happened."""
    sections = list(report.get("sections", ()))
    if report["outcome"] == "failed":
        sections.append(["nsight", f"this is rank {rank} of {ranks}"])
    return {**report, "sections": sections}


def join_summaries(ranks: Sequence[Summarised]) -> tuple[tuple[RunSummary, ...], dict[str, str]]:
    """Summaries of a case and its parts over all ranks, and of each rank's side of it.

    Args:
        ranks: summaries and problems of rank 0, 1, and so on.

    Returns:
        Summaries, and for each case that cannot be judged a sentence that says why.
    """
    problems: dict[str, str] = {}
    for rank, (_, wrong) in enumerate(ranks):
        for case, sentence in wrong.items():
            problems.setdefault(case, f"rank {rank}: {sentence}")
    by_rank = [{summary.subject: summary for summary in summaries} for summaries, _ in ranks]
    joined: list[RunSummary] = []
    for subject in by_rank[0]:
        sides = [summaries[subject] for summaries in by_rank if subject in summaries]
        if subject.case in problems or len(sides) < len(ranks):
            # A part that only some ranks have is told in their structure.
            continue
        counts = [len(next(iter(side.rounds.values()))) for side in sides]
        if len(set(counts)) > 1:
            problems[subject.case] = (
                f"the ranks measured {', '.join(map(str, counts))} rounds: each must call nsight(...) alike"
            )
            continue
        joined.append(join_sides(subject, sides))
        if not subject.part:
            joined += [
                dataclasses.replace(side, subject=Subject(subject.case, PART.format(rank)))
                for rank, side in enumerate(sides)
            ]
    return tuple(one for one in joined if one.subject.case not in problems), problems


def join_sides(subject: Subject, sides: Sequence[RunSummary]) -> RunSummary:
    """What a subject cost its slowest rank, round by round.

    Args:
        subject: a case or a part of it.
        sides: its summaries of rank 0, 1, and so on, with equally many rounds.

    Returns:
        A summary whose every duration is the longest over the ranks, and whose launches are the most that any
        rank makes of a shape.
    """
    metrics = [name for name in sides[0].rounds if all(name in side.rounds for side in sides)]
    return dataclasses.replace(
        sides[0],
        subject=subject,
        board=_boards(side.board for side in sides),
        rounds={
            name: tuple(max(values) for values in zip(*(side.rounds[name] for side in sides), strict=True))
            for name in metrics
        },
        shapes=_most_used(sides),
        is_stable=all(side.is_stable for side in sides),
        varying=tuple(dict.fromkeys(spread for side in sides for spread in side.varying)),
        copied_bytes=max(side.copied_bytes for side in sides),
        clocks=_worst_clocks([side.clocks for side in sides]),
        environment={**sides[0].environment, "ranks": str(len(sides))},
    )


def _most_used(sides: Sequence[RunSummary]) -> tuple[ShapeUse, ...]:
    most: dict[Shape, ShapeUse] = {}
    for use in (use for side in sides for use in side.shapes):
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
    )


def _slowest_rounds(clocks: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The lowest clock of each round; empty unless every rank knows it of every round."""
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
