"""Times reading, attributing and measuring an export of a given number of kernels.

``python benchmarks/read_export.py 1000000``

The export is generated once and kept where --keep says, else in a temporary folder; generating is not timed.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pytest_nsight.collect.nsys.read import read
from pytest_nsight.trace.measures import measure
from tests.synthetic_export import write_synthetic_export


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kernels", type=int, nargs="?", default=1_000_000)
    parser.add_argument("--ranges", type=int, default=None, help="default: a tenth of the kernels")
    parser.add_argument("--keep", type=Path, default=None, help="folder that keeps the generated export")
    arguments = parser.parse_args()
    ranges = arguments.ranges or arguments.kernels // 10
    with tempfile.TemporaryDirectory() as temporary:
        path = (arguments.keep or Path(temporary)) / f"synthetic_{arguments.kernels}_{ranges}.sqlite"
        if not path.exists():
            write_synthetic_export(path, kernels=arguments.kernels, ranges=ranges)
        before, before_cpu = time.perf_counter(), time.process_time()
        trace = read(path)
        between = time.perf_counter()
        measured = measure(trace)
        after, after_cpu = time.perf_counter(), time.process_time()
        megabytes = path.stat().st_size / 1e6
    found = int(measured.ranges["launches"].sum())
    if found != arguments.kernels:
        sys.exit(f"{found} of {arguments.kernels} kernels were attributed")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(
        f"{arguments.kernels} kernels, {ranges} ranges, {megabytes:.0f} MB: read {between - before:.2f} s, "
        f"attribute and measure {after - between:.2f} s, in all {after - before:.2f} s "
        f"({after_cpu - before_cpu:.2f} s of processor time), peak {peak:.0f} MB"
    )


if __name__ == "__main__":
    main()
