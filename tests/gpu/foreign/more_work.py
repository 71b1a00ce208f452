"""Two per cent more work in half of the cases, by the same launches: FOREIGN_MORE_WORK.

No kernel of a program is changed for it. Every round ends with a kernel that only waits: for no cycle in unchanged
code, and with FOREIGN_MORE_WORK=2% for 2 % of the case's kernel time in half of the cases. Launches, grids and
blocks stay the same, so that time alone can show it. FOREIGN_TIMES names the --nsight-json of an earlier session,
which says how long the cases take.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

VARIABLE, TIMES = "FOREIGN_MORE_WORK", "FOREIGN_TIMES"


def read_share(text: str) -> float:
    """The share of additional work as a ratio, 0 for "".

    Raises:
        ValueError: it is no percentage.
    """
    if not text:
        return 0.0
    match = re.fullmatch(r"\+?(\d+(?:\.\d+)?)\s*%", text.strip())
    if match is None:
        raise ValueError(f'{VARIABLE} is {text!r}; give a percentage, such as "2%"')
    return float(match[1]) / 100


def choose(names: Iterable[str]) -> frozenset[str]:
    """The cases that get more work: every second one in the order of the alphabet."""
    return frozenset(sorted(names)[::2])


def read_times(path: Path) -> dict[str, float]:
    """Name of a program -> kernel time of a round in ns, from a result of --nsight-json.

    Raises:
        ValueError: the file is no such result.
    """
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
        found = {}
        for benchmark in result["benchmarks"]:
            subject = benchmark["extra_info"]["nsight"]
            if not subject["part"]:
                found[_name_of(subject["case"])] = 1e9 * float(benchmark["stats"]["median"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{TIMES} is {str(path)!r}, which is no result of --nsight-json: {error}") from error
    return found


def _name_of(case: str) -> str:
    return case.rpartition("[")[2].removesuffix("]")


def cycles_for(
    name: str, share: float, chosen: frozenset[str], times_ns: Mapping[str, float], clock_ghz: float
) -> int:
    """For how many cycles the last kernel of a round waits.

    Args:
        name: of the program.
        share: of additional work, as a ratio.
        chosen: the programs that get it.
        times_ns: name -> kernel time of a round without it.
        clock_ghz: cycles per ns.

    Raises:
        ValueError: the program's time is unknown.
    """
    if not share or name not in chosen:
        return 0
    time_ns = times_ns.get(name)
    if time_ns is None or not math.isfinite(time_ns):
        raise ValueError(f"{TIMES} says nothing of {name}; measure it there without {VARIABLE} first")
    return round(share * time_ns * clock_ghz)
