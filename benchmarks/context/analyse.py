"""What the experiment's files say: per case and context mean and SD between processes, and shifts between contexts.

    python -m benchmarks.context.analyse FOLDER

Prints one JSON line per finding that is short enough for a log. All of them, with the mean of every process, go to
FOLDER/findings.jsonl.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.context.direct import middle_half
from pytest_nsight.calibrate.pool import read_pool

Line = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ProcessMean:
    """One tiny case in one process.

    Attributes:
        case: its name.
        context: what surrounded it, such as "whole" or "whole+round" with a prologue.
        run: id of the run.
        mean_ns: mean of the middle half of its rounds.
        place: how many tests ran before it in its process, None where unknown.
        predecessor: the test before it, "" for none.
    """

    case: str
    context: str
    run: str
    mean_ns: float
    place: int | None = None
    predecessor: str = ""


def read_means(folder: Path) -> list[ProcessMean]:
    """All tiny cases of all pools in a folder."""
    found = []
    for path in sorted(folder.glob("*.pool.gz")):
        name = path.name.removesuffix(".pool.gz")
        context, prologue, _ = name.split(".")
        label = context if prologue == "none" else f"{context}+{prologue}"
        places = _read_places(folder / f"{name}.places.jsonl")
        pool = read_pool(path)
        for summary in pool.summaries:
            _, _, case = summary.subject.case.rpartition("::test_tiny[")
            if summary.subject.part or not summary.subject.case.endswith(f"::test_tiny[{case}"):
                continue
            rounds = summary.rounds[pool.policies[summary.subject.case].metric]
            place = places.get((summary.run, summary.subject.case), {})
            found.append(
                ProcessMean(
                    case=case.rstrip("]"),
                    context=label,
                    run=summary.run,
                    mean_ns=statistics.fmean(middle_half(rounds)),
                    place=place.get("place"),
                    predecessor=str(place.get("predecessor", "")),
                )
            )
    return found


def _read_places(path: Path) -> dict[tuple[str, str], Line]:
    if not path.exists():
        return {}
    lines = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    return {(line["run"], line["case"]): line for line in lines}


def group(means: Iterable[ProcessMean]) -> dict[str, dict[str, list[ProcessMean]]]:
    """Case -> context -> its processes."""
    groups: dict[str, dict[str, list[ProcessMean]]] = {}
    for one in means:
        groups.setdefault(one.case, {}).setdefault(one.context, []).append(one)
    return groups


def describe_context(case: str, context: str, processes: Sequence[ProcessMean]) -> Line:
    """Mean and SD between the processes of one case in one context, in ns, and every process's mean."""
    means = [one.mean_ns for one in processes]
    return {
        "finding": "context",
        "case": case,
        "context": context,
        "processes": len(means),
        "mean_ns": round(statistics.fmean(means), 1),
        "sd_ns": round(statistics.stdev(means), 1) if len(means) > 1 else None,
        "means_ns": sorted(round(mean) for mean in means),
    }


def describe_shift(case: str, contexts: tuple[str, str], groups: Mapping[str, Sequence[ProcessMean]]) -> Line:
    """The difference of two contexts with its standard error (variances not pooled, as Welch does), in ns."""
    first, second = ([one.mean_ns for one in groups[context]] for context in contexts)
    shift = statistics.fmean(second) - statistics.fmean(first)
    line: Line = {"finding": "shift", "case": case, "from": contexts[0], "to": contexts[1]}
    line |= {"shift_ns": round(shift, 1), "shift_percent": round(100 * shift / statistics.fmean(first), 2)}
    if min(len(first), len(second)) > 1:
        error = math.sqrt(sum(statistics.variance(means) / len(means) for means in (first, second)))
        line |= {"error_ns": round(error, 1), "t": round(shift / error, 1) if error else None}
    return line


def describe_places(case: str, context: str, processes: Sequence[ProcessMean]) -> Line | None:
    """Rank correlation of a process's mean with how many tests ran before; None where it cannot be had."""
    known = [(one.place, one.mean_ns) for one in processes if one.place is not None]
    if len(known) < 4 or len({place for place, _ in known}) < 2 or len({mean for _, mean in known}) < 2:
        return None
    places, means = zip(*known, strict=True)
    correlation = statistics.correlation(_ranks(places), _ranks(means))
    return {"finding": "place", "case": case, "context": context, "rank_correlation": round(correlation, 2)}


def describe_predecessors(case: str, context: str, processes: Sequence[ProcessMean]) -> Line:
    """Mean of every process with the test that ran before."""
    pairs = sorted((round(one.mean_ns), one.predecessor.rpartition("::")[2]) for one in processes)
    return {"finding": "predecessors", "case": case, "context": context, "mean_ns_and_predecessor": pairs}


def _ranks(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    return [ordered.index(value) + (ordered.count(value) - 1) / 2 for value in values]


def find_all(means: Sequence[ProcessMean]) -> list[Line]:
    """Every finding, in the order of cases."""
    lines: list[Line] = []
    for case, contexts in group(means).items():
        lines += [describe_context(case, context, processes) for context, processes in contexts.items()]
        for prologue in sorted({context.partition("+")[2] for context in contexts}):
            here = [context for context in contexts if context.partition("+")[2] == prologue]
            first = next((context for context in here if context.startswith("whole")), here[0])
            lines += [describe_shift(case, (first, other), contexts) for other in here if other != first]
        for context, processes in contexts.items():
            if context.startswith("whole"):
                lines += filter(None, [describe_places(case, context, processes)])
                lines.append(describe_predecessors(case, context, processes))
    return lines


_HIDDEN = {("setting", factor) for factor in ("placement", "allocation", "code")}
"""Only the summary of these factors is printed: their levels are places in memory, which say nothing one by one."""


def print_findings(folder: Path) -> None:
    """Prints the findings of a folder, the direct experiment's included, and writes them to findings.jsonl."""
    lines = find_all(read_means(folder))
    direct = folder / "direct.jsonl"
    if direct.exists():
        lines += [json.loads(line) for line in direct.read_text(encoding="utf-8").splitlines()]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "findings.jsonl").write_text(text, encoding="utf-8")
    for line in lines:
        if line["finding"] != "predecessors" and (line["finding"], line.get("factor")) not in _HIDDEN:
            kept = {key: value for key, value in line.items() if key != "means_ns"}
            print(json.dumps(kept, separators=(",", ":")), flush=True)


if __name__ == "__main__":
    print_findings(Path(sys.argv[1]))
