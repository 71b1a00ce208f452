"""What the stored baselines say about the claims in the marks of the perf tests.

    python -m benchmarks.claims              # of every GPU model and case: launches, time, factor, what is claimed

A factor is the worst that any two stored runs of a model give, whichever boards they are from.
`tests/kernels/test_claims.py` demands that no mark claims more than that.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_nsight.baselines.store import load
from pytest_nsight.judge.structure import count_launches
from pytest_nsight.model.values import RunSummary, Subject
from pytest_nsight.protocol.mark import Mark, ParameterIds, find_partner, parameter_ids, read_mark

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Record:
    """What is stored of a case.

    Attributes:
        case: node id.
        launches: of kernels in a round, each number that a run has shown.
        times_ns: median kernel time of each run.
        boards: how many boards the runs are from.
    """

    case: str
    launches: frozenset[int]
    times_ns: tuple[float, ...]
    boards: int


def list_models(folder: Path) -> list[str]:
    """The GPU models that have stored runs."""
    return sorted(path.name for path in folder.iterdir() if path.is_dir())


def read_records(folder: Path, model: str) -> dict[str, Record]:
    """The stored runs of every case of a GPU model."""
    stored: Mapping[Subject, Sequence[RunSummary]] = load(folder, model).runs
    return {
        subject.case: Record(
            subject.case,
            frozenset(count_launches(run) for run in runs),
            tuple(statistics.median(run.rounds["kernel"]) for run in runs),
            len({run.board for run in runs}),
        )
        for subject, runs in stored.items()
        if not subject.part
    }


@dataclass(frozen=True, slots=True)
class Collected:
    """A case as pytest collects it.

    Attributes:
        mark: of its test.
        ids: of its parameters.
    """

    mark: Mark
    ids: ParameterIds


def read_cases() -> dict[str, Collected]:
    """The perf tests by case."""
    collected: list[pytest.Item] = []

    class Collector:
        def pytest_collection_finish(self, session: pytest.Session) -> None:
            collected.extend(session.items)

    options = ["--collect-only", "-p", "no:terminal", f"--rootdir={ROOT}", str(ROOT / "perf_tests")]
    code = pytest.main(options, plugins=[Collector()])
    if code != pytest.ExitCode.OK:
        raise RuntimeError(f"the perf tests could not be collected: pytest ended with {code!r}")
    return {item.nodeid: Collected(read_mark(item), parameter_ids(item)) for item in collected}


def find_worst_factor(case: str, collected: Collected, records: Mapping[str, Record]) -> float | None:
    """By how much the case beats its partner in the pair of stored runs that speaks most against it."""
    partner = find_partner(case, collected.ids, collected.mark.faster_than or "unfused", records.keys())
    if case not in records or partner not in records:
        return None
    return min(records[str(partner)].times_ns) / max(records[case].times_ns)


def find_broken_claims(cases: Mapping[str, Collected], records: Mapping[str, Record]) -> Iterator[str]:
    """One sentence for each claim about a stored case that its runs do not carry."""
    for case, collected in cases.items():
        mark = collected.mark
        if case not in records:
            continue
        if mark.launches is not None and records[case].launches != {mark.launches}:
            yield f"{case} claims {mark.launches} launches, stored are {sorted(records[case].launches)}"
        if mark.faster_than is not None:
            factor = find_worst_factor(case, collected, records)
            if factor is None:
                yield f"{case} claims to beat {mark.faster_than}, but nothing is stored for that case"
            elif factor < mark.by:
                yield f"{case} claims {mark.by:g}x over {mark.faster_than}, the stored runs carry {factor:.3g}x"


def render(cases: Mapping[str, Collected], records: Mapping[str, Record]) -> Iterator[str]:
    """The table, line by line."""
    for case, collected in cases.items():
        label = Subject(case).label
        if case not in records:
            yield f"{label:48} nothing stored"
            continue
        record = records[case]
        factor = find_worst_factor(case, collected, records)
        yield (
            f"{label:48} {statistics.median(record.times_ns) / 1e3:9.1f} us  "
            f"launches {'/'.join(map(str, sorted(record.launches))):>5}  "
            f"{len(record.times_ns):2} runs, {record.boards} boards  "
            f"{'' if factor is None or 'unfused' in label else f'{factor:5.2f}x, claimed {collected.mark.by:g}x'}"
        ).rstrip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--baselines", type=Path, default=ROOT / "baselines")
    folder = parser.parse_args().baselines
    cases = read_cases()
    broken: list[str] = []
    for model in list_models(folder):
        records = read_records(folder, model)
        print(model, *render(cases, records), "", sep="\n")
        broken += [f"{model}: {sentence}" for sentence in find_broken_claims(cases, records)]
    print(*broken, f"{len(broken)} claims that the stored runs do not carry", sep="\n")
    if broken:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
