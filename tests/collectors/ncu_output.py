"""What Nsight Compute prints, for tests without it: the raw page of `ncu --csv` as of 2022 to 2025."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

SOUND: dict[str, tuple[str, str]] = {
    "dram__bytes_read.sum": ("byte", "134,217,728"),
    "dram__bytes_write.sum": ("byte", "66,060,288"),
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": ("%", "81.5"),
    "l1tex__t_bytes_pipe_lsu_mem_local_op_ld.sum": ("byte", "0"),
    "l1tex__t_bytes_pipe_lsu_mem_local_op_st.sum": ("byte", "0"),
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": ("", "1,048,576"),
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum": ("", "524,288"),
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": ("sector", "4,194,304"),
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum": ("sector", "2,097,152"),
    "launch__registers_per_thread": ("register/thread", "32"),
    "launch__shared_mem_per_block": ("byte/block", "1,024"),
    "lts__t_sector_hit_rate.pct": ("%", "33.4"),
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": ("%", "24.1"),
    "sm__warps_active.avg.pct_of_peak_sustained_active": ("%", "91.2"),
}
"""Metric -> unit and value of a sound kernel."""

_FIRST = ("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size")


def raw_page(launches: Sequence[tuple[str, Mapping[str, str]]]) -> str:
    """ncu's output for some launches, each with the values that differ from those of a sound kernel."""

    def row(cells: Sequence[str]) -> str:
        return ",".join(f'"{cell}"' for cell in cells)

    lines = ["==PROF== Connected to process 4217 (/usr/bin/python3.12)", row([*_FIRST, *SOUND])]
    lines.append(row([*[""] * len(_FIRST), *(unit for unit, _ in SOUND.values())]))
    for number, (kernel, changed) in enumerate(launches):
        first = [str(number), "4217", "python3.12", "127.0.0.1", kernel, "1", "7", "(256, 1, 1)"]
        lines.append(row([*first, *(changed.get(name, value) for name, (_, value) in SOUND.items())]))
    lines.append("==PROF== Disconnected from process 4217")
    return "\n".join(lines) + "\n"


def plant_ncu(folder: Path, output: str, *, before: str = "") -> Path:
    """A program that runs its target as ncu does and writes this to its --log-file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "output").write_text(output, encoding="utf-8")
    program = folder / "ncu"
    program.write_text(
        "#!/bin/sh\n"
        f'{before}\nprintf "%s\\n" "$@" > "{folder}/arguments"\n'
        "while [ $# -gt 0 ]; do\n"
        '  case "$1" in\n'
        '    --log-file=*) log="${1#--log-file=}" ;;\n'
        "    --*) ;;\n"
        "    *) break ;;\n"
        "  esac\n"
        "  shift\n"
        "done\n"
        '"$@"\ncode=$?\n'
        f'cp "{folder}/output" "$log"\nexit $code\n',
        encoding="utf-8",
    )
    program.chmod(0o755)
    return program
