"""What happens where two profilers want the same process: one JSON line for each pair.

    python -m benchmarks.cupti.subscribers FOLDER

Each pair runs in a process of its own with a time limit, because such pairs may hang or crash.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import torch

from pytest_nsight.recorders.cupti.activity import ActivityRecorder, list_activities
from pytest_nsight.recorders.cupti.library import Cupti, CuptiError
from pytest_nsight.recorders.launch_identity.launch_capture import LaunchCapture

ROOT = Path(__file__).parents[2]
_LAUNCHES = 50
_LIMIT_S = 60
Line = dict[str, Any]


def _work() -> None:
    x = torch.zeros(1024, device="cuda")
    for _ in range(_LAUNCHES):
        x.add_(1)
    torch.cuda.synchronize()


def _profile() -> Any:
    return torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA])


def _count(profile: Any) -> int:
    events = profile.profiler.kineto_results.events()
    return sum(event.device_type() == torch.autograd.DeviceType.CUDA for event in events)


def _record_own(inside: Callable[[], None]) -> Line:
    """Our activity records around `inside`."""
    recorder = ActivityRecorder(Cupti())
    try:
        recorder.start()
    except CuptiError as error:
        inside()
        return {"cupti": str(error)}
    inside()
    try:
        kernels = sum(one.kind == "kernel" for one in list_activities(recorder.collect()))
        recorder.disable()
    except CuptiError as error:
        return {"cupti": f"started, then {error}"}
    return {"cupti": f"{kernels} kernels, {recorder.dropped} dropped"}


def activity_alone() -> Line:
    """Our activity records, and nothing else."""
    return _record_own(_work)


def torch_within_cupti() -> Line:
    """torch.profiler starts while our records are on."""
    line: Line = {}

    def inside() -> None:
        with _profile() as profile:
            _work()
        line["torch"] = f"{_count(profile)} events"
        _work()

    return line | _record_own(inside) | line


def cupti_within_torch() -> Line:
    """Our records start while torch.profiler is on."""
    with _profile() as profile:
        line = _record_own(_work)
        _work()
    return line | {"torch": f"{_count(profile)} events"}


def torch_after_cupti() -> Line:
    """torch.profiler starts after our records have ended."""
    line = _record_own(_work)
    with _profile() as profile:
        _work()
    return line | {"torch": f"{_count(profile)} events"}


def callbacks_within_torch() -> Line:
    """Our callbacks start while torch.profiler is on."""
    capture = LaunchCapture(Cupti())
    with _profile() as profile:
        try:
            capture.start()
            _work()
            capture.stop()
            line: Line = {"callbacks": f"{len(capture.launches)} launches", "problems": capture.problems[:2]}
        except CuptiError as error:
            line = {"callbacks": str(error)}
        _work()
    return line | {"torch": f"{_count(profile)} events"}


def two_callbacks() -> Line:
    """Two subscribers in one process."""
    first, second = LaunchCapture(Cupti()), LaunchCapture(Cupti())
    first.start()
    try:
        second.start()
        found = "allowed"
    except CuptiError as error:
        found = str(error)
    _work()
    return {"second": found, "first": f"{len(first.launches)} launches"}


def callbacks_and_activity() -> Line:
    """Our callbacks and our records together, as the identity pass has them."""
    capture = LaunchCapture(Cupti())
    capture.start()
    line = _record_own(_work)
    capture.stop()
    return line | {"callbacks": f"{len(capture.launches)} launches", "cubins": len(capture.modules.cubins)}


def callbacks_alone() -> Line:
    """Our callbacks, for a process that another profiler watches from outside."""
    capture = LaunchCapture(Cupti())
    try:
        capture.start()
    except CuptiError as error:
        _work()
        return {"callbacks": str(error)}
    _work()
    capture.stop()
    return {"callbacks": f"{len(capture.launches)} launches"}


def nvidia_package() -> Line:
    """NVIDIA's own package, cupti-python, if it is installed."""
    try:
        from cupti import cupti  # type: ignore[import-not-found] # noqa: PLC0415 - optional
    except ImportError as error:
        return {"cupti-python": str(error)}
    kinds: list[int] = []
    began_s = time.perf_counter()
    cupti.activity_register_callbacks(
        lambda: (8 << 20, 0), lambda activities: kinds.extend(a.kind for a in activities)
    )
    cupti.activity_enable(cupti.ActivityKind.CONCURRENT_KERNEL)
    _work()
    cupti.activity_flush_all(1)
    cupti.activity_disable(cupti.ActivityKind.CONCURRENT_KERNEL)
    return {"cupti-python": f"{len(kinds)} records", "seconds": round(time.perf_counter() - began_s, 3)}


