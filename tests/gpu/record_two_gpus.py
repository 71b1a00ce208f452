"""Records the session of tests/gpu/test_two_gpus.py, shows it, and packs it for tests/data/recordings.

python -m tests.gpu.record_two_gpus FOLDER
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from pytest_nsight.collectors.nsys.scrub import pack
from pytest_nsight.processes.machine import gpus
from pytest_nsight.protocol.worker_plan import WorkerPlan
from tests.gpu.conftest import make_project
from tests.gpu.test_two_gpus import ARGUMENTS

MOST_BYTES = 500_000


def main(target: Path) -> int:
    for number, gpu in enumerate(gpus()):
        print(f"GPU {number}: {gpu.name} {gpu.uuid}")
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        project = make_project(Path(scratch), "perf_two_gpus")
        code = project.pytest(*ARGUMENTS)
        print(project.said)
        run = project.run_folder()
        for member in (member for group in WorkerPlan.read(run).groups for member in group.members):
            log = run / member.folder / "worker.log"
            print(f"--- {member.folder}\n{log.read_text(errors='replace')[-1500:] if log.exists() else '(no log)'}")
            shutil.copyfile(run / member.folder / "manifest.jsonl", target / f"{member.folder}.manifest.jsonl")
        for name in ("plan.json", "ends.jsonl"):
            shutil.copyfile(run / name, target / name)
        packed = target / "h200_two_gpus.sqlite.xz"
        if not (run / "trace.sqlite").exists():
            print("no trace was kept")
            return 1
        pack(run / "trace.sqlite", packed)
        if (target / "result.json").exists():
            (target / "result.json").unlink()
        if (project.folder / "result.json").exists():
            shutil.copyfile(project.folder / "result.json", target / "result.json")
    size = packed.stat().st_size
    print(
        f"{packed.name}: {size} bytes{'' if size < MOST_BYTES else f', more than {MOST_BYTES}: too large to keep'}"
    )
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
