"""What RMSNorm -> Linear moves through DRAM, counted by Nsight Compute, beside the bytes by formula.

    python -m benchmarks.dram_traffic                   # 65536 x 4096 bf16, about a minute
    python -m benchmarks.dram_traffic --rows 4096

The traffic of the normalisation is what a variant moves beyond the bare product of the same shape. Clocks and
caches are left as they are: each kernel finds in L2 what the one before it left there.
"""

from __future__ import annotations

import argparse
import csv
import io
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F

from kernels.rms_norm_linear import fold_norm_weight, rms_norm_linear, rms_norm_linear_bytes
from perf_tests.llama import WIDTH

METRICS = ("dram__bytes_read.sum", "dram__bytes_write.sum")
WAYS = ("product", "fused", "unfused")
ITEM_BYTES = 2

UNFUSED_NORM_BYTES = (2 + 4) + (4 + 4) + 4 + (4 + 4) + (4 + 2) + (2 + 2)
"""An element of x, through the launches that see all of it: to fp32, square, mean, scale, to bf16, times weight."""

FUSED_NORM_BYTES = 2
"""An element of x: read once more, for the factor of its row."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """One profiled launch.

    Attributes:
        name: as Nsight Compute prints it.
        read_bytes: from DRAM.
        written_bytes: to DRAM.
    """

    name: str
    read_bytes: int
    written_bytes: int

    @property
    def moved_bytes(self) -> int:
        """Read and written."""
        return self.read_bytes + self.written_bytes


def parse_kernels(text: str) -> list[Kernel]:
    """The launches in the CSV of `ncu --csv --print-units base`, in their order.

    Raises:
        ValueError: the text has no table, or a launch without both metrics.
    """
    lines = text.splitlines()
    header = next((index for index, line in enumerate(lines) if line.startswith('"ID"')), None)
    if header is None:
        raise ValueError(f"Nsight Compute gave no table: {text.strip()[-500:]}")
    launches: dict[str, dict[str, str]] = {}
    for row in csv.DictReader(io.StringIO("\n".join(lines[header:]))):
        launch = launches.setdefault(row["ID"], {"name": row["Kernel Name"]})
        launch[row["Metric Name"]] = row["Metric Value"].replace(",", "")
    try:
        return [
            Kernel(launch["name"], *(round(float(launch[metric])) for metric in METRICS))
            for launch in launches.values()
        ]
    except KeyError as missing:
        raise ValueError(f"Nsight Compute gave a launch without {missing}") from missing


def find_ncu() -> Path:
    """Nsight Compute's command line, on PATH or where its installer puts it."""
    found = shutil.which("ncu")
    if found:
        return Path(found)
    places = [*Path("/opt/nvidia/nsight-compute").glob("*/ncu"), *Path("/usr/local").glob("cuda*/bin/ncu")]
    if not places:
        raise SystemExit("ncu was not found: install Nsight Compute, or put its folder on PATH")
    return max(places)


def profile(way: str, rows: int) -> list[Kernel]:
    """Run one call of a way in a process of its own under Nsight Compute."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "ncu.csv"
        command = [
            *(str(find_ncu()), "--csv", "--print-units", "base", "--log-file", str(log)),
            *("--metrics", ",".join(METRICS), "--clock-control", "none", "--cache-control", "none"),
            *("--profile-from-start", "off", "--target-processes", "all"),
            *(sys.executable, "-m", "benchmarks.dram_traffic", "--run", way, "--rows", str(rows)),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        text = log.read_text(encoding="utf-8") if log.exists() else ""
    everything = text + done.stdout + done.stderr
    if "ERR_NVGPUCTRPERM" in everything:
        raise SystemExit(
            "Nsight Compute may not read the GPU's counters here (ERR_NVGPUCTRPERM): run as root, or have the "
            "driver loaded with NVreg_RestrictProfilingToAdminUsers=0"
        )
    if done.returncode:
        raise SystemExit(f"ncu ended with {done.returncode}: {everything.strip()[-800:]}")
    try:
        return parse_kernels(text)
    except ValueError as error:
        raise SystemExit(str(error)) from error


def run(way: str, rows: int) -> None:
    """One call under the profiler, after a call that compiles."""
    source = {"device": "cuda", "dtype": torch.bfloat16}
    x = torch.randn(rows, WIDTH, **source)
    norm_weight = 1 + 0.1 * torch.randn(WIDTH, **source)
    weight = torch.randn(WIDTH, WIDTH, **source) / WIDTH**0.5
    folded = fold_norm_weight(norm_weight, weight)
    calls = {
        "product": lambda: F.linear(x, weight),
        "fused": lambda: rms_norm_linear["fused"](x, folded),
        "unfused": lambda: rms_norm_linear["unfused"](x, norm_weight, weight),
    }
    calls[way]()
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    calls[way]()
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()


def render(kernels: Mapping[str, list[Kernel]], rows: int) -> str:
    """The table: every launch, then the normalisation's share, counted and by formula."""
    lines = [f"RMSNorm -> Linear, {rows} x {WIDTH} -> {WIDTH}, bf16; MB through DRAM", ""]
    lines += [
        f"{way:8} {kernel.name[:60]:60} read {kernel.read_bytes / 1e6:9.1f}  "
        f"written {kernel.written_bytes / 1e6:9.1f}"
        for way, launches in kernels.items()
        for kernel in launches
    ]
    moved = {way: sum(kernel.moved_bytes for kernel in launches) for way, launches in kernels.items()}
    counted = {way: moved[way] - moved["product"] for way in ("fused", "unfused")}
    formula = {"fused": FUSED_NORM_BYTES * rows * WIDTH, "unfused": UNFUSED_NORM_BYTES * rows * WIDTH}
    product = rms_norm_linear_bytes(rows, WIDTH, WIDTH, ITEM_BYTES)
    lines += ["", f"product alone: {moved['product'] / 1e6:.1f} MB counted, {product / 1e6:.1f} MB by formula"]
    for name, norm in (("counted by Nsight Compute", counted), ("by formula", formula)):
        saved = 1 - norm["fused"] / norm["unfused"]
        lines.append(
            f"normalisation, {name}: unfused {norm['unfused'] / 1e6:.1f} MB, fused {norm['fused'] / 1e6:.1f} MB: "
            f"{saved:.1%} less"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=65536)
    parser.add_argument("--run", choices=WAYS, help="run one way, as Nsight Compute has it run")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("no CUDA device here: DRAM counters are read on a GPU")
    if arguments.run:
        run(arguments.run, arguments.rows)
        return
    print(render({way: profile(way, arguments.rows) for way in WAYS}, arguments.rows))


if __name__ == "__main__":
    main()