INSIDE = {
    one.__name__: one
    for one in (
        activity_alone,
        torch_within_cupti,
        cupti_within_torch,
        torch_after_cupti,
        callbacks_within_torch,
        two_callbacks,
        callbacks_and_activity,
        callbacks_alone,
        nvidia_package,
    )
}


def run_pair(name: str, before: Sequence[str] = ()) -> Line:
    """Runs one of INSIDE in a fresh process; `before` is the profiler's command around it."""
    command = [*before, sys.executable, "-m", "benchmarks.cupti.subscribers", f"--inside={name}"]
    began_s = time.monotonic()
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return {"exit": f"over {_LIMIT_S} s"}
    line: Line = {"exit": done.returncode, "seconds": round(time.monotonic() - began_s, 1)}
    found = [text for text in done.stdout.splitlines() if text.startswith('{"inside"')]
    if found:
        line |= json.loads(found[-1])
    elif done.returncode:
        line["says"] = (done.stderr or done.stdout)[-300:]
    return line


def _under_nsys(name: str, folder: Path) -> Line:
    report = folder / f"{name}.nsys-rep"
    nsys = shutil.which("nsys")
    if nsys is None:
        return {"nsys": "not on PATH"}
    command = [nsys, "profile", "--trace=cuda", "--sample=none", "--cpuctxsw=none", "--force-overwrite=true"]
    line = run_pair(name, [*command, f"--output={report}"])
    exported = report.with_suffix(".sqlite")
    export = [nsys, "export", "--type=sqlite", "--force-overwrite=true", f"--output={exported}", str(report)]
    done = subprocess.run(export, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    try:
        with closing(sqlite3.connect(exported)) as connection:
            (count,) = connection.execute("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()
        line["nsys"] = f"{count} kernels"
    except sqlite3.Error as error:
        line["nsys"] = f"no kernels: {error}; {done.stderr[-200:]}"
    for path in (report, exported):
        path.unlink(missing_ok=True)
    return line


def report_pairs(folder: Path) -> None:
    """Prints what every pair does; leaves no file."""
    for name in INSIDE:
        print(json.dumps({"finding": "subscribers", "pair": name, **run_pair(name)}), flush=True)
    for name in ("activity_alone", "callbacks_alone", "torch_after_cupti"):
        print(
            json.dumps({"finding": "subscribers", "pair": f"nsys, {name}", **_under_nsys(name, folder)}), flush=True
        )
    ncu = shutil.which("ncu")
    if ncu:
        around = [ncu, "--clock-control=none", "--launch-count=3", "--section=LaunchStats"]
        line = run_pair("activity_alone", around)
        print(json.dumps({"finding": "subscribers", "pair": "ncu, activity_alone", **line}), flush=True)


def main(arguments: Sequence[str]) -> int:
    if arguments and arguments[0].startswith("--inside="):
        torch.cuda.init()
        found = INSIDE[arguments[0].partition("=")[2]]()
        print(json.dumps({"inside": True, **found}), flush=True)
        return 0
    report_pairs(Path(arguments[0]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
