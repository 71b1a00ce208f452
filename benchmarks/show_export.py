"""Times `pytest-nsight show` beside nsys-ai's summary and plain pandas, on one and the same export.

``python benchmarks/show_export.py [KERNELS] [--nsys-ai PROGRAM]`` generates three exports: ranges that follow one
another, ranges nested four deep, and a range with a name of its own around each launch (as PyTorch's `emit_nvtx`
writes them). On each it runs, one after the other, each in a separate process:

- ``pytest-nsight show EXPORT``: the whole picture;
- plain pandas: it reads kernels, calls and ranges, and adds each up by name;
- ``nsys-ai summary EXPORT``, after a first one has built its cache, which is not counted. (``nsys-ai warm`` also
  finds the kernels of each range, which the summary does not use; that of version 0.3.0 did not end on nested
  ranges in six minutes.) Install it into an environment of its own. It loads an extension of DuckDB from the
  network; where there is none, install duckdb-extension-sqlite-scanner and the duckdb of the same version, and
  ``INSTALL`` the file that it holds.

CPU time counts, children included: on a busy machine it is less wrong than the wall time. The cheapest of
--repeat rounds counts, and the tools alternate, so that a busy moment meets all of them.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.collectors.synthetic_export import GENERATE, PERIOD_NS, PROCESS, THREAD, write_synthetic_export
from tests.trace.trace_builder import HARDWARE

ROOT = Path(__file__).resolve().parents[1]
DEPTH = 4

PANDAS = """
import sqlite3, sys
import pandas as pd

with sqlite3.connect(sys.argv[1]) as connection:
    names = pd.read_sql("SELECT id, value FROM StringIds", connection).set_index("id")["value"]
    kernels = pd.read_sql(
        "SELECT start, end, streamId, correlationId, shortName FROM CUPTI_ACTIVITY_KIND_KERNEL", connection
    )
    calls = pd.read_sql(
        "SELECT start, end, globalTid, correlationId, nameId FROM CUPTI_ACTIVITY_KIND_RUNTIME", connection
    )
    ranges = pd.read_sql(
        "SELECT start, end, textId, text, globalTid FROM NVTX_EVENTS WHERE eventType = 59", connection
    )
kernels["name"] = kernels["shortName"].map(names)
calls["name"] = calls["nameId"].map(names)
ranges["name"] = ranges["text"].fillna(ranges["textId"].map(names))
for table in (kernels, calls, ranges):
    table["ns"] = table["end"] - table["start"]
    sums = table.groupby("name")["ns"].agg(["count", "sum", "median"]).sort_values("sum", ascending=False)
    print(sums.head(20).to_string())
launched = kernels.merge(calls, on="correlationId", suffixes=("", "_call"))
print(launched.groupby("name_call")["ns"].sum().to_string())
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", type=int, nargs="?", default=1_000_000)
    parser.add_argument("--nsys-ai", default="nsys-ai", help="program of the package nsys-ai")
    parser.add_argument("--repeat", type=int, default=3, help="rounds")
    arguments = parser.parse_args()
    nsys_ai = shutil.which(arguments.nsys_ai)
    if nsys_ai is None:
        print(f"there is no program {arguments.nsys_ai}; pip install nsys-ai into an environment of its own")
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("in a row", "nested", "unique names"):
            path = write_export(Path(folder, kind.replace(" ", "_")), kind, arguments.kernels)
            print(f"{arguments.kernels} kernels, ranges {kind}, {path.stat().st_size / 1e6:.0f} MB")
            compare(path, nsys_ai, arguments.repeat)


def write_export(folder: Path, kind: str, kernels: int) -> Path:
    """An export whose ranges are of this kind, alone in a folder of its own."""
    folder.mkdir()
    ranges = kernels // 10
    path = write_synthetic_export(folder / "export.sqlite", kernels=kernels, ranges=ranges)
    thread = HARDWARE | PROCESS << 24 | THREAD
    insert = "INSERT INTO NVTX_EVENTS (start, end, eventType, globalTid, text, domainId) "
    with closing(sqlite3.connect(path)) as connection:
        if kind == "nested":
            for level in range(1, DEPTH):
                width = 10 * PERIOD_NS * 8**level
                connection.execute(
                    f"{GENERATE} {insert} SELECT {width} * i, {width} * (i + 1) - 1 + {level}, 59, {thread}, "
                    f"'level {level}', 1 FROM n",
                    (max(ranges // 8**level, 1),),
                )
        elif kind == "unique names":
            connection.execute(
                f"{GENERATE} {insert} SELECT {PERIOD_NS} * i + 1, {PERIOD_NS} * i + 1600, 59, {thread}, "
                "'aten::op, op_id = ' || i, 1 FROM n",
                (kernels,),
            )
        connection.commit()
    return path


def compare(path: Path, nsys_ai: str | None, repeat: int) -> None:
    """Runs all tools on an export and prints how their CPU times compare."""
    tools = {
        "pytest-nsight show": [sys.executable, "-m", "pytest_nsight.cli", "show", str(path)],
        "plain pandas": [sys.executable, "-c", PANDAS, str(path)],
    }
    if nsys_ai is not None:
        tools["nsys-ai summary, warm"] = [nsys_ai, "summary", str(path)]
        measure(tools["nsys-ai summary, warm"])
    taken_s = {name: measure(tools[name]) for name in tools}
    for _ in range(repeat - 1):
        taken_s = {name: min(before_s, measure(tools[name])) for name, before_s in taken_s.items()}
    own_s = taken_s["pytest-nsight show"]
    for name, seconds in taken_s.items():
        print(f"  {name:22} {seconds:6.2f} s of CPU time; show takes {own_s / seconds:.2f} x")


def measure(command: Sequence[str]) -> float:
    """CPU time of a process and its children, in seconds."""
    # An installed package has its bytecode; with this variable each start would compile the modules of this tree.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=said)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said.seek(0)
            sys.exit(f"{' '.join(command)} failed with code {process.returncode}: {said.read().strip()[-500:]}")
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
