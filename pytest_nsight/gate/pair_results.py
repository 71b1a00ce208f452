"""Races of cases with those that they claim to beat: what they yielded, and the order that makes them possible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_nsight.model.values import InterleavedPairs, RunSummary
from pytest_nsight.protocol.manifest import Manifest


def place_partners_together(order: Sequence[str], partners: Mapping[str, str]) -> list[str]:
    """Moves cases next to those that they claim to beat; otherwise the order stays.

    Args:
        order: cases.
        partners: case -> the case that it claims to beat.
    """
    neighbours: dict[str, list[str]] = {case: [] for case in order}
    for case in order:
        partner = partners.get(case)
        if partner in neighbours:
            neighbours[case].append(partner)
            neighbours[partner].append(case)
    placed: dict[str, None] = {}

    def place(case: str) -> None:
        if case not in placed:
            placed[case] = None
            for other in neighbours[case]:
                place(other)

    for case in order:
        place(case)
    return list(placed)


class RaceHarvest:
    """The races of a session so far."""

    def __init__(self) -> None:
        self._races: dict[str, list[InterleavedPairs]] = {}

    def take(self, manifest: Manifest, summaries: Sequence[RunSummary]) -> tuple[str, ...]:
        """Keeps the races whose bodies did what the cases themselves do.

        A body may act differently when the fixtures of its test are gone: then its launches differ, and the race
        is no evidence.

        Returns:
            Sentences on those that are not kept.
        """
        by_case = {one.subject.case: one for one in summaries if not one.subject.part}
        sentences = [
            f"{case} and its partner were not measured in turns: {why}" for case, why in manifest.pair_faults
        ]
        for case, partner, own_rounds, partner_rounds in manifest.pairs:
            alone = [by_case.get(case), by_case.get(partner)]
            in_turns = [by_case.get(own_rounds), by_case.get(partner_rounds)]
            same = [b for a, b in zip(alone, in_turns, strict=True) if a and b and _launches(a) == _launches(b)]
            if len(same) == len(in_turns):
                self._races.setdefault(case, []).append(InterleavedPairs(manifest.run, same[0], same[1]))
            elif all(alone) and all(in_turns):
                sentences.append(
                    f"{case} and its partner launch other kernels when measured in turns than each alone, so the "
                    "claim is judged from whole runs: do their fixtures change what they run?"
                )
        return tuple(sentences)

    def of(self, case: str) -> tuple[InterleavedPairs, ...]:
        """The races of a claiming case, in order."""
        return tuple(self._races.get(case, ()))


def _launches(summary: RunSummary) -> dict[str, int]:
    launches: dict[str, int] = {}
    for use in summary.shapes:
        launches[use.shape.name] = launches.get(use.shape.name, 0) + use.count
    return launches
