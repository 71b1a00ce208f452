"""One suite on several machines: which tests `--nsight-shard 2/4` measures on this one.

Every machine computes all shards by itself, from data that all have: the selected tests and stored durations. A
fingerprint of the result, kept with each shard, shows whether they agreed.
"""

from __future__ import annotations

import hashlib
import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_nsight.baselines import store
from pytest_nsight.controller.workers.gpu_assignment import group_by_claims
from pytest_nsight.gate.measured_shard import Shard, ShardBy
from pytest_nsight.model.errors import UsageError
from pytest_nsight.model.units import count, duration
from pytest_nsight.model.values import RunSummary
from pytest_nsight.protocol.mark import find_partners, is_marked
from pytest_nsight.report.session_file import read_session

_FINGERPRINT = 16


@dataclass(frozen=True, slots=True)
class CaseDurations:
    """How long cases took.

    Attributes:
        of_case: case -> ms.
        source: where they are from, as people read it.
    """

    of_case: Mapping[str, int]
    source: str


@dataclass(frozen=True, slots=True)
class ShardDivision:
    """All tests, divided.

    Attributes:
        shards: node ids of each shard, sorted.
        loads: expected time of the measured ones in each, in ms; empty where no duration is known.
        unknown: measured tests without a stored duration; each counts as the median of the others.
    """

    shards: tuple[tuple[str, ...], ...]
    loads: tuple[float, ...]
    unknown: int = 0

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the division; equal on all machines that divide alike."""
        return hashlib.sha256(json.dumps(self.shards).encode()).hexdigest()[:_FINGERPRINT]


def divide(
    groups: Iterable[Sequence[str]], others: Iterable[str], durations: Mapping[str, int], n: int
) -> ShardDivision:
    """Shares tests among shards so that the longest shard is short; the order of the tests does not matter.

    Groups go to the shard with the least so far, the longest first (Graham 1969: at most 4/3 of the best).

    Args:
        groups: measured tests; those of one group stay together, because a claim compares them.
        others: tests that are only run; each shard gets as many.
        durations: test -> ms, of some of them.
        n: number of shards.
    """
    measured = [sorted(group) for group in groups]
    known = [ms for group in measured for case in group if (ms := durations.get(case, 0)) > 0]
    typical = statistics.median(known) if known else 1.0
    weights = [(sum(durations.get(case, 0) or typical for case in group), group) for group in measured]
    shards: list[list[str]] = [[] for _ in range(n)]
    loads = [0.0] * n
    for weight, group in sorted(weights, key=lambda item: (-item[0], item[1])):
        least = min(range(n), key=lambda index: (loads[index], len(shards[index]), index))
        loads[least] += weight
        shards[least] += group
    for number, test in enumerate(sorted(others)):
        # From the last shard on: the first one has the longest case.
        shards[n - 1 - number % n].append(test)
    unknown = sum(len(group) for group in measured) - len(known)
    return ShardDivision(tuple(tuple(sorted(shard)) for shard in shards), tuple(loads) if known else (), unknown)


def parse_shard(text: str | None, by: str) -> Shard | None:
    """The shard that --nsight-shard and --nsight-shard-by ask for; None for a whole session.

    Raises:
        UsageError: the values make no sense.
    """
    if by not in [one.value for one in ShardBy]:
        allowed = " or ".join(one.value for one in ShardBy)
        raise UsageError(f"--nsight-shard-by is {by!r}; give {allowed}")
    if text is None:
        return None
    number, slash, of = text.partition("/")
    if not slash or not number.isdecimal() or not of.isdecimal() or not 1 <= int(number) <= int(of):
        raise UsageError(f"--nsight-shard is {text!r}; give K/N, such as 2/4 for the second of four")
    return Shard(int(number), int(of), ShardBy(by))


def refuse_other_divider(config: pytest.Config) -> None:
    """Refuses to divide a suite that pytest-split has divided: no machine would measure some of the tests.

    Raises:
        UsageError: both would divide.
    """
    if config.getoption("splits", None):
        raise UsageError(
            "--nsight-shard and pytest-split's --splits would both divide the tests; leave --splits and --group "
            "out, or give --nsight-shard-by selection"
        )


def read_durations(baselines: Path, session: Path | None, cases: Iterable[str]) -> CaseDurations:
    """Durations of cases: those of one session, else those that the baselines of all GPU models hold.

    All models' count, so that machines with different GPUs divide alike.

    Args:
        baselines: the folder of all baselines.
        session: a kept session's folder, None for the baselines.
        cases: node ids.

    Raises:
        NsightError: they cannot be read.
    """
    wanted = set(cases)
    if session is not None:
        return CaseDurations(_medians(read_session(session).runs, wanted), f"session {session.name}")
    models = [path for path in sorted(baselines.glob("*")) if path.is_dir()]
    stored = [store.load(baselines, model.name, wanted).runs for model in models]
    runs = [run for by_subject in stored for runs in by_subject.values() for run in runs]
    return CaseDurations(_medians(runs, wanted), "the baselines")


def _medians(runs: Iterable[RunSummary], wanted: set[str]) -> dict[str, int]:
    known: dict[str, list[int]] = {}
    for run in runs:
        if run.elapsed_ms > 0 and not run.subject.part and run.subject.case in wanted:
            known.setdefault(run.subject.case, []).append(run.elapsed_ms)
    return {case: statistics.median_low(all_ms) for case, all_ms in known.items()}


def divide_items(items: Sequence[pytest.Item], durations: CaseDurations, n: int) -> ShardDivision:
    """The collected tests, divided; those that a claim compares stay together."""
    partners = find_partners(items)
    claims = {item.nodeid: partners.get(item.nodeid) for item in items if is_marked(item)}
    others = [item.nodeid for item in items if not is_marked(item)]
    return divide(group_by_claims(claims), others, durations.of_case, n)


def describe_division(division: ShardDivision, shard: Shard, durations: CaseDurations, measured: int) -> str:
    """A sentence on the size of this machine's shard, and by what it was cut.

    Args:
        division: of all tests.
        shard: which one is this machine's.
        durations: by which it was cut.
        measured: measured tests of this shard.
    """
    size = f"shard {shard.name}: {count(measured, 'case')}"
    if not division.loads:
        return f"{size}; {durations.source} hold no durations, so all cases count alike"
    own, total = division.loads[shard.number - 1], sum(division.loads)
    unknown = f", {count(division.unknown, 'case')} without one counted as the median" if division.unknown else ""
    return (
        f"{size}, about {duration(own * 1e6)} of {duration(total * 1e6)} a run, by the durations of "
        f"{durations.source}{unknown}"
    )
