"""Shows where the time of a recorded session went, from the manifests of its processes.

``python benchmarks/session_time.py .nsight/20261128-225930-26ea`` prints a row for each process, in the order of
their first tests: when this test began and when the manifest was last written, in seconds since the first test of
the session, and how this time divides:

- `prepare`: from the beginning of a test to its first measured round (fixtures, its own checks, warm-up),
- `rounds`: from there to the end of the last one, rests and flushes of the cache included,
- `finish`: from there to the end of its teardown (alternating rounds, a record that the process itself writes),
- `between`: two tests (canaries, reading launches),
- `end`: from the last test to the end of the process.

Below are the --cases cases that took longest. What a process does before its first test, and the controller after
the last process, is not seen.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pytest_nsight.protocol.manifest import FILE_NAME, Manifest
from pytest_nsight.protocol.manifest_reader import read_manifest


class CaseTime(NamedTuple):
    """Where the time of one case went in one process, in s; `begin` and `end` are times of the clock."""

    process: str
    case: str
    begin: float
    prepare: float
    rounds: float
    finish: float
    end: float


class ProcessTime(NamedTuple):
    """Where the time of one process went, in s; `begin` and `end` are times of the clock."""

    name: str
    begin: float
    end: float
    cases: tuple[CaseTime, ...]

    @property
    def between(self) -> float:
        """Time between two cases."""
        return sum(later.begin - case.end for case, later in zip(self.cases, self.cases[1:], strict=False))


def list_cases(name: str, manifest: Manifest) -> Iterator[CaseTime]:
    """The cases of a process whose phases have been reported, in order."""
    for case in dict.fromkeys(report.case for report in manifest.reports):
        reports = [report.report for report in manifest.reports if report.case == case]
        begin, end = float(str(reports[0]["start"])), float(str(reports[-1]["stop"]))
        rounds = [one for one in manifest.rounds if one.case == case]
        first = rounds[0].start_ns / 1e9 if rounds else end
        last = (rounds[-1].start_ns + rounds[-1].wall_ns) / 1e9 if rounds else end
        yield CaseTime(name, case, begin, first - begin, last - first, end - last, end)


def list_processes(session: Path) -> list[ProcessTime]:
    """The processes that have come to a test, in the order in which they began."""
    found = []
    for path in sorted(session.rglob(FILE_NAME)):
        name = str(path.parent.relative_to(session))
        if cases := tuple(list_cases(name, read_manifest(path))):
            found.append(ProcessTime(name, cases[0].begin, path.stat().st_mtime, cases))
    return sorted(found, key=lambda process: process.begin)


def main() -> None:
    """Prints both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("session", type=Path, help="folder of a session")
    parser.add_argument("--cases", type=int, default=10, help="how many cases to show (default: 10)")
    arguments = parser.parse_args()
    processes = list_processes(arguments.session)
    if not processes:
        parser.error(f"no process of {arguments.session} has come to a test; give the folder of a session")
    origin = processes[0].begin
    print(f"{'process':14} {'cases':>5} {'begin':>7} {'until':>7}  prepare  rounds  finish between     end")
    for one in processes:
        sums = [sum(getattr(case, name) for case in one.cases) for name in ("prepare", "rounds", "finish")]
        parts = [*sums, one.between, one.end - one.cases[-1].end]
        times = f"{one.begin - origin:7.1f} {one.end - origin:7.1f}"
        print(f"{one.name:14} {len(one.cases):5} {times}  {' '.join(f'{part:7.2f}' for part in parts)}")
    longest = sorted((case for one in processes for case in one.cases), key=lambda case: case.begin - case.end)
    print(f"\n{'process':14}  prepare  rounds  finish  case")
    for case in longest[: arguments.cases]:
        parts = [case.prepare, case.rounds, case.finish]
        print(f"{case.process:14}  {' '.join(f'{part:7.2f}' for part in parts)}  {case.case.rpartition('::')[2]}")


if __name__ == "__main__":
    main()
